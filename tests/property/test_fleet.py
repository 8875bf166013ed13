"""Sharing a pool, held against an independent statement of what is fair: nobody's share could be better."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import floor, inf, nan

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from steelyard.balance.fleet import Claim, Curve, curve_of, grants_now, share
from steelyard.balance.model import Model
from tests.property.effort import costly
from tests.property.test_balance import models
from tests.unit.balance.loop import demo_job

AGEING = 100.0
QUARTERS = st.integers(0, 40).map(lambda n: n / 4)
ODD = st.sampled_from([nan, inf, -inf, -1.0, 0.0, 1e308, 5e-324, 1e-300])


@st.composite
def curves(draw: st.DrawFn) -> Curve:
    """Up to six stairs of any height, in quarters of a GPU."""
    steps = draw(st.lists(st.tuples(st.integers(1, 16), st.integers(1, 9)), min_size=1, max_size=6))
    gpus, rates = np.cumsum(np.array(steps, dtype=np.float64), axis=0).T
    return Curve(gpus / 4, rates)


@st.composite
def claims(draw: st.DrawFn, *, guarantees: bool = True, most: int = 5) -> list[Claim]:
    return [
        Claim(
            f"job-{index}",
            draw(curves()),
            weight=draw(st.sampled_from([1.0, 1.0, 2.0, 0.5])),
            priority=draw(st.integers(-1, 2)),
            guaranteed=draw(st.one_of(st.just(0.0), QUARTERS)) if guarantees else 0.0,
            limit=draw(st.one_of(st.just(inf), QUARTERS)),
            held=draw(st.sampled_from([0.0, 1.0])),
            waiting_seconds=draw(st.integers(0, 6)) * AGEING / 2,
            since=float(draw(st.integers(0, 3))),
        )
        for index in range(draw(st.integers(1, most)))
    ]


@dataclass(frozen=True)
class Checked:
    """A claim and what it got, in the words of the definition. Amounts are exact: quarters of a GPU."""

    claim: Claim
    gpus: float

    @property
    def rank(self) -> int:
        return self.claim.priority + floor(self.claim.waiting_seconds / AGEING)

    @property
    def order(self) -> tuple[int, bool, float, str]:
        return -self.rank, self.claim.held <= 0, self.claim.since, self.claim.job

    @cached_property
    def stairs(self) -> list[tuple[float, float]]:
        """(GPUs, level) within the limit."""
        rate = self.claim.curve.rate
        levels = rate / rate[-1] / self.claim.weight
        pairs = zip(self.claim.curve.gpus.tolist(), levels.tolist(), strict=True)
        return [(gpus, level) for gpus, level in pairs if gpus <= self.claim.limit]

    @property
    def least(self) -> float:
        return self.stairs[0][0] if self.stairs else inf

    @property
    def own(self) -> float:
        """What its guarantee gives it."""
        return max((gpus for gpus, _ in self.stairs if gpus <= self.claim.guaranteed), default=0.0)

    @property
    def level(self) -> float:
        return dict(self.stairs)[self.gpus]

    @property
    def next_step(self) -> float:
        """GPUs to the next stair; infinite at the last."""
        return min((gpus - self.gpus for gpus, _ in self.stairs if gpus > self.gpus), default=inf)

    def above(self, level: float) -> float:
        """The fewest GPUs with which its level is still above `level`."""
        return min(gpus for gpus, mine in self.stairs if mine > level)


def kept_before(other: Checked, rank: int, order: tuple[int, bool, float, str] | None) -> float:
    """What `other` got before the jobs of priority `rank` shared the rest (before the job at `order` entered)."""
    if other.claim.priority > rank or (other.claim.priority == rank and order is None):
        return other.gpus
    entered = other.rank >= rank if order is None else other.order < order
    return max(other.own, other.least if entered and other.gpus else 0.0)


def check(claims: Sequence[Claim], gpus: float) -> None:
    """Every promise of `share`, one by one, where the guarantees fit the pool."""
    got = share(claims, gpus, ageing_seconds=AGEING)
    every = [Checked(claim, got[claim.job].gpus) for claim in claims]
    left = gpus - sum(one.gpus for one in every)
    assert left >= 0
    assume(sum(one.own for one in every) <= gpus)
    for one in every:
        assert got[one.claim.job].borrowed == max(one.gpus - min(one.claim.guaranteed, one.claim.limit), 0)
        assert one.gpus >= one.own
        assert one.gpus == 0 or one.gpus in dict(one.stairs)
        others = [other for other in every if other is not one]
        if one.gpus == 0:
            spare = left + sum(other.gpus - kept_before(other, one.rank, one.order) for other in others)
            assert one.least > spare, f"{one.claim.job} waits though its smallest allocation fits"
            continue
        equals = [other for other in others if other.claim.priority == one.claim.priority and other.gpus]
        richer = [other for other in equals if other.level > one.level]
        spare = left + sum(other.gpus - max(other.own, other.above(one.level)) for other in richer)
        spare += sum(other.gpus - kept_before(other, one.claim.priority, None) for other in others)
        assert one.next_step > spare, f"{one.claim.job} could climb without lowering anybody who is no better off"


@costly
@given(claims(), QUARTERS)
def test_nobody_could_have_more_without_taking_it_from_who_is_no_better_off(found: list[Claim], gpus: float) -> None:
    check(found, gpus)


@costly
@given(claims(), QUARTERS, st.randoms(use_true_random=False))
def test_the_order_of_claims_does_not_matter(found: list[Claim], gpus: float, chance: st.DataObject) -> None:
    mixed = list(found)
    chance.shuffle(mixed)  # type: ignore[attr-defined]
    assert share(mixed, gpus, ageing_seconds=AGEING) == share(found, gpus, ageing_seconds=AGEING)


@costly
@given(claims(), QUARTERS)
def test_what_was_shared_is_shared_the_same_way_again(found: list[Claim], gpus: float) -> None:
    """A job that got GPUs is not taken for one that waits the next time: nothing moves by itself."""
    once = share(found, gpus, ageing_seconds=AGEING)
    again = [replace(claim, held=once[claim.job].gpus) for claim in found]
    settled = share(again, gpus, ageing_seconds=AGEING)
    assert share([replace(one, held=settled[one.job].gpus) for one in again], gpus, ageing_seconds=AGEING) == settled


@costly
@given(claims(guarantees=False), st.integers(4, 40).map(lambda n: n / 4))
def test_nobody_who_fits_waits_for_ever(found: list[Claim], gpus: float) -> None:
    """Jobs that never end, any priorities: each runs at some time, for as long as it waited."""
    fitting = {one.job for one in found if one.curve.gpus[0] <= min(one.limit, gpus)}
    served: set[str] = set()
    now = [replace(one, waiting_seconds=0.0, held=0.0) for one in found]
    for _ in range(4 * (len(found) + 1) * 5):
        got = share(now, gpus, ageing_seconds=AGEING)
        served |= {job for job, grant in got.items() if grant.gpus > 0}
        now = [
            replace(
                one,
                held=got[one.job].gpus,
                waiting_seconds=max(one.waiting_seconds + (-AGEING / 2 if got[one.job].gpus else AGEING / 2), 0.0),
            )
            for one in now
        ]
    assert served == fitting


@costly
@given(
    st.lists(
        st.builds(
            Claim,
            st.sampled_from("abc"),
            st.builds(lambda pairs: Curve(*np.array(pairs).reshape(-1, 2).T), st.lists(st.tuples(ODD, ODD), max_size=4))
            | curves(),
            weight=ODD,
            priority=st.integers(-3, 3),
            guaranteed=ODD,
            limit=ODD,
            held=ODD,
            waiting_seconds=ODD,
            since=ODD,
        ),
        max_size=4,
        unique_by=lambda one: one.job,
    ),
    ODD | QUARTERS,
    ODD | st.just(AGEING),
)
def test_numbers_that_make_no_sense_get_an_answer(found: list[Claim], gpus: float, ageing: float) -> None:
    got = share(found, gpus, ageing_seconds=ageing)
    assert got.keys() == {one.job for one in found}
    assert all(0 <= grant.borrowed <= grant.gpus < inf and grant.reason for grant in got.values())
    assert gpus == inf or sum(grant.gpus for grant in got.values()) <= max(gpus if gpus == gpus else 0, 0) + 1e-6


@costly
@given(
    st.dictionaries(st.sampled_from("abcd"), QUARTERS),
    st.dictionaries(st.sampled_from("abcde"), QUARTERS),
    QUARTERS,
    st.randoms(use_true_random=False),
)
def test_gpus_change_hands_within_the_pool_until_every_target_is_reached(
    targets: dict[str, float], held: dict[str, float], gpus: float, chance: st.DataObject
) -> None:
    assume(sum(targets.values()) <= gpus)
    held = {**dict.fromkeys(targets, 0.0), **held}
    for _ in range(200):
        before = sum(held.values())
        grants = grants_now(targets, held, gpus)
        both = {job: max(grants.get(job, 0.0), amount) for job, amount in held.items()}
        total = sum({**grants, **both}.values())
        assert total <= max(gpus, before)
        if grants == targets and held == {**dict.fromkeys(held, 0.0), **targets}:
            return
        for job, mine in held.items():  # pods drain and start one quarter at a time, in any order
            may = grants.get(job, 0.0)
            if mine != may and chance.random() < 0.7:  # type: ignore[attr-defined]
                held[job] = mine + (0.25 if may > mine else -0.25)
    pytest.fail("the targets were never reached")


@costly
@given(st.none() | models())
def test_every_model_gives_a_curve_within_the_budget(model: Model | None) -> None:
    spec = demo_job().spec
    curve = curve_of(model, spec)
    assert len(curve.gpus) == len(curve.rate) >= 1
    assert (np.diff(curve.gpus) > 0).all()
    assert (np.diff(curve.rate) > 0).all()
    assert curve.gpus[0] == (3 if model else 2)  # half a GPU will do for sampler and judge, once its speed is known
    assert curve.gpus[-1] <= spec.budget.gpus
