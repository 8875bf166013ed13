"""Pure: what a round found -> what the pool's status says, and when that is worth a write and an event."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

from steelyard.api import PoolGrant, PoolStatus
from steelyard.api.pool import MOST_GRANTS
from steelyard.balance.types import Fact, Instant
from steelyard.cluster.pool_records import Lent, Pool
from steelyard.cluster.quota import gpus
from steelyard.cluster.records import JobKey
from steelyard.status.conditions import stamped
from steelyard.status.figures import exact, moment

NUMBERS_SECONDS = 15.0
"""Numbers alone are written so often: with a thousand jobs a status is as large as a small picture."""
NAMED = 8
LONGEST_REASON = 256


def pool_status(pool: Pool, rows: Mapping[JobKey, Lent], reserved: Fraction, now: Instant) -> PoolStatus:
    """The whole status of a pool whose spec is valid. `reserved` is all that is granted, signed for or held."""
    assert pool.resource is not None
    size, used = pool.resource.spec.gpus, sum((row.used for row in rows.values()), Fraction(0))
    waiting = sum(row.waits for row in rows.values())
    held = f"{float(used):g} of {gpus(size)} are used by {len(rows)} job{'' if len(rows) == 1 else 's'}"
    if reserved > size:
        ready = Fact(False, "Overdrawn", f"{float(reserved):g} GPUs are taken of {float(size):g}; pods are drained")
    else:
        ready = Fact(True, "Sharing", f"{held}, {waiting} of them wait" if waiting else held)
    generation = pool.metadata.generation
    return PoolStatus(
        observed_generation=generation,
        conditions=(
            stamped(pool.status, "Ready", ready, now, generation),
            stamped(pool.status, "Stalled", Fact(False, "NotStalled", "nothing waits for a person"), now, generation),
        ),
        used=exact(used),
        jobs=len(rows),
        waiting=waiting,
        grants=_grants(rows),
    )


def status_of_broken(pool: Pool, now: Instant) -> PoolStatus:
    """A pool whose spec breaks a rule: says so, and leaves to everybody what they have."""
    generation = pool.metadata.generation
    fact = Fact(False, "InvalidSpec", f"{pool.broken}. Every job keeps what it has and gets no more")
    told = (
        stamped(pool.status, "Ready", fact, now, generation),
        stamped(pool.status, "Stalled", replace(fact, status=True), now, generation),
    )
    return pool.status.model_copy(update={"observed_generation": generation, "conditions": told})


def worth_writing(old: PoolStatus, new: PoolStatus, since_last_numbers: float) -> bool:
    """Whether to write `new`: grants or words changed, or numbers did and the last time is a while ago."""
    return old != new and (_words(old) != _words(new) or since_last_numbers >= NUMBERS_SECONDS)


def told(changed: Mapping[JobKey, tuple[Fraction, Fraction]]) -> str:
    """The changes of a round in one line."""
    named = ", ".join(
        f"{'/'.join(key)} {float(before):g} -> {float(after):g}" for key, (before, after) in [*changed.items()][:NAMED]
    )
    return f"{named} and {len(changed) - NAMED} more" if len(changed) > NAMED else named


def figures(size: float, rows: Mapping[JobKey, Lent], now: Instant) -> dict[str, float]:
    """A pool in numbers, for its metrics."""
    waiting = [now - row.since for row in rows.values() if row.waits]
    return {
        "gpus": size,
        "granted": float(sum(row.gpus for row in rows.values())),
        "borrowed": float(sum(row.borrowed for row in rows.values())),
        "used": float(sum(row.used for row in rows.values())),
        "jobs": len(rows),
        "waiting": len(waiting),
        "longest": max(waiting, default=0.0),
    }


def _grants(rows: Mapping[JobKey, Lent]) -> tuple[PoolGrant, ...]:
    """Those that have GPUs first, then those that wait, the longest first; what does not fit waits without a row."""
    order = sorted(rows.items(), key=lambda entry: (entry[1].waits, entry[1].since, entry[0]))
    return tuple(_grant(key, row) for key, row in order[:MOST_GRANTS])


def _grant(key: JobKey, row: Lent) -> PoolGrant:
    return PoolGrant(
        namespace=key[0],
        job=key[1],
        queue=row.queue,
        gpus=exact(row.gpus),
        borrowed=exact(row.borrowed) if row.borrowed else None,
        used=exact(row.used),
        since=None if row.waits else moment(row.since),
        waiting_since=moment(row.since) if row.waits else None,
        waited_seconds=int(row.waited_seconds) or None,
        reason=row.reason[:LONGEST_REASON],
    )


def _words(of: PoolStatus) -> tuple[object, ...]:
    grants = {(row.namespace, row.job): (row.queue, row.gpus, row.borrowed, row.waiting_since) for row in of.grants}
    return grants, [(one.type, one.status, one.reason) for one in of.conditions], of.observed_generation
