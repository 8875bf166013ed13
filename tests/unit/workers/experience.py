"""Scored trajectories and deliveries with defaults, for tests of the trainer."""

from typing import Any, cast

from steelyard_workers.bus import Delivery
from steelyard_workers.messages import Experience, Outcome, PolicyVersion, Segment, TrajectoryId


def experience(
    group: int = 0,
    k: int = 0,
    attempt: int = 0,
    *,
    reward: float = 0.0,
    outcome: Outcome = "ok",
    policy: tuple[int, int] = (1, 0),
    prompt: tuple[int, ...] = (5, 6),
    policy_tokens: tuple[int, ...] = (7, 8, 9),
    logprobs: tuple[float, ...] | None = None,
    tool: tuple[int, ...] = (),
) -> Experience:
    """Prompt, policy tokens and, if there is any, a tool's text between the first and the last half of them."""
    old = logprobs or (-1.0,) * len(policy_tokens)
    half = len(policy_tokens) // 2 if tool else len(policy_tokens)
    segments = [
        Segment(kind="prompt", tokens=prompt),
        Segment(kind="policy", tokens=policy_tokens[:half], logprobs=old[:half]),
    ]
    if tool:
        segments.append(Segment(kind="tool", tokens=tool))
        segments.append(Segment(kind="policy", tokens=policy_tokens[half:], logprobs=old[half:]))
    return Experience(
        id=TrajectoryId(group=group, k=k, attempt=attempt),
        task={},
        seed=0,
        outcome=outcome,
        policy_first=PolicyVersion(*policy),
        policy_last=PolicyVersion(*policy),
        segments=tuple(segments),
        reward=reward,
    )


def delivery(message: Experience, sequence: int | None = None) -> Delivery[Experience]:
    """A delivery from nowhere; `sequence` is its place in the stream, by default one of its own for each id."""
    id_ = message.id
    place = id_.group * 10_000 + id_.k * 100 + id_.attempt if sequence is None else sequence
    return Delivery(message, 0.0, place, cast(Any, None), {})
