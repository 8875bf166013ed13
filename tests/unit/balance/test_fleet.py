"""Sharing a pool among jobs, on cases small enough to check by eye; `tests/property` has an independent checker."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import numpy as np
import pytest

from steelyard.balance.fleet import Claim, Curve, grants_now, share

AGEING = 600.0


def a_curve(*gpus: float) -> Curve:
    """A rate that grows as the GPUs do."""
    return Curve(np.array(gpus, dtype=float), np.array(gpus, dtype=float))


def a_claim(job: str, *gpus: float, **more: Any) -> Claim:
    return Claim(job, a_curve(*(gpus or (1, 2, 3, 4, 5, 6))), **more)


def shared(gpus: float, *claims: Claim) -> dict[str, float]:
    return {job: grant.gpus for job, grant in share(claims, gpus, ageing_seconds=AGEING).items()}


CASES: dict[str, tuple[float, list[Claim], dict[str, float]]] = {
    "equal jobs share equally": (6, [a_claim("a"), a_claim("b")], {"a": 3, "b": 3}),
    "who can use only little leaves the rest": (6, [a_claim("a", 1, 2), a_claim("b", 4, 8)], {"a": 2, "b": 4}),
    "twice the weight is twice the share": (6, [a_claim("a"), a_claim("b", weight=2)], {"a": 2, "b": 4}),
    "jobs are compared by the share of their best rate": (
        9,
        [a_claim("small", 1, 2, 3, 4), a_claim("large", 2, 4, 6, 8)],
        {"small": 3, "large": 6},
    ),
    "the odd GPU goes to the older job": (
        5,
        [a_claim("new", since=20), a_claim("old", since=10)],
        {"old": 3, "new": 2},
    ),
    "a higher priority is served first, the rest gets what it leaves": (
        8,
        [a_claim("low"), a_claim("high", priority=5)],
        {"high": 6, "low": 2},
    ),
    "a guarantee comes before any priority": (
        8,
        [a_claim("low", guaranteed=4), a_claim("high", priority=5)],
        {"low": 4, "high": 4},
    ),
    "a guarantee that is not used is lent": (
        8,
        [a_claim("small", 1, 2, guaranteed=6), a_claim("borrower")],
        {"small": 2, "borrower": 6},
    ),
    "nobody exceeds the limit": (12, [a_claim("a", limit=2.5), a_claim("b")], {"a": 2, "b": 6}),
    "guarantees that exceed the pool go by priority": (
        6,
        [a_claim("low", guaranteed=6), a_claim("high", guaranteed=5, priority=1)],
        {"high": 5, "low": 1},
    ),
    "who does not get the least it needs waits, and the others use it": (
        6,
        [a_claim("a", 3, 4, since=1), a_claim("big", 5, 6, since=2), a_claim("c", 1, 2, since=3)],
        {"a": 4, "big": 0, "c": 2},
    ),
    "who runs is not stopped for an equal who waits": (
        4,
        [a_claim("waits", 4, since=1), a_claim("runs", 4, held=4, since=2)],
        {"runs": 4, "waits": 0},
    ),
    "after an ageing period the equal who waits comes first": (
        4,
        [a_claim("waits", 4, since=1, waiting_seconds=AGEING), a_claim("runs", 4, held=4, since=2)],
        {"waits": 4, "runs": 0},
    ),
    "ageing brings the smallest allocation, not more": (
        8,
        [a_claim("aged", 2, 4, 8, waiting_seconds=99 * AGEING), a_claim("high", priority=9)],
        {"aged": 2, "high": 6},
    ),
    "newest gives back first": (
        4,
        [a_claim("old", 2, held=2, since=1), a_claim("new", 2, held=2, since=3), a_claim("mid", 2, held=2, since=2)],
        {"old": 2, "mid": 2, "new": 0},
    ),
    "no GPUs": (0, [a_claim("a")], {"a": 0}),
    "tenths of a GPU add up exactly": (1, [a_claim("a", *(n / 10 for n in range(1, 11)))], {"a": 1.0}),
    "no jobs": (8, [], {}),
    "nonsense counts as nothing": (
        4,
        [
            Claim("nan", Curve(np.array([nan, 1.0]), np.array([1.0, nan]))),
            Claim("none", Curve(np.array([]), np.array([]))),
            a_claim("a", weight=nan, guaranteed=-inf, limit=nan, waiting_seconds=nan),
            a_claim("b", weight=-1, held=nan, waiting_seconds=inf, priority=-3),
        ],
        {"nan": 1, "none": 0, "a": 2, "b": 1},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_pool_is_shared(case: str) -> None:
    gpus, claims, want = CASES[case]
    assert shared(gpus, *claims) == want


@pytest.mark.parametrize(
    ("claim", "says"),
    [
        (a_claim("x", 2, 4), "gets 2 GPUs, 2 of them borrowed, for 50 % of its best throughput; with 4 GPUs"),
        (a_claim("x", 1, 2), "gets 2 GPUs, 2 of them borrowed: all it can use"),
        (a_claim("x", 1, 2, guaranteed=1), "gets 2 GPUs, 1 of them borrowed: all it can use"),
        (a_claim("x", 1, 2, limit=1), "gets 1 GPU, 1 of them borrowed: its limit is 1 GPU"),
        (a_claim("x", 4, limit=2), "waits: its smallest allocation takes 4 GPUs and its limit is 2 GPUs"),
        (a_claim("x", 4), "waits: its smallest allocation takes 4 GPUs and the pool has 3 GPUs"),
        (a_claim("x", 3, priority=-1), "takes 3 GPUs and jobs served before it leave 0 GPUs of 3 GPUs"),
        (Claim("x", Curve(np.array([]), np.array([]))), "gets nothing: no allocation of it is known"),
    ],
)
def test_a_grant_says_why(claim: Claim, says: str) -> None:
    other = a_claim("other", 1, 2, 3, limit=3 if claim.priority else 1)
    assert says in share([claim, other], 3, ageing_seconds=AGEING)["x"].reason


@pytest.mark.parametrize(
    ("targets", "held", "gpus", "want", "why"),
    [
        ({"a": 4, "b": 2}, {}, 6, {"a": 4, "b": 2}, "everything is free"),
        ({"a": 2, "b": 4}, {"a": 5, "b": 1}, 6, {"a": 2, "b": 1}, "b gets what a gives back once it is drained"),
        ({"a": 2, "b": 4}, {"a": 3, "b": 1}, 6, {"a": 2, "b": 3}, "b gets what is free by now"),
        ({"b": 4}, {"gone": 3, "b": 1}, 6, {"b": 3}, "a job without a claim still holds until it is drained"),
        ({"a": 3, "b": 3}, {"a": 1, "b": 1}, 4, {"a": 3, "b": 1}, "the one that is served first is raised first"),
        ({"a": 3}, {"a": 9}, 4, {"a": 3}, "a pool that shrank gives nothing"),
    ],
)
def test_gpus_change_hands_only_when_they_are_free(
    targets: dict[str, float], held: dict[str, float], gpus: float, want: dict[str, float], why: str
) -> None:
    assert grants_now(targets, held, gpus) == want, why
