"""Groups on the trainer's side: whole, in the order of their numbers, and never too old."""

from __future__ import annotations

from steelyard.twin.experience import Experience
from steelyard.twin.flow import Group, Trajectory
from steelyard.twin.workload import Draw


def come_back(experience: Experience, number: int, failed: tuple[bool, ...] = (False, False), version: int = 0) -> bool:
    """Every member of a group returns; whether the group was given up."""
    group, given_up = Group(number, len(failed)), None
    for fails in failed:
        one = Trajectory(0, group, Draw([1.0], [0.0], [0.0], 1.0, fails, 0.0), 1.0, version=version)
        given_up = experience.add(one)
    return given_up is group


def taken(experience: Experience, count: int) -> list[int] | None:
    groups = experience.take(count)
    return None if groups is None else [group.number for group in groups]


def test_groups_are_handed_over_lowest_number_first_and_only_as_many_as_asked_for() -> None:
    experience = Experience()
    for number in (5, 3, 9, 1):
        come_back(experience, number)
    assert taken(experience, 5) is None
    assert taken(experience, 3) == [1, 3, 5]
    assert experience.waiting == 2


def test_a_group_trains_without_its_dead_and_is_given_up_when_one_or_none_lives() -> None:
    experience = Experience()
    assert not come_back(experience, 1, (False, True, False))
    assert come_back(experience, 2, (True, False))
    assert come_back(experience, 3, (True, True))
    assert experience.waiting == 2
    assert taken(experience, 1) == [1]


def test_a_step_that_came_to_nothing_gives_its_groups_back_in_order() -> None:
    experience = Experience()
    for number in (1, 2, 3):
        come_back(experience, number)
    groups = experience.take(2)
    assert groups is not None
    experience.give_back(groups)
    assert experience.waiting == 6
    assert taken(experience, 3) == [1, 2, 3]


def test_what_is_too_old_is_taken_out_and_its_group_waits_for_it() -> None:
    experience = Experience()
    come_back(experience, 1, version=0)
    come_back(experience, 2, version=3)
    assert len(experience.too_old(step=4, max_staleness=2)) == 2
    assert experience.waiting == 2
    assert taken(experience, 2) is None
    assert taken(experience, 1) == [2]
