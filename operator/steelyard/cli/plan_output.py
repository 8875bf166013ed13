"""A cold-start plan for people (a table) and for programs (JSON), with what to know before trusting it."""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console
from rich.table import Table

from steelyard.balance.coldstart import Plan, Question
from steelyard.balance.coldstart.training import Training

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


def show(question: Question, found: Plan) -> None:
    """The plan as tables on stdout."""
    console = Console(highlight=False)
    split = Table(title=f"{question.model.name} on {question.gpus} x {question.hardware.name}, batch {question.batch}")
    for column in ("", "GPUs", "shape", "seconds", "memory a GPU"):
        split.add_column(column, justify="left" if column in ("", "shape") else "right")
    limit = question.hardware.hbm_bytes / GB
    memory = f"{found.sampler_memory_bytes / GB:.0f} of {limit:.0f} GB"
    split.add_row("sampling", str(found.sampler_gpus), _layout(found.samplers), f"{found.sampling_seconds:.0f}", memory)
    trained = found.training
    split.add_row(
        "training",
        str(trained.gpus),
        str(trained),
        f"{trained.seconds:.0f}",
        f"{trained.memory_bytes / GB:.0f} of {limit:.0f} GB",
    )
    console.print(split)
    console.print(
        f"An iteration takes {found.seconds:.0f} s, {found.tokens / found.seconds:.0f} generated tokens/s; "
        f"the longest trajectory alone takes {found.tail_seconds:.0f} s."
    )
    for option in found.options:
        console.print(f"  best with TP{option.tp}: {option.replicas} replicas, {option.seconds:.0f} s")
    for reason in found.left_out:
        console.print(f"  left out: {reason}")
    for pruned in found.pruned:
        best = f"; the fastest: {pruned.best}, {pruned.best.seconds:.0f} s" if pruned.best else ""
        console.print(f"  left out: {pruned.count} ways to train: {pruned.reason}{best}")
    for note in notes(question, found):
        console.print(note)


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


def as_json(question: Question, found: Plan) -> str:
    """The plan as one JSON object; seconds, bytes, tokens."""
    lengths = question.lengths
    document = {
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
    return json.dumps(document, indent=2)
