"""One window -> the model of the pipeline: service demands by the utilisation law, visits by flow, each with its error.

Figures that this window cannot give (a profile not running now, a sampler under a single load) come from the ledger's
last measurement, else from the speed that the user expects of the profile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from steelyard.api import AgenticRLJobSpec, Stage
from steelyard.balance import sampler
from steelyard.balance.closed_loop import TokenLatency
from steelyard.balance.counter import Gauge
from steelyard.balance.demand import EDGE_ERROR, interval_error, service_demand, work
from steelyard.balance.known import NOTHING, Known, aged_latencies, latency_priors, remembered, with_priors
from steelyard.balance.model import Bounds, Capacities, Estimate, Load, Model, Workload
from steelyard.balance.observe import Observed, PodWindow, StageWindow
from steelyard.balance.priors import speeds
from steelyard.balance.trainer_curve import TrainerCurve, TrainerSize, fitted


@dataclass(frozen=True)
class Estimated:
    """A model, or the sentences that say what is not known yet."""

    model: Model | None
    unknown: tuple[str, ...] = ()


def estimate(observed: Observed, spec: AgenticRLJobSpec, known: Known = NOTHING) -> Estimated:
    """The model behind `observed`, completed by what is `known` from before."""
    windows = {stage: observed.stages.get(stage, StageWindow(stage)) for stage in Stage}
    environment, trainers = windows[Stage.ENVIRONMENT], windows[Stage.TRAINER]
    trained = _trainer_rate(trainers, observed)
    rates = {Stage.REWARD_SERVER: _rates(windows[Stage.REWARD_SERVER]), Stage.TRAINER: trained}
    episodes = environment.rate()
    unknown = [
        f"{stage} has finished no unit in the window" if windows[stage].pods else f"{stage} has no pod with metrics"
        for stage, finished in {**{s: bool(r) for s, r in rates.items()}, Stage.ENVIRONMENT: bool(episodes)}.items()
        if not finished
    ]
    rates[Stage.SAMPLER], latency, loads = _samplers(windows[Stage.SAMPLER], observed, spec, known.loads)
    if not rates[Stage.SAMPLER]:
        unknown.append("sampler has generated no token in the window")
    if unknown or not episodes:
        return Estimated(None, tuple(unknown))
    tokens = sum(_tokens_rate(pod) for pod in windows[Stage.SAMPLER].pods) / episodes
    curve, rates[Stage.TRAINER] = _per_trainer(trained, len(trainers.pods), tokens, known)
    latency = {**aged_latencies(known.latency), **latency}
    for stage, profiles in rates.items():
        rates[stage] = {**remembered(stage, known.rates.get(stage, {}), profiles, tokens), **profiles}
    rates[Stage.SAMPLER].update({name: Estimate(tau.capacity, tau.error) for name, tau in latency.items()})
    rates = {
        stage: with_priors(
            profiles, speeds(stage, spec, tokens), {shape.name: shape for shape in spec.stage(stage).gpu_profiles}
        )
        for stage, profiles in rates.items()
    }
    latency = latency_priors(latency, rates[Stage.SAMPLER])
    capacities = Capacities(
        rates,
        latency,
        loads,
        slots=_slots(environment, spec),
        sync_seconds=_sync_seconds(windows[Stage.SAMPLER], observed),
        trainer_seconds=1 / sum(one.value for one in trained.values()),
        trainer_curve=curve,
    )
    workload = _workload(windows, episodes, tokens, latency)
    bounds = Bounds(spec.algorithm.batch, (spec.algorithm.max_staleness + 1) * spec.algorithm.batch)
    return Estimated(Model(workload, capacities, bounds, _catching_up(observed, spec)))


def _catching_up(observed: Observed, spec: AgenticRLJobSpec) -> dict[Stage, float]:
    """Required rate beyond the flow: what waits before the reward server, worked off within the horizon.

    What waits before the trainer asks for nothing: admission bounds it, and a trainer that catches up with it once is
    no faster for it afterwards.
    """
    waiting = observed.backlogs.get(Stage.REWARD_SERVER, Gauge()).mean or 0.0
    return {Stage.REWARD_SERVER: waiting / spec.scaling.horizon_seconds}


def _rates(window: StageWindow) -> dict[str, Estimate]:
    """Units per second of one replica by profile: slots / service demand."""
    found = {}
    for profile in sorted({pod.pod.profile for pod in window.pods}):
        pods = tuple(pod for pod in window.pods if pod.pod.profile == profile)
        demand = service_demand(pods)
        if demand:
            slots = sum(pod.slots or 1.0 for pod in pods) / len(pods)
            found[profile] = Estimate(slots / demand.value, demand.error)
    return found


def _trainer_rate(window: StageWindow, observed: Observed) -> dict[str, Estimate]:
    """Samples per second of all replicas together; between step ends, since a whole batch is counted at each end.

    Rank 0 counts the samples. Publishing weights and writing checkpoints are in its slot's time, hence in the service.
    """
    ends = observed.window.step_ends
    for pod in window.pods:
        if len(ends) >= 2:
            demand = service_demand((pod,), ends[0][0], ends[-1][0], outcome="ok")
            if demand:
                return {pod.pod.profile: Estimate(1 / demand.value, _step_error(pod, observed))}
    return {}


def _step_error(pod: PodWindow, observed: Observed) -> float:
    """Relative standard error of the trainer's time per step."""
    ends = observed.window.step_ends
    works = [(work(pod, before, after), steps) for (before, _), (after, steps) in pairwise(ends)]
    if sum(spent for spent, _ in works) <= 0:
        return 2.0
    least = EDGE_ERROR / sum(steps for _, steps in works) / 4
    return min(max(interval_error(works, observed.window.scrape_seconds), least), 2.0)


def _per_trainer(
    together: Mapping[str, Estimate], replicas: int, tokens: float, known: Known
) -> tuple[TrainerCurve, dict[str, Estimate]]:
    """The curve through the sizes seen so far, and by profile the rate of a single replica on it."""
    profile, measured = next(iter(together.items()))
    curve = fitted(TrainerSize(replicas, measured.value, tokens), known.trainer_sizes.get(profile, ()))
    return curve, {profile: Estimate(measured.value / curve.speedup(replicas), measured.error)}


def _samplers(
    window: StageWindow, observed: Observed, spec: AgenticRLJobSpec, past: Mapping[str, Sequence[Load]]
) -> tuple[dict[str, Estimate], dict[str, TokenLatency], dict[str, Load]]:
    rates: dict[str, Estimate] = {}
    loads: dict[str, Load] = {}
    latencies: dict[str, TokenLatency] = {}
    for profile in sorted({pod.pod.profile for pod in window.pods}):
        pods = [pod for pod in window.pods if pod.pod.profile == profile and pod.engine and pod.span > 0]
        if not pods:
            continue
        most = sampler.most_running(pods, spec.stages.sampler.engine.args)
        slices = sampler.slices(pods, observed.window.scrape_seconds)
        latency = sampler.fit(slices, most) or sampler.fit(slices, most, past.get(profile, ()))
        seen = [one.load for one in slices]
        between, mean = sampler.bracket(seen, most.value), sampler.mean_load(seen)
        if mean:
            loads[profile] = mean
        if latency:
            latencies[profile] = latency
            rates[profile] = Estimate(latency.capacity, latency.error)
        elif between:
            rates[profile] = between
    return rates, latencies, loads


def _tokens_rate(pod: PodWindow) -> float:
    return pod.engine.tokens.increase(pod.start, pod.end) / pod.span if pod.engine and pod.span > 0 else 0.0


def _slots(environment: StageWindow, spec: AgenticRLJobSpec) -> float:
    told = [pod.slots for pod in environment.pods if pod.slots]
    return sum(told) / len(told) if told else float(spec.stages.environment.concurrency)


def _sync_seconds(window: StageWindow, observed: Observed) -> float:
    """Sampler seconds lost per policy version, per replica."""
    versions = sum(count for _, count in observed.window.step_ends)
    return window.time_in("sync") / len(window.pods) / versions if versions > 0 and window.pods else 0.0


def _workload(
    windows: Mapping[Stage, StageWindow], episodes: float, tokens: float, latency: Mapping[str, TokenLatency]
) -> Workload:
    environment, samplers = windows[Stage.ENVIRONMENT], windows[Stage.SAMPLER]
    finished = environment.finished()
    outside = environment.time_in("busy", "tool", "sync") / finished
    waiting = environment.time_in("tokens") / finished
    demand = service_demand(environment.pods)
    explained = tokens * _latency_now(samplers, latency)
    return Workload(
        tokens=tokens,
        outside_seconds=outside,
        waiting_seconds=waiting,
        overhead_seconds=max(waiting - explained - _queued(samplers) / episodes, 0.0),
        error=demand.error if demand else 0.0,
        visits=_visits(windows),
    )


def _queued(samplers: StageWindow) -> float:
    """Requests that wait inside the samplers: more samplers would not leave them waiting."""
    return sum(pod.engine.waiting.mean or 0.0 for pod in samplers.pods if pod.engine)


def _visits(windows: Mapping[Stage, StageWindow]) -> dict[Stage, float]:
    """Units of each stage per trained trajectory, by the shares that go on, so that a filling buffer does not count.

    A trajectory that failed travels on with its outcome and is scored like any other, so its loss shows again in the
    reward server's share: the larger of the two losses counts, not their product. The trainer's time goes into samples
    that are trained; what it turns away (stale, duplicate) costs the stages before it.
    """
    scored, trained = windows[Stage.REWARD_SERVER].ok_share or 1.0, windows[Stage.TRAINER].ok_share or 1.0
    played = min(windows[Stage.ENVIRONMENT].ok_share or 1.0, scored)
    return {Stage.ENVIRONMENT: 1 / (played * trained), Stage.REWARD_SERVER: 1 / (scored * trained), Stage.TRAINER: 1.0}


def _latency_now(samplers: StageWindow, latency: Mapping[str, TokenLatency]) -> float:
    """Token latency that the fits give for the loads of this window, mean over its tokens; 0 where none is known."""
    explained = generated = 0.0
    for pod in samplers.pods:
        fitted = latency.get(pod.pod.profile)
        if fitted is None or pod.engine is None:
            continue
        tokens = pod.engine.tokens.increase(pod.start, pod.end)
        spent, batching = pod.engine.latency_sum.increase(pod.start, pod.end), pod.time_in("busy", "sync")
        generated += tokens
        explained += tokens * fitted.at(min(spent / batching if batching > 0 else 1.0, fitted.most))
    return explained / generated if generated > 0 else 0.0
