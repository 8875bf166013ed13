"""Groups come together from deliveries in any order, with copies, retries and dead letters among them."""

import pytest

from steelyard_workers.messages import Experience, TrajectoryId
from steelyard_workers.trainer.collector import Collector, Group, lag, stale
from tests.unit.workers.experience import delivery, experience


def complete(collector: Collector) -> list[Group]:
    return collector.complete(range(100))


def ids(group: Group) -> list[str]:
    return [str(held.id) for held in group.held]


def test_a_group_is_complete_when_its_last_member_arrives_in_whatever_order() -> None:
    collector = Collector(group_size=3)
    for k in (2, 0):
        assert collector.offer(delivery(experience(k=k))) is None
    assert complete(collector) == []
    collector.offer(delivery(experience(k=1)))
    assert [ids(group) for group in complete(collector)] == [["0/0/0", "0/1/0", "0/2/0"]]


def test_complete_groups_come_in_the_order_asked_for() -> None:
    collector = Collector(group_size=1)
    for group in (3, 1, 2):
        collector.offer(delivery(experience(group)))
    assert [group.number for group in collector.complete([1, 2, 3, 4])] == [1, 2, 3]


def test_a_dead_letter_stands_for_its_member() -> None:
    collector = Collector(group_size=2)
    collector.offer(delivery(experience(k=0)))
    collector.bury(TrajectoryId(group=0, k=1, attempt=0))
    (group,) = complete(collector)
    assert [(member.k, member.fate) for member in group.record().members] == [(0, "trained"), (1, "dead")]


def test_an_outcome_beats_the_dead_letter_of_its_member_whichever_comes_first() -> None:
    for first in ("letter", "outcome"):
        collector = Collector(group_size=1)
        if first == "letter":
            collector.bury(TrajectoryId(group=0, k=0, attempt=0))
        collector.offer(delivery(experience()))
        collector.bury(TrajectoryId(group=0, k=0, attempt=0))
        assert [member.fate for member in complete(collector)[0].record().members] == ["trained"]


COPIES = {
    "a second copy is superfluous itself": (experience(), 1, experience(), 2, "second"),
    "a redelivery of what is held acknowledges nothing": (experience(), 1, experience(), 1, None),
    "a newer attempt makes the older superfluous": (experience(), 1, experience(attempt=1), 2, "first"),
    "an older attempt that comes late is superfluous": (experience(attempt=1), 2, experience(), 1, "second"),
}


@pytest.mark.parametrize(("first", "place", "second", "second_place", "superfluous"), COPIES.values(), ids=COPIES)
def test_of_several_outcomes_of_a_member_one_is_held(
    first: Experience, place: int, second: Experience, second_place: int, superfluous: str | None
) -> None:
    collector = Collector(group_size=2)
    one, other = delivery(first, place), delivery(second, second_place)
    assert collector.offer(one) is None
    assert collector.offer(other) is {"first": one, "second": other, None: None}[superfluous]
    assert collector.held == 1


def test_what_a_step_took_is_acknowledged_after_the_commit_through_the_newest_handle() -> None:
    collector = Collector(group_size=1)
    old, again = delivery(experience(), sequence=1), delivery(experience(), sequence=1)
    collector.offer(old)
    collector.take(complete(collector)[0])
    assert collector.offer(again) is None, "the same place in the stream: acknowledging it would lose the original"
    assert collector.awaits_commit(0)
    assert collector.committed() == [again]
    assert collector.committed() == []
    assert not collector.awaits_commit(0)


def test_a_copy_of_what_a_step_took_is_superfluous_and_so_is_a_member_it_counted_as_dead() -> None:
    collector = Collector(group_size=2)
    collector.offer(delivery(experience(k=0), sequence=1))
    collector.bury(TrajectoryId(group=0, k=1, attempt=0))
    collector.take(complete(collector)[0])
    for late in (delivery(experience(k=0), sequence=2), delivery(experience(k=1), sequence=3)):
        assert collector.offer(late) is late


def test_only_good_trajectories_are_trained_and_all_are_recorded() -> None:
    collector = Collector(group_size=3)
    collector.offer(delivery(experience(k=0)))
    collector.offer(delivery(experience(k=1, outcome="failed")))
    collector.offer(delivery(experience(k=2, outcome="timeout")))
    (group,) = complete(collector)
    assert [good.id.k for good in group.trainable] == [0]
    assert [member.fate for member in group.record().members] == ["trained", "failed", "timeout"]


LAGS = {
    "made by the weights it is to train": ((2, 7), 7, 0),
    "two steps behind": ((2, 5), 7, 2),
    "of an earlier epoch counts by its step": ((1, 5), 7, 2),
    "of a version that a resume took back is not behind": ((1, 9), 7, 0),
}


@pytest.mark.parametrize(("policy", "step", "behind"), LAGS.values(), ids=LAGS)
def test_the_lag_of_a_trajectory(policy: tuple[int, int], step: int, behind: int) -> None:
    assert lag(experience(policy=policy), step) == behind


def test_members_beyond_the_staleness_are_named_and_the_others_kept() -> None:
    collector = Collector(group_size=3)
    for k, step in enumerate((3, 4, 5)):
        collector.offer(delivery(experience(k=k, policy=(1, step))))
    (group,) = complete(collector)
    assert [old.id.k for old in stale(group, step=6, max_staleness=2)] == [0]
