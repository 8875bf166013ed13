"""Every policy on the same profile with the same seed; docs/decisions/0013 defines each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from types import MappingProxyType

from steelyard.balance.types import Decision, Instant
from steelyard.twin.policies.autoscaled import Autoscaled, tuned, untuned
from steelyard.twin.policies.colocated import colocated
from steelyard.twin.policies.libra import PUBLISHED_GROWTH, SHIPPED_GROWTH, Libra
from steelyard.twin.policies.oracle import THRESHOLDS, Oracle
from steelyard.twin.policies.static import hindsight, initial, uniform
from steelyard.twin.profiles import Profile
from steelyard.twin.run import Policy, Run, Static, Steelyard, run


@dataclass(frozen=True)
class Played:
    """What one policy made of the profile."""

    policy: str
    run: Run
    decisions: Sequence[tuple[Instant, Decision]] = ()
    """Steelyard's, each with its reason; the baselines give none."""


class UnknownPolicy(ValueError):
    """There is no policy of that name; the message lists those there are."""


def play(profile: Profile, policy: str, seed: int) -> Played:
    """One policy from the first step to the last. Raises UnknownPolicy."""
    known = POLICIES.get(policy)
    if known is None:
        raise UnknownPolicy(f"there is no policy {policy!r}; known are {', '.join(POLICIES)}")
    return known(profile, policy, seed)


def compare(profile: Profile, seed: int) -> tuple[Played, ...]:
    """All policies, in the order of POLICIES."""
    return tuple(play(profile, policy, seed) for policy in POLICIES)


def _steelyard(profile: Profile, name: str, seed: int) -> Played:
    policy = Steelyard(profile)
    done = run(profile, policy, seed, initial(profile, seed).allocation(profile))
    return Played(name, done, tuple(policy.decisions))


def _uniform(profile: Profile, name: str, seed: int) -> Played:
    return Played(name, run(profile, Static(), seed, uniform(profile).allocation(profile)))


def _static_initial(profile: Profile, name: str, seed: int) -> Played:
    return Played(name, run(profile, Static(), seed, initial(profile, seed).allocation(profile)))


def _static_hindsight(profile: Profile, name: str, seed: int) -> Played:
    return Played(name, run(profile, Static(), seed, hindsight(profile, seed).allocation(profile)))


def _colocated(profile: Profile, name: str, seed: int) -> Played:
    return Played(name, colocated(profile, seed))


def _autoscaled(profile: Profile, name: str, seed: int) -> Played:
    start = initial(profile, seed)
    attempts = untuned(profile)[name], tuned(profile, seed, start)[name]
    return _best(profile, name, seed, [Autoscaled(profile, start, targets) for targets in attempts])


def _libra(profile: Profile, name: str, seed: int) -> Played:
    start = initial(profile, seed)
    variants = product((SHIPPED_GROWTH, PUBLISHED_GROWTH), (False, True))
    return _best(profile, name, seed, [Libra(profile, start, growth, hybrid) for growth, hybrid in variants])


def _oracle(profile: Profile, name: str, seed: int) -> Played:
    start = initial(profile, seed)
    return _best(profile, name, seed, [Oracle(profile, start, least_gain) for least_gain in THRESHOLDS])


def _best(profile: Profile, name: str, seed: int, variants: Sequence[Policy]) -> Played:
    """The variant that turns out fastest, each from the split of `static-initial`."""
    start = initial(profile, seed).allocation(profile)
    runs = [run(profile, variant, seed, start) for variant in variants]
    return Played(name, max(runs, key=lambda one: one.throughput))


POLICIES: Mapping[str, Callable[[Profile, str, int], Played]] = MappingProxyType(
    {
        "steelyard": _steelyard,
        "uniform": _uniform,
        "static-initial": _static_initial,
        "static-hindsight": _static_hindsight,
        "colocated-sync": _colocated,
        "hpa-occupancy": _autoscaled,
        "hpa-duty": _autoscaled,
        "keda": _autoscaled,
        "libra": _libra,
        "oracle": _oracle,
    }
)
