"""One round of a pool as values: how queues are divided, what a row says, when and how the status is written."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.api import ObjectMeta, PoolStatus, RLPool
from steelyard.api.pool import MOST_GRANTS
from steelyard.balance.fleet import Curve
from steelyard.cluster import pool_records
from steelyard.cluster.pool_records import Lent, Pool
from steelyard.pools.lend import lend
from steelyard.pools.members import Member
from steelyard.pools.queues import Asked, divided
from steelyard.pools.report import NUMBERS_SECONDS, pool_status, told, worth_writing
from tests.builders import pool_manifest

NOW = 1_800_000_000.0
LARGEST_BYTES = 1024 * 1024
"""An API server takes objects of at most 1.5 MiB."""

DIVISIONS: dict[str, tuple[float, list[tuple[float, float]], list[float]]] = {
    "enough for all": (10, [(1, 3), (1, 4)], [3, 4]),
    "evenly, as far as each can use it": (6, [(1, 2), (1, 9)], [2, 4]),
    "whole smallest allocations in order": (4, [(3, 8), (3, 8)], [4, 0]),
    "who does not fit lets a smaller one pass": (4, [(5, 8), (3, 8)], [0, 4]),
    "nothing to give": (0, [(1, 3)], [0]),
    "nobody": (5, [], []),
}


@pytest.mark.parametrize("case", DIVISIONS)
def test_a_queue_divides_what_it_has(case: str) -> None:
    amount, asked, want = DIVISIONS[case]

    assert divided(amount, [Asked(*one) for one in asked]) == pytest.approx(want)


ASKED = st.tuples(st.integers(0, 6), st.integers(0, 9)).map(lambda pair: Asked(pair[0], pair[0] + pair[1]))


@given(amount=st.integers(0, 40), asked=st.lists(ASKED, max_size=8))
def test_no_division_gives_more_than_there_is_nor_less_than_a_job_can_run_on(amount: int, asked: list[Asked]) -> None:
    parts = divided(amount, asked)

    assert sum(parts) <= amount + 1e-6
    for part, one in zip(parts, asked, strict=True):
        assert part == 0 or one.least - 1e-9 <= part <= one.most + 1e-9
    wanted = sum(one.most for one in asked if one.least <= amount)
    assert sum(parts) >= min(amount, wanted) - 1e-6 or any(part == 0 for part in parts), "left over though wanted"


def a_member(name: str, queue: str = "low", least: int = 3, most: int = 8, **fields: Any) -> Member:
    """A job that waits and holds nothing, but for what the test names."""
    steps = np.arange(least, most + 1, dtype=float)
    defaults: dict[str, Any] = {"row": None, "granted": 0, "reserved": 0, "used": 0, "created": NOW - 100}
    numbers = {key: Fraction(value) for key, value in {**defaults, **fields}.items() if isinstance(value, int)}
    return Member(("default", name), queue, curve=Curve(steps, steps), **{**defaults, **fields, **numbers})


def a_row(**fields: Any) -> Lent:
    defaults: dict[str, Any] = {"gpus": 0, "borrowed": 0, "used": 0}
    numbers = {key: Fraction(value) for key, value in {**defaults, **fields}.items() if isinstance(value, int)}
    return Lent(**{"queue": "low", "since": NOW - 50, **defaults, **fields, **numbers})


def spec(changes: dict[str, Any] | None = None) -> Any:
    return RLPool.model_validate(pool_manifest(changes)).spec


def gpus(rows: dict[tuple[str, str], Lent]) -> dict[str, Fraction]:
    return {name: row.gpus for (_, name), row in rows.items()}


LENDING: dict[str, tuple[dict[str, Any], list[Member], dict[str, int]]] = {
    "alone, all it can use": ({}, [a_member("a")], {"a": 8}),
    "never beyond the limit of its queue": ({"queues.1.borrowingLimitGpus": 4}, [a_member("a")], {"a": 4}),
    "two of a queue share its limit": (
        {"queues.1.borrowingLimitGpus": 7},
        [a_member("a"), a_member("b")],
        {"a": 3, "b": 3},
    ),
    "the weight of a queue is divided among its jobs": (
        {"gpus": 12, "queues.0.priority": 0, "queues.1.priority": 0},
        [a_member("a", least=1), a_member("b", least=1), a_member("c", "high", least=1)],
        {"a": 3, "b": 3, "c": 6},
    ),
    "a guarantee holds against a higher priority": (
        {"queues.1.guaranteedGpus": 3},
        [a_member("a", "high"), a_member("b")],
        {"a": 5, "b": 3},
    ),
    "what is signed for is not lent again": ({}, [a_member("a", reserved=6), a_member("b", "high")], {"a": 0, "b": 0}),
    "no part of a smallest allocation": ({"gpus": 5}, [a_member("a", granted=3, reserved=3), a_member("b")], {"a": 5}),
    "who is refused gives everything back": (
        {},
        [replace(a_member("a", granted=5, reserved=5), curve=None, why_not="is refused"), a_member("b", least=4)],
        {"a": 0, "b": 0},
    ),
    "who cannot be asked keeps what it has": (
        {},
        [replace(a_member("a", granted=5, reserved=5), curve=None, stays=True), a_member("b", "high")],
        {"a": 5, "b": 3},
    ),
}


@pytest.mark.parametrize("case", LENDING)
def test_a_round_lends(case: str) -> None:
    changes, found, want = LENDING[case]

    rows = gpus(lend(spec(changes), found, NOW))

    assert {name: n for name, n in rows.items() if n or name in want} == want


def test_the_time_that_was_waited_is_kept_over_the_beginning_of_service() -> None:
    waiting = a_member("a", row=a_row(waits=True, since=NOW - 500, waited_seconds=100.0))

    row = lend(spec(), [waiting], NOW)["default", "a"]

    assert (int(row.gpus), row.waits, row.since, row.waited_seconds) == (8, False, NOW, 600.0)
    served = a_member("a", row=replace(row, since=NOW - 400), granted=8, reserved=8)
    rival = a_member("b", "high", least=8)
    lost = lend(spec(), [served, rival], NOW)["default", "a"]
    assert (int(lost.gpus), lost.waits, lost.since, lost.waited_seconds) == (0, True, NOW, 200.0)


REASONS = {
    "others first": ({}, [a_member("b", granted=8, reserved=8)], "waits: 4 are its own as soon as others"),
    "the queue is full": (
        {"queues.1.borrowingLimitGpus": 3},
        [a_member("b", granted=3, reserved=3)],
        "waits: jobs before it take what queue low may have; of 8 GPUs default/b has 3",
    ),
    "more than there is": ({"gpus": 2}, [], "waits: its smallest allocation takes 3 GPUs and the pool has 2 GPUs"),
}


@pytest.mark.parametrize("case", REASONS)
def test_a_row_says_why_a_job_waits(case: str) -> None:
    changes, others, words = REASONS[case]
    newest = a_member("a", created=NOW)

    row = lend(spec(changes), [*others, newest], NOW)["default", "a"]

    assert row.gpus == 0
    assert row.reason.startswith(words)


def a_pool(status: PoolStatus | None = None) -> Pool:
    return Pool("shared", ObjectMeta(name="shared"), status or PoolStatus(), {}, RLPool.model_validate(pool_manifest()))


def many(n: int) -> dict[tuple[str, str], Lent]:
    """Rows as long as they get."""
    long = {"queue": "q" * 63, "reason": "r" * 300, "waits": True, "waited_seconds": 1e6}
    return {("n" * 63, f"{i:040}"): a_row(**long, gpus=7, borrowed=5, used=3, since=NOW - i) for i in range(n)}


def test_a_status_fits_into_an_object_however_many_jobs_there_are() -> None:
    status = pool_status(a_pool(), many(3000), Fraction(8), NOW)

    assert len(json.dumps(status.to_dict())) < LARGEST_BYTES
    assert len(status.grants) == MOST_GRANTS
    assert status.jobs == 3000
    assert status.grants[0].job == f"{2999:040}", "who waits longest keeps its row"


def test_a_row_survives_the_way_to_the_cluster_and_back() -> None:
    rows = {
        ("a", "one"): a_row(gpus=7, borrowed=5, used=3, reason="gets 7"),
        ("a", "two"): a_row(waits=True, waited_seconds=60.0, reason="waits"),
    }
    manifest = pool_manifest()
    manifest["status"] = pool_status(a_pool(), rows, Fraction(8), NOW).to_dict()

    assert pool_records.pool(manifest).lent == rows


def test_numbers_alone_are_written_now_and_then_and_grants_at_once() -> None:
    rows = {("a", "one"): a_row(gpus=7, used=3)}
    old = pool_status(a_pool(), rows, Fraction(8), NOW)
    other_use = pool_status(a_pool(old), {("a", "one"): a_row(gpus=7, used=4)}, Fraction(8), NOW + 1)
    other_grant = pool_status(a_pool(old), {("a", "one"): a_row(gpus=6, used=3)}, Fraction(8), NOW + 1)

    assert not worth_writing(old, other_use, 1.0)
    assert worth_writing(old, other_use, NUMBERS_SECONDS)
    assert worth_writing(old, other_grant, 1.0)


def test_many_changes_are_told_in_one_line() -> None:
    changed = {("a", f"j{n}"): (Fraction(0), Fraction(n)) for n in range(10)}

    assert told(changed).startswith("a/j0 0 -> 0, a/j1 0 -> 1")
    assert told(changed).endswith("a/j7 0 -> 7 and 2 more")
