"""What does not keep to the contract is refused with field and rule; the rest survives its journey."""

import pytest
from pydantic import ValidationError

from steelyard_workers.messages import (
    Experience,
    Hop,
    Malformed,
    PolicyVersion,
    Segment,
    Task,
    Trajectory,
    TrajectoryId,
    decode,
    encode,
    id_of,
    subject,
)
from tests.unit.workers.experience import experience


def test_an_experience_survives_its_journey() -> None:
    sent = experience(3, 1, 2, reward=0.5, policy=(2, 17), tool=(4,))
    assert decode(Experience, encode(sent)) == sent


def test_a_later_stage_reads_what_an_earlier_one_wrote_and_ignores_what_it_does_not_know() -> None:
    sent = experience(3, 1, 2)
    assert decode(Task, encode(sent)).id == sent.id
    assert decode(Trajectory, encode(sent).replace(b'"task":', b'"news":1,"task":')).segments == sent.segments


def test_versions_are_ordered_by_epoch_first() -> None:
    assert PolicyVersion(2, 4) > PolicyVersion(1, 7)
    assert str(PolicyVersion.parse("2.4")) == "2.4"


@pytest.mark.parametrize("text", ["", "1", "1.2.3", "1.-2", "a.b", " 1.2"])
def test_what_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="want epoch"):
        PolicyVersion.parse(text)


GOOD = encode(experience()).decode()
BAD = {
    "not JSON": ("{", "Invalid JSON"),
    "a negative group": (GOOD.replace('"group":0', '"group":-1'), "id.group"),
    "a reward that is no number": (GOOD.replace('"reward":0.0', '"reward":NaN'), "reward"),
    "a token without log-probability": (GOOD.replace("[-1.0,-1.0,-1.0]", "[-1.0]"), "logprobs: want one for each"),
    "a log-probability without bound": (GOOD.replace("-1.0,-1.0", "-1.0,-Infinity"), "finite|Invalid"),
    "a negative token": (GOOD.replace("[7,8,9]", "[7,-8,9]"), "tokens: must not be negative"),
    "good without policy tokens": (GOOD.replace('"kind":"policy"', '"kind":"tool"'), "has policy tokens"),
    "good without a version": (GOOD.replace('"policy_first":"1.0"', '"policy_first":null'), "the version that wrote"),
}


@pytest.mark.parametrize(("payload", "words"), BAD.values(), ids=BAD)
def test_a_bad_payload_is_refused_with_the_rule(payload: str, words: str) -> None:
    with pytest.raises(Malformed, match=words):
        decode(Experience, payload.encode())


def test_a_failed_trajectory_may_be_empty() -> None:
    id_ = TrajectoryId(group=0, k=0, attempt=0)
    assert Trajectory(id=id_, task={}, seed=0, outcome="failed").policy_tokens == 0


def test_messages_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        experience().reward = 1.0  # type: ignore[misc]


def test_subjects_carry_the_id_and_streams_their_kind() -> None:
    id_ = TrajectoryId(group=12, k=3, attempt=1)
    assert subject("scored", "my-job", id_) == "scored.my-job.12.3.1"
    assert id_of("scored.my-job.12.3.1") == id_
    assert [Hop.of(kind) for kind in (Task, Trajectory, Experience)] == list(Hop)
    with pytest.raises(Malformed):
        id_of("scored.my-job.12.x.1")


def test_a_segment_of_the_tool_needs_no_log_probabilities() -> None:
    assert Segment(kind="tool", tokens=(1, 2)).logprobs is None
