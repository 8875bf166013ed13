"""What the figures say is wrong, with evidence and what to check first; and honestly, when scaling will not help.

Each symptom is a function of one `Scene` that gives a `Finding` or None; `SYMPTOMS` is their order of urgency.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from steelyard.api import AgenticRLJobSpec
from steelyard.balance.diagnose import flow, machines
from steelyard.balance.diagnose.remedies import advise, finding, objection
from steelyard.balance.diagnose.scene import Scene
from steelyard.balance.diagnose.waits import DOWNSTREAM, WaitGraph, bottleneck, percent_of, stage_estimates, wait_graph
from steelyard.balance.observe import Observed
from steelyard.balance.surroundings import Surroundings
from steelyard.balance.types import Finding, Symptom
from steelyard.balance.words import percent

__all__ = ["advise", "bottleneck", "no_mismatch", "objection", "stage_estimates", "symptoms", "wait_graph"]

SYMPTOMS: tuple[Callable[[Scene], Finding | None], ...] = (
    machines.sick_replica,
    machines.disk_waits,
    flow.long_tail,
    machines.memory_full,
    flow.weight_sync,
    flow.reward_queue,
    flow.trainer_slow,
    flow.rollout_slow,
    flow.unsteady_steps,
)


def symptoms(observed: Observed, graph: WaitGraph, around: Surroundings, spec: AgenticRLJobSpec) -> tuple[Finding, ...]:
    """Every symptom that shows, the most urgent first. Where only some pods were seen, the evidence says so."""
    scene = Scene(observed, graph, around, spec)
    return tuple(_covered(scene, found) for symptom in SYMPTOMS if (found := symptom(scene)) is not None)


def no_mismatch(graph: WaitGraph, most_gain: float) -> Finding:
    """The honest answer when nothing shows and no allocation within the spec gains enough."""
    works = ", ".join(f"{stage} {percent_of(graph[stage].working)}" for stage in DOWNSTREAM)
    evidence = (
        f"no mismatch: scaling will not help. No allocation within the spec would gain more than {percent(most_gain)}; "
        f"work in slot time: {works}"
    )
    return finding(Symptom.NO_MISMATCH, None, evidence)


def _covered(scene: Scene, found: Finding) -> Finding:
    window = scene.observed.stages.get(found.stage) if found.stage else None
    if window is None or not window.missing:
        return found
    total = len(window.pods) + len(window.missing)
    return replace(found, evidence=f"{found.evidence} (seen of {len(window.pods)} of {total} pods)")
