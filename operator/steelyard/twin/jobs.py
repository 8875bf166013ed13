"""The job that a profile is, and the true model of its pipeline."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from steelyard.api import AgenticRLJob, Allocation, Stage
from steelyard.api.names import MAX_JOB_NAME
from steelyard.balance.closed_loop import TokenLatency
from steelyard.balance.model import Bounds, Capacities, Estimate, Model, Workload
from steelyard.twin.profiles import MOST_GPUS, Profile
from steelyard.twin.workload import Numbers
from steelyard.twin.workload import Workload as Trajectories

SAMPLER, REWARD = "pair", "single"
"""Names of the only GPU profile of the samplers and of the reward servers."""
EXPECTED_SCALING = 0.9
"""The user expects n times the trainer's GPUs to be n to this power times as fast (the balance's own first guess)."""
LEAST_BUFFER, CHECKPOINT_STEPS = 4096, 4
"""The API's defaults: messages in a buffer, steps between two checkpoints."""
MOST_SPEED = 1000
"""Per cent, of a GPU profile."""
SAMPLE = 8192
"""Trajectories behind the figures of the true model."""


def trainer_profile(gpus: int) -> str:
    """Name of the trainer's GPU profile of that size."""
    return f"x{gpus}"


def trainer_gpus(profile: Profile, allocation: Allocation) -> int:
    """GPUs of the trainer."""
    return next(gpus for gpus in profile.trainer.sizes if trainer_profile(gpus) in allocation[Stage.TRAINER])


def split(profile: Profile, samplers: int, judges: int, trainer_gpus: int) -> Allocation:
    """The allocation with so many samplers and reward servers, and a trainer of that size."""
    return Allocation.of(
        {
            Stage.SAMPLER: {SAMPLER: samplers},
            Stage.ENVIRONMENT: {"default": profile.environments},
            Stage.REWARD_SERVER: {REWARD: judges},
            Stage.TRAINER: {trainer_profile(trainer_gpus): 1},
        }
    )


def splits(profile: Profile) -> list[Allocation]:
    """Every split of the budget: for each trainer size and number of judges, as many samplers as fit."""
    found = []
    for trainer in profile.trainer.sizes:
        for judges in range(1, profile.gpus):
            samplers = (profile.gpus - trainer - judges * profile.reward.gpus) // profile.sampler.gpus
            if samplers >= 1:
                found.append(split(profile, samplers, judges, trainer))
    return found


@dataclass(frozen=True, slots=True)
class Demand:
    """What the mean trajectory of one policy version asks for."""

    tokens: float
    live_tokens: float
    """In the KV cache per running sequence, averaged over the tokens generated."""
    tool_seconds: float
    """The start of its environment included."""
    judge_seconds: float
    train_gpu_seconds: float
    """At speed 1."""


@lru_cache(maxsize=64)
def _drawn(profile: Profile) -> tuple[Numbers, Numbers, Numbers, Numbers, Numbers]:
    """Tokens, inputs and tools of many trajectories, (trajectories, turns) each, their judging and their start."""
    source = Trajectories(profile, 0)
    draws = [source.draw(index) for index in range(SAMPLE)]
    turns = max(len(one.tokens) for one in draws)
    tokens, inputs, tools = (
        np.array([row + [0.0] * (turns - len(row)) for row in rows])
        for rows in ([one.tokens for one in draws], [one.inputs for one in draws], [one.tools for one in draws])
    )
    return tokens, inputs, tools, np.array([one.judging for one in draws]), np.array([one.start for one in draws])


@lru_cache(maxsize=1024)
def demand(profile: Profile, step: int) -> Demand:
    """Means over many drawn trajectories of policy version `step`."""
    tokens, inputs, tools, judging, starts = _drawn(profile)
    factor, limit = profile.factor(step), profile.context_tokens
    context, generated, live = (np.zeros(len(tokens)) for _ in range(3))
    waits = starts.copy()
    for turn in range(tokens.shape[1]):
        goes_on = (tokens[:, turn] > 0) & (context < limit)
        if turn:
            waits += np.where(goes_on, tools[:, turn - 1], 0.0)
        context += np.where(goes_on, inputs[:, turn], 0.0)
        wanted = np.where(goes_on, np.minimum(tokens[:, turn] * factor, np.maximum(limit - context, 1.0)), 0.0)
        live += wanted * (context + wanted / 2)
        context += wanted
        generated += wanted
    length = generated / profile.mean_tokens
    return Demand(
        tokens=float(generated.mean()),
        live_tokens=float(live.sum() / generated.sum()),
        tool_seconds=float(waits.mean()),
        judge_seconds=float((judging * length**profile.reward.exponent).mean()),
        train_gpu_seconds=profile.trainer.gpu_seconds * float((length**profile.trainer.exponent).mean()),
    )


def full_batch(profile: Profile, live_tokens: float) -> float:
    """Sequences that run on a sampler with more work than it can take.

    Requests are admitted in order, so while the first does not fit, what is left of the KV cache stays empty: about
    half of a mean request.
    """
    return max(min(profile.sampler.max_num_seqs, profile.sampler.kv_tokens / live_tokens - 0.5), 1.0)


@lru_cache(maxsize=1024)
def truth(profile: Profile, step: int) -> Model:
    """The model of the pipeline without error at policy version `step`: for oracles, never for the balance."""
    asked, sampler, trainer, batch = demand(profile, step), profile.sampler, profile.trainer, profile.batch
    latency = TokenLatency(sampler.alpha, sampler.beta, full_batch(profile, asked.live_tokens))
    sizes = {
        trainer_profile(gpus): Estimate(
            1 / (asked.train_gpu_seconds / trainer.speed(gpus) + trainer.step_seconds / batch)
        )
        for gpus in trainer.sizes
    }
    rates = {
        Stage.SAMPLER: {SAMPLER: Estimate(latency.capacity)},
        Stage.REWARD_SERVER: {REWARD: Estimate(profile.reward.slots / asked.judge_seconds)},
        Stage.TRAINER: sizes,
    }
    capacities = Capacities(
        rates,
        {SAMPLER: latency},
        slots=profile.concurrency,
        sync_seconds=profile.cluster.sync_seconds,
        trainer_seconds=min(1 / rate.value for rate in sizes.values()),
    )
    each = 1 / (1 - profile.failed_share)
    visits = {Stage.ENVIRONMENT: each, Stage.REWARD_SERVER: each, Stage.TRAINER: 1.0}
    workload = Workload(asked.tokens, outside_seconds=asked.tool_seconds, visits=visits)
    return Model(workload, capacities, Bounds(batch, profile.most_open))


def best_split(profile: Profile, step: int = 0) -> Allocation:
    """The split that the true model finds best at `step`; of equal ones that with the fewest GPUs."""
    model, prices = (
        truth(profile, step),
        job_of(profile, split(profile, 1, 1, profile.trainer.sizes[0])).spec.gpu_prices,
    )
    return max(splits(profile), key=lambda one: (model.promise(one).throughput, -one.gpus(prices)))


@lru_cache(maxsize=256)
def job_of(profile: Profile, start: Allocation | None = None) -> AgenticRLJob:
    """The job, valid against the API; it starts at `start`, else at `best_split(profile)`."""
    start = start or best_split(profile)
    trainer = next(iter(start[Stage.TRAINER]))
    sizes = sorted(profile.trainer.sizes, key=lambda gpus: (trainer_profile(gpus) != trainer, gpus))
    sampler, reward = profile.sampler, profile.reward
    smallest = min(profile.trainer.sizes)
    room = max(LEAST_BUFFER, profile.most_open + CHECKPOINT_STEPS * profile.batch)
    name = f"twin-{profile.name}"[:MAX_JOB_NAME].rstrip("-")
    return AgenticRLJob.model_validate(
        {
            "metadata": {"name": name, "namespace": "default", "uid": "twin", "generation": 1},
            "spec": {
                "model": {"path": "/models/policy"},
                "tasks": {"configMap": {"name": "tasks"}},
                "algorithm": {
                    "groupSize": profile.group_size,
                    "promptsPerStep": profile.prompts_per_step,
                    "steps": profile.steps,
                    "maxStaleness": profile.max_staleness,
                },
                "buffer": {"maxTrajectories": room, "maxExperience": room},
                "budget": {"gpus": profile.gpus},
                "stages": {
                    "sampler": {
                        "replicas": _range(start.replicas(Stage.SAMPLER), profile.gpus // sampler.gpus),
                        "gpuProfiles": [_gpus(SAMPLER, sampler.gpus)],
                        "drainSeconds": _drain(profile, Stage.SAMPLER),
                        "engine": {"args": ["--max-num-seqs", str(sampler.max_num_seqs)]},
                    },
                    "environment": {
                        "replicas": _range(profile.environments, profile.environments),
                        "concurrency": profile.concurrency,
                        "drainSeconds": _drain(profile, Stage.ENVIRONMENT),
                        "entrypoint": "twin:environment",
                    },
                    "rewardServer": {
                        "replicas": _range(start.replicas(Stage.REWARD_SERVER), profile.gpus // reward.gpus),
                        "gpuProfiles": [_gpus(REWARD, reward.gpus)],
                        "drainSeconds": _drain(profile, Stage.REWARD_SERVER),
                        "entrypoint": "twin:reward",
                    },
                    "trainer": {
                        "gpuProfiles": [
                            _gpus(trainer_profile(gpus), gpus, round(100 * (gpus / smallest) ** EXPECTED_SCALING))
                            for gpus in sizes
                        ],
                        "drainSeconds": _drain(profile, Stage.TRAINER),
                    },
                },
            },
        }
    )


def _range(first: int, most: int) -> dict[str, int]:
    return {"min": 1, "initial": first, "max": max(first, min(most, MOST_GPUS))}


def _drain(profile: Profile, stage: Stage) -> int:
    return round(dict(profile.cluster.drain_seconds)[stage])


def _gpus(name: str, gpus: int, speed: int = 100) -> dict[str, Any]:
    return {"name": name, "resources": {"nvidia.com/gpu": gpus}, "gpus": gpus, "speedPercent": min(speed, MOST_SPEED)}
