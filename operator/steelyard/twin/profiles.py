"""What is simulated: workloads with their hardware, as a few published figures. Every profile is synthetic.

Sources, and which figures are published and which chosen: docs/decisions/0012-the-twin.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, exp, inf
from types import MappingProxyType
from typing import Literal, Self

from steelyard.api import Stage
from steelyard.twin.traces import Session

Shape = Literal["steady", "up", "jump", "up-down"]

MOST_GPUS = 1000
"""A stage has at most so many replicas, and they may be of one GPU each."""
MOST_SIZES = 8
"""GPU profiles that a stage may have."""
TRAINER_SHARE = 2 / 3
"""Of the budget, at most, for the trainer."""
JUMP_AT = 0.35
"""The profile `jump` changes after this share of its steps."""


class UnknownProfile(ValueError):
    """There is no profile of that name; the message lists those there are."""


class TooFewGpus(ValueError):
    """The budget does not hold one replica of each stage; the message says how many it takes."""


@dataclass(frozen=True, slots=True)
class Spread:
    """A lognormal quantity between 0 and `cap`: its median, and the standard deviation of its logarithm."""

    median: float
    sigma: float = 0.0
    cap: float = inf


@dataclass(frozen=True, slots=True)
class Sampler:
    """One sampler replica: continuous batching, seconds between two tokens of a sequence tau(b) = alpha + beta·b."""

    gpus: int = 2
    alpha: float = 0.0125
    beta: float = 0.00102
    max_num_seqs: int = 48
    kv_tokens: int = 131_072
    """Live tokens that its KV cache holds."""


@dataclass(frozen=True, slots=True)
class RewardServer:
    """One reward replica: `slots` trajectories at a time."""

    gpus: int = 1
    slots: int = 4
    seconds: Spread = Spread(7.0, 0.4)
    """Slot seconds for a trajectory of the profile's first mean length."""
    exponent: float = 0.3
    """They grow with the trajectory's length to this power."""


@dataclass(frozen=True, slots=True)
class Trainer:
    """The trainer: one replica, whose GPUs the balance chooses among `sizes` (GPU profiles)."""

    sizes: tuple[int, ...] = (4, 8, 12, 16, 20, 24, 28, 32)
    block: int = 4
    """GPUs that train at speed 1; n of them reach (n/block)^`scaling` · block."""
    scaling: float = 0.92
    gpu_seconds: float = 11.5
    """GPU seconds for a trajectory of the profile's first mean length, at speed 1."""
    exponent: float = 0.39
    """They grow with the trajectory's length to this power."""
    step_seconds: float = 2.0
    """Fixed part of a step: optimizer, publishing."""

    def speed(self, gpus: int) -> float:
        """GPUs at speed 1 that `gpus` are worth."""
        return float(self.block * (gpus / self.block) ** self.scaling)

    def in_blocks_of(self, gpus: int) -> Self:
        """The same trainer counted in other blocks: any number of GPUs takes as long as before."""
        return replace(self, block=gpus, gpu_seconds=self.gpu_seconds * (gpus / self.block) ** (1 - self.scaling))


@dataclass(frozen=True, slots=True)
class Tools:
    """Latency of a tool call: a mixture of (share, spread); the shares add up to 1, none means no tools."""

    parts: tuple[tuple[float, Spread], ...] = ((1.0, Spread(2.0, 0.8)),)


@dataclass(frozen=True, slots=True)
class Cluster:
    """What Kubernetes, Prometheus and the hardware add."""

    start_seconds: tuple[tuple[Stage, float], ...] = (
        (Stage.SAMPLER, 15.0),
        (Stage.ENVIRONMENT, 5.0),
        (Stage.REWARD_SERVER, 10.0),
        (Stage.TRAINER, 12.0),
    )
    """From the creation of a pod until it is ready."""
    start_sigma: float = 0.15
    drain_seconds: tuple[tuple[Stage, float], ...] = (
        (Stage.SAMPLER, 60.0),
        (Stage.ENVIRONMENT, 60.0),
        (Stage.REWARD_SERVER, 60.0),
        (Stage.TRAINER, 600.0),
    )
    """A terminating pod finishes its work for so long, then hands it back."""
    sync_seconds: float = 3.0
    """A sampler generates nothing for so long at each policy version."""
    checkpoint_seconds: float = 3.0
    """A trainer that is told to go saves its state for so long, after the step it is in."""
    hours_between_failures: float = inf
    """Of one replica. Its container starts anew, its counters at zero, its work is redelivered."""
    scrape_seconds: float = 15.0
    scrape_jitter_seconds: float = 0.2
    dropped_scrapes: float = 0.01
    """Share of the scrapes of a pod that get no answer."""


@dataclass(frozen=True)
class Profile:
    """One job to simulate. Lengths are tokens, times seconds."""

    name: str
    source: str
    """Where its figures come from."""
    gpus: int
    steps: int = 150
    prompts_per_step: int = 16
    group_size: int = 8
    max_staleness: int = 8
    requeue_stale: bool = False
    """Whether a trajectory that is too old at hand-over is made anew, as our trainer does, or trained and counted."""
    environments: int = 18
    concurrency: int = 64
    """Episodes that one environment replica runs at once."""
    turns: Spread = Spread(4)
    turn_tokens: float = 625.0
    """Mean of the tokens generated in a turn, at the first policy version."""
    turn_sigma: float = 0.0
    trajectory_sigma: float = 0.9
    """Logarithmic spread of a factor that all turns of a trajectory share."""
    growth: float = 1.0
    """Lengths are multiplied by up to so much, along `shape`, as the policy learns."""
    shape: Shape = "steady"
    prompt_tokens: int = 500
    tool_tokens: int = 100
    """Tokens that each tool result adds to the context."""
    context_tokens: int = 65_536
    """A trajectory that reaches it ends there."""
    failed_share: float = 0.01
    """Episodes that fail; the group trains without them."""
    episode_start: Spread = Spread(0.0)
    """Seconds until an episode's environment is there: its sandbox, its repository."""
    tools: Tools = Tools()
    sampler: Sampler = Sampler()
    reward: RewardServer = RewardServer()
    trainer: Trainer = Trainer()
    cluster: Cluster = Cluster()
    sessions: tuple[Session, ...] = ()
    """Recorded sessions to draw trajectories from, instead of the spreads above."""

    @property
    def mean_tokens(self) -> float:
        """Tokens that a trajectory of the first policy generates, on average."""
        if self.sessions:
            return sum(turn.output_tokens for session in self.sessions for turn in session.turns) / len(self.sessions)
        return self.turns.median * exp(self.turns.sigma**2 / 2) * self.turn_tokens

    @property
    def batch(self) -> int:
        """Trajectories of one training step."""
        return self.prompts_per_step * self.group_size

    @property
    def most_open(self) -> int:
        """Trajectories between admission and training, at most."""
        return (self.max_staleness + 1) * self.batch

    def factor(self, step: int) -> float:
        """By how much the policy of `step` writes longer than the first: drift belongs to the version, not to time."""
        share = min(max(step / max(self.steps - 1, 1), 0.0), 1.0)
        along = {
            "steady": 0.0,
            "up": share,
            "jump": float(share > JUMP_AT),
            "up-down": 1 - abs(2 * share - 1),
        }[self.shape]
        return float(self.growth**along)


LIBRA = "Libra (mean length 2.5K to 11.5K tokens, rollout x95 and training x3.9 from 1K to 32K); synthetic"
OURS = "quantiles of tau-bench, TraceLab and public coding-agent traces; synthetic"
GROWTH = 4.7
"""2.5K to 11.5K is 4.6; the context limit takes the rest."""

_DRIFT = Profile(name="drift", source=LIBRA, gpus=48, growth=GROWTH, shape="up")
_LINEAR = replace(_DRIFT.trainer, exponent=1.0)
_AGENT = Profile(name="", source=OURS, gpus=48, steps=60, trajectory_sigma=0.4, environments=18)

_PROFILES = (
    _DRIFT,
    replace(_DRIFT, name="jump", shape="jump"),
    replace(_DRIFT, name="up-down", shape="up-down"),
    replace(_DRIFT, name="drift-linear", trainer=_LINEAR),
    replace(_DRIFT, name="steady", shape="steady", growth=1.0),
    replace(
        _AGENT,
        name="swe",
        turns=Spread(36, 0.54, 120),
        turn_tokens=247.0,
        turn_sigma=1.0,
        prompt_tokens=2000,
        tool_tokens=400,
        episode_start=Spread(17.0, 0.75, 60.0),
        tools=Tools(
            (
                (0.61, Spread(0.25, 0.7, 1.0)),
                (0.27, Spread(3.0, 0.5, 10.0)),
                (0.08, Spread(24.0, 0.4, 60.0)),
                (0.04, Spread(180.0, 0.7, 600.0)),
            )
        ),
    ),
    replace(
        _AGENT,
        name="tau",
        turns=Spread(11, 0.5, 30),
        turn_tokens=66.0,
        turn_sigma=0.6,
        prompt_tokens=1550,
        tool_tokens=110,
        episode_start=Spread(0.5),
        tools=Tools(((1.0, Spread(3.3, 0.55)),)),
    ),
    replace(
        _AGENT,
        name="search",
        turns=Spread(3, 0.3, 5),
        turn_tokens=192.0,
        turn_sigma=0.7,
        tool_tokens=600,
        tools=Tools(((0.98, Spread(0.4, 0.8, 10.0)), (0.02, Spread(15.0, 0.4)))),
    ),
    replace(
        _AGENT,
        name="calc",
        turns=Spread(1.4, 0.3, 2),
        turn_tokens=96.0,
        turn_sigma=0.6,
        prompt_tokens=100,
        tool_tokens=10,
        tools=Tools(((1.0, Spread(0.005, 0.5)),)),
    ),
    replace(
        _AGENT,
        name="reasoning",
        turns=Spread(1),
        turn_tokens=816.0,
        trajectory_sigma=0.99,
        prompt_tokens=200,
        tools=Tools(()),
    ),
)
PROFILES = MappingProxyType({profile.name: profile for profile in _PROFILES})


def profile(name: str, gpus: int = 48) -> Profile:
    """The profile of that name for a budget of `gpus`. Raises UnknownProfile, TooFewGpus."""
    found = PROFILES.get(name)
    if found is None:
        raise UnknownProfile(f"there is no profile {name!r}; known are {', '.join(PROFILES)}")
    return sized(found, gpus)


def sized(one: Profile, gpus: int) -> Profile:
    """`one` with another budget, and a trainer that may take up to about two thirds of it. Raises TooFewGpus."""
    least = one.sampler.gpus + one.reward.gpus + one.trainer.block
    if gpus < least:
        raise TooFewGpus(f"gpus: {gpus}; a sampler, a reward server and the smallest trainer take {least}")
    block = one.trainer.block * max(ceil(gpus * TRAINER_SHARE / one.trainer.block / MOST_SIZES), 1)
    most = gpus - least + one.trainer.block
    sizes = tuple(size for size in range(block, block * MOST_SIZES + 1, block) if size <= most)
    return replace(one, gpus=gpus, trainer=replace(one.trainer.in_blocks_of(block), sizes=sizes))
