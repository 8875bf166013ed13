"""What travels on the bus: tasks, trajectories, experience and the names they travel under.

Every stage parses a payload once, here; a payload that does not parse is `Malformed` and belongs in the dead letters.
"""

import math
import re
from enum import StrEnum
from typing import Annotated, Any, Literal, NamedTuple, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, ValidationError, model_validator

M = TypeVar("M", bound="Frozen")
Outcome = Literal["ok", "failed", "timeout"]
SegmentKind = Literal["prompt", "policy", "tool"]


class Malformed(ValueError):
    """A payload or subject that is not what the contract says; the message names field and rule."""


class PolicyVersion(NamedTuple):
    """A version of the weights, ordered by epoch first: after a resume the step falls while the epoch rises."""

    epoch: int
    step: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read "epoch.step"."""
        if not re.fullmatch(r"\d+\.\d+", text):
            raise ValueError(f"policy version {text!r}: want epoch.step")
        epoch, step = text.split(".")
        return cls(int(epoch), int(step))

    def __str__(self) -> str:
        return f"{self.epoch}.{self.step}"


Version = Annotated[
    PolicyVersion,
    BeforeValidator(lambda value: PolicyVersion.parse(value) if isinstance(value, str) else value),
    PlainSerializer(str, return_type=str),
]


class Frozen(BaseModel):
    """Immutable; unknown fields are ignored, so that two releases can share a bus during a rollout."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class TrajectoryId(Frozen):
    """Which trajectory: member `k` of a group, and the number of its try, which rises only on a deliberate requeue."""

    group: int = Field(ge=0)
    k: int = Field(ge=0)
    attempt: int = Field(ge=0)

    def __str__(self) -> str:
        return f"{self.group}/{self.k}/{self.attempt}"

    @property
    def member(self) -> tuple[int, int]:
        """What the ledger counts: group and k, whatever the attempt."""
        return self.group, self.k

    def retry(self) -> "TrajectoryId":
        """The same member, one attempt later."""
        return TrajectoryId(group=self.group, k=self.k, attempt=self.attempt + 1)


class Task(Frozen):
    """One trajectory to be made: the user's record and the seed that fixes its sampling."""

    id: TrajectoryId
    task: dict[str, Any]
    seed: int = Field(ge=0, lt=2**63)


class Segment(Frozen):
    """A run of tokens of one kind. Policy tokens carry the sampler's log-probability of each token."""

    kind: SegmentKind
    tokens: tuple[int, ...]
    logprobs: tuple[float, ...] | None = None

    @model_validator(mode="after")
    def _policy_tokens_have_logprobs(self) -> Self:
        if any(token < 0 for token in self.tokens):
            raise ValueError("tokens: must not be negative")
        if self.kind != "policy":
            return self
        if self.logprobs is None or len(self.logprobs) != len(self.tokens):
            raise ValueError("logprobs: want one for each policy token")
        if not all(math.isfinite(value) for value in self.logprobs):
            raise ValueError("logprobs: want finite numbers")
        return self


class Trajectory(Task):
    """What an environment made of a task. `policy_first` and `policy_last` wrote the first and the last policy token.

    Only an `ok` trajectory has something to learn from; the others still close their member of the group.
    """

    outcome: Outcome
    policy_first: Version | None = None
    policy_last: Version | None = None
    segments: tuple[Segment, ...] = ()
    truncated: bool = False
    """The policy was cut off: a turn by max_tokens, or the conversation by maxTurns."""
    meta: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _ok_has_policy_tokens(self) -> Self:
        if self.outcome == "ok" and (self.policy_first is None or not self.policy_tokens):
            raise ValueError("segments: an ok trajectory has policy tokens and the version that wrote them")
        return self

    def scored(self, reward: float, parts: dict[str, float] | None = None) -> "Experience":
        """This trajectory with its reward."""
        return Experience(**dict(self), reward=reward, reward_parts=parts or {})

    @property
    def policy_tokens(self) -> int:
        """How many tokens the policy wrote."""
        return sum(len(segment.tokens) for segment in self.segments if segment.kind == "policy")


class Experience(Trajectory):
    """A scored trajectory."""

    reward: float = Field(allow_inf_nan=False)
    reward_parts: dict[str, float] = Field(default_factory=dict)


class DeadLetter(Frozen):
    """A message nobody could handle, with the reason and what it held (bytes that are no text are replaced)."""

    id: TrajectoryId
    hop: str
    reason: str
    payload: str


class Hop(StrEnum):
    """The buffers between the stages; the value is the `buffer` label of the metrics."""

    TASKS = "tasks"
    TRAJECTORIES = "trajectories"
    EXPERIENCE = "experience"

    @property
    def stream(self) -> str:
        """The JetStream stream."""
        return self.name

    @property
    def prefix(self) -> str:
        """First token of its subjects."""
        return {Hop.TASKS: "tasks", Hop.TRAJECTORIES: "traj", Hop.EXPERIENCE: "scored"}[self]

    @property
    def consumer(self) -> str:
        """The durable consumer: the stage that takes from this buffer."""
        return {Hop.TASKS: "environment", Hop.TRAJECTORIES: "reward-server", Hop.EXPERIENCE: "trainer"}[self]

    @property
    def message(self) -> type[Task]:
        """What its payloads parse to."""
        kinds: dict[Hop, type[Task]] = {
            Hop.TASKS: Task,
            Hop.TRAJECTORIES: Trajectory,
            Hop.EXPERIENCE: Experience,
        }
        return kinds[self]

    @classmethod
    def of(cls, kind: type[Task]) -> "Hop":
        """The buffer for messages of a kind."""
        return next(hop for hop in cls if hop.message is kind)


def subject(prefix: str, job: str, id_: TrajectoryId) -> str:
    """`<prefix>.<job>.<group>.<k>.<attempt>`."""
    return f"{prefix}.{job}.{id_.group}.{id_.k}.{id_.attempt}"


def id_of(subject_: str) -> TrajectoryId:
    """The id that a subject ends with."""
    parts = subject_.rsplit(".", 3)[1:]
    if len(parts) != 3 or not all(part.isdecimal() for part in parts):
        raise Malformed(f"subject {subject_!r}: want it to end with group.k.attempt")
    group, k, attempt = map(int, parts)
    return TrajectoryId(group=group, k=k, attempt=attempt)


def encode(message: Frozen) -> bytes:
    """The payload of a message."""
    return message.model_dump_json().encode()


def decode(kind: type[M], payload: bytes) -> M:
    """Parse a payload. Raises Malformed with the first broken rule."""
    try:
        return kind.model_validate_json(payload)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise Malformed(f"{kind.__name__} {where}: {first['msg']}") from error
