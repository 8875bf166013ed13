"""What is handed over to a step is complete, good enough and fresh; everything else goes where it belongs."""

import asyncio
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from steelyard_workers.messages import Experience, Hop, Task
from steelyard_workers.trainer.collector import Collector, Group
from steelyard_workers.trainer.dataset import Dataset
from steelyard_workers.trainer.intake import EARLIER_PULLS_SECONDS, MAX_ATTEMPTS, Intake
from steelyard_workers.trainer.ledger import Book, Ledger
from steelyard_workers.trainer.limits import Limits
from tests.unit.workers.experience import delivery, experience


@dataclass
class FakeBus:
    """Remembers, in order, what the intake did."""

    log: list[str] = field(default_factory=list)

    async def put(self, task: Task, full: object = nullcontext) -> bool:
        self.log.append(f"fed {task.id}")
        return True

    async def recall(self, hop: Hop) -> None:
        self.log.append(f"recalled {hop} at {asyncio.get_running_loop().time():.0f} s")

    async def bury(self, held: Any, reason: str) -> None:
        self.log.append(f"buried {held.id}: {reason}")


@dataclass
class FakeFeeder:
    """Every group below 10 is admitted."""

    book: Book

    def open_groups(self) -> list[int]:
        return self.book.open_groups(10)

    def group_closed(self) -> None:
        """There may be room; nobody asks."""


class FakeSignals:
    """Counts units by outcome."""

    def __init__(self) -> None:
        self.units: list[str] = []
        self.slot = cast(Any, None)

    def taken(self, waited_seconds: float) -> None:
        """Nobody asks how long it had waited."""

    def unit(self, outcome: str) -> None:
        self.units.append(outcome)


class Setting:
    """An intake of groups of two at step 5, at most one version behind."""

    def __init__(self, *messages: Experience) -> None:
        self.bus, self.signals = FakeBus(), FakeSignals()
        self.book = Book(Ledger(step=5), epoch=1)
        self.collector = Collector(group_size=2)
        self.intake = Intake(
            bus=cast(Any, self.bus),
            book=self.book,
            collector=self.collector,
            dataset=Dataset([{}], seed=7),
            feeder=cast(Any, FakeFeeder(self.book)),
            limits=Limits(vocabulary=100, longest=50),
            max_staleness=1,
            signals=cast(Any, self.signals),
        )
        for message in messages:
            held = delivery(message)
            held._msg = cast(Any, self)
            self.collector.offer(held)

    async def ack(self) -> None:
        """What a delivery calls when it is acknowledged."""
        self.bus.log.append("acknowledged")

    async def hand_over(self, count: int = 1) -> list[int] | None:
        stop = asyncio.Event()
        asyncio.get_running_loop().call_later(0.05, stop.set)
        groups = await self.intake.hand_over(count, stop)
        return None if groups is None else [group.number for group in groups]


def pair(group: int, step: int = 5, attempt: int = 0) -> list[Experience]:
    return [experience(group, k, attempt, policy=(1, step)) for k in (0, 1)]


async def test_the_lowest_complete_groups_go_first() -> None:
    setting = Setting(*pair(4), *pair(2), experience(1, 0, policy=(1, 5)), *pair(3))
    assert await setting.hand_over(2) == [2, 3]
    assert setting.bus.log == []


async def test_nothing_is_handed_over_before_there_is_enough() -> None:
    assert await Setting(*pair(0)).hand_over(2) is None


async def test_too_old_members_are_made_anew_their_task_is_stored_before_their_outcome_goes() -> None:
    fresh, old = experience(0, 0, policy=(1, 4)), experience(0, 1, policy=(1, 3))
    setting = Setting(fresh, old, *pair(1))
    assert await setting.hand_over() == [1]
    assert setting.bus.log == ["fed 0/1/1", "acknowledged"]
    assert setting.signals.units == ["stale"]
    assert setting.intake.requeued == 1
    setting.collector.offer(delivery(experience(0, 1, 1, policy=(1, 5))))
    assert await setting.hand_over() == [0]
    assert setting.intake.requeued == 0, "none for this step"


async def test_a_newer_attempt_that_arrives_while_others_are_made_anew_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next attempt is under way already when an earlier trainer was killed between its task and this outcome."""
    setting = Setting(*pair(0, step=3))
    newer = delivery(experience(0, 1, 1, policy=(1, 5)))

    async def feed(task: Task, full: object = nullcontext) -> bool:
        if task.id.k == 0:
            setting.intake._place(newer)
        return task.id.k == 0

    monkeypatch.setattr(setting.bus, "put", feed)
    assert await setting.hand_over() is None
    setting.intake._place(delivery(experience(0, 0, 1, policy=(1, 5))))
    assert await setting.hand_over() == [0]


async def test_a_newer_attempt_that_arrives_while_its_group_is_given_up_is_superfluous(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    setting = Setting(*(experience(group, k, outcome="failed") for group in (0, 1) for k in (0, 1)))
    newer = delivery(experience(1, 0, 1, policy=(1, 5)))
    placed: list[Any] = []

    async def bury(held: Any, reason: str) -> None:
        if held.id.group == 0 and not placed:
            placed.append(setting.intake._place(newer))

    monkeypatch.setattr(setting.bus, "bury", bury)
    assert await setting.hand_over() is None
    assert placed == [newer]


async def test_a_member_that_was_too_old_too_often_is_given_up_and_its_group_with_it() -> None:
    last = MAX_ATTEMPTS - 1
    setting = Setting(experience(0, 0, policy=(1, 5)), experience(0, 1, last, policy=(1, 0)))
    assert await setting.hand_over() is None
    assert setting.bus.log == [
        f"buried 0/1/{last}: too old {MAX_ATTEMPTS} times, now 5 versions behind",
        "buried 0/0/0: group 0 has fewer than 2 trajectories to learn from; this one: ok",
    ]
    assert setting.book.is_closed(0)


@pytest.mark.parametrize("outcome", ["failed", "timeout"])
async def test_a_group_with_one_good_trajectory_is_given_up_and_a_larger_rest_is_trained(outcome: Any) -> None:
    bad = experience(0, 1, outcome=outcome)
    setting = Setting(experience(0, 0, policy=(1, 5)), bad, *pair(1))
    assert await setting.hand_over() == [1]
    assert setting.book.open_groups(2) == [1]
    assert setting.signals.units == ["failed", outcome]


async def test_a_copy_of_a_closed_group_is_superfluous_and_one_that_awaits_its_commit_is_kept() -> None:
    setting = Setting(*pair(0))
    stop = asyncio.Event()
    groups = await setting.intake.hand_over(1, stop)
    assert isinstance(groups, list | tuple)
    group: Group = groups[0]
    setting.book.train([group.record()])
    again = delivery(group.held[0].message, sequence=group.held[0].sequence)
    copy = delivery(group.held[0].message, sequence=999)
    assert setting.intake._place(again) is None
    assert setting.intake._place(copy) is copy
    setting.collector.committed()
    assert setting.intake._place(again) is again


async def test_what_the_model_cannot_read_goes_to_the_dead_letters_and_counts_as_failed() -> None:
    setting = Setting()
    long = delivery(experience(policy_tokens=(7,) * 60))

    async def take(*_: Any) -> list[Any]:
        if setting.bus.log:
            await asyncio.Event().wait()
        return [long]

    setting.bus.take = take  # type: ignore[attr-defined]
    collecting = asyncio.create_task(setting.intake.collect())
    await asyncio.sleep(0.01)
    collecting.cancel()
    assert setting.bus.log == ["buried 0/0/0: 62 tokens, the model reads 50"]
    assert setting.signals.units == ["failed"]


@pytest.mark.looptime
async def test_what_an_earlier_trainer_may_have_received_meanwhile_is_recalled_once() -> None:
    setting = Setting()
    await setting.intake.recall_again()
    assert setting.bus.log == [f"recalled experience at {EARLIER_PULLS_SECONDS:.0f} s"]


LIMITS = {
    "fits": (experience(), None),
    "longer than the model reads": (
        experience(policy_tokens=(7,) * 60),
        "62 tokens, the model reads 50",
    ),
    "a token beyond the vocabulary": (
        experience(policy_tokens=(7, 100)),
        "token 100, the model's vocabulary ends at 99",
    ),
    "a failed one without tokens": (experience(outcome="failed", policy_tokens=(), prompt=()), None),
}


@pytest.mark.parametrize(("message", "objection"), LIMITS.values(), ids=LIMITS)
def test_what_the_model_cannot_read_is_said(message: Experience, objection: str | None) -> None:
    assert Limits(vocabulary=100, longest=50).objection(message) == objection
