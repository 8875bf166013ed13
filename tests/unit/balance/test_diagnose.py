"""Each row of the table of symptoms: when it shows, with which figures, and when it does not."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.api import Stage
from steelyard.balance import signals
from steelyard.balance.diagnose import symptoms, wait_graph
from steelyard.balance.diagnose.remedies import LOOK_FIRST, anchor
from steelyard.balance.diagnose.waits import held_back_by
from steelyard.balance.observe import observe
from steelyard.balance.surroundings import surroundings
from steelyard.balance.types import Finding, Symptom
from tests.unit.balance.builders import NOW, START, Sheet, a_view, steady
from tests.unit.balance.loop import demo_job

ENVIRONMENT, REWARD, TRAINER, BUS = (
    "environment-default-0",
    "reward-server-whole-0",
    "trainer-whole-0",
    "calculator-bus-0",
)
SAMPLERS = ("sampler-whole-0", "sampler-whole-1")


def found(sheet: Sheet, changes: dict[str, Any] | None = None, **view: Any) -> dict[Symptom, Finding]:
    job, rates = demo_job(changes), sheet.rates()
    observed = observe(a_view(job, **view), rates, NOW)
    told = symptoms(observed, wait_graph(observed), surroundings(rates, NOW), job.spec)
    return {one.symptom: one for one in told}


def states(sheet: Sheet, pod: str, **shares: float) -> Sheet:
    """Other shares of the time of one pod's slots."""
    sheet.without(signals.STAGE_SECONDS, pod)
    for state, share in shares.items():
        sheet.counter(signals.STAGE_SECONDS, pod, share, state=state)
    return sheet


def calm() -> Sheet:
    """Everybody works most of the time and nobody waits for long."""
    sheet = steady(trajectories=2, tool_seconds=3.2, token_seconds=0.5, judge_seconds=0.4, train_seconds=13)
    for pod in SAMPLERS:
        sheet.level(signals.KV_USAGE, pod, 0.2)
    return sheet


def slow_tools() -> Sheet:
    return steady(trajectories=2, tool_seconds=3.4, token_seconds=0.5, judge_seconds=0.2, train_seconds=4)


def slow_samplers() -> Sheet:
    return steady(trajectories=2, tool_seconds=0.4, token_seconds=3.5, judge_seconds=0.2, train_seconds=4)


def slow_trainer() -> Sheet:
    sheet = steady(trajectories=2, tool_seconds=1.5, token_seconds=0.5, judge_seconds=0.2, train_seconds=15.5)
    states(sheet, ENVIRONMENT, tool=3.0, tokens=1.0, paced=4.0)
    return sheet.level(signals.BUFFER_DEPTH, BUS, 70, buffer="experience")


def slow_judge() -> Sheet:
    sheet = steady(trajectories=2, tool_seconds=1.5, token_seconds=0.5, judge_seconds=0.48, train_seconds=4)
    states(sheet, ENVIRONMENT, tool=3.0, tokens=1.0, paced=4.0)
    depth = [10 + index / 4 for index in range(len(sheet.instants))]
    return sheet.add(signals.BUFFER_DEPTH, BUS, depth, buffer="trajectories").level(signals.STAGE_INFLIGHT, REWARD, 1)


def stragglers() -> Sheet:
    """Eight slots, one episode runs, the rest may not start; the trainer waits for the group it belongs to."""
    sheet = steady(trajectories=2, tool_seconds=0.4, token_seconds=0.1, judge_seconds=0.1, train_seconds=4)
    states(sheet, ENVIRONMENT, tool=0.8, tokens=0.2, paced=7.0)
    sheet.without(signals.STAGE_INFLIGHT, ENVIRONMENT)
    sheet.level(signals.BUFFER_DEPTH, BUS, 0, buffer="trajectories")
    return sheet.level(signals.STAGE_INFLIGHT, ENVIRONMENT, 1)


def stuck_sampler() -> Sheet:
    sheet = slow_samplers()
    for metric in (signals.TOKENS_GENERATED, signals.REQUESTS_RUNNING):
        sheet.without(metric, SAMPLERS[1])
    sheet.level(signals.TOKENS_GENERATED, SAMPLERS[1], 777)
    return sheet.level(signals.REQUESTS_RUNNING, SAMPLERS[1], 3)


def full_kv_pool() -> Sheet:
    sheet = slow_samplers()
    for pod in SAMPLERS:
        sheet.without(signals.REQUESTS_WAITING, pod)
        sheet.level(signals.KV_USAGE, pod, 0.97).level(signals.REQUESTS_WAITING, pod, 4)
    return sheet


def long_sync() -> Sheet:
    sheet = calm()
    for pod in SAMPLERS:
        states(sheet, pod, busy=0.7, starved=0.1, sync=0.2)
    return sheet


def unsteady() -> Sheet:
    """Steps that take 4 and 28 seconds in turn."""
    sheet = calm()
    for metric in (signals.STAGE_UNITS, signals.STEP_COUNT):
        sheet.without(metric, TRAINER)
    ends = [at for index in range(8) for at in (32 * index + 4, 32 * index + 32)]
    steps = [float(sum(at - sheet.instants[0] >= end for end in ends)) for at in sheet.instants]
    return sheet.add(signals.STEP_COUNT, TRAINER, steps).add(
        signals.STAGE_UNITS, TRAINER, [32 * count for count in steps], outcome="ok"
    )


def seen_seldom() -> Sheet:
    """Scraped every ten seconds: the steps seem to take 30, 10, 20, 30 and 10 s, half of their mean apart."""
    sheet = Sheet(every=10)
    ends = (20, 50, 60, 80, 110, 120)
    steps = [float(sum(at - sheet.instants[0] >= end for end in ends)) for at in sheet.instants]
    sheet.counter(signals.STAGE_SECONDS, TRAINER, 1, state="busy")
    return sheet.add(signals.STEP_COUNT, TRAINER, steps)


def busy_trainer() -> Sheet:
    """It works 97 % of the time and nobody waits for it: admission is open, and nothing is blocked."""
    sheet = steady(trajectories=2, judge_seconds=0.48, train_seconds=15.5)
    return states(sheet, ENVIRONMENT, tool=6.0, tokens=0.8, starved=1.2)


SHOWS: dict[str, tuple[Sheet, Symptom, Stage | None, str]] = {
    "tools that are slow starve the trainer": (
        slow_tools(),
        Symptom.ROLLOUT_SLOW,
        Stage.ENVIRONMENT,
        "trainer has no input 75 % of the time; episodes take 98 % of the environment's slots (85 % in tools, 12 %",
    ),
    "samplers that are slow starve the trainer": (
        slow_samplers(),
        Symptom.ROLLOUT_SLOW,
        Stage.SAMPLER,
        "(10 % in tools, 88 % waiting for samplers)",
    ),
    "an environment without CPU says so": (
        slow_tools().counter(signals.CPU_WAITING, ENVIRONMENT, 0.4),
        Symptom.ROLLOUT_SLOW,
        Stage.ENVIRONMENT,
        "its pods wait for CPU 40 % of the time",
    ),
    "a trainer that is slow closes admission": (
        slow_trainer(),
        Symptom.TRAINER_SLOW,
        Stage.TRAINER,
        "trainer works 97 % of the time; admission is closed for 50 % of the environment's slots, 70 trajectories wait",
    ),
    "a judge that is slow has a queue": (
        slow_judge(),
        Symptom.REWARD_QUEUE,
        Stage.REWARD_SERVER,
        "trajectories wait before 1 slots",
    ),
    "a sampler with requests and no tokens is sick and named": (
        stuck_sampler(),
        Symptom.SICK_REPLICA,
        Stage.SAMPLER,
        "sampler-whole-1 ran 3 requests for 88 s and generated no token",
    ),
    "a full KV pool with a queue before it": (
        full_kv_pool(),
        Symptom.MEMORY_FULL,
        Stage.SAMPLER,
        "the samplers' KV pool is 97 % full and 8 requests wait for it",
    ),
    "devices that are full and work in patches": (
        slow_tools().level(signals.DEVICE_USED, TRAINER, 79).level(signals.DEVICE_FREE, TRAINER, 1),
        Symptom.MEMORY_FULL,
        Stage.TRAINER,
        "trainer has its devices' memory 99 % full and works 25 % of the time",
    ),
    "pods that wait for the memory of their node": (
        calm().counter(signals.MEMORY_WAITING, ENVIRONMENT, 0.3),
        Symptom.MEMORY_FULL,
        Stage.ENVIRONMENT,
        "pods of environment wait for memory of their node 30 % of the time",
    ),
    "a trainer that waits for its disk": (
        calm().counter(signals.IO_WAITING, TRAINER, 0.35).counter(signals.IO_STALLED, TRAINER, 0.12),
        Symptom.DISK_WAITS,
        Stage.TRAINER,
        "trainer-whole-0 waits for storage 35 % of the time, with no task able to go on 12 %",
    ),
    "a bus that waits for its disk belongs to no stage": (
        calm().counter(signals.IO_WAITING, BUS, 0.35),
        Symptom.DISK_WAITS,
        None,
        "calculator-bus-0 waits for storage 35 % of the time",
    ),
    "a claim that fills up": (
        calm()
        .level(signals.CLAIM_USED, "calculator-checkpoints", 95e9)
        .level(signals.CLAIM_CAPACITY, "calculator-checkpoints", 100e9)
        .counter(signals.IO_WAITING, TRAINER, 0.01),
        Symptom.DISK_WAITS,
        None,
        "claim calculator-checkpoints is 95 % full",
    ),
    "one straggler holds the batch": (
        stragglers(),
        Symptom.LONG_TAIL,
        Stage.ENVIRONMENT,
        "1 of 8 episodes that could run do, nothing waits for a sampler or a judge, and the trainer has no input 75 %",
    ),
    "weights that take long": (
        long_sync(),
        Symptom.WEIGHT_SYNC,
        Stage.SAMPLER,
        "sampler spends 20 % of its time on weights, a version every 16 s",
    ),
    "steps of very different length": (
        unsteady(),
        Symptom.UNSTEADY_STEPS,
        Stage.TRAINER,
        "steps end every 14 s with a standard deviation of",
    ),
}


@pytest.mark.parametrize("case", SHOWS)
def test_a_symptom_shows_with_its_figures(case: str) -> None:
    sheet, symptom, stage, says = SHOWS[case]
    told = found(sheet)
    assert symptom in told
    assert told[symptom].stage is stage
    assert says in told[symptom].evidence
    assert told[symptom].look_first == f"{LOOK_FIRST[symptom]} (docs/symptoms.md#{anchor(symptom)})"


def test_every_symptom_but_the_last_has_a_case() -> None:
    assert {symptom for _, symptom, _, _ in SHOWS.values()} == set(Symptom) - {Symptom.NO_MISMATCH}


def queued_before_the_judge(sheet: Sheet) -> Sheet:
    return sheet.level(signals.BUFFER_DEPTH, BUS, 9, buffer="trajectories")


def draining_queue() -> Sheet:
    sheet = slow_judge().without(signals.BUFFER_DEPTH, BUS)
    half = len(sheet.instants) // 2
    depth = [200.0] * half + [6.0] * (len(sheet.instants) - half)
    return sheet.add(signals.BUFFER_DEPTH, BUS, depth, buffer="trajectories")


def syncing_sampler() -> Sheet:
    sheet = stuck_sampler()
    return states(sheet, SAMPLERS[1], sync=1.0)


SHOWS_NOT: dict[str, tuple[Sheet, Symptom]] = {
    "in calm, nothing shows: rollout": (calm(), Symptom.ROLLOUT_SLOW),
    "few episodes with a queue before the judge are no long tail": (
        queued_before_the_judge(stragglers().without(signals.BUFFER_DEPTH, BUS)),
        Symptom.LONG_TAIL,
    ),
    "few episodes with an unknown queue before the judge are no long tail": (
        stragglers().without(signals.BUFFER_DEPTH, BUS),
        Symptom.LONG_TAIL,
    ),
    "a full house is no long tail": (slow_tools(), Symptom.LONG_TAIL),
    "a long tail is no slow rollout": (stragglers(), Symptom.ROLLOUT_SLOW),
    "a queue that drains is the past's doing": (draining_queue(), Symptom.REWARD_QUEUE),
    "a queue before a judge that idles is not the judge's": (
        queued_before_the_judge(slow_tools()),
        Symptom.REWARD_QUEUE,
    ),
    "a sampler that takes over weights is not sick": (syncing_sampler(), Symptom.SICK_REPLICA),
    "an idle sampler is not sick": (
        stuck_sampler().without(signals.REQUESTS_RUNNING, SAMPLERS[1]).level(signals.REQUESTS_RUNNING, SAMPLERS[1], 0),
        Symptom.SICK_REPLICA,
    ),
    "a trainer that starves is not slow": (slow_tools(), Symptom.TRAINER_SLOW),
    "full devices that work all the time are well used": (
        calm().level(signals.DEVICE_USED, TRAINER, 79).level(signals.DEVICE_FREE, TRAINER, 1),
        Symptom.MEMORY_FULL,
    ),
    "a KV pool that is full with nobody waiting is well used": (
        full_kv_pool()
        .without(signals.REQUESTS_WAITING, SAMPLERS[0])
        .without(signals.REQUESTS_WAITING, SAMPLERS[1])
        .level(signals.REQUESTS_WAITING, SAMPLERS[0], 0),
        Symptom.MEMORY_FULL,
    ),
    "steps of equal length are steady": (calm(), Symptom.UNSTEADY_STEPS),
    "steps whose spread is partly the scrapes' are steady": (seen_seldom(), Symptom.UNSTEADY_STEPS),
}


@pytest.mark.parametrize("case", SHOWS_NOT)
def test_a_symptom_does_not_show(case: str) -> None:
    sheet, symptom = SHOWS_NOT[case]
    assert symptom not in found(sheet)


def test_in_calm_nothing_shows() -> None:
    assert found(calm()) == {}


def test_exporters_that_are_absent_are_no_symptom_and_no_cause() -> None:
    """Unknown is not 0, and not full either."""
    around = surroundings(calm().rates(), NOW)
    assert (around.pods, around.claims, around.lengths) == ({}, {}, None)
    assert found(calm()) == {}


def test_the_lengths_explain_stragglers_where_they_are_known() -> None:
    sheet = stragglers()
    for bound, count in (("100", 90), ("1000", 95), ("10000", 100), ("+Inf", 100)):
        sheet.counter(signals.TRAJECTORY_TOKENS, ENVIRONMENT, count / 120, le=bound)
    evidence = found(sheet)[Symptom.LONG_TAIL].evidence
    assert evidence.endswith("the longest hundredth of the trajectories has 8200 tokens or more, the median 56")


def test_an_environment_replica_that_finishes_nothing_beside_one_that_does_is_sick() -> None:
    sheet = steady(environments=2, trajectories=2)
    sick = "environment-default-1"
    sheet.without(signals.STAGE_UNITS, sick).level(signals.STAGE_UNITS, sick, 50, outcome="ok")
    told = found(sheet, allocation=START.replace(Stage.ENVIRONMENT, {"default": 2}))
    assert told[Symptom.SICK_REPLICA].stage is Stage.ENVIRONMENT
    assert "environment-default-1 finished nothing in 88 s while the other replicas did" in (
        told[Symptom.SICK_REPLICA].evidence
    )


def test_partial_coverage_is_part_of_the_evidence() -> None:
    sheet = slow_samplers().without(signals.STAGE_SECONDS, SAMPLERS[0])
    assert found(sheet)[Symptom.ROLLOUT_SLOW].evidence.endswith("(seen of 1 of 2 pods)")


def test_the_most_urgent_symptom_comes_first() -> None:
    sheet = stuck_sampler().counter(signals.IO_WAITING, TRAINER, 0.5)
    assert list(found(sheet)) == [Symptom.SICK_REPLICA, Symptom.DISK_WAITS, Symptom.ROLLOUT_SLOW]


POINTS_AT: dict[str, tuple[Sheet, Stage | None]] = {
    "slots that are full of tools": (slow_tools(), Stage.ENVIRONMENT),
    "slots that are full of waits for tokens": (slow_samplers(), Stage.SAMPLER),
    "a judge behind whom the trainer starves and before whom admission is closed": (slow_judge(), Stage.REWARD_SERVER),
    "a trainer before whom admission is closed": (slow_trainer(), Stage.TRAINER),
    "a trainer that works all the time, and nobody waits for it": (busy_trainer(), None),
    "stragglers: nobody works more than he waits": (stragglers(), None),
    "a queue that drained to a third: the past's doing": (draining_queue(), None),
    "no data": (Sheet(), None),
}


@pytest.mark.parametrize("case", POINTS_AT)
def test_the_waits_point_at_the_stage_that_waits_least_and_is_waited_for(case: str) -> None:
    sheet, want = POINTS_AT[case]
    assert held_back_by(wait_graph(observe(a_view(), sheet.rates(), NOW))) is want
