"""The HorizontalPodAutoscaler's documented behaviour, row by row."""

import pytest

from steelyard.twin.policies.hpa import Behavior, by_pods, by_total

BY_PODS = {
    "twice the target doubles": (4, [1.0] * 4, 0, 0.5, 8),
    "half the target halves": (4, [0.25] * 4, 0, 0.5, 2),
    "fractions are rounded up": (3, [0.6] * 3, 0, 0.5, 4),
    "within ten percent nothing changes": (10, [0.55] * 10, 0, 0.5, 10),
    "just beyond ten percent it does": (10, [0.56] * 10, 0, 0.5, 12),
    "no metric at all changes nothing": (5, [None] * 5, 0, 0.5, 5),
    "a missing pod counts as idle when growing": (3, [1.0, 1.0, None], 0, 0.5, 4),
    "a missing pod counts as on target when shrinking": (4, [0.2, 0.2, 0.2, None], 0, 0.5, 3),
    "missing pods that turn the direction stop it": (4, [0.6, None, None, None], 0, 0.5, 4),
    "pods that start count as idle when growing": (6, [1.0] * 4, 2, 0.5, 8),
    "pods that start are left out when shrinking": (6, [0.25] * 4, 2, 0.5, 2),
    "pods that start can stop the growth": (8, [0.6] * 4, 4, 0.5, 8),
}


@pytest.mark.parametrize(("replicas", "metrics", "unready", "target", "want"), BY_PODS.values(), ids=BY_PODS)
def test_recommendation_from_a_metric_of_each_pod(
    replicas: int, metrics: list[float | None], unready: int, target: float, want: int
) -> None:
    assert by_pods(replicas, metrics, unready, target) == want


BY_TOTAL = {
    "queue over target, rounded up": (2, 41.0, 10.0, 5),
    "within ten percent of what the replicas carry": (4, 43.0, 10.0, 4),
    "an empty queue asks for none, the bounds keep one": (4, 0.0, 10.0, 0),
}


@pytest.mark.parametrize(("replicas", "total", "target", "want"), BY_TOTAL.values(), ids=BY_TOTAL)
def test_recommendation_from_an_external_metric(replicas: int, total: float, target: float, want: int) -> None:
    assert by_total(replicas, total, target) == want


def scaled(recommendations: list[int], replicas: int, least: int = 1, most: int = 100) -> list[int]:
    """The scale after each sync, 15 s apart."""
    behavior, seen = Behavior(least, most), []
    for index, recommended in enumerate(recommendations):
        replicas = behavior.scale(15.0 * index, replicas, recommended)
        seen.append(replicas)
    return seen


def test_scaling_down_waits_until_the_highest_recommendation_is_five_minutes_old() -> None:
    assert scaled([8, *[2] * 20], 8) == [8] * 20 + [2]


def test_scaling_up_is_immediate_and_at_most_doubles_or_adds_four_in_a_period() -> None:
    assert scaled([100] * 4, 2) == [6, 12, 24, 48]


def test_the_bounds_hold_whatever_is_recommended() -> None:
    assert scaled([0], 1, least=1) == [1]
    assert scaled([50], 40, most=44) == [44]
