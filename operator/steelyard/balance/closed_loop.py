"""The closed loop of episodes and batching samplers: how fast samplers decode, and what throughput that leaves.

The same formula serves one allocation (numbers) and many at once (arrays).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from steelyard.balance.stairs import Floats, Numbers, lesser


@dataclass(frozen=True, slots=True)
class TokenLatency:
    """Seconds between two tokens of one sequence while b run on the replica: tau(b) = alpha + beta·b."""

    alpha: float
    beta: float
    most: float
    """Sequences the replica can run at once: its slots, or what its KV cache holds."""
    error: float = 0.0
    """Relative standard error of the rate: of tau at twice the highest load seen (no move more than doubles a load),
    and of `most` as far as the rate depends on it."""

    def at(self, running: float) -> float:
        return self.alpha + self.beta * running

    @property
    def capacity(self) -> float:
        """Tokens per second of one full replica."""
        return self.most / self.at(self.most)


class Decoding(Protocol):
    """What the closed loop asks about samplers: one `TokenLatency`, or many at once."""

    @property
    def alpha(self) -> Numbers: ...
    @property
    def beta(self) -> Numbers: ...
    @property
    def capacity(self) -> Numbers: ...


@dataclass(frozen=True, slots=True, eq=False)
class TokenLatencies:
    """Many token latencies as arrays: of several profiles, or of the draws of one."""

    alpha: Floats
    beta: Floats
    capacity: Floats


def closed_loop(open_: float, replicas: Numbers, tokens: float, outside: Numbers, latency: Decoding) -> Numbers:
    """Episodes per second when `open_` circulate between `outside` seconds elsewhere and `replicas` samplers.

    Solves N = n·b·(1 + Z/(L·tau(b))) for X = n·b/(L·tau(b)): with tau linear X is the smaller root of a quadratic
    whose other coefficients are positive, so no branch and no cancellation. b is at most what a replica can run.
    """
    if isinstance(replicas, float) and replicas <= 0:
        return replicas
    waiting = open_ / replicas * (tokens * latency.beta)  # were all open episodes in the samplers
    alone = tokens * latency.alpha
    root = ((waiting - outside) * (waiting - outside) + alone * (2 * (waiting + outside) + alone)) ** 0.5
    episodes = 2 * open_ / (waiting + outside + alone + root)
    return lesser(episodes, replicas * (latency.capacity / tokens))
