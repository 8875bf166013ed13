"""The trajectories that a profile's policy writes: drawn once for each place in the order of admission.

The same seed gives the same trajectories whatever the allocation, so that policies are compared on the same work; only
how long the policy of the day writes (`Profile.factor`) depends on when a trajectory starts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steelyard.twin.profiles import Profile, Spread, Tools
from steelyard.twin.traces import Session

Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Draw:
    """One trajectory at factor 1."""

    tokens: list[float]
    """Generated in each turn."""
    inputs: list[float]
    """Added to the context before each turn."""
    tools: list[float]
    """Seconds of the tool after each turn but the last."""
    judging: float
    """Slot seconds of the judge, before the length counts."""
    fails: bool
    start: float
    """Seconds until its environment is there."""


class Workload:
    """Trajectories of one profile by (index, attempt), a batch at a time."""

    def __init__(self, profile: Profile, seed: int) -> None:
        self._profile, self._seed = profile, seed
        self._block: list[Draw] = []
        self._first = 0

    def draw(self, index: int) -> Draw:
        """The trajectory at this place; asked for in rising order."""
        position = index - self._first
        if not 0 <= position < len(self._block):
            size = self._profile.batch
            block = index // size
            self._first, position = block * size, index % size
            self._block = _draws(self._profile, np.random.default_rng([self._seed, 0, block]), size)
        return self._block[position]

    def again(self, index: int, attempt: int) -> Draw:
        """Another attempt of the same task is another trajectory."""
        return _draws(self._profile, np.random.default_rng([self._seed, 1, index, attempt]), 1)[0]


def _draws(profile: Profile, chance: np.random.Generator, size: int) -> list[Draw]:
    if profile.sessions:
        lengths = [profile.sessions[index] for index in chance.integers(0, len(profile.sessions), size).tolist()]
        turns = [len(session.turns) for session in lengths]
        tokens = [[float(turn.output_tokens) for turn in session.turns] for session in lengths]
        inputs = [[float(turn.input_tokens) for turn in session.turns] for session in lengths]
    else:
        turns = np.maximum(np.rint(_spread(profile.turns, chance, (size,))), 1).astype(int).tolist()
        tokens = _tokens(profile, chance, turns)
        inputs = [[profile.prompt_tokens, *[float(profile.tool_tokens)] * (n - 1)] for n in turns]
    waits = iter(_waits(profile.tools, chance, sum(turns)).tolist())
    tools = [[next(waits) for _ in range(n)] for n in turns]
    if profile.sessions:
        tools = [_recorded(session, drawn) for session, drawn in zip(lengths, tools, strict=True)]
    judging = _spread(profile.reward.seconds, chance, (size,)).tolist()
    failing = (chance.random(size) < profile.failed_share).tolist()
    starts = _spread(profile.episode_start, chance, (size,)).tolist()
    return [Draw(*columns) for columns in zip(tokens, inputs, tools, judging, failing, starts, strict=True)]


def _tokens(profile: Profile, chance: np.random.Generator, turns: list[int]) -> list[list[float]]:
    """Tokens of every turn: the mean, times a factor of the trajectory, times one of the turn, each of mean 1."""
    trajectories = profile.turn_tokens * _factors(profile.trajectory_sigma, chance, len(turns))
    each = iter(_factors(profile.turn_sigma, chance, sum(turns)).tolist())
    return [[mean * next(each) for _ in range(n)] for n, mean in zip(turns, trajectories.tolist(), strict=True)]


def _factors(sigma: float, chance: np.random.Generator, size: int) -> Numbers:
    return chance.lognormal(-(sigma**2) / 2, sigma, size) if sigma else np.ones(size)


def _spread(spread: Spread, chance: np.random.Generator, shape: tuple[int, ...]) -> Numbers:
    drawn: Numbers = np.minimum(spread.median * np.exp(spread.sigma * chance.standard_normal(shape)), spread.cap)
    return drawn


def _waits(tools: Tools, chance: np.random.Generator, size: int) -> Numbers:
    if not tools.parts:
        return np.zeros(size)
    shares = np.array([share for share, _ in tools.parts])
    chosen = chance.choice(len(shares), size, p=shares / shares.sum())
    drawn = np.stack([_spread(spread, chance, (size,)) for _, spread in tools.parts])
    waits: Numbers = np.take_along_axis(drawn, chosen[np.newaxis], axis=0)[0]
    return waits


def _recorded(session: Session, drawn: list[float]) -> list[float]:
    """The recorded wait of every tool, the drawn one where the trace does not tell."""
    return [
        other if turn.tool_seconds is None else turn.tool_seconds
        for turn, other in zip(session.turns, drawn, strict=True)
    ]
