"""Two ways to a score: the trajectory stream, whose results go on to the trainer, and POST /v1/score for everybody."""

import asyncio
import time
from functools import partial
from typing import Any

from fastapi import FastAPI, HTTPException
from pydantic import BaseModel, Field

from steelyard_workers.bus import Bus, Delivery
from steelyard_workers.clock import Slot, State
from steelyard_workers.messages import Malformed, Trajectory
from steelyard_workers.metrics import RewardMetrics, StageMetrics
from steelyard_workers.reward.bench import Bench, Poison
from steelyard_workers.serve import Health
from steelyard_workers.trace import Tracer


class Scorer:
    """Takes trajectories from the bus and publishes them with their rewards."""

    def __init__(self, bench: Bench, bus: Bus, tracer: Tracer, stage: StageMetrics, rewards: RewardMetrics) -> None:
        self._bench, self._bus, self._tracer = bench, bus, tracer
        self._stage, self._rewards = stage, rewards

    async def work(self, delivery: Delivery[Trajectory], slot: Slot) -> None:
        """Score one trajectory. What cannot be scored, or is too large with its score, goes to the dead letters."""
        trajectory, started = delivery.message, time.monotonic()
        queued = delivery.waited_seconds
        with slot.within(State.BUSY), self._tracer.follow(trajectory.id, "score", queued_seconds=queued) as span:
            try:
                score = await self._bench.score(trajectory)
                experience = trajectory.scored(score.reward, dict(score.parts))
                worked = time.monotonic() - started
                with span.waiting():
                    new = await self._bus.put(experience, full=partial(slot.within, State.BLOCKED))
            except (Poison, Malformed) as error:
                span.note(poison=str(error))
                await self._bus.bury(delivery, str(error))
                self._stage.unit("failed", time.monotonic() - started)
                return
            span.note(reward=score.reward)
            self._rewards.reward.observe(score.reward)
            self._stage.unit(trajectory.outcome if new else "duplicate", worked)
            await delivery.ack()


class ScoreRequest(BaseModel):
    """A batch of trajectories, in the form they have on the bus."""

    trajectories: list[Trajectory] = Field(max_length=1024)


class ScoreResult(BaseModel):
    """The score of one of them, or why there is none."""

    reward: float | None = None
    parts: dict[str, float] = {}
    error: str | None = None


class ScoreResponse(BaseModel):
    """One result for each trajectory, in their order."""

    results: list[ScoreResult]


def add_score_route(app: FastAPI, bench: Bench, health: Health) -> None:
    """Offer POST /v1/score. It shares the judges with the stream and refuses with 503 while the worker is not ready."""

    async def one(trajectory: Trajectory) -> ScoreResult:
        try:
            score = await bench.score(trajectory)
        except Poison as error:
            return ScoreResult(error=str(error))
        return ScoreResult(reward=score.reward, parts=dict(score.parts))

    @app.post("/v1/score")
    async def score(request: ScoreRequest) -> Any:
        if health.unready:
            raise HTTPException(503, health.unready, {"Retry-After": "1"})
        return ScoreResponse(results=await asyncio.gather(*map(one, request.trajectories)))
