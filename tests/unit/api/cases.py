"""What the API accepts and refuses: one table, checked against the types and against a real API server.

A refusal must name the field, the value and the rule. Where the API server words a bound of its own (a minimum, a
pattern, an enum), `field` and `value` must appear in both messages and only the words of the rule differ.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.builders import SLICE, WHOLE


@dataclass(frozen=True)
class Case:
    """A job: the default manifest with `changes`, under `name`."""

    why: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    name: str = "calculator"


@dataclass(frozen=True)
class Refusal(Case):
    field: str = ""
    value: str = ""
    rule: str = ""
    """Words that both messages hold; empty when the API server has its own."""


SAMPLER, ENVIRONMENT = "stages.sampler", "stages.environment"
PROFILES = f"{SAMPLER}.gpuProfiles"
FIXED = "scaling.fixed"

ACCEPTED = [
    Case("the default job"),
    Case("a name of exactly 40 characters", name="n" * 40),
    Case("a model from a claim", {"model": {"claim": {"name": "models", "subPath": "qwen/3b"}}}),
    Case("tasks from a claim", {"tasks": {"claim": {"name": "tasks"}}}),
    Case("code from a ConfigMap", {"code": {"configMap": {"name": "code"}}}),
    Case("min equal to max", {f"{SAMPLER}.replicas": {"min": 2, "max": 2}}),
    Case("initial at both ends", {f"{SAMPLER}.replicas": {"min": 2, "max": 2, "initial": 2}}),
    Case("GPUs written as a number", {f"{PROFILES}.0.gpus": 1}),
    Case("GPUs written as a decimal", {f"{PROFILES}.1.gpus": "0.5"}),
    Case("several whole GPUs a replica", {f"{PROFILES}.0": WHOLE | {"gpus": 4, "resources": {"nvidia.com/gpu": 4}}}),
    Case("a whole number of GPUs in thousandths", {f"{PROFILES}.0.gpus": "2000m"}),
    Case("a part of a CPU beside a GPU", {f"{PROFILES}.0.resources": {"nvidia.com/gpu": 1, "cpu": "500m"}}),
    Case("a budget of exactly the minima", {"budget.gpus": 3}),
    Case("a budget in thousandths", {"budget.gpus": "3500m"}),
    Case(
        "minima that fit only at the cheapest profile, which comes first",
        {PROFILES: [SLICE, WHOLE], "stages.rewardServer.gpuProfiles": [SLICE, WHOLE], "budget.gpus": 2},
    ),
    Case("no GPUs at all", {PROFILES: [], "stages.rewardServer.gpuProfiles": [], "stages.trainer.gpuProfiles": []}),
    Case("Fixed with every stage", {"scaling": {"mode": "Fixed", "fixed": {"sampler": {"whole": 2, "slice": 2}}}}),
    Case("Fixed with the profile of a stage without GPUs", {FIXED: {"environment": {"default": 4}}}),
    Case("Fixed that takes the whole budget", {"scaling": {"mode": "Fixed", "fixed": {"sampler": {"whole": 6}}}}),
    Case("an allocation kept for later in mode Dynamic", {FIXED: {"sampler": {"whole": 1}}}),
    Case("a profile with no replicas, whatever its name", {FIXED: {"sampler": {"whole": 1, "gone": 0}}}),
    Case("maxExperience that just suffices", {"buffer.maxExperience": 896}),
    Case("maxTrajectories that just suffices", {"buffer.maxTrajectories": 384}),
    Case("a synchronous job", {"algorithm.maxStaleness": 0}),
    Case("arguments for plug-ins", {f"{ENVIRONMENT}.args": {"tool_seconds": "0.5"}, "algorithm.args": {"lr": "1e-6"}}),
    Case("anything in a pod template", {f"{SAMPLER}.template": {"spec": {"nodeSelector": {"a": "b"}, "x": [{}]}}}),
    Case("a pinned revision", {"scaling.pin": "calculator-3"}),
    Case("rows of the planner", {"planning": {"model": "qwen3-14b", "hardware": "a800-80g", "outputTokens": 9000}}),
    Case("a share of a pool", {"pool": {"name": "shared.gpus", "queue": "research"}}),
]

REFUSED = [
    Refusal(
        "min above max",
        {f"{SAMPLER}.replicas": {"min": 5, "max": 2}},
        field="spec.stages.sampler.replicas.min",
        value="min 5",
        rule="must not exceed max 2",
    ),
    Refusal(
        "initial above max",
        {f"{ENVIRONMENT}.replicas": {"min": 1, "max": 4, "initial": 9}},
        field="spec.stages.environment.replicas.initial",
        value="initial 9",
        rule="must lie between min 1 and max 4",
    ),
    Refusal(
        "initial below min",
        {f"{ENVIRONMENT}.replicas": {"min": 3, "max": 4, "initial": 2}},
        field="spec.stages.environment.replicas.initial",
        value="initial 2",
        rule="must lie between min 3 and max 4",
    ),
    Refusal(
        "a stage that may be empty", {f"{SAMPLER}.replicas.min": 0}, field="spec.stages.sampler.replicas.min", value="0"
    ),
    Refusal(
        "a model that the planner has no row of",
        {"planning": {"model": "qwen9", "hardware": "a800-80g"}},
        field="spec.planning.model",
        value="qwen9",
    ),
    Refusal(
        "a trajectory without output",
        {"planning": {"model": "qwen3-14b", "hardware": "a800-80g", "outputTokens": 0}},
        field="spec.planning.outputTokens",
        value="0",
    ),
    Refusal(
        "two trainers", {"stages.trainer.replicas": {"max": 2}}, field="spec.stages.trainer.replicas.max", value="2"
    ),
    Refusal(
        "a part of a GPU as device",
        {f"{PROFILES}.0.resources": {"nvidia.com/gpu": "500m"}},
        field="spec.stages.sampler.gpuProfiles[0].resources",
        value="nvidia.com/gpu: 500m",
        rule="must be a whole number of devices",
    ),
    Refusal(
        "a decimal part of a shared GPU as device",
        {f"{PROFILES}.1.resources": {"nvidia.com/gpu.shared": "1.5"}},
        field="spec.stages.sampler.gpuProfiles[1].resources",
        value="nvidia.com/gpu.shared: 1.5",
        rule="must be a whole number of devices",
    ),
    Refusal(
        "several shares of a shared device, which its plug-in does not give (NVIDIA/k8s-device-plugin#929)",
        {f"{PROFILES}.1.resources": {"nvidia.com/gpu.shared": 2}},
        field="spec.stages.sampler.gpuProfiles[1].resources",
        value='["nvidia.com/gpu.shared: 2"] must be 1',
        rule="memoryPercent 45 says that the device is shared",
    ),
    Refusal(
        "a resource that is no quantity",
        {f"{PROFILES}.0.resources": {"cpu": "many"}},
        field="spec.stages.sampler.gpuProfiles[0].resources.cpu",
        value="many",
    ),
    Refusal(
        "a negative resource",
        {f"{PROFILES}.0.resources": {"nvidia.com/gpu": -1}},
        field="spec.stages.sampler.gpuProfiles[0].resources.nvidia.com/gpu",
        value="-1",
    ),
    Refusal(
        "one and a half GPUs a replica",
        {f"{PROFILES}.0.gpus": "1500m"},
        field="spec.stages.sampler.gpuProfiles[0].gpus",
        value="gpus 1.5",
        rule="must be a whole number when above 1",
    ),
    Refusal("GPUs as a float", {f"{PROFILES}.0.gpus": 0.5}, field="spec.stages.sampler.gpuProfiles[0].gpus"),
    Refusal(
        "GPUs finer than a thousandth",
        {f"{PROFILES}.1.gpus": "0.0005"},
        field="spec.stages.sampler.gpuProfiles[1].gpus",
        value="0.0005",
    ),
    Refusal(
        "a profile named twice",
        {PROFILES: [WHOLE, WHOLE]},
        field="spec.stages.sampler.gpuProfiles",
        value="whole",
        rule="Duplicate value",
    ),
    Refusal(
        "a profile name of 13 characters",
        {f"{PROFILES}.0.name": "p" * 13},
        field="spec.stages.sampler.gpuProfiles[0].name",
        value="12",
    ),
    Refusal(
        "a budget below the minima",
        {"budget.gpus": "1500m"},
        field="spec.budget.gpus",
        value="gpus 1.5",
        rule="must be at least 2, the sum of the stages' minima at their cheapest profiles",
    ),
    Refusal(
        "a budget below what the job starts with",
        {f"{SAMPLER}.replicas.initial": 6, "budget.gpus": 7},
        field="spec.budget.gpus",
        value="gpus 7",
        rule="must be at least 8, what the first allocation takes",
    ),
    Refusal("a negative budget", {"budget.gpus": -1}, field="spec.budget.gpus", value="-1"),
    Refusal(
        "a name of 41 characters (ray-project/kuberay#3980)",
        name="n" * 41,
        field="metadata.name",
        value=f"{'n' * 41} has 41 characters",
        rule="at most 40 are allowed",
    ),
    Refusal(
        "a name with a dot, which no Service can have",
        name="my.job",
        field="metadata.name",
        value="my.job",
        rule="must start with a letter and hold only a-z, 0-9 and -",
    ),
    Refusal(
        "a name that starts with a digit",
        name="7b-run",
        field="metadata.name",
        value="7b-run",
        rule="must start with a letter and hold only a-z, 0-9 and -",
    ),
    *(
        Refusal(
            f"an unknown profile in fixed, {stage}",
            {FIXED: {stage: {"mig": 1}}},
            field=f"spec.scaling.fixed.{stage}",
            value='unknown profile ["mig"]',
            rule=f"known are {known}",
        )
        for stage, known in (
            ("sampler", '["whole", "slice"]'),
            ("environment", '["default"]'),
            ("rewardServer", '["whole", "slice"]'),
            ("trainer", '["whole"]'),
        )
    ),
    Refusal(
        "an unknown stage in fixed",
        {FIXED: {"reward": {"whole": 1}}},
        field="spec.scaling.fixed.reward",
    ),
    Refusal(
        "Fixed without an allocation",
        {"scaling.mode": "Fixed"},
        field="spec.scaling.fixed",
        value="mode Fixed",
        rule="needs an allocation: name at least one stage",
    ),
    Refusal(
        "Fixed with an empty allocation",
        {"scaling": {"mode": "Fixed", "fixed": {}}},
        field="spec.scaling.fixed",
        value="mode Fixed",
        rule="needs an allocation: name at least one stage",
    ),
    *(
        Refusal(
            f"fixed above max, {stage}",
            {FIXED: {stage: counts}},
            field=f"spec.scaling.fixed.{stage}",
            value=f"{sum(counts.values())} replicas",
            rule=f"must lie between min 1 and max {maximum}",
        )
        for stage, counts, maximum in (
            ("sampler", {"whole": 7}, 6),
            ("environment", {"default": 33}, 32),
            ("rewardServer", {"whole": 2, "slice": 3}, 4),
            ("trainer", {"whole": 2}, 1),
        )
    ),
    Refusal(
        "fixed below min",
        {FIXED: {"sampler": {"whole": 0}}},
        field="spec.scaling.fixed.sampler",
        value="0 replicas",
        rule="must lie between min 1 and max 6",
    ),
    Refusal(
        "fixed above the budget",
        {"scaling": {"mode": "Fixed", "fixed": {"sampler": {"whole": 6}, "rewardServer": {"whole": 1, "slice": 3}}}},
        field="spec.budget.gpus",
        value="gpus 8",
        rule="must be at least 9.5, what the first allocation takes",
    ),
    Refusal(
        "maxExperience below what a checkpoint keeps unacknowledged",
        {"buffer.maxExperience": 895},
        field="spec.buffer.maxExperience",
        value="maxExperience 895",
        rule="must be at least 896 = (everySteps 4 + maxStaleness 2 + 1) x 128 trajectories a step",
    ),
    Refusal(
        "maxTrajectories below the open groups",
        {"buffer.maxTrajectories": 383},
        field="spec.buffer.maxTrajectories",
        value="maxTrajectories 383",
        rule="must be at least 384 = (maxStaleness 2 + 1) x 128 trajectories a step",
    ),
    Refusal(
        "a model from two places",
        {"model": {"path": "/models/tiny", "claim": {"name": "models"}}},
        field="spec.model",
        value='not ["path", "claim"]',
        rule="exactly one of path, claim must be set",
    ),
    Refusal(
        "a model from nowhere",
        {"model": {}},
        field="spec.model",
        value="not []",
        rule="exactly one of path, claim must be set",
    ),
    Refusal(
        "tasks from two places",
        {"tasks": {"claim": {"name": "a"}, "configMap": {"name": "b"}}},
        field="spec.tasks",
        value='not ["claim", "configMap"]',
        rule="exactly one of claim, configMap must be set",
    ),
    Refusal(
        "code from nowhere",
        {"code": {}},
        field="spec.code",
        value="not []",
        rule="exactly one of claim, configMap must be set",
    ),
    Refusal(
        "a tool that may take longer than its episode",
        {f"{ENVIRONMENT}.episode": {"timeoutSeconds": 30, "toolTimeoutSeconds": 31}},
        field="spec.stages.environment.episode.toolTimeoutSeconds",
        value="toolTimeoutSeconds 31",
        rule="must not exceed timeoutSeconds 30",
    ),
    Refusal("no budget", {"budget": ...}, field="spec.budget"),
    Refusal("no environment", {"stages.environment": ...}, field="spec.stages.environment"),
    Refusal("an unknown mode", {"scaling.mode": "Auto"}, field="spec.scaling.mode", value="Auto"),
    Refusal("an unknown field", {"scaling.minGain": 5}, field="spec.scaling.minGain"),
    Refusal("text for a number", {"algorithm.steps": "many"}, field="spec.algorithm.steps"),
    Refusal(
        "an entry point without a callable",
        {f"{ENVIRONMENT}.entrypoint": "calculator"},
        field="spec.stages.environment.entrypoint",
        value="calculator",
    ),
    Refusal("a group of one", {"algorithm.groupSize": 1}, field="spec.algorithm.groupSize", value="1"),
    Refusal("a relative model path", {"model": {"path": "tiny"}}, field="spec.model.path", value="tiny"),
    Refusal("a pool without a queue", {"pool": {"name": "shared"}}, field="spec.pool.queue"),
    Refusal("a queue with a dot", {"pool": {"name": "shared", "queue": "a.b"}}, field="spec.pool.queue", value="a.b"),
]

IMMUTABLE = [
    Refusal("another model", {"model": {"path": "/models/other"}}, field="spec.model"),
    Refusal("other tasks", {"tasks": {"configMap": {"name": "other"}}}, field="spec.tasks"),
    Refusal("another group size", {"algorithm.groupSize": 4}, field="spec.algorithm.groupSize"),
    Refusal("another batch", {"algorithm.promptsPerStep": 8}, field="spec.algorithm.promptsPerStep"),
    Refusal("another seed", {"algorithm.seed": 8}, field="spec.algorithm.seed"),
    Refusal(
        "another storage class", {"checkpoints.storage.storageClassName": "fast"}, field="spec.checkpoints.storage"
    ),
]
"""Changes to the default job that the API server refuses; only it sees old and new together."""

POOLED = {"pool": {"name": "shared", "queue": "research"}}
NEVER_TO_BE_LEFT = [
    Refusal("another pool", {"pool": {"name": "other", "queue": "research"}}),
    Refusal("no pool any more"),
]
"""Changes to a job of a pool that the API server refuses: its GPUs would be counted nowhere."""

MUTABLE = [
    Case("more steps", {"algorithm.steps": 400}),
    Case("suspension", {"suspend": True}),
    Case("another budget", {"budget.gpus": 6}),
    Case("another mode", {"scaling.mode": "Observe"}),
    Case("other bounds", {f"{SAMPLER}.replicas.max": 3}),
    Case("another image", {f"{SAMPLER}.image": "registry.example/sampler:2"}),
    Case("other code", {"code": {"configMap": {"name": "code"}}}),
]

QUEUE = {"name": "third", "namespaces": ["team-a"]}

POOLS_ACCEPTED = [
    Case("the default pool"),
    Case("guarantees of exactly all GPUs", {"queues.0.guaranteedGpus": "3500m", "queues.1.guaranteedGpus": "4.5"}),
    Case("a queue that may not borrow", {"queues.0.borrowingLimitGpus": 0}),
    Case("a pool without GPUs, for maintenance", {"gpus": 0}),
    Case("a negative priority", {"queues.1.priority": -5}),
]

POOLS_REFUSED = [
    Refusal(
        "guarantees above what there is",
        {"queues.0.guaranteedGpus": 6, "queues.1.guaranteedGpus": "2500m"},
        field="spec.gpus",
        value="gpus 8",
        rule="must be at least 8.5, the sum of the queues' guaranteedGpus",
    ),
    Refusal(
        "a queue named twice",
        {"queues": [QUEUE, QUEUE]},
        field="spec.queues",
        value="third",
        rule="Duplicate value",
    ),
    Refusal("no queue", {"queues": []}, field="spec.queues"),
    Refusal("a queue for nobody", {"queues.0.namespaces": []}, field="spec.queues[0].namespaces"),
    Refusal("a weight of nothing", {"queues.0.weight": 0}, field="spec.queues[0].weight", value="0"),
    Refusal("a negative weight", {"queues.0.weight": -1}, field="spec.queues[0].weight", value="-1"),
    Refusal("a negative guarantee", {"queues.0.guaranteedGpus": -1}, field="spec.queues[0].guaranteedGpus", value="-1"),
    Refusal("GPUs finer than a thousandth", {"gpus": "0.0005"}, field="spec.gpus", value="0.0005"),
    Refusal("no GPUs said", {"gpus": ...}, field="spec.gpus"),
    Refusal("an ageing of seconds", {"ageingSeconds": 5}, field="spec.ageingSeconds", value="5"),
    Refusal("an unknown field", {"queues.0.share": 5}, field="spec.queues[0].share"),
    Refusal(
        "a namespace that cannot be",
        {"queues.0.namespaces": ["Team A"]},
        field="spec.queues[0].namespaces[0]",
        value="Team A",
    ),
]
"""As for jobs: refused by the types and by the API server, both naming field, value and rule."""
