"""A cold-start plan for people (a table) and for programs (JSON), with what to know before trusting it."""

from __future__ import annotations

from typing import Any

from steelyard.balance.coldstart import Plan, Question
from steelyard.balance.coldstart.training import Training
from steelyard.cli.output import Column, table

GB = 1e9


def _mixed_gain(found: Plan) -> float:
    return max(found.seconds / found.mixed.seconds - 1, 0.0) if found.mixed else 0.0


def _layout(samplers: Any) -> str:
    return " + ".join(f"{count} x TP{tp}" for tp, count in sorted(samplers.items(), reverse=True))


def notes(question: Question, found: Plan) -> list[str]:
    """What to know before trusting the plan."""
    said = []
    if found.error < 1:
        said.append(
            f"Predicted times are usually {found.error:.0%} too low; the engine's constants fit published rates."
        )
    else:
        said.append(
            f"No rate was measured for {question.model.name} on {question.hardware.name}: times scale with the "
            "roofline and may be wrong by a factor of two either way; the split is surer than the times."
        )
    said.append("The efficiency of training is assumed: after the first steps compare it with the measured step time.")
    if found.free_gpus:
        said.append(f"{found.free_gpus} GPUs stay free: together they would shorten an iteration by less than 1 %.")
    if len(found.samplers) > 1:
        said.append("Several TP sizes: your router must send each trajectory to an engine by its length.")
    elif found.mixed:
        said.append(
            f"A router that knew every length could use {_layout(found.mixed.samplers)} and gain "
            f"{_mixed_gain(found):.0%} (whole trajectories may cost 1-2 GPUs more). "
            "With a router that does not, mixed sizes are slower."
        )
    if found.training.gpus > 1:
        said.append(
            "Steelyard's own trainer runs one rank: give spec.stages.trainer an image that trains as "
            f"{found.training}, or expect one GPU's pace."
        )
    if found.training.gpus > question.hardware.gpus_per_node:
        said.append(f"Training spans nodes: no pod can hold {found.training.gpus} GPUs of one node.")
    return said


def lines(question: Question, found: Plan) -> list[str]:
    """The plan for people."""
    trained, layout = found.training, _layout(found.samplers)
    rows = [
        _row("sampling", found.sampler_gpus, layout, found.sampling_seconds, found.sampler_memory_bytes),
        _row("training", trained.gpus, str(trained), trained.seconds, trained.memory_bytes),
    ]
    gpu = f"{question.hardware.name} ({question.hardware.hbm_bytes / GB:.0f} GB)"
    tokens = f"{found.tokens / found.seconds:.0f} generated tokens/s"
    said = [
        f"{question.model.name}, batch {question.batch}, on {question.gpus} x {gpu}",
        "",
        *table([Column(name) for name in ("STAGE", "GPUS", "SHAPE", "SECONDS", "GB A GPU")], rows),
        "",
        f"An iteration takes {found.seconds:.0f} s, {tokens}; the longest trajectory takes {found.tail_seconds:.0f} s.",
        *(f"  best with TP{one.tp}: {one.replicas} replicas, {one.seconds:.0f} s" for one in found.options),
        *(f"  left out: {reason}" for reason in found.left_out),
    ]
    for pruned in found.pruned:
        best = f"; the fastest: {pruned.best}, {pruned.best.seconds:.0f} s" if pruned.best else ""
        said.append(f"  left out: {pruned.count} ways to train: {pruned.reason}{best}")
    return [*said, "", *notes(question, found)]


def _row(stage: str, gpus: int, shape: str, seconds: float, memory: float) -> list[str]:
    return [stage, str(gpus), shape, f"{seconds:.0f}", f"{memory / GB:.0f}"]


def _training(one: Training) -> dict[str, Any]:
    return {
        "tensorParallel": one.tp,
        "pipelineParallel": one.pp,
        "dataParallel": one.dp,
        "microBatch": one.micro_batch,
        "gpus": one.gpus,
        "seconds": round(one.seconds, 2),
        "memoryBytesPerGpu": round(one.memory_bytes),
    }


def _samplers(samplers: Any) -> list[dict[str, int]]:
    return [{"tensorParallel": tp, "replicas": count} for tp, count in sorted(samplers.items(), reverse=True)]


def document(question: Question, found: Plan) -> dict[str, Any]:
    """For programs; seconds, bytes, tokens."""
    lengths = question.lengths
    return {
        "model": question.model.name,
        "hardware": question.hardware.name,
        "gpus": question.gpus,
        "batch": question.batch,
        "lengths": {
            "trajectories": len(lengths),
            "meanTokens": round(float(lengths.total.mean())),
            "longestTokens": question.longest,
        },
        "training": _training(found.training),
        "sampling": {
            "samplers": _samplers(found.samplers),
            "gpus": found.sampler_gpus,
            "seconds": round(found.sampling_seconds, 2),
            "tailSeconds": round(found.tail_seconds, 2),
            "memoryBytesPerGpu": round(found.sampler_memory_bytes),
        },
        "freeGpus": found.free_gpus,
        "seconds": round(found.seconds, 2),
        "tokensPerSecond": round(found.tokens / found.seconds, 1),
        "relativeError": found.error,
        "options": [
            {"tensorParallel": one.tp, "replicas": one.replicas, "seconds": round(one.seconds, 2)}
            for one in found.options
        ],
        "mixed": {
            "samplers": _samplers(found.mixed.samplers),
            "seconds": round(found.mixed.seconds, 2),
            "gain": round(_mixed_gain(found), 4),
        }
        if found.mixed
        else None,
        "leftOut": list(found.left_out),
        "pruned": [
            {"reason": one.reason, "count": one.count, "best": _training(one.best) if one.best else None}
            for one in found.pruned
        ],
        "notes": notes(question, found),
    }
