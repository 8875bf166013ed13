"""What moves were worth against the allocation at the start, computed by hand. Six GPUs with four samplers."""

import pytest

from steelyard.api import AllocationRevision, Stage
from steelyard.audit.moves import Static, moves, versus_static
from tests.unit.audit.builders import START, applied

PRICES = {Stage.SAMPLER: {"whole": 1.0}}
HOUR = 3600.0


def static(*ledger: AllocationRevision, until: float = HOUR) -> Static:
    found = versus_static(ledger, [(START, START + until)], PRICES)
    assert found is not None
    return found


def test_an_allocation_that_never_moved_saved_nothing_and_lost_nothing() -> None:
    found = static(applied(1, -60, 4))
    assert (found.moves, found.saved, found.speedup) == (0, 0, 1)
    assert found.gpu_hours == pytest.approx(4)


def test_the_worth_of_a_move_is_after_over_before() -> None:
    """Half an hour at 1.5 times the pace is the work of 45 minutes: 4 samplers for 75 minutes are 5 GPU-hours."""
    found = static(applied(1, -60, 4), applied(2, 1800, 5, before=4, measured=("1.0", "1.5"), verdict="Kept"))
    assert found.static_seconds == pytest.approx(1800 + 1.5 * 1800)
    assert found.static_gpu_hours == pytest.approx(5)
    assert found.gpu_hours == pytest.approx(0.5 * 4 + 0.5 * 5)
    assert found.saved == pytest.approx(0.5)
    assert found.speedup == pytest.approx(1.25)


def test_worths_multiply_along_the_way() -> None:
    found = static(
        applied(1, -60, 4),
        applied(2, 1200, 3, before=4, measured=("1.0", "1.2"), verdict="Kept"),
        applied(3, 2400, 2, before=3, measured=("2.0", "3.0"), verdict="Kept"),
    )
    assert found.static_seconds == pytest.approx(1200 * (1 + 1.2 + 1.2 * 1.5))


def test_a_move_that_was_taken_back_lost_what_it_lost_and_then_all_is_as_before() -> None:
    found = static(
        applied(1, -60, 4),
        applied(2, 1200, 2, before=4, measured=("1.0", "0.5"), verdict="RolledBack"),
        applied(3, 2400, 4, before=2, origin="Rollback"),
    )
    assert found.static_seconds == pytest.approx(1200 * (1 + 0.5 + 1))
    assert found.gpu_hours == pytest.approx((4 + 2 + 4) / 3)
    assert found.saved == pytest.approx(2.5 / 3 * 4 - 10 / 3)


def test_a_transition_does_the_work_of_its_length_less_its_cost_under_the_allocation_before() -> None:
    """Ten minutes of change that cost four of them, then twenty at double pace."""
    found = static(
        applied(1, -60, 4),
        applied(2, 1800, 5, before=4, measured=("1.0", "2.0"), cost=(2400, "240"), verdict="Kept"),
    )
    assert found.static_seconds == pytest.approx(1800 + (600 - 240) + 1200 * 2)


def test_a_move_that_is_not_judged_yet_is_neither_gain_nor_loss_but_unknown() -> None:
    found = static(applied(1, -60, 4), applied(2, 1800, 5, before=4))
    assert found.unknown_seconds == pytest.approx(1800)
    assert found.seconds == pytest.approx(1800)
    assert found.saved == 0


def test_time_in_which_the_job_was_not_seen_is_not_compared() -> None:
    """Half an hour under each allocation, of which the first half was seen; a job that ended saves nothing more."""
    ledger = applied(1, -60, 4), applied(2, 1800, 5, before=4, measured=("1.0", "1.5"), verdict="Kept")
    seen = [(START, START + 900), (START + 1800, START + 2700)]
    found = versus_static(ledger, seen, PRICES)
    assert found is not None
    assert (found.moves, found.seconds) == (1, 1800)
    assert found.static_seconds == pytest.approx(900 + 1.5 * 900)
    assert found.gpu_hours == pytest.approx(0.25 * 4 + 0.25 * 5)


def test_without_a_ledger_there_is_no_comparison() -> None:
    assert versus_static((), [(START, START + HOUR)], PRICES) is None


def test_only_revisions_of_the_span_are_listed_with_what_they_were_worth() -> None:
    ledger = (
        applied(1, -7200, 4),
        applied(2, -3600, 3, before=4, measured=("1.0", "1.1"), verdict="Kept"),
        applied(
            3,
            600,
            2,
            before=3,
            measured=("1.0", "1.5"),
            verdict="Kept",
            predicted={"gainPercent": 40, "costSeconds": 30},
        ),
        applied(4, 7200, 1, before=2),
    )
    found = moves(ledger, START, START + HOUR)
    assert [move.number for move in found] == [2, 3]  # the second was still in force when the span began
    assert found[1].ratio == pytest.approx(1.5)
    assert found[1].predicted == pytest.approx(0.4)
    assert found[1].what == "sampler 3 -> 2"
    assert found[1].verdict == "Kept"
