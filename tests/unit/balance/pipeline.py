"""A small simulated pipeline that closes the loop in tests: slots, tools, batching samplers, a judge, a trainer, pods.

Time advances in ticks of `TICK` seconds; nothing is random but the episodes' lengths, from a seeded generator. The
balance sees only what a real one would: counts of pods, and samples at scrape resolution.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from random import Random

from steelyard.api import AgenticRLJob, Allocation, AllocationRevision, Stage
from steelyard.balance import signals
from steelyard.balance.outage import up_since
from steelyard.balance.types import PodView, Rates, Seen, Series, StageCounts
from tests.unit.balance.replicas import Pod, Setup, Slot

TICK = 0.2
START = 1_800_000_000.0


class Pipeline:
    """The simulated cluster and the job that runs on it."""

    def __init__(self, job: AgenticRLJob, setup: Setup) -> None:
        self.job, self.setup = job, setup
        self.prices = job.spec.gpu_prices
        self.budget = float(job.spec.budget.gpus)
        self.now = START
        self.chance = Random(setup.seed)
        self.pods: list[Pod] = []
        self.desired: dict[tuple[Stage, str], int] = {}
        self.tasks = self.trajectories = self.experience = self.open = self.trained = 0
        self.training = 0.0
        self.created = 0
        self.most_gpus = 0.0
        self.bus = Pod(f"{job.metadata.name}-bus-0", Stage.TRAINER, "", 0, [], self.now)
        self.next_scrape = self.now

    # ---- the cluster

    def apply(self, allocation: Allocation) -> None:
        wanted = {(stage, profile): n for stage, profile, n in allocation.entries()}
        self.desired = {key: wanted.get(key, 0) for key in {*self.desired, *wanted}}

    def _reconcile(self) -> None:
        for (stage, profile), n in sorted(self.desired.items()):
            mine = [p for p in self.pods if (p.stage, p.profile) == (stage, profile) and not p.terminating]
            for pod in mine[n:]:
                pod.terminating = True
            for _ in range(n - len(mine)):
                self.created += 1
                count = {
                    Stage.ENVIRONMENT: self.job.spec.stages.environment.concurrency,
                    Stage.REWARD_SERVER: self.setup.judge_slots,
                }.get(stage, 1)
                name = f"{self.job.metadata.name}-{stage}-{profile}-{self.created}"
                gpus = float(self.prices[stage][profile])
                self.pods.append(Pod(name, stage, profile, gpus, [Slot() for _ in range(count)], self.now))
        held = sum(p.gpus for p in self.pods if p.ready_at is not None)
        for pod in self.pods:
            waits = pod.ready_at is None and not pod.terminating
            if waits and held + pod.gpus <= self.budget and not self._broken(pod):
                pod.ready_at = self.now + self.setup.start_seconds
                held += pod.gpus
        self.most_gpus = max(self.most_gpus, held)
        self.pods = [p for p in self.pods if not (p.terminating and self._idle(p))]

    def _broken(self, pod: Pod) -> bool:
        return (pod.stage, pod.profile) in self.setup.broken_profiles

    def _idle(self, pod: Pod) -> bool:
        return not pod.queue and all(slot.state == "starved" for slot in pod.slots)

    def _of(self, stage: Stage) -> list[Pod]:
        return [pod for pod in self.pods if pod.stage is stage and pod.ready(self.now)]

    def _speed(self, pod: Pod) -> float:
        if (pod.stage, pod.profile) in self.setup.slow_profiles:
            return 0.1
        profiles = {p.name: p.speed_percent / 100 for p in self.job.spec.stage(pod.stage).gpu_profiles}
        return profiles.get(pod.profile, 1.0)

    def _vary(self, mean: float) -> float:
        return mean * (1 + self.setup.spread * (2 * self.chance.random() - 1))

    # ---- the job

    def kill(self, stage: Stage, seconds: float) -> None:
        """Every replica of a stage restarts and serves again `seconds` from now; its work is done anew."""
        for pod in self._of(stage):
            pod.ready_at = self.now + seconds
            pod.counters.clear()
            pod.syncing = 0.0
            for waiting in pod.queue:
                waiting.sampler, waiting.running = None, False
            pod.queue.clear()
            for slot in pod.slots:
                self._start_over(stage, slot)
            if stage is Stage.TRAINER and self.training > 0:
                self.experience, self.training = self.experience + self.job.spec.algorithm.batch, 0.0

    def _start_over(self, stage: Stage, slot: Slot) -> None:
        if slot.state != "starved" and stage is Stage.ENVIRONMENT:
            self.tasks += 1
            if slot.sampler is not None and slot in slot.sampler.queue:
                slot.sampler.queue.remove(slot)
        if slot.state != "starved" and stage is Stage.REWARD_SERVER:
            self.trajectories += 1
        slot.state, slot.left, slot.sampler = "starved", 0.0, None

    def advance(self, seconds: float) -> None:
        for _ in range(round(seconds / TICK)):
            self._reconcile()
            self._train()
            for pod in self._of(Stage.REWARD_SERVER):
                self._judge(pod)
            for pod in self._of(Stage.ENVIRONMENT):
                self._episodes(pod)
            for pod in self._of(Stage.SAMPLER):
                self._generate(pod)
            self.now += TICK
            if self.now >= self.next_scrape:
                self.next_scrape += self.setup.scrape_seconds
                self._scrape()

    def _train(self) -> None:
        algorithm = self.job.spec.algorithm
        for pod in self._of(Stage.TRAINER)[:1]:
            pod.set(signals.POLICY_VERSION, pod.counters[signals.STEP_COUNT, "", ""])
            while self.open + algorithm.group_size <= (algorithm.max_staleness + 1) * algorithm.batch:
                self.open += algorithm.group_size
                self.tasks += algorithm.group_size
            if self.training <= 0 and self.experience >= algorithm.batch:
                self.experience -= algorithm.batch
                self.training = self._vary(self.setup.step_seconds)
            pod.add(signals.STAGE_SECONDS, TICK, "state", "busy" if self.training > 0 else "starved")
            if self.training > 0:
                self.training -= TICK
                if self.training <= 0:
                    self._finish_step(pod, algorithm.batch)

    def _finish_step(self, pod: Pod, batch: int) -> None:
        self.trained += batch
        self.open -= batch
        pod.add(signals.STAGE_UNITS, batch, "outcome", "ok")
        pod.add(signals.STEP_COUNT, 1)
        for sampler in self._of(Stage.SAMPLER):
            sampler.syncing = self.setup.sync_seconds

    def _judge(self, pod: Pod) -> None:
        for slot in pod.slots:
            if slot.state == "starved" and self.trajectories > 0 and not pod.terminating:
                self.trajectories -= 1
                slot.state = "busy"  # what the last tick had left over goes into this judgement
                slot.left += self._vary(self.setup.judge_seconds) / self._speed(pod)
            pod.add(signals.STAGE_SECONDS, TICK, "state", slot.state)
            if slot.state == "busy":
                slot.left -= TICK
                if slot.left <= 0:
                    slot.state = "starved"
                    self.experience += 1
                    pod.add(signals.STAGE_UNITS, 1, "outcome", "ok")
        pod.set(signals.STAGE_SLOTS, len(pod.slots))
        pod.set(signals.STAGE_INFLIGHT, sum(slot.state != "starved" for slot in pod.slots))

    def _episodes(self, pod: Pod) -> None:
        for slot in pod.slots:
            if slot.state == "starved" and self.tasks > 0 and not pod.terminating:
                self.tasks -= 1
                slot.turns = self.setup.turns
                self._ask(slot)
            elif slot.state == "tokens" and slot.sampler is None:  # nobody was there to ask
                self._ask(slot)
            pod.add(signals.STAGE_SECONDS, TICK, "state", slot.state)
            if slot.state == "tool":
                slot.left -= TICK
                if slot.left <= 0:
                    slot.turns -= 1
                    if slot.turns > 0:
                        self._ask(slot)
                    else:
                        slot.state = "starved"
                        self.trajectories += 1
                        pod.add(signals.STAGE_UNITS, 1, "outcome", "ok")
        pod.set(signals.STAGE_SLOTS, len(pod.slots))
        pod.set(signals.STAGE_INFLIGHT, sum(slot.state != "starved" for slot in pod.slots))

    def _ask(self, slot: Slot) -> None:
        samplers = [pod for pod in self._of(Stage.SAMPLER) if not pod.terminating] or self._of(Stage.SAMPLER)
        slot.state, slot.left, slot.running = "tokens", max(self._vary(self.setup.tokens), 1.0), False
        slot.sampler = min(samplers, key=lambda pod: len(pod.queue), default=None)
        if slot.sampler is not None:
            slot.sampler.queue.append(slot)

    def _generate(self, pod: Pod) -> None:
        running = pod.queue[: self.setup.most]
        busy = "sync" if pod.syncing > 0 else "busy" if running else "starved"
        pod.add(signals.STAGE_SECONDS, TICK, "state", busy)
        pod.set(signals.REQUESTS_RUNNING, len(running))
        pod.set(signals.REQUESTS_WAITING, len(pod.queue) - len(running))
        pod.set(signals.KV_USAGE, 0.0)
        pod.add(signals.TOKENS_GENERATED, 0.0)
        if pod.syncing > 0:
            pod.add(signals.TOKEN_LATENCY_SUM, TICK * len(running))  # the pause shows as a long gap between two tokens
            pod.syncing -= TICK
        elif running:
            latency = (self.setup.alpha + self.setup.beta * len(running)) / self._speed(pod)
            done = TICK / latency
            pod.add(signals.TOKENS_GENERATED, done * len(running))
            pod.add(signals.TOKEN_LATENCY_SUM, TICK * len(running))
            pod.add(signals.TOKEN_LATENCY_COUNT, done * len(running))
            for slot in running:
                slot.left -= done
                if slot.left <= 0:
                    pod.queue.remove(slot)
                    slot.state, slot.left = "tool", self._vary(self.setup.tool_seconds)

    # ---- what the operator sees

    def _scrape(self) -> None:
        playing, judging = (
            sum(slot.state != "starved" for pod in self._of(stage) for slot in pod.slots)
            for stage in (Stage.ENVIRONMENT, Stage.REWARD_SERVER)
        )
        algorithm = self.job.spec.algorithm
        uncommitted = self.trained // algorithm.batch % self.job.spec.checkpoints.every_steps + (self.training > 0)
        for name, depth in (  # a buffer holds its messages until they are acknowledged
            ("tasks", self.tasks + playing),
            ("trajectories", self.trajectories + judging),
            ("experience", self.experience + uncommitted * algorithm.batch),
        ):
            self.bus.set(signals.BUFFER_DEPTH, depth, "buffer", name)
        for pod in [self.bus, *self.pods]:
            if pod is self.bus or pod.ready(self.now):
                for key, value in pod.counters.items():
                    pod.scraped[key].append((self.now, value))

    def seen(self, revisions: list[AllocationRevision]) -> Seen:
        stages: dict[Stage, dict[str, StageCounts]] = {}
        for (stage, profile), desired in self.desired.items():
            mine = [pod for pod in self.pods if (pod.stage, pod.profile) == (stage, profile)]
            views = tuple(self._view(pod) for pod in mine)
            stages.setdefault(stage, {})[profile] = StageCounts(
                desired=desired,
                ready=sum(view.ready and not view.terminating for view in views),
                pending=sum(not view.ready and not view.terminating for view in views),
                draining=sum(view.terminating for view in views),
                pods=views,
            )
        starts = ((pod.stage, pod.ready_at if pod.ready(self.now) else None) for pod in self.pods)
        return Seen(self.job, tuple(revisions), stages, up_since=up_since(starts))

    def _view(self, pod: Pod) -> PodView:
        problem = None if pod.ready_at is not None else "Unschedulable"
        if self._broken(pod):
            problem = "CrashLoopBackOff"
        return PodView(
            pod.name, pod.name, pod.stage, pod.profile, pod.ready(self.now), pod.terminating, pod.created, problem
        )

    def rates(self, window_seconds: float) -> Rates:
        samples: dict[str, dict[str, tuple[Series, ...]]] = {}
        for pod in [self.bus, *self.pods]:
            for metric, found in self._series(pod, self.now - window_seconds):
                by_pod = samples.setdefault(metric, {})
                by_pod[pod.name] = (*by_pod.get(pod.name, ()), found)
        return Rates(window_seconds, samples)

    def _series(self, pod: Pod, since: float) -> Iterator[tuple[str, Series]]:
        for (metric, label, value), scraped in pod.scraped.items():
            inside = tuple(scraped[bisect_left(scraped, (since, 0.0)) :])
            if inside:
                yield metric, Series(((label, value),) if label else (), inside)
