"""The rollout: never above the budget, whatever the order in which pods come and go, and always to the end."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.api import Stage
from steelyard.children.common import Slot
from steelyard.children.rollout import Workload, rollout

WHOLE, SLICE = (Stage.SAMPLER, "whole"), (Stage.SAMPLER, "slice")
JUDGE, JUDGE_SLICE = (Stage.REWARD_SERVER, "whole"), (Stage.REWARD_SERVER, "slice")
TRAINER, ENVIRONMENT = (Stage.TRAINER, "whole"), (Stage.ENVIRONMENT, "default")
PRICES: dict[Slot, Fraction] = {
    WHOLE: Fraction(1),
    SLICE: Fraction(1, 2),
    JUDGE: Fraction(1),
    JUDGE_SLICE: Fraction(1, 2),
    TRAINER: Fraction(1),
    ENVIRONMENT: Fraction(0),
}
MILLIS = {slot: int(price * 1000) for slot, price in PRICES.items()}


def running(n: int) -> Workload:
    return Workload(desired=n, created=n, alive=n, ready=n)


def step(target: dict[Slot, int], now: dict[Slot, Workload], budget: int) -> dict[Slot, int]:
    """One call, with every slot that is not named at rest at nothing; returns what it changes."""
    whole = {slot: now.get(slot, Workload()) for slot in PRICES}
    held = sum((PRICES[slot] * (w.alive + w.terminating) for slot, w in whole.items()), Fraction(0))
    wanted = rollout(target, whole, PRICES, Fraction(budget), held)
    return {slot: n for slot, n in wanted.items() if n != whole[slot].desired}


CASES = {
    "everything starts at once when the budget has room": (
        {WHOLE: 2, JUDGE: 1, TRAINER: 1, ENVIRONMENT: 3},
        {},
        8,
        {WHOLE: 2, JUDGE: 1, TRAINER: 1, ENVIRONMENT: 3},
    ),
    "the trainer comes first when not all fits": ({WHOLE: 2, TRAINER: 1}, {}, 1, {TRAINER: 1}),
    "a surplus goes at once and its GPUs are not spent yet": (
        {WHOLE: 1, JUDGE: 2},
        {WHOLE: running(2), JUDGE: running(1)},
        3,
        {WHOLE: 1},
    ),
    "a terminating pod still holds its GPU": (
        {WHOLE: 1, JUDGE: 2},
        {WHOLE: Workload(desired=1, created=1, alive=1, ready=1, terminating=1), JUDGE: running(1)},
        3,
        {},
    ),
    "a freed GPU is used": ({WHOLE: 1, JUDGE: 2}, {WHOLE: running(1), JUDGE: running(1)}, 3, {JUDGE: 2}),
    "a pod that was asked for and is not seen yet holds its GPU": (
        {WHOLE: 2, JUDGE: 1},
        {WHOLE: Workload(desired=2, created=1, alive=1, ready=1)},
        2,
        {},
    ),
    "a profile change starts with one replica": ({SLICE: 2}, {WHOLE: running(2)}, 2, {WHOLE: 1}),
    "the next profile waits until the old pod is gone": (
        {SLICE: 2},
        {WHOLE: Workload(desired=1, created=1, alive=1, ready=1, terminating=1)},
        2,
        {},
    ),
    "then one of the new profile starts": ({SLICE: 2}, {WHOLE: running(1)}, 2, {SLICE: 1}),
    "the second exchange waits until the first replica is ready": (
        {SLICE: 2},
        {WHOLE: running(1), SLICE: Workload(desired=1, created=1, alive=1)},
        2,
        {},
    ),
    "an exchange is taken back although its pods never became ready": (
        {WHOLE: 2},
        {WHOLE: running(1), SLICE: Workload(desired=1, created=1, alive=1)},
        2,
        {SLICE: 0},
    ),
    "two slices give way when the whole GPU fits no other way": ({WHOLE: 1}, {SLICE: running(1)}, 1, {SLICE: 0}),
    "nothing is free while a controller has not seen its number": (
        {WHOLE: 3, ENVIRONMENT: 2},
        {WHOLE: Workload(desired=2, caught_up=False, created=1, alive=1, ready=1)},
        8,
        {ENVIRONMENT: 2},
    ),
    "replicas that somebody else added go before their pods are made": (
        {WHOLE: 2},
        {WHOLE: Workload(desired=6, caught_up=False, created=2, alive=2, ready=2)},
        8,
        {WHOLE: 2},
    ),
    "stages without GPUs do not wait": ({ENVIRONMENT: 9}, {WHOLE: running(2)}, 2, {ENVIRONMENT: 9, WHOLE: 0}),
}


@pytest.mark.parametrize("case", CASES)
def test_the_next_step(case: str) -> None:
    target, now, budget, want = CASES[case]

    assert step(dict(target), dict(now), budget) == want


@dataclass
class World:
    """Workloads and pods; each method is something a cluster may do at any time."""

    desired: dict[Slot, int]
    pods: dict[Slot, list[str]] = field(default_factory=dict)
    """State of each pod: starting, ready or terminating."""

    def workloads(self) -> dict[Slot, Workload]:
        found = {}
        for slot, n in self.desired.items():
            pods = self.pods[slot]
            alive = [pod for pod in pods if pod != "terminating"]
            ready, leaving = pods.count("ready"), pods.count("terminating")
            found[slot] = Workload(n, created=len(alive), alive=len(alive), ready=ready, terminating=leaving)
        return found

    def gpus(self) -> Fraction:
        return Fraction(sum(MILLIS[slot] * len(pods) for slot, pods in self.pods.items()), 1000)

    def rests_at(self, target: dict[Slot, int]) -> bool:
        return self.desired == target and all(pods == ["ready"] * target[slot] for slot, pods in self.pods.items())

    def reconcile(self, slot: Slot) -> None:
        """What a ReplicaSet does: unready pods go first."""
        pods = self.pods[slot]
        alive = sorted((i for i, pod in enumerate(pods) if pod != "terminating"), key=lambda i: pods[i] == "ready")
        for i in alive[: max(0, len(alive) - self.desired[slot])]:
            pods[i] = "terminating"
        pods += ["starting"] * (self.desired[slot] - len(alive))

    def become_ready(self, slot: Slot) -> None:
        self.pods[slot] = ["ready" if pod == "starting" else pod for pod in self.pods[slot]]

    def let_go(self, slot: Slot) -> None:
        self.pods[slot] = [pod for pod in self.pods[slot] if pod != "terminating"]


@st.composite
def allocations(draw: st.DrawFn, budget: int) -> dict[Slot, int]:
    """Any allocation within the budget."""
    left, chosen = budget * 1000, {}
    for slot in draw(st.permutations(list(PRICES))):
        most = 1 if slot == TRAINER else 5
        n = draw(st.integers(0, min(most, left // MILLIS[slot]) if MILLIS[slot] else most))
        chosen[slot] = n
        left -= n * MILLIS[slot]
    return {slot: chosen[slot] for slot in PRICES}


@settings(max_examples=60, deadline=None)
@given(data=st.data(), budget=st.integers(2, 6), chance=st.randoms(use_true_random=False))
def test_no_order_of_events_takes_a_move_above_its_budget_and_every_move_ends(
    data: st.DataObject, budget: int, chance: Random
) -> None:
    start, target = data.draw(allocations(budget)), data.draw(allocations(budget))
    world = World(dict(start), {slot: ["ready"] * n for slot, n in start.items()})
    acts = [(act, slot) for slot in PRICES for act in (world.reconcile, world.become_ready, world.let_go)]

    for round_ in range(60):
        if world.rests_at(target):
            return
        world.desired = rollout(target, world.workloads(), PRICES, Fraction(budget), world.gpus())
        for act, slot in chance.choices(acts, k=6) if round_ < 20 else acts:  # at last everything happens
            act(slot)
            assert world.gpus() <= budget
    raise AssertionError(f"still at {world}, on the way to {target}")


@given(allocations(8))
def test_a_reached_target_asks_for_nothing_more(target: dict[Slot, int]) -> None:
    now = {slot: running(n) for slot, n in target.items()}

    assert step(target, now, 8) == {}
