"""Pure: one round of a pool. Who may hold how many GPUs from now on, and why nobody has more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from steelyard.api import RLPoolSpec
from steelyard.balance.fleet import Claim, Grant, grants_now, share
from steelyard.balance.types import Instant
from steelyard.cluster.pool_records import Lent
from steelyard.cluster.quota import gpus
from steelyard.cluster.records import JobKey
from steelyard.pools.members import NOTHING, Member
from steelyard.pools.queues import claims, waited_seconds

NAMED = 3
"""Holders to name to those who wait."""


def lend(spec: RLPoolSpec, found: Sequence[Member], now: Instant) -> dict[JobKey, Lent]:
    """The new row of every member.

    What a job loses it loses at once. What another gains it gains only out of what nobody has been granted, has signed
    for or holds at this moment: what is taken away here becomes free in a later round, when it was given back.
    """
    asked = {claim.job: claim for claim in claims(spec, found, now)}
    staying = sum((one.reserved for one in found if one.stays), NOTHING)
    targets = share([*asked.values()], float(spec.gpus - staying), ageing_seconds=float(spec.ageing_seconds))
    reserved = {one.name: float(one.reserved) for one in found}
    given = grants_now({job: target.gpus for job, target in targets.items()}, reserved, float(spec.gpus))
    holders = _holders(spec, found)
    rows = {}
    for one in found:
        amount = _amount(one, given.get(one.name, 0.0))
        claim = asked.get(one.name)
        why = _why(one, claim, targets[one.name], amount, holders) if claim else one.why_not
        rows[one.key] = _row(one, amount, claim, why, now)
    return rows


def changes(before: Mapping[JobKey, Lent], after: Mapping[JobKey, Lent]) -> dict[JobKey, tuple[Fraction, Fraction]]:
    """Whose GPUs change: from how many to how many."""
    both = {key: (_gpus_of(before, key), _gpus_of(after, key)) for key in sorted({*before, *after})}
    return {key: pair for key, pair in both.items() if pair[0] != pair[1]}


def _gpus_of(rows: Mapping[JobKey, Lent], key: JobKey) -> Fraction:
    return rows[key].gpus if key in rows else NOTHING


def _amount(one: Member, given: float) -> Fraction:
    """Less than its smallest allocation is of no use to a job that has none."""
    if one.stays:
        return one.granted
    amount = exact(given)
    return amount if amount >= one.least else min(amount, one.granted)


def _row(one: Member, amount: Fraction, claim: Claim | None, why: str, now: Instant) -> Lent:
    borrowed = max(amount - exact(claim.guaranteed), NOTHING) if claim else NOTHING
    waits = claim is not None and amount < one.least
    if one.row is not None and one.row.waits == waits:
        since, waited = one.row.since, one.row.waited_seconds
    else:
        since, waited = now, waited_seconds(one, now)
    return Lent(one.queue, amount, borrowed, one.used, since, waits, waited, why)


def _why(one: Member, claim: Claim, target: Grant, amount: Fraction, holders: str) -> str:
    if amount >= one.least:
        later = f"; {target.gpus:g} as others give back" if exact(target.gpus) > amount else ""
        return f"{target.reason}{later}"
    if target.gpus >= one.least:
        return f"waits: {target.gpus:g} are its own as soon as others give them back; {holders}"
    if claim.limit < one.least:
        return f"waits: jobs before it take what queue {one.queue} may have; {holders}"
    return f"{target.reason}; {holders}"


def _holders(spec: RLPoolSpec, found: Sequence[Member]) -> str:
    """Who has most of the pool."""
    most = sorted((one for one in found if one.reserved > 0), key=lambda one: (-one.reserved, one.key))
    if not most:
        return f"nobody has any of {gpus(spec.gpus)}"
    named = ", ".join(f"{one.name} {'has ' * (one is most[0])}{float(one.reserved):g}" for one in most[:NAMED])
    more = f" and {len(most) - NAMED} other jobs the rest" if len(most) > NAMED else ""
    return f"of {gpus(spec.gpus)} {named}{more}"


def exact(amount: float) -> Fraction:
    """A number of GPUs of the mathematics as the API has it, in thousandths."""
    return Fraction(round(amount * 1000), 1000)
