"""What to check first for each symptom, and when reallocation is no cure for it."""

from __future__ import annotations

from collections.abc import Iterable
from re import sub

from steelyard.api import Allocation, Stage
from steelyard.balance.types import Advice, Finding, Remedy, Symptom
from steelyard.balance.words import percent

PAGE = "docs/symptoms.md"

LOOK_FIRST = {
    Symptom.SICK_REPLICA: "that pod's log; delete the pod if it does not recover",
    Symptom.DISK_WAITS: "log sampling, compression of trajectories, checkpoints.everySteps, the storage class",
    Symptom.LONG_TAIL: "environment.episode.timeoutSeconds, length buckets; more samplers will not help",
    Symptom.MEMORY_FULL: "KV pool (--gpu-memory-utilization, --max-num-seqs), residency, padding",
    Symptom.WEIGHT_SYNC: "the storage of the weights claim, steps that are very short",
    Symptom.REWARD_QUEUE: "batching, caching or precomputing scores, the judge's GPU profile",
    Symptom.TRAINER_SLOW: "batch size, algorithm.args.microBatch and precision, the trainer's GPU profile",
    Symptom.ROLLOUT_SLOW: "environment.concurrency, batch size, tool time-outs",
    Symptom.UNSTEADY_STEPS: "what else runs on these nodes, checkpoints, tools that time out",
    Symptom.NO_MISMATCH: "reward, data and algorithm",
}

CAUSES = (Symptom.SICK_REPLICA, Symptom.DISK_WAITS, Symptom.LONG_TAIL, Symptom.WEIGHT_SYNC)
"""They come back under any allocation."""

LOOP = (Stage.SAMPLER, Stage.ENVIRONMENT)
"""Episodes go to and fro between them."""


def finding(symptom: Symptom, stage: Stage | None, evidence: str) -> Finding:
    return Finding(symptom, stage, evidence, f"{LOOK_FIRST[symptom]} ({PAGE}#{anchor(symptom)})")


def anchor(symptom: Symptom) -> str:
    """`LongTail` -> `long-tail`, the heading of its section."""
    return sub(r"(?<!^)(?=[A-Z])", "-", symptom).lower()


def advise(findings: Iterable[Finding], most_gain: float | None, least_gain: float) -> Advice | None:
    """What to do, given the most that any allocation within the spec could gain; None while that is unknown.

    Gains are relative: 0.05 is five per cent. `least_gain` is what a move must bring to be made.
    """
    found = list(findings)
    cause = next((one for one in found if one.symptom in CAUSES), None)
    if cause is not None:
        return Advice(Remedy.FIX_FIRST, f"fix this first, replicas will not: {cause.evidence}; see {cause.look_first}")
    if most_gain is None:
        return None
    bound = f"no allocation within the spec would gain more than {percent(most_gain)}"
    if most_gain >= least_gain:
        return Advice(Remedy.REALLOCATE, f"reallocate: within the spec up to {percent(most_gain)} can be gained")
    if found:
        return Advice(Remedy.NO_REALLOCATION, f"do not reallocate: {bound}; see {found[0].look_first}")
    return Advice(
        Remedy.NO_REALLOCATION,
        f"do not reallocate: {bound}; while its workload stays like this the job needs no balancing, "
        "and mode Fixed would do as well",
    )


def objection(findings: Iterable[Finding], before: Allocation, after: Allocation) -> Finding | None:
    """The finding that no such move can cure: stragglers are not helped by more rollout, a sick replica by none.

    What a sick replica distorts stays as it is, in both directions; environment and samplers are one closed loop, so
    it is both of them.
    """
    grown = {stage: after.replicas(stage) - before.replicas(stage) for stage in Stage}
    for one in findings:
        distorted = LOOP if one.stage in LOOP else (one.stage,)
        if one.symptom is Symptom.SICK_REPLICA and any(grown[stage] for stage in distorted if stage is not None):
            return one
        if one.symptom is Symptom.LONG_TAIL and any(grown[stage] > 0 for stage in LOOP):
            return one
    return None
