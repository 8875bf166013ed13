"""The same trajectories for everybody, whatever is done with them."""

from __future__ import annotations

from steelyard.twin.profiles import profile
from steelyard.twin.workload import Workload


def test_a_place_in_the_order_of_admission_has_one_trajectory() -> None:
    drift = profile("drift")
    first = [Workload(drift, 1).draw(index) for index in (0, 5, 200)]
    jumped, other = Workload(drift, 1), Workload(drift, 2)
    assert [jumped.draw(index) for index in (0, 5, 200)] == first
    assert other.draw(0) != first[0]


def test_another_attempt_of_the_same_task_is_another_trajectory_and_always_the_same_one() -> None:
    drift = profile("drift")
    attempts = [Workload(drift, 1).again(7, attempt) for attempt in (1, 2, 1)]
    assert attempts[0] == attempts[2]
    assert attempts[0] != attempts[1]
    assert Workload(drift, 1).again(8, 1) != attempts[0]
