"""The AgenticRLJob that a cold-start plan leads to, as YAML."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from steelyard.api import AgenticRLJob
from steelyard.balance.coldstart import Infeasible, Plan, Question

MOST_REPLICAS = 1000
GROUP_SIZES = (16, 8, 4, 2)
EPISODES = 64
"""Episodes that one environment replica runs at once."""
STALENESS, EVERY = 2, 4
"""maxStaleness and everySteps of the written job."""


def as_job(question: Question, found: Plan, notes: list[str]) -> str | Infeasible:
    """A ready job, `notes` as comments on top: claims `model` and `tasks` and ConfigMap `recipe` are yours to bring.

    A profile's GPUs are its tensor parallel size, so no engine argument repeats it.
    """
    group = next((size for size in GROUP_SIZES if question.batch % size == 0), None)
    if group is None:
        return Infeasible(
            f"a batch of {question.batch} does not split into groups of {', '.join(map(str, GROUP_SIZES))}"
        )
    replicas = sum(found.samplers.values())
    if replicas > MOST_REPLICAS:
        return Infeasible(f"a job has at most {MOST_REPLICAS} samplers, the plan {replicas}")
    job = _job(question, found, group)
    AgenticRLJob.model_validate(job)
    header = [f"steelyard plan: {found.seconds:.0f} s an iteration.", *notes]
    text: str = yaml.safe_dump(job, sort_keys=False, default_flow_style=None, width=120)
    return "".join(f"# {line}\n" for line in header) + text


def _job(question: Question, found: Plan, group: int) -> dict[str, Any]:
    profiles = {tp: f"tp{tp}" for tp in sorted(found.samplers, reverse=True)}
    open_trajectories = (STALENESS + 1) * question.batch
    return {
        "apiVersion": "steelyard.dev/v1alpha1",
        "kind": "AgenticRLJob",
        "metadata": {"name": "planned"},
        "spec": {
            "model": {"claim": {"name": "model"}},
            "tasks": {"claim": {"name": "tasks"}},
            "code": {"configMap": {"name": "recipe"}},
            "algorithm": {
                "groupSize": group,
                "promptsPerStep": question.batch // group,
                "maxStaleness": STALENESS,
                "args": {"microBatch": str(found.training.micro_batch), "precision": "bfloat16"},
            },
            "checkpoints": {"everySteps": EVERY},
            "budget": {"gpus": question.gpus},
            "stages": {
                "sampler": {
                    "replicas": _sampler_replicas(question, found),
                    "gpuProfiles": [_profile(name, tp, question) for tp, name in profiles.items()],
                    "engine": {"args": ["--max-model-len", str(question.longest)]},
                },
                "environment": {
                    "replicas": _replicas(_episodes(question.batch), _episodes(open_trajectories)),
                    "concurrency": EPISODES,
                    "entrypoint": "recipe:environment",
                },
                "rewardServer": {"entrypoint": "recipe:reward"},
                "trainer": {"gpuProfiles": [_profile("train", found.training.gpus, question)]},
            },
            "buffer": {
                "maxTrajectories": open_trajectories,
                "maxExperience": (EVERY + STALENESS + 1) * question.batch,
            },
            "planning": {
                "model": question.model.name,
                "hardware": question.hardware.name,
                "promptTokens": round(float(question.lengths.prompt.mean())),
                "outputTokens": round(float(question.lengths.generated.mean())),
            },
            **_scaling(found.samplers, profiles),
        },
    }


def _sampler_replicas(question: Question, found: Plan) -> dict[str, int]:
    """The planned number first, then anything that fits beside training; a mixed plan is fixed instead."""
    replicas, most = sum(found.samplers.values()), (question.gpus - found.training.gpus) // min(found.samplers)
    if len(found.samplers) > 1:
        return {"min": 1, "max": replicas}
    return _replicas(replicas, most)


def _scaling(samplers: Mapping[int, int], profiles: Mapping[int, str]) -> dict[str, Any]:
    if len(profiles) == 1:
        return {}
    return {"scaling": {"mode": "Fixed", "fixed": {"sampler": {name: samplers[tp] for tp, name in profiles.items()}}}}


def _episodes(trajectories: int) -> int:
    """Environment replicas that run so many episodes at once."""
    return min(-(-trajectories // EPISODES), MOST_REPLICAS)


def _replicas(initial: int, most: int) -> dict[str, int]:
    return {"min": 1, "max": min(max(initial, most), MOST_REPLICAS), "initial": initial}


def _profile(name: str, gpus: int, question: Question) -> dict[str, Any]:
    return {"name": name, "resources": {question.hardware.resource: gpus}, "gpus": gpus}
