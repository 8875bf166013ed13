"""Pure: what each job may claim of its pool, from the guarantee and the limit of its queue.

The mathematics shares between jobs; people give guarantees and limits to queues. So both are divided among a queue's
jobs: whole smallest allocations first, in the order in which jobs are served, then evenly. Never more together than
the queue has; a guarantee too small for one more job is added to those that run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from steelyard.api import Queue, RLPoolSpec
from steelyard.balance.fleet import Claim
from steelyard.balance.types import Instant
from steelyard.pools.members import Member


@dataclass(frozen=True, slots=True)
class Asked:
    """One job's part of its queue: how much it could use, how little it can run on."""

    least: float
    most: float


def claims(spec: RLPoolSpec, found: Sequence[Member], now: Instant) -> list[Claim]:
    """The claim of every job that asks, in the order in which its queue serves it."""
    return [claim for queue in spec.queues for claim in _claims(spec, queue, found, now)]


def waited_seconds(one: Member, now: Instant) -> float:
    """How long a job has waited for its smallest allocation, less how long it has had it since."""
    if one.row is None:
        return 0.0
    elapsed = max(now - one.row.since, 0.0)
    return max(one.row.waited_seconds + (elapsed if one.row.waits else -elapsed), 0.0)


def divided(amount: float, asked: Sequence[Asked]) -> list[float]:
    """Parts of `amount` for each, in order: who cannot have its least gets nothing; the rest is shared evenly."""
    parts, left = [0.0] * len(asked), amount
    for index, one in enumerate(asked):
        if one.least <= left:
            parts[index], left = one.least, left - one.least
    open_ = {index for index, one in enumerate(asked) if parts[index] >= one.least and one.most > parts[index]}
    while open_ and left > 0:
        level = left / len(open_)
        step = min([level, *(asked[index].most - parts[index] for index in open_)])
        for index in open_:
            parts[index] += step
        left -= step * len(open_)
        open_ = {index for index in open_ if asked[index].most - parts[index] > 1e-9} if step < level else set()
    return parts


def _claims(spec: RLPoolSpec, queue: Queue, found: Sequence[Member], now: Instant) -> list[Claim]:
    ageing = float(spec.ageing_seconds)
    waited = {one.key: waited_seconds(one, now) for one in found if one.queue == queue.name and one.curve}
    mine = sorted(
        (one for one in found if one.key in waited),
        key=lambda one: (-(waited[one.key] // ageing), one.granted <= 0, one.created, one.key),
    )
    asked = [Asked(float(one.curve.gpus[0]), float(one.curve.gpus[-1])) for one in mine if one.curve]
    guarantees = divided(float(queue.guaranteed_gpus), asked)
    limits = [inf] * len(mine) if queue.limit is None else divided(float(queue.limit), asked)
    return [
        Claim(
            one.name,
            one.curve,
            weight=queue.weight / len(mine),
            priority=queue.priority,
            guaranteed=guarantee,
            limit=limit,
            held=float(one.granted),  # pods that drain are no reason to serve a job before others
            waiting_seconds=waited[one.key],
            since=one.created,
        )
        for one, guarantee, limit in zip(mine, guarantees, limits, strict=True)
        if one.curve
    ]
