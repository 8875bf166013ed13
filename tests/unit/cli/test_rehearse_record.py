"""What `steelyard rehearse` records of its rungs, and what the comparison says."""

from __future__ import annotations

import json
from typing import Any

from steelyard.cli.rehearsing.record import Figures, Record, Scene, as_item, compared, figures, scene, told
from steelyard.cli.tracing.story import Share, stories
from steelyard.cluster.kinds import Object
from tests.unit.cli.lives import ZERO, of_step, span


def test_figures_are_folded_from_spans() -> None:
    found = figures(
        stories(
            [
                *of_step(1, 0.0),
                *of_step(1, 1.0, k=1),
                *of_step(2, 10.0),
                span("episode", 0, 1, "9/0/0", outcome="failed"),
                span("episode", 0, 1, "9/1/0", outcome="timeout"),
                span("episode", 0, 1, "9/1/1", outcome="ok"),
            ]
        )
    )
    assert (found.trajectories, found.trained, found.failed, found.timed_out, found.retried) == (6, 3, 1, 1, 1)
    assert (found.steps, found.step_seconds, found.interval_seconds) == (2, 2.5, 9.0)
    assert (found.median_seconds, found.slow_seconds) == (14.0, 14.0), "without the second in the queue of tasks"
    assert found.shares[Share.TRAINER_QUEUE] == 5.0


def test_what_was_begun_while_the_job_was_starting_is_not_measured() -> None:
    told = stories([*of_step(1, 0.0), *of_step(2, 10.0)])
    found = figures(told, ready=ZERO + 5)
    assert (found.trajectories, found.trained, found.steps) == (2, 1, 1)


def test_before_anything_was_trained_there_are_no_figures() -> None:
    assert figures([]) == Figures()


def pod(name: str, job: str, phase: str = "Running", restarts: int = 0, gpus: str | None = None) -> Object:
    annotations = {"steelyard.dev/gpus": gpus} if gpus else {}
    metadata = {"name": name, "namespace": "team", "labels": {"steelyard.dev/job": job}, "annotations": annotations}
    return {
        "kind": "Pod",
        "metadata": metadata,
        "status": {"phase": phase, "containerStatuses": [{"restartCount": restarts}]},
    }


def test_a_scene_tells_the_rungs_own_pods_from_others() -> None:
    pods = [
        pod("a", "mine", restarts=2),
        pod("b", "mine", phase="Failed"),
        pod("c", "other", gpus="500m"),
        pod("d", "other", phase="Pending", gpus="1"),
        pod("e", "other", phase="Succeeded", gpus="1"),
        {"metadata": {"name": "stranger", "namespace": "team"}},
    ]
    events = [
        {"type": "Warning", "involvedObject": {"name": "a"}},
        {"type": "Normal", "involvedObject": {"name": "a"}},
        {"type": "Warning", "involvedObject": {"name": "c"}},
    ]
    assert scene(pods, events, "mine") == Scene(
        own_pods=2, own_restarts=2, own_failed=1, other_pods=2, other_gpus=1.5, pending=1, warnings=1
    )


def recorded(title: str, found: Figures, **fields: Any) -> Record:
    return Record(title, f"calculator-{title[:3]}", Scene(), Scene(other_pods=2), found, 12.0, **fields)


SMALL = Figures(trajectories=16, trained=16, steps=3, median_seconds=2.0, shares={Share.SAMPLER: 1.5, Share.TOOLS: 0.5})
LARGE = Figures(
    trajectories=100, trained=97, failed=2, timed_out=1, steps=5, median_seconds=8.0,
    shares={Share.SAMPLER: 6.5, Share.TOOLS: 0.6},
)  # fmt: skip


def test_rungs_stand_side_by_side() -> None:
    lines = compared([recorded("a few", SMALL), recorded("all stages", LARGE, bottleneck="sampler")])
    cells = [" ".join(line.split()) for line in lines]
    assert cells[0].endswith("A FEW ALL STAGES")
    assert "waiting for samplers 1.50 6.50" in cells
    assert "failed, timed out, retried 0, 0, 0 2, 1, 0" in cells
    assert "bottleneck - sampler" in cells
    assert not [line for line in cells if "trainer at work" in line], "what no rung has is left out"


def test_what_grew_is_said_in_a_sentence() -> None:
    said = told([recorded("a few", SMALL), recorded("all stages", LARGE, findings=("KV pool is full",))])
    assert said == [
        "from a few to all stages a trajectory takes 4 times as long, most of it waiting for samplers: 1.50 to 6.50 s",
        "all stages: 3 of 100 trajectories failed or timed out",
        "all stages: KV pool is full",
    ]


def test_a_failure_is_said_first() -> None:
    said = told([recorded("a few", SMALL), recorded("all stages", Figures(), failure="Stalled: no such module")])
    assert said == ["all stages: stopped: Stalled: no such module"]


def test_programs_get_every_figure_and_the_scenes() -> None:
    item = json.loads(json.dumps(as_item(recorded("all stages", LARGE))))
    assert (item["rung"], item["timedOut"], item["shares"]["sampler"]) == ("all stages", 1, 6.5)
    assert (item["before"]["otherPods"], item["after"]["otherPods"]) == (0, 2)
