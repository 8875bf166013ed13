"""A trajectory's spans in the order of its life, with the waits between them that no span records. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from steelyard_workers.spans import Span

QUEUED = "queued_seconds"


class Share(StrEnum):
    """Where a trajectory's time goes. The value is what people read."""

    TASKS = "in the queue of tasks"
    SAMPLER = "waiting for samplers"
    TOOLS = "waiting for tools"
    BLOCKED = "waiting for room on the bus"
    ENVIRONMENT = "environment at work"
    REWARD_QUEUE = "in the queue of rewards"
    REWARD = "reward at work"
    TRAINER_QUEUE = "waiting for its group and the trainer"
    TRAINER = "trainer at work"

    @property
    def key(self) -> str:
        """Its key in JSON."""
        head, *rest = self.name.lower().split("_")
        return head + "".join(word.capitalize() for word in rest)

    @property
    def is_work(self) -> bool:
        return self in (Share.ENVIRONMENT, Share.REWARD, Share.TRAINER)


@dataclass(frozen=True)
class Wait:
    """A time in which nobody worked on the trajectory."""

    share: Share
    start: float
    end: float

    @property
    def seconds(self) -> float:
        return max(self.end - self.start, 0.0)


@dataclass(frozen=True)
class Story:
    """One trajectory from its dispatch to the end of its last span."""

    id: str
    spans: tuple[Span, ...]
    """All of them, the earliest first, parents before their children."""

    @property
    def outermost(self) -> tuple[Span, ...]:
        known = {span.id for span in self.spans}
        return tuple(span for span in self.spans if span.parent not in known)

    def children(self, span: Span) -> tuple[Span, ...]:
        return tuple(one for one in self.spans if one.parent == span.id)

    def last(self, name: str) -> Span | None:
        """The newest span of a kind: after a redelivery there are several."""
        return next((span for span in reversed(self.spans) if span.name == name), None)

    @property
    def start(self) -> float:
        """When its task was put on the bus."""
        first = self.outermost[0]
        return first.start - float(first.about.get(QUEUED, 0.0))

    @property
    def begun(self) -> float:
        """When a worker took it up."""
        return self.outermost[0].start

    @property
    def end(self) -> float:
        return max(span.end for span in self.spans)

    @property
    def seconds(self) -> float:
        return self.end - self.start

    @property
    def outcome(self) -> str:
        """How far it is: its outcome, `trained`, or what it waits for."""
        if self.last("train"):
            return "trained"
        episode = self.last("episode")
        outcome = str(episode.about.get("outcome", "failed" if episode.failed else "unknown")) if episode else "unknown"
        if outcome == "ok":
            return "waits for the trainer" if self.last("score") else "waits for its reward"
        return outcome

    def note(self, name: str, key: str) -> object:
        """What the newest span of a kind noted, None when it did not."""
        span = self.last(name)
        return span.about.get(key) if span else None

    @property
    def steps(self) -> Iterator[Span | Wait]:
        """Outermost spans and the waits before each, in order."""
        before: Span | None = None
        for span in self.outermost:
            if (wait := _before(span, before)) and wait.seconds > 0:
                yield wait
            yield span
            before = span

    @property
    def shares(self) -> dict[Share, float]:
        """Seconds by where they went; those that did not occur are left out."""
        found: dict[Share, float] = {}

        def add(share: Share, seconds: float) -> None:
            if seconds > 0:
                found[share] = found.get(share, 0.0) + seconds

        for step in self.steps:
            if isinstance(step, Wait):
                add(step.share, step.seconds)
                continue
            inner = self.children(step)
            generated = sum(one.seconds for one in inner if one.name == "generate")
            called = sum(one.seconds for one in inner if one.name == "tool")
            rest = step.waited - generated - called  # for a first sampler at its beginning, for the bus at its end
            blocked = min(rest, step.end - max((one.end for one in inner), default=_beginning(step)))
            add(Share.SAMPLER, generated + rest - blocked)
            add(Share.TOOLS, called)
            add(Share.BLOCKED, blocked)
            add(WORK.get(step.name, Share.ENVIRONMENT), step.worked)
        return {share: found[share] for share in Share if share in found}


WORK = {"episode": Share.ENVIRONMENT, "score": Share.REWARD, "train": Share.TRAINER}
_QUEUES = {"episode": Share.TASKS, "score": Share.REWARD_QUEUE, "train": Share.TRAINER_QUEUE}


def _beginning(span: Span) -> float:
    """What an episode without a generation waited for was a sampler; the others wait for the bus alone."""
    return span.end if span.name == "episode" else span.start


def _before(span: Span, before: Span | None) -> Wait | None:
    """What a worker noted when it took the message, else the gap; clocks of two machines may differ."""
    share = _QUEUES.get(span.name)
    if share is None:
        return None
    if before is None:
        return Wait(share, span.start - float(span.about.get(QUEUED, 0.0)), span.start)
    return Wait(share, before.end, span.start)


def stories(spans: Iterable[Span]) -> list[Story]:
    """One for each trajectory, in the order of their beginnings."""
    found: dict[str, list[Span]] = {}
    for span in spans:
        found.setdefault(span.trajectory, []).append(span)
    told = [Story(id_, tuple(sorted(own, key=lambda span: (span.start, -span.end)))) for id_, own in found.items()]
    return sorted(told, key=lambda story: (story.start, story.id))


def slowest(told: Iterable[Story], most: int) -> list[Story]:
    """Those that took longest from dispatch to their last span."""
    return sorted(told, key=lambda story: (-story.seconds, story.id))[:most]
