"""One window of a recorded job -> the twin of that job, by the balance's own observation and estimate.

What the samples cannot tell is left out rather than invented: lengths do not vary, nothing fails, nothing drifts. A
replica on a part of a GPU, or on none, counts as one on a whole GPU.
"""

from __future__ import annotations

from dataclasses import replace
from math import exp, gcd

from pydantic import ValidationError

from steelyard.api import AgenticRLJob, Allocation, Stage
from steelyard.api.base import explain
from steelyard.balance.closed_loop import TokenLatency
from steelyard.balance.model import Capacities, Load
from steelyard.balance.observe import Observed
from steelyard.balance.sampler import most_running
from steelyard.twin.jobs import job_of, split, splits
from steelyard.twin.profiles import MOST_GPUS, Cluster, Profile, RewardServer, Sampler, Spread, Tools, Trainer
from steelyard.twin.recording import Malformed, Recording, Window
from steelyard.twin.run import Static, run

SETTLING_STEPS, MEASURED_STEPS = 10, 40
TOOL_SIGMA = 0.3
"""Logarithmic spread of tool calls, whose mean is measured."""
MOST_STEPS = 150
"""Nothing drifts, so more steps would tell the same."""
ROOM_TOKENS = 1_000_000_000
"""A KV cache that binds nothing: where it does, the sequences it has room for are measured."""


def calibrated(recording: Recording, window: Window) -> Profile:
    """The twin of the recorded job, from this window alone. Raises Malformed when the window does not tell enough."""
    observed, estimated = recording.observed(window), recording.estimated(window)
    if estimated.model is None:
        raise Malformed(f"windows[{recording.windows.index(window)}].rates: {'; '.join(estimated.unknown)}")
    model, job = estimated.model, recording.job
    for stage in Stage:
        _measured(recording, window, stage)
    algorithm, environment = job.spec.algorithm, job.spec.stages.environment
    outside = float(model.workload.outside_seconds + model.workload.overhead_seconds)
    turns = 2 if outside > 0 else 1
    profile = Profile(
        name=f"recorded-{job.metadata.name}",
        source=f"{job.metadata.name}, calibrated on {window.end - window.start:.0f} s under {window.allocation}",
        gpus=int(job.spec.budget.gpus),
        steps=min(algorithm.steps, MOST_STEPS),
        prompts_per_step=algorithm.prompts_per_step,
        group_size=algorithm.group_size,
        max_staleness=algorithm.max_staleness,
        requeue_stale=True,  # as the trainer of a real job does
        environments=window.allocation.replicas(Stage.ENVIRONMENT),
        concurrency=environment.concurrency,
        turns=Spread(turns),
        turn_tokens=float(model.workload.tokens) / turns,
        trajectory_sigma=0.0,
        prompt_tokens=0,
        tool_tokens=0,
        failed_share=0.0,
        tools=_tools(outside),
        sampler=_sampler(job, window, observed, model.capacities),
        reward=_reward(job, window, observed, model.capacities),
        trainer=_trainer(job, window, float(model.capacities.trainer_seconds)),
        cluster=replace(
            Cluster(), sync_seconds=float(model.capacities.sync_seconds), scrape_seconds=observed.window.scrape_seconds
        ),
    )
    _check(profile)
    return profile


def _check(profile: Profile) -> None:
    """Raises Malformed where the recorded job is none that the twin can simulate."""
    if profile.gpus > MOST_GPUS:
        raise Malformed(f"job.spec.budget.gpus: {profile.gpus}; the twin simulates at most {MOST_GPUS}")
    if not splits(profile):
        least = profile.sampler.gpus + profile.reward.gpus + min(profile.trainer.sizes)
        raise Malformed(
            f"job.spec.budget.gpus: {profile.gpus} whole GPUs; every sampler, reward server and trainer of the twin "
            f"takes whole ones, and one of each takes {least}"
        )
    try:
        job_of(profile, split(profile, 1, 1, min(profile.trainer.sizes)))
    except ValidationError as error:
        raise Malformed(f"the twin's job would not be valid: {explain(error)}") from error


def _measured(recording: Recording, window: Window, stage: Stage) -> None:
    """Raises Malformed unless the stage ran the one profile that the window's allocation says."""
    name, _ = _profile(recording.job, window.allocation, stage)
    ran = {pod.profile for pod in window.pods if pod.stage is stage and pod.ready and not pod.terminating}
    if ran != {name}:
        where = f"windows[{recording.windows.index(window)}]"
        raise Malformed(f"{where}.allocation.{stage.field}: {name}, and its pods have {', '.join(sorted(ran))}")


def predicted(profile: Profile, job: AgenticRLJob, allocation: Allocation, seed: int = 1) -> float:
    """Trajectories trained per second that the twin expects of `allocation` of the job, once it has settled."""
    _, trainer_gpus = _profile(job, allocation, Stage.TRAINER)
    samplers, judges = allocation.replicas(Stage.SAMPLER), allocation.replicas(Stage.REWARD_SERVER)
    alike = replace(profile, environments=allocation.replicas(Stage.ENVIRONMENT), steps=SETTLING_STEPS + MEASURED_STEPS)
    done = run(alike, Static(), seed, split(alike, samplers, judges, trainer_gpus))
    measured = done.step_ends[SETTLING_STEPS:]
    return profile.batch * (len(measured) - 1) / (measured[-1] - measured[0])


def _tools(outside_seconds: float) -> Tools:
    """One call a trajectory, or none."""
    if outside_seconds <= 0:
        return Tools(())
    return Tools(((1.0, Spread(outside_seconds / exp(TOOL_SIGMA**2 / 2), TOOL_SIGMA)),))


def _sampler(job: AgenticRLJob, window: Window, observed: Observed, capacities: Capacities) -> Sampler:
    name, gpus = _profile(job, window.allocation, Stage.SAMPLER)
    pods = [pod for pod in observed.stages[Stage.SAMPLER].pods if pod.engine]
    latency = capacities.latency.get(name) or _from_one_load(
        capacities.loads[name],
        capacities.rates[Stage.SAMPLER][name].value,
        most_running(pods, job.spec.stages.sampler.engine.args).value,
    )
    return Sampler(gpus, float(latency.alpha), float(latency.beta), round(latency.most), ROOM_TOKENS)


def _from_one_load(load: Load, capacity: float, most: float) -> TokenLatency:
    """The token latency that goes through the only load seen and reaches the middle of the capacity's bracket."""
    slope = (most / capacity - load.latency) / (most - load.running) if most > load.running else 0.0
    beta = min(max(slope, 0.0), load.latency / load.running)
    return TokenLatency(load.latency - beta * load.running, beta, most)


def _reward(job: AgenticRLJob, window: Window, observed: Observed, capacities: Capacities) -> RewardServer:
    name, gpus = _profile(job, window.allocation, Stage.REWARD_SERVER)
    told = [pod.slots for pod in observed.stages[Stage.REWARD_SERVER].pods if pod.slots]
    slots = round(sum(told) / len(told)) if told else 1
    seconds = slots / float(capacities.rates[Stage.REWARD_SERVER][name].value)
    return RewardServer(gpus, slots, Spread(seconds), exponent=0.0)


def _trainer(job: AgenticRLJob, window: Window, seconds: float) -> Trainer:
    """`seconds` a sample at the size of the window; other sizes follow the usual curve."""
    _, gpus = _profile(job, window.allocation, Stage.TRAINER)
    sizes = sorted({max(int(price), 1) for price in job.spec.stage(Stage.TRAINER).profiles.values()})
    trainer = Trainer(tuple(sizes), gcd(*sizes), exponent=0.0, step_seconds=0.0)
    return replace(trainer, gpu_seconds=seconds * trainer.speed(gpus))


def _profile(job: AgenticRLJob, allocation: Allocation, stage: Stage) -> tuple[str, int]:
    """Name and whole GPUs of the only profile in use. Raises Malformed."""
    used = list(allocation[stage])
    if len(used) != 1:
        raise Malformed(f"allocation.{stage.field}: {len(used)} GPU profiles in use, the twin has one a stage")
    profiles = job.spec.stage(stage).profiles
    if used[0] not in profiles:
        raise Malformed(f"allocation.{stage.field}: {used[0]} is none of the job's profiles {', '.join(profiles)}")
    return used[0], max(int(profiles[used[0]]), 1)
