"""`steelyard explain` and `why-not`: the operator's words, the rules asked again, and what remains without rights."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest

from steelyard.api import Allocation
from steelyard.cli import looking
from steelyard.cli.looking import Measured, Scene
from steelyard.cluster.kinds import AUTOSCALER, JOB, POD, QUOTA, REVISION
from steelyard.cluster.prometheus_access import OPERATOR
from tests.unit.cli.documents import Explanation, PastDecision, WhyNot
from tests.unit.cli.fake_kubectl import State, put
from tests.unit.cli.world import World, lived, steelyard

PLACE = "monitoring/prometheus:9090"
PATH = JOB.path("default", "calculator")
FORBIDDEN = 'Error from server (Forbidden): User "v" may not'


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """A job some minutes old, and its metrics within reach."""
    world = lived(50)

    async def measured(session: Any, place: Any, at: Scene) -> Measured:
        return Measured(await world.metrics.read(at.own, at.seen.pods(), world.cluster.now), world.cluster.now, PLACE)

    monkeypatch.setattr(looking, "_measured", measured)
    monkeypatch.setattr(looking, "operators_place", lambda *_: PLACE)
    return world


def explain(state: State, *arguments: str, monkeypatch: pytest.MonkeyPatch) -> tuple[int, str, str]:
    return steelyard(state, "explain", "calculator", *arguments, monkeypatch=monkeypatch)


def test_an_explanation_has_every_part(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    state = world.state()
    finding = {"symptom": "LongTail", "evidence": "few are running", "lookFirst": "episode deadlines"}
    state.objects[PATH]["status"]["findings"] = [finding]
    code, out, err = explain(state, monkeypatch=monkeypatch)
    assert (code, err) == (0, "")
    assert "LongTail: few are running; first: episode deadlines" in out
    titles = [line for line in out.splitlines() if line and not line.startswith(" ")]
    assert titles[0].startswith("Job default/calculator, mode Dynamic, revision calculator-")
    starts = ["DECISION: ", "INPUTS (window ", "RULES THAT COME FIRST", "TARGET, AND WHAT LIMITS IT", "GATES FOR ",
              "WHAT WOULD CHANGE IT"]  # fmt: skip
    assert [start for start in starts if not any(title.startswith(start) for title in titles)] == []
    assert f"Prometheus {PLACE}" in out
    assert "the rules say the same" in out
    assert "vllm:generation_tokens_total[" in out


def test_one_stage_alone_shows_what_concerns_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    _, out, _ = explain(world.state(), "--stage", "reward-server", monkeypatch=monkeypatch)
    inputs = out.partition("INPUTS")[2].partition("RULES")[0]
    assert "rewardServer" in inputs
    assert "sampler" not in inputs


def test_json_keeps_its_promise(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    (found,) = Explanation.model_validate(
        json.loads(explain(world.state(), "-o", "json", monkeypatch=monkeypatch)[1])
    ).items
    assert found.decision
    assert found.asked_again
    assert found.agrees
    assert found.decision.kind == found.asked_again.kind
    assert found.prometheus == PLACE
    tokens = next(one for one in found.inputs if one.meaning == "tokens generated")
    assert (tokens.value, tokens.sample_age_seconds) == (80.0, 0.0)
    assert found.would_change


def test_what_the_rules_say_now_may_differ_from_what_the_operator_said(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = world.state()
    state.objects[PATH]["status"]["lastDecisions"][0] |= {"kind": "Cooldown", "reason": "it rests"}
    _, out, _ = explain(state, monkeypatch=monkeypatch)
    assert "Hold (Cooldown)" in out
    assert "the rules say Hold (OpenMove):" in out or "the rules say Hold (Uncertain):" in out


def test_without_metrics_the_operator_and_the_ledger_still_speak(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def blind(*_: Any) -> str:
        return f"Prometheus at {PLACE}: services is forbidden"

    monkeypatch.setattr(looking, "_measured", blind)
    code, out, err = explain(world.state(), monkeypatch=monkeypatch)
    assert code == 0
    assert "SY1010 default/calculator: Prometheus at monitoring/prometheus:9090: services is forbidden" in err
    assert "by the operator" in out
    assert "WHY calculator-" in out
    assert "GATES" not in out
    (found,) = Explanation.model_validate(
        json.loads(explain(world.state(), "-o", "json", monkeypatch=monkeypatch)[1])
    ).items
    assert found.unreadable
    assert not found.inputs


def test_nobody_says_where_prometheus_is(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    code, out, err = explain(world.state(), monkeypatch=monkeypatch)
    assert code == 0
    assert f"SY1010 default/calculator: no Deployment with the label {OPERATOR} says" in err
    assert "DECISION" in out


@pytest.mark.parametrize("kind", [REVISION, POD, AUTOSCALER, QUOTA])
def test_what_may_not_be_read_is_said_and_the_rest_explained(
    world: World, kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = world.state()
    state.denied[kind.path("default")] = FORBIDDEN
    code, out, err = explain(state, monkeypatch=monkeypatch)
    assert code == 0
    assert f"SY1011 default/calculator: {kind.plural}: User" in err
    assert "DECISION" in out


def test_what_a_quota_of_the_namespace_leaves_limits_the_target_as_it_does_the_operators(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = world.state()
    status = {"hard": {"requests.nvidia.com/gpu.shared": "1"}, "used": {"requests.nvidia.com/gpu.shared": "1"}}
    put(state, {"kind": "ResourceQuota", "metadata": {"name": "team", "namespace": "default"}, "status": status})
    (found,) = Explanation.model_validate(json.loads(explain(state, "-o", "json", monkeypatch=monkeypatch)[1])).items
    (quota,) = [one for one in found.limits if one.kind == "Quota"]
    assert quota.binds
    assert "slice" in quota.before["sampler"]
    assert "slice" not in quota.after["sampler"]


def test_a_job_with_a_broken_spec_is_told_apart(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    state = world.state()
    state.objects[PATH]["spec"]["budget"]["gpus"] = -1
    code, out, err = explain(state, monkeypatch=monkeypatch)
    assert (code, out) == (3, "")
    assert "everything runs as before: spec.budget.gpus: -1" in err


def test_a_suspended_job_needs_no_metrics_to_be_explained(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    state = world.state()
    state.objects[PATH]["spec"]["suspend"] = True
    _, out, _ = explain(state, monkeypatch=monkeypatch)
    assert "the rules say Hold (Suspended):" in out
    assert "1. Suspended: spec.suspend: false" in out


def test_an_ended_job_is_over(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    state = world.state()
    for condition in state.objects[PATH]["status"]["conditions"]:
        if condition["type"] == "Complete":
            condition["status"] = "True"
    _, out, err = explain(state, monkeypatch=monkeypatch)
    assert "the rules say Hold (Ended):" in out
    assert err == ""


@pytest.mark.parametrize("which", [("--revision", "2"), ("--revision", "calculator-2"), ("--at", "2027-01-16")])
def test_a_decision_of_the_past_has_its_inputs_gates_and_outcome(
    world: World, which: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    state = world.state()
    code, out, _ = explain(state, *which, monkeypatch=monkeypatch)
    assert code == 0
    assert all(f"\n{title}" in out for title in ("DECISION: ", "GATES (figures of then", "INPUTS", "OUTCOME"))
    (found,) = PastDecision.model_validate(
        json.loads(explain(state, *which, "-o", "json", monkeypatch=monkeypatch)[1])
    ).items
    assert (found.revision, found.origin, found.parent) == ("calculator-2", "Operator", "calculator-1")
    assert found.before != found.after
    assert {gate.kind for gate in found.gates} >= {"DeadBand", "Uncertain", "Payback"}
    assert found.inputs["throughput"] == 2.0


@pytest.mark.parametrize(
    "arguments",
    [("explain", "calculator", "--revision", "2"), ("explain", "calculator"),
     ("why-not", "calculator", "--stage", "sampler", "--to", "3")],
    ids=lambda arguments: " ".join(arguments),
)  # fmt: skip
def test_a_gpu_profile_that_the_spec_has_no_more_hides_no_decision(
    world: World, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its price is gone, so the gates cannot be asked again; the ledger still tells."""
    state = world.state()
    for profile in state.objects[PATH]["spec"]["stages"]["sampler"]["gpuProfiles"]:
        profile["name"] = f"new-{profile['name']}"
    code, out, _ = steelyard(state, *arguments, monkeypatch=monkeypatch)
    assert code in (0, 3)
    assert "environment 1 -> 2" in out or "sampler has 2 replicas" in out or "DECISION" in out
    assert "GATES" not in out


def test_a_revision_that_is_not_there_is_said(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, err = explain(world.state(), "--revision", "77", monkeypatch=monkeypatch)
    assert (code, out) == (6, "")
    assert "SY1006 default/calculator: the ledger has no revision 77" in err


def test_one_decision_at_a_time_is_explained(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, err = explain(world.state(), "--revision", "2", "--at", "1h", monkeypatch=monkeypatch)
    assert (code, out) == (2, "")
    assert "--at" in err


def test_why_not_names_the_first_rule_and_the_threshold(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ("why-not", "calculator", "--stage", "environment", "--to", "300")
    code, out, _ = steelyard(world.state(), *arguments, monkeypatch=monkeypatch)
    assert code == 3
    assert out.startswith("environment has 2 replicas and not 300: ")
    assert "the spec allows 1 to " in out
    (found,) = WhyNot.model_validate(
        json.loads(steelyard(world.state(), *arguments, "-o", "json", monkeypatch=monkeypatch)[1])
    ).items
    assert found.objection
    assert found.objection.kind == found.rules[[rule.passed for rule in found.rules].index(False)].kind


def test_why_not_of_a_job_that_rests_is_its_rest(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    state = deepcopy(world.state())
    for condition in state.objects[PATH]["status"]["conditions"]:
        if condition["type"] == "Failed":
            condition["status"] = "True"
    arguments = ("why-not", "calculator", "--stage", "sampler", "--to", "3")
    code, out, _ = steelyard(state, *arguments, monkeypatch=monkeypatch)
    assert code == 3
    assert out.startswith("sampler has 2 replicas and not 3: Ended: no change because the job has ended.\n")
    (found,) = WhyNot.model_validate(
        json.loads(steelyard(state, *arguments, "-o", "json", monkeypatch=monkeypatch)[1])
    ).items
    assert [rule.kind for rule in found.rules] == ["Ended"]


def test_nothing_keeps_a_stage_from_what_it_has(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ("why-not", "calculator", "--stage", "sampler", "--to", "2")
    code, out, _ = steelyard(world.state(), *arguments, monkeypatch=monkeypatch)
    assert (code, out.splitlines()[0]) == (0, "sampler has 2 replicas.")


def test_the_stage_of_a_question_must_be_one(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    code, _, err = steelyard(
        world.state(), "why-not", "calculator", "--stage", "bus", "--to", "3", monkeypatch=monkeypatch
    )
    assert code == 2
    assert "'bus' is no stage; stages are sampler, environment, rewardServer, trainer" in err


def test_the_ledger_of_the_world_has_moved(world: World) -> None:
    """Else the tests above would say little."""
    moves = [
        obj["spec"]["allocation"] for (kind, _, _), obj in world.cluster.objects.items() if kind == "AllocationRevision"
    ]
    assert len(moves) >= 2
    assert Allocation.model_validate(moves[0]["after"]) != Allocation.model_validate(moves[1]["after"])
