"""From a task to its trajectory on the bus: plays the episode, whatever becomes of it, and acknowledges afterwards.

Every task that can be read ends in a trajectory: `ok`, `timeout` (the episode or a tool ran out of time) or `failed`
(the environment or the sampler refused; the reason is in its meta). There is no second try here: that would be for the
trainer to decide, who knows the group. Only a task that takes the worker down with it is delivered again, until the bus
buries it.
"""

import asyncio
import json
import logging
import time
from functools import partial

from steelyard.api import Episode as Bounds
from steelyard_workers.bus import Bus, Delivery
from steelyard_workers.clock import Slot, State
from steelyard_workers.environment.episode import Episode
from steelyard_workers.environment.protocol import Environment, ToolTimeout, TurnsExhausted
from steelyard_workers.environment.samplers import Samplers
from steelyard_workers.environment.tokens import Tokenizer
from steelyard_workers.messages import Malformed, Outcome, Task, Trajectory
from steelyard_workers.metrics import EpisodeMetrics, StageMetrics
from steelyard_workers.trace import Span, Tracer
from steelyard_workers.tracebacks import show_once

log = logging.getLogger(__name__)


class Runner:
    """Plays the episodes of one process."""

    def __init__(
        self,
        environment: Environment,
        bounds: Bounds,
        *,
        bus: Bus,
        samplers: Samplers,
        tokenizer: Tokenizer,
        tracer: Tracer,
        stage: StageMetrics,
        episodes: EpisodeMetrics,
    ) -> None:
        self._environment, self._bounds = environment, bounds
        self._bus, self._samplers, self._tokenizer = bus, samplers, tokenizer
        self._tracer, self._stage, self._episodes = tracer, stage, episodes

    async def work(self, delivery: Delivery[Task], slot: Slot) -> None:
        """Play one task and publish what came of it."""
        task, started = delivery.message, time.monotonic()
        words, queued = json.dumps(task.task)[:500], delivery.waited_seconds
        with (
            slot.within(State.BUSY),
            self._tracer.follow(task.id, "episode", seed=task.seed, task=words, queued_seconds=queued) as span,
        ):
            trajectory = await self._play(task, slot, span)
            worked = time.monotonic() - started - span.waited
            span.note(
                outcome=trajectory.outcome,
                policy_first=str(trajectory.policy_first),
                policy_last=str(trajectory.policy_last),
            )
            try:
                with span.waiting():
                    new = await self._bus.put(trajectory, full=partial(slot.within, State.BLOCKED))
            except Malformed as error:
                await self._bus.bury(delivery, str(error))
                self._stage.unit("failed", worked)
                return
            self._stage.unit(trajectory.outcome if new else "duplicate", worked)
            await delivery.ack()

    async def _play(self, task: Task, slot: Slot, span: Span) -> Trajectory:
        episode = Episode(
            task,
            self._bounds,
            tokenizer=self._tokenizer,
            samplers=self._samplers,
            slot=slot,
            span=span,
            metrics=self._episodes,
        )
        with slot.within(State.TOKENS), span.waiting():
            await self._samplers.found()
        outcome, reason = await self._outcome(task, episode)
        if outcome != "ok":
            log.warning("trajectory %s: %s: %s", task.id, outcome, reason)
        lengths = episode.lengths()
        self._episodes.tokens(prompt=lengths["prompt"], generated=lengths["policy"], tool=lengths["tool"])
        return episode.trajectory(outcome, **({"reason": reason} if reason else {}))

    async def _outcome(self, task: Task, episode: Episode) -> tuple[Outcome, str]:
        seconds = self._bounds.timeout_seconds
        try:
            async with asyncio.timeout(seconds) as bound:
                await self._environment.run(task.task, episode)
        except TurnsExhausted:
            pass
        except ToolTimeout as error:
            return "timeout", str(error)
        except Exception as error:  # the environment is the user's code and may raise anything
            if bound.expired():
                return "timeout", f"the episode took longer than {seconds} s"
            show_once(error)
            return "failed", f"{type(error).__name__}: {error}"
        if not episode.lengths()["policy"]:
            return "failed", "the policy wrote nothing in this episode"
        return "ok", ""
