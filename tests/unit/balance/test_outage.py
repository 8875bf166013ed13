"""When a part of the pipeline works again after none of its pods ran."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from steelyard.api import Stage
from steelyard.balance import signals
from steelyard.balance.outage import Outage, last_outage
from steelyard.balance.types import Rates, Series
from tests.unit.balance.builders import NOW, a_view

SINCE = NOW - 100
READ_SECONDS = 60.0

WORKS: dict[str, tuple[float, list[tuple[float, float]], float | None]] = {
    "nothing was away since": (SINCE - 1, [(-50, 5.0), (-1, 9.0)], None),
    "it does not run": (inf, [], NOW),
    "it runs and has done nothing yet": (NOW - 30, [(-25, 0.0), (-5, 0.0)], NOW),
    "its first unit": (NOW - 30, [(-25, 0.0), (-10, 3.0), (-5, 4.0)], NOW - 10),
    "a series that comes with its first unit": (NOW - 30, [(-10, 3.0), (-5, 4.0)], NOW - 10),
    "its first unit lies before what was read": (NOW - 90, [(-60, 40.0), (-5, 90.0)], NOW - 90),
    "its first unit came late": (NOW - 90, [(-60, 0.0), (-20, 0.0), (-5, 2.0)], NOW - 5),
    "its node's clock is behind: what ran before shows": (
        NOW - 30,
        [(-29, 800.0), (-28, 802.0), (-20, 0.0), (-10, 3.0)],
        NOW - 10,
    ),
}


@pytest.mark.parametrize("case", WORKS)
def test_a_stage_works_again_with_the_first_unit_that_it_finishes(case: str) -> None:
    up, samples, over = WORKS[case]
    (sampler, *_) = [pod for pod in a_view().pods() if pod.stage is Stage.SAMPLER]
    series = Series((), tuple((NOW + at, value) for at, value in samples))
    rates = Rates(READ_SECONDS, {signals.TOKENS_GENERATED: {sampler.name: (series,)}})

    found = last_outage(replace(a_view(), up_since={"sampler": up}), rates, SINCE, NOW)

    assert found == (None if over is None else Outage("sampler", over))


def test_the_outage_that_ended_last_counts_and_a_bus_is_over_when_it_runs() -> None:
    seen = replace(a_view(), up_since={"bus": NOW - 20, "trainer": inf, "sampler": SINCE - 50})
    rates = Rates(READ_SECONDS)

    assert last_outage(seen, rates, SINCE, NOW) == Outage("trainer", NOW)
    assert last_outage(seen, rates, SINCE, NOW, spared={"trainer"}) == Outage("bus", NOW - 20)
    assert last_outage(seen, rates, NOW - 10, NOW, spared={"trainer"}) is None
