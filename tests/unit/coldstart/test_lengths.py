"""Lengths as people have them, and every way in which a row can be wrong."""

from __future__ import annotations

import numpy as np
import pytest

from steelyard.balance.coldstart import BadInput, Lengths, lognormal, parse

GOOD = '{"input_len": 512, "output_len": 9000}'


def test_objects_pairs_blank_lines_and_other_keys_are_read() -> None:
    found = parse([GOOD, "", "[100, 2000]", '{"input_len": 1, "output_len": 2.5, "prompt_id": "a"}'])
    assert isinstance(found, Lengths)
    assert found.prompt.tolist() == [512, 100, 1]
    assert found.generated.tolist() == [9000, 2000, 2.5]
    assert found.longest == 9512


@pytest.mark.parametrize(
    ("row", "field", "rule"),
    [
        ('{"input_len": 512, "output_len": 0}', "requests row 2, column output_len", "from 1 to"),
        ('{"input_len": -3, "output_len": 10}', "requests row 2, column input_len", "from 1 to"),
        ('{"input_len": NaN, "output_len": 10}', "requests row 2, column input_len", "from 1 to"),
        ('{"input_len": 5, "output_len": Infinity}', "requests row 2, column output_len", "from 1 to"),
        ('{"input_len": 5, "output_len": 1e308}', "requests row 2, column output_len", "from 1 to"),
        ('{"input_len": 5, "output_len": "many"}', "requests row 2, column output_len", "from 1 to"),
        ('{"input_len": 5, "output_len": true}', "requests row 2, column output_len", "from 1 to"),
        ('{"input_len": 5, "output_len": null}', "requests row 2, column output_len", "from 1 to"),
        ('{"input_len": 5, "out": 7}', "requests row 2, column output_len", "is missing; the row has input_len, out"),
        ("[5]", "requests row 2", "neither"),
        ("[5, 6, 7]", "requests row 2", "neither"),
        ("17", "requests row 2", "neither"),
        ("input_len,output_len", "requests row 2", "is not JSON"),
        ("[" * 100_000, "requests row 2", "is not JSON"),
        (f'["{"x" * 100_000}", 5]', "requests row 2, column input_len", "from 1 to"),
        (f'{{"{"k" * 100_000}": 5}}', "requests row 2, column input_len", "is missing; the row has kkk"),
    ],
)
def test_the_first_malformed_row_is_named_with_its_column(row: str, field: str, rule: str) -> None:
    found = parse([GOOD, row, GOOD])
    assert isinstance(found, BadInput)
    assert found.field == field
    assert rule in found.rule
    assert len(str(found)) < 300


@pytest.mark.parametrize("lines", [[], ["", "  \n"]])
def test_an_empty_history_is_refused(lines: list[str]) -> None:
    found = parse(lines)
    assert isinstance(found, BadInput)
    assert "at least one trajectory" in found.rule


def test_a_distribution_has_the_mean_and_the_tail_it_is_asked_for() -> None:
    found = lognormal(1000, 5000, 0.9, 1e6)
    assert isinstance(found, Lengths)
    assert found.generated.mean() == pytest.approx(5000, rel=0.02)
    assert np.log(found.generated).std() == pytest.approx(0.9, rel=0.02)


def test_a_distribution_without_spread_is_one_length() -> None:
    found = lognormal(1000, 5000, 0, 1e6)
    assert isinstance(found, Lengths)
    assert set(found.generated) == {5000}


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ((0, 5000, 0.9, 40_960), "prompt tokens"),
        ((1000, float("nan"), 0.9, 40_960), "output tokens"),
        ((1000, 5000, -1, 40_960), "sigma"),
        ((1000, 5000, float("inf"), 40_960), "sigma"),
        ((1000, 5000, 0.9, 0), "context tokens"),
        ((1000, 5000, 0.9, 1000), "output tokens"),
        ((1000, 5000, 0.9, 5999), "output tokens"),
    ],
)
def test_a_distribution_that_makes_no_sense_is_refused(given: tuple[float, float, float, float], field: str) -> None:
    found = lognormal(*given)
    assert isinstance(found, BadInput)
    assert found.field == field
