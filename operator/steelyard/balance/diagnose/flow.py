"""Symptoms of how trajectories flow: a stage too slow for the others, stragglers, weight sync, unsteady steps."""

from __future__ import annotations

from itertools import pairwise
from math import sqrt

from steelyard.api import Stage
from steelyard.balance.diagnose.remedies import finding
from steelyard.balance.diagnose.scene import Scene, mean, together
from steelyard.balance.diagnose.waits import OUTSIDE, held_back_by, percent_of
from steelyard.balance.types import Finding, Symptom
from steelyard.balance.words import number, percent, seconds

STARVES = 0.3
"""Share of its time without input from which a trainer is called starved."""
TAKEN = 0.5
"""Share of slot time with an episode from which the slots are called taken."""
WORKS = 0.7
"""Share of slot time that is work from which a stage is called loaded."""
PACED = 0.1
QUEUED = 2.0
"""Queued units per slot from which a queue is more than a buffer."""
FEW = 0.25
"""Episodes that run, as a share of those that could, from which they are few."""
IDLE = 0.5
TAIL = 3.0
"""The 99th percentile of the lengths over the median from which lengths explain stragglers."""
SYNC = 0.1
CPU_WAITS = 0.2
UNSTEADY = 0.5
"""Coefficient of variation of the step intervals: the standard deviation is half of the mean."""
FEWEST_INTERVALS = 5


def rollout_slow(scene: Scene) -> Finding | None:
    """The trainer starves while the slots of the environment are taken."""
    rollout, starved = scene.graph[Stage.ENVIRONMENT], scene.graph[Stage.TRAINER].starved
    culprit = held_back_by(scene.graph)
    if culprit not in (Stage.SAMPLER, Stage.ENVIRONMENT) or starved < STARVES or (rollout.working or 0.0) < TAKEN:
        return None
    tools, tokens = percent_of(rollout.share(*OUTSIDE)), percent_of(rollout.share("tokens"))
    evidence = (
        f"trainer has no input {percent(starved)} of the time; episodes take {percent_of(rollout.working)} of the "
        f"environment's slots ({tools} in tools, {tokens} waiting for samplers)"
    )
    names = [pod.pod.name for pod in scene.pods(Stage.ENVIRONMENT)]
    waits = mean(scene.around.pods[name].cpu_waiting for name in names if name in scene.around.pods)
    if waits is not None and waits >= CPU_WAITS:
        evidence += f"; its pods wait for CPU {percent(waits)} of the time"
    return finding(Symptom.ROLLOUT_SLOW, culprit, evidence)


def trainer_slow(scene: Scene) -> Finding | None:
    """The trainer works all the time, and admission is closed or experience piles up."""
    trainer, paced = scene.graph[Stage.TRAINER], scene.graph[Stage.ENVIRONMENT].shares.get("paced", 0.0)
    queued = trainer.backlog or 0.0
    piles_up = queued >= scene.spec.algorithm.batch and not trainer.drains
    if (trainer.working or 0.0) < WORKS or trainer.starved >= STARVES or not (paced >= PACED or piles_up):
        return None
    return finding(
        Symptom.TRAINER_SLOW,
        Stage.TRAINER,
        f"trainer works {percent_of(trainer.working)} of the time; admission is closed for {percent(paced)} of the "
        f"environment's slots, {number(trainer.backlog)} trajectories wait for a batch of {scene.spec.algorithm.batch}",
    )


def reward_queue(scene: Scene) -> Finding | None:
    """Trajectories queue before the reward server, which works all the time."""
    reward = scene.graph[Stage.REWARD_SERVER]
    slots = together(pod.slots for pod in scene.pods(Stage.REWARD_SERVER)) or 1.0
    if reward.backlog is None or reward.backlog < max(QUEUED * slots, 2 * QUEUED) or reward.drains:
        return None
    if (reward.working or 0.0) < WORKS:
        return None
    grows = f", {number(reward.growth)} more than before" if reward.growth is not None and reward.growth > 0 else ""
    return finding(
        Symptom.REWARD_QUEUE,
        Stage.REWARD_SERVER,
        f"{number(reward.backlog)} trajectories wait before {number(slots)} slots{grows}; reward-server works "
        f"{percent_of(reward.working)} of its slots' time",
    )


def long_tail(scene: Scene) -> Finding | None:
    """Few episodes run, nothing waits for a sampler or a judge, and yet admission is closed and the trainer starves:
    whole groups wait for their last members."""
    environment, starved = scene.graph[Stage.ENVIRONMENT], scene.graph[Stage.TRAINER].starved
    pods = scene.pods(Stage.ENVIRONMENT)
    running, slots = together(pod.inflight.mean for pod in pods), together(pod.slots for pod in pods)
    if running is None or slots is None or running <= 0:
        return None
    could = min(slots, scene.open_bound)
    idle = environment.starved + environment.held_up
    queues = scene.graph[Stage.SAMPLER].backlog, scene.graph[Stage.REWARD_SERVER].backlog
    if any(queue is None or queue >= 1 for queue in queues):  # an unknown queue may be a long one
        return None
    if running > FEW * could or idle < IDLE or starved < STARVES:
        return None
    evidence = (
        f"{number(running)} of {number(could)} episodes that could run do, nothing waits for a sampler or a judge, and "
        f"the trainer has no input {percent(starved)} of the time"
    )
    lengths = scene.around.lengths
    if lengths is not None and lengths.median > 0 and lengths.longest >= TAIL * lengths.median:
        evidence += f"; the longest hundredth of the trajectories has {number(lengths.longest)} tokens or more, "
        evidence += f"the median {number(lengths.median)}"
    return finding(Symptom.LONG_TAIL, Stage.ENVIRONMENT, evidence)


def weight_sync(scene: Scene) -> Finding | None:
    """Taking over or publishing weights eats a noticeable part of the time."""
    shares = {stage: scene.graph[stage].shares.get("sync", 0.0) for stage in (Stage.SAMPLER, Stage.TRAINER)}
    stage = max(shares, key=lambda one: shares[one])
    if shares[stage] < SYNC:
        return None
    step = scene.observed.window.step_seconds
    every = f", a version every {seconds(step)}" if step is not None else ""
    return finding(Symptom.WEIGHT_SYNC, stage, f"{stage} spends {percent(shares[stage])} of its time on weights{every}")


def unsteady_steps(scene: Scene) -> Finding | None:
    """Step intervals vary, more than scrapes alone make them seem to.

    An end is known to a scrape, so an interval has the error of a difference of two uniforms: a sixth of the square.
    """
    ends = scene.observed.window.step_ends
    gaps = [(later - earlier) / count for (earlier, _), (later, count) in pairwise(ends) if count > 0]
    if len(gaps) < FEWEST_INTERVALS:
        return None
    average = sum(gaps) / len(gaps)
    variance = sum((gap - average) ** 2 for gap in gaps) / (len(gaps) - 1)
    spread = sqrt(max(variance - scene.observed.window.scrape_seconds**2 / 6, 0.0)) / average if average > 0 else 0.0
    if spread < UNSTEADY:
        return None
    return finding(
        Symptom.UNSTEADY_STEPS,
        Stage.TRAINER,
        f"steps end every {seconds(average)} with a standard deviation of {percent(spread)}, from {seconds(min(gaps))} "
        f"to {seconds(max(gaps))}",
    )
