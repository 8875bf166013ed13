"""GPU-hours by cause, computed by hand: every GPU-second is booked once, and on nothing that nobody saw."""

import pytest

from steelyard.api import Stage
from steelyard.audit.gputime import GpuTime, Prices, gpu_time, kind, measured, prices_of, shares
from steelyard.audit.record import Record
from tests.unit.audit.builders import START, STEP, a_record, applied, replicas, states

HOUR = 3600.0


def booked(record: Record, prices: Prices | None = None) -> GpuTime:
    found = prices or prices_of(record)
    assert found is not None
    return gpu_time(record, found)


def test_a_replica_that_works_three_quarters_of_its_time() -> None:
    time = booked(
        a_record(
            {
                "replicas": [replicas([2, 2, 2, 2])],
                "states": states("sampler", busy=[1.5, 1.5, 1.5, 1.5], starved=[0.5, 0.5, 0.5, 0.5]),
            }
        )
    )
    assert time.held == pytest.approx(2 * 60 / HOUR)
    assert time.hours[Stage.SAMPLER]["busy"] == pytest.approx(90 / HOUR)
    assert time.hours[Stage.SAMPLER]["starved"] == pytest.approx(30 / HOUR)
    assert time.busy_share == pytest.approx(0.75)
    assert time.wasted == pytest.approx(30 / HOUR)
    assert [cause[:2] for cause in time.causes()] == [(Stage.SAMPLER, "starved")]


def test_many_slots_of_a_replica_share_its_gpu() -> None:
    """Eight slots of one judge, two of them busy: a quarter of one GPU, not two GPUs."""
    time = booked(
        a_record(
            {
                "replicas": [replicas([1, 1, 1, 1], "reward-server")],
                "states": states("reward-server", busy=[2.0] * 4, starved=[6.0] * 4),
            }
        )
    )
    assert time.hours[Stage.REWARD_SERVER]["busy"] == pytest.approx(15 / HOUR)


def test_a_slice_counts_what_it_takes_from_the_budget() -> None:
    record = a_record(
        {"replicas": [replicas([2] * 4, profile="slice")], "states": states("sampler", "slice", busy=[2.0] * 4)}
    )
    assert booked(record).held == pytest.approx(60 / HOUR)


def test_environments_without_gpus_cost_none() -> None:
    record = a_record(
        {
            "replicas": [replicas([4] * 4, "environment", "default")],
            "states": states("environment", "default", tool=[4.0] * 4),
        }
    )
    assert booked(record).held == 0


def test_replicas_that_the_ledger_asked_for_and_nobody_saw_are_unseen() -> None:
    """They start, or cannot be scraped: they hold GPUs, but nothing is known of what they do."""
    record = a_record(
        {"replicas": [replicas([1, 1, 3, 3])], "states": states("sampler", busy=[1.0, 1.0, 3.0, 3.0])},
        revisions=(applied(1, -60, 3),),
    )
    hours = booked(record, {Stage.SAMPLER: {"whole": 1.0}}).hours[Stage.SAMPLER]
    assert hours["busy"] == pytest.approx(8 * STEP / HOUR)
    assert hours["unseen"] == pytest.approx(4 * STEP / HOUR)


def test_replicas_that_drain_hold_their_gpus_though_the_ledger_no_longer_asks() -> None:
    record = a_record(
        {"replicas": [replicas([3, 3, 2, 2])], "states": states("sampler", busy=[2.0] * 4, drain=[1.0, 1.0, 0.0, 0.0])},
        revisions=(applied(1, -60, 3), applied(2, 0, 2, before=3)),
    )
    hours = booked(record, {Stage.SAMPLER: {"whole": 1.0}}).hours[Stage.SAMPLER]
    assert hours["drain"] == pytest.approx(2 * STEP / HOUR)
    assert hours["busy"] == pytest.approx(8 * STEP / HOUR)


def test_a_gap_of_the_whole_metrics_source_is_booked_on_nothing() -> None:
    record = a_record(
        {"replicas": [replicas([1, None, None, 1])], "states": states("sampler", busy=[1.0, None, None, 1.0])},
        revisions=(applied(1, -60, 1),),
    )
    time = booked(record, {Stage.SAMPLER: {"whole": 1.0}})
    assert time.held == pytest.approx(2 * STEP / HOUR)
    assert time.known_seconds == 2 * STEP


def test_stretches_in_which_something_was_seen() -> None:
    record = a_record({"replicas": [replicas([None, 1, 1, None]), replicas([None, None, None, 2], profile="slice")]})
    assert measured(record) == ((START + STEP, START + 4 * STEP),)
    assert measured(a_record({"replicas": [replicas([1, None, 1, 1])]})) == (
        (START, START + STEP),
        (START + 2 * STEP, START + 4 * STEP),
    )
    assert measured(a_record()) == ()


def test_a_replica_without_state_counters_is_unseen_and_not_idle_by_its_own_account() -> None:
    record = a_record({"replicas": [replicas([1] * 4)], "states": states("sampler", busy=[None] * 4)})
    assert booked(record).hours[Stage.SAMPLER] == {"unseen": pytest.approx(60 / HOUR)}


def test_without_the_job_nobody_knows_what_a_replica_costs() -> None:
    assert prices_of(a_record(job=None)) is None


def test_shares_are_unknown_where_nothing_ran() -> None:
    assert shares({"busy": (1.0, 0.0, None), "starved": (3.0, 0.0, None)}) == {
        "busy": (0.25, None, None),
        "starved": (0.75, None, None),
    }


@pytest.mark.parametrize(
    ("state", "is_"),
    [
        *((state, "busy") for state in ("busy", "tokens", "tool")),
        *((state, "idle") for state in ("starved", "unseen")),
        *((state, "waiting") for state in ("sync", "blocked", "paced", "drain")),
    ],
)
def test_every_state_is_work_a_wait_or_idle(state: str, is_: str) -> None:
    assert kind(state) == is_
