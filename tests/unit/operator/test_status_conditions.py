"""The conditions and the phase: what each situation says, and in which words."""

from __future__ import annotations

import pytest

from steelyard.api import Stage
from steelyard.status import Tick, status
from steelyard.status.figures import moment
from tests.unit.operator.situations import LONG_AGO, NO_ENTRYPOINT, SITUATIONS, ready_before
from tests.unit.operator.ticks import NO_IMAGE, NOW, a_pod, a_tick, broken


def told(tick: Tick) -> dict[str, tuple[str, str]]:
    """Status and reason of each condition."""
    return {condition.type: (condition.status, condition.reason) for condition in status(tick).conditions}


@pytest.mark.parametrize("case", SITUATIONS)
def test_what_a_situation_says(case: str) -> None:
    tick, want, phase = SITUATIONS[case]
    found = told(tick)

    assert {kind: found[kind] for kind in want} == want
    assert status(tick).phase == phase


@pytest.mark.parametrize("case", SITUATIONS)
def test_no_job_is_said_to_come_along_that_waits_for_a_person(case: str) -> None:
    """kstatus believes whichever of the two it reads first."""
    found = told(SITUATIONS[case][0])

    assert {found["Reconciling"][0], found["Stalled"][0]} != {"True"}


def test_the_users_mistake_is_told_before_the_clusters() -> None:
    pods = [*broken(NO_IMAGE, Stage.ENVIRONMENT), a_pod("zz", Stage.SAMPLER, ready=False, problem=NO_ENTRYPOINT)]

    degraded = status(a_tick(pods=pods)).condition("Degraded")

    assert degraded is not None
    assert degraded.message == "pod zz: my.module has no callable 'x'"


def test_a_transition_time_changes_with_the_status_alone() -> None:
    before = ready_before()
    still = status(a_tick(before=before)).condition("Ready")
    lost = status(a_tick(before=before, pods=[], unready_since=LONG_AGO)).condition("Ready")

    assert still is not None
    assert still.last_transition_time == moment(NOW - 1000)
    assert lost is not None
    assert lost.last_transition_time == moment(NOW)
