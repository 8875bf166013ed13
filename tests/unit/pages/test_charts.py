"""Axes end at round numbers, gaps stay gaps."""

import pytest

from steelyard.pages.charts import WIDTH, Axis, Frame, stretches

DAY = 1_800_057_600.0
"""Midnight, UTC."""


@pytest.mark.parametrize(("largest", "end"), [(0.93, 1.0), (48, 50), (1.01, 1.25), (0.0, 0.0), (7, 8)])
def test_axes_end_at_round_numbers_above_the_data(largest: float, end: float) -> None:
    axis = Axis.to(largest)
    assert axis.end >= largest
    assert axis.end == pytest.approx(end, abs=1e-6)
    assert axis.marks[-1].at == axis.end


SPANS = {
    "ten minutes": (DAY - 600, DAY, ["23:50", "23:52", "23:54", "23:56", "23:58", "15 Jan"]),
    "an hour": (DAY + 60, DAY + 3660, ["00:10", "00:20", "00:30", "00:40", "00:50", "01:00"]),
    "a day": (DAY - 43200, DAY + 43200, ["12:00", "18:00", "16 Jan", "06:00", "12:00"]),
    "a week": (DAY, DAY + 7 * 86400, ["16 Jan", "18 Jan", "20 Jan", "22 Jan"]),
    "half a minute": (
        DAY,
        DAY + 30,
        ["16 Jan", "00:00:05", "00:00:10", "00:00:15", "00:00:20", "00:00:25", "00:00:30"],
    ),
}


@pytest.mark.parametrize("case", SPANS)
def test_times_are_marked_at_round_times_of_the_day(case: str) -> None:
    start, end, want = SPANS[case]
    marks = Axis.time(start, end).marks
    assert all(start <= mark.at <= end for mark in marks)
    assert [mark.text for mark in marks] == [text.replace("15 Jan", "16 Jan") for text in want]


def frame(end: float = 4.0) -> Frame:
    return Frame(Axis.at(0.0, end), Axis.at(0.0, 1.0), 100.0)


@pytest.mark.parametrize(
    ("values", "want"),
    [([1, 2, None, 3], [(0, 2), (3, 4)]), ([None, None], []), ([], []), ([None, 0.0], [(1, 2)]), ([1, 2], [(0, 2)])],
)
def test_known_values_lie_in_stretches(values: list[float | None], want: list[tuple[int, int]]) -> None:
    assert list(stretches(values)) == want


def test_a_line_breaks_where_nothing_is_known_and_zero_is_known() -> None:
    found = frame().line([0, 1, 2, 3, 4], [1.0, 0.0, None, None, 0.5])
    assert found[0] == "0,0 250,100"
    assert len(found) == 2


def test_stacked_layers_begin_where_the_one_below_ends() -> None:
    below, above = frame(2.0).stack([0, 1, 2], [[0.5, 0.25], [0.5, 0.75]])
    assert below == ("0,50 500,50 500,75 1000,75 1000,100 0,100",)
    assert above == ("0,0 1000,0 1000,75 500,75 500,50 0,50",)


def test_a_stack_breaks_where_one_of_its_layers_is_unknown() -> None:
    (only, other) = frame(3.0).stack([0, 1, 2, 3], [[1.0, None, 1.0], [0.0, 0.0, 0.0]])
    assert len(only) == 2
    assert other == ()


def test_drawings_stay_inside_their_box() -> None:
    numbers = [float(one) for pair in frame().path([(0, 0), (4, 1)]).split() for one in pair.split(",")]
    assert min(numbers) == 0
    assert max(numbers) == WIDTH
