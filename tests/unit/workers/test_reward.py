"""Scoring: the user's function in its own process, whatever it does, and where trajectories without a score go."""

import asyncio
import io
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from prometheus_client import CollectorRegistry

from steelyard_workers.clock import Clock, State
from steelyard_workers.messages import Experience, Segment, Trajectory, TrajectoryId
from steelyard_workers.metrics import RewardMetrics, StageMetrics
from steelyard_workers.plugins import load
from steelyard_workers.reward import judge_process
from steelyard_workers.reward.bench import Bench, Poison
from steelyard_workers.reward.judge import Judge, JudgeFailed, Score
from steelyard_workers.reward.server import Scorer, add_score_route
from steelyard_workers.serve import Health
from steelyard_workers.termination import UserError
from steelyard_workers.trace import BusSpans, Tracer
from tests.unit.workers.fakes import FakeBus, FakeDelivery

USER_CODE = """
import asyncio, os, time

def right(trajectory):
    print("noise on stdout", flush=True)
    return trajectory.meta["texts"][-1] == f"A{trajectory.task['answer']}#"
def parts(trajectory): return {"format": 0.25, "answer": 1}
def slow(trajectory, seconds): time.sleep(float(seconds)); return 1
def process(trajectory): time.sleep(0.1); return os.getpid()
async def asynchronous(trajectory): await asyncio.sleep(0); return 0.5
def loops(trajectory):
    while trajectory.task["answer"] == 46: pass
    return 1.0
def dies(trajectory):
    if trajectory.task["answer"] == 46: os._exit(3)
    return 1.0
def raises(trajectory): raise LookupError("no such answer")
def nothing(trajectory): return None
def not_a_number(trajectory): return float("nan")
def empty(trajectory): return {}
def words(trajectory): return {"format": "good"}
"""


@pytest.fixture(autouse=True)
def _user_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "user_reward.py").write_text(USER_CODE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.syspath_prepend(tmp_path)


def trajectory(k: int = 0, answer: int = 46, outcome: Any = "ok", text: str = "A46#") -> Trajectory:
    return Trajectory(
        id=TrajectoryId(group=0, k=k, attempt=0),
        task={"prompt": "Q12+34=", "answer": answer},
        seed=1,
        outcome=outcome,
        policy_first=VERSION,
        policy_last=VERSION,
        segments=(Segment(kind="policy", tokens=(1,), logprobs=(-0.5,)),),
        meta={"texts": ["Q12+34=", text]},
    )


VERSION: Any = "1.2"


@pytest.mark.parametrize(
    ("function", "args", "reward", "named"),
    [
        ("right", {}, 1.0, {}),
        ("parts", {}, 1.25, {"format": 0.25, "answer": 1.0}),
        ("asynchronous", {}, 0.5, {}),
        ("slow", {"seconds": "0"}, 1.0, {}),
    ],
)
def test_a_reward_is_a_number_or_the_sum_of_its_parts(
    function: str, args: Mapping[str, str], reward: float, named: Mapping[str, float]
) -> None:
    found = judge_process.score(load(f"user_reward:{function}", "entrypoint"), args, trajectory())
    assert found == {"reward": reward, "parts": named}


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        ("raises", "LookupError: no such answer"),
        ("nothing", "returned None, no finite number"),
        ("not_a_number", "returned nan, no finite number"),
        ("empty", "returned {}, no finite number"),
        ("words", "returned {'format': 'good'}, no finite number"),
    ],
)
def test_a_function_that_gives_no_score_says_why(function: str, reason: str) -> None:
    found = judge_process.score(load(f"user_reward:{function}", "entrypoint"), {}, trajectory())
    assert reason in found["failed"]


async def test_the_log_has_the_traceback_of_what_a_reward_raises_once(capfd: pytest.CaptureFixture[str]) -> None:
    judge = Judge("user_reward:raises", {}, timeout_seconds=60)
    for _ in range(2):
        with pytest.raises(JudgeFailed, match="no such answer"):
            await judge.score(trajectory())
    await judge.stop()
    assert capfd.readouterr().err.count("in raises") == 1


@pytest.mark.parametrize(
    ("entrypoint", "args", "reason"),
    [
        ("no_such_module:score", {}, "'no_such_module:score' does not import: ModuleNotFoundError"),
        ("user_reward:slow", {}, "do not fit user_reward:slow: missing a required argument: 'seconds'"),
        ("user_reward:right", {"weight": "1"}, "got an unexpected keyword argument 'weight'"),
    ],
)
def test_an_entry_point_that_cannot_be_used_says_why(entrypoint: str, args: dict[str, str], reason: str) -> None:
    answers = io.BytesIO()
    judge_process.main(entrypoint, args, answers)
    assert reason in json.loads(answers.getvalue())["unusable"]


async def test_an_entry_point_that_cannot_be_used_is_the_users_mistake() -> None:
    with pytest.raises(UserError, match="does not import"):
        async with Bench.opened("no_such_module:score", {}, 1, 20):
            pass


async def test_what_the_function_prints_does_not_garble_its_answers() -> None:
    async with Bench.opened("user_reward:right", {}, 1, 20) as bench:
        assert [(await bench.score(trajectory())).reward for _ in range(3)] == [1, 1, 1]


@pytest.mark.parametrize(
    ("function", "reason"),
    [("loops", "no score within 0.3 s; its process was ended"), ("dies", "the reward process died with status 3")],
)
async def test_a_judge_that_hangs_or_dies_is_replaced_and_the_next_trajectory_scored(
    function: str, reason: str
) -> None:
    """verl-project/verl#288: an endless loop in graded code blocks no other reward."""
    judge = Judge(f"user_reward:{function}", {}, 0.3)
    try:
        with pytest.raises(JudgeFailed, match=reason):
            await judge.score(trajectory(answer=46))
        judge._timeout_seconds = 20
        assert (await judge.score(trajectory(answer=47))).reward == 1
    finally:
        await judge.stop()


async def test_judges_work_side_by_side_and_each_on_one_trajectory_at_a_time() -> None:
    async with Bench.opened("user_reward:process", {}, 2, 20) as bench:
        scores = await asyncio.gather(*(bench.score(trajectory(k)) for k in range(4)))
    assert len({score.reward for score in scores}) == 2


class FakeJudge(Judge):
    """Gives the same score; 46 is a question that it cannot answer, `left` times."""

    def __init__(self, left: int = 10**9) -> None:
        super().__init__("fake:judge", {}, 1)
        self.left = left

    async def score(self, trajectory: Trajectory) -> Score:
        if self.left and trajectory.task["answer"] == 46:
            self.left -= 1
            raise JudgeFailed("HTTP 503 from the judge")
        return Score(1.25, {"format": 0.25, "answer": 1.0})


def bench(left: int = 10**9) -> Bench:
    return Bench([FakeJudge(left)], pause_seconds=0.01)


class Stage:
    """A scorer on a bus in memory."""

    def __init__(self, bench: Bench, bus: FakeBus | None = None) -> None:
        self.bus = bus or FakeBus()
        self.clock, self.registry = Clock(), CollectorRegistry()
        self._scorer = Scorer(
            bench,
            self.bus,  # type: ignore[arg-type]
            Tracer(job="calculator", job_uid="u", stage="reward-server", pod="p", sample_percent=0, spans=BusSpans()),
            StageMetrics("reward-server", self.clock, lambda: 0, self.registry),
            RewardMetrics(self.registry),
        )

    async def score(self, message: Trajectory) -> FakeDelivery:
        delivery = FakeDelivery(message)
        with self.clock.slot() as slot:
            await self._scorer.work(delivery, slot)  # type: ignore[arg-type]
        return delivery

    def metric(self, name: str, **labels: str) -> float:
        return self.registry.get_sample_value(name, labels) or 0.0


async def test_a_scored_trajectory_goes_on_unchanged_with_its_reward() -> None:
    stage = Stage(bench())
    delivery = await stage.score(trajectory(answer=47))
    want = Experience(**dict(trajectory(answer=47)), reward=1.25, reward_parts={"format": 0.25, "answer": 1.0})
    assert stage.bus.stored[delivery.id] == want
    assert delivery.fate == "acked"
    assert stage.metric("steelyard_reward_sum") == 1.25
    assert stage.metric("steelyard_stage_units_total", stage="reward-server", outcome="ok") == 1


@pytest.mark.parametrize("outcome", ["failed", "timeout"])
async def test_an_episode_that_went_wrong_closes_its_place_in_the_group_without_a_judge(outcome: str) -> None:
    stage = Stage(bench())
    delivery = await stage.score(trajectory(outcome=outcome))
    stored = stage.bus.stored[delivery.id]
    assert isinstance(stored, Experience)
    assert (stored.outcome, stored.reward) == (outcome, 0.0)


async def test_poison_goes_to_the_dead_letters_with_its_reason_and_the_next_is_scored() -> None:
    stage = Stage(bench())
    poison = await stage.score(trajectory(k=0, answer=46))
    good = await stage.score(trajectory(k=1, answer=47))
    assert (poison.fate, good.fate) == ("buried", "acked")
    assert stage.bus.buried[poison.id] == "no score in 3 attempts: HTTP 503 from the judge"
    assert stage.metric("steelyard_stage_units_total", stage="reward-server", outcome="failed") == 1


async def test_two_failures_are_forgiven_and_a_third_is_not() -> None:
    assert (await bench(left=2).score(trajectory())).reward == 1.25
    with pytest.raises(Poison):
        await bench(left=3).score(trajectory())


async def test_a_full_output_is_a_measured_wait() -> None:
    stage = Stage(bench())
    stage.bus.room.clear()
    scoring = asyncio.create_task(stage.score(trajectory(answer=47)))
    await stage.bus.blocks.wait()
    await asyncio.sleep(0.05)
    stage.bus.room.set()
    assert (await scoring).fate == "acked"
    assert stage.clock.seconds()[State.BLOCKED] >= 0.05


async def test_a_score_too_large_for_the_bus_is_buried() -> None:
    stage = Stage(bench(), FakeBus(largest=10))
    assert (await stage.score(trajectory(answer=47))).fate == "buried"


async def test_the_http_route_scores_a_batch_and_names_what_it_could_not() -> None:
    app, health = FastAPI(), Health()
    add_score_route(app, bench(), health)
    batch = {"trajectories": [t.model_dump(mode="json") for t in (trajectory(0, 47), trajectory(1, 46))]}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://reward") as client:
        early = await client.post("/v1/score", json=batch)
        health.ready()
        answer = await client.post("/v1/score", json=batch)
        wrong = await client.post("/v1/score", json={"trajectories": [{"id": "x"}]})
    assert (early.status_code, early.headers["Retry-After"]) == (503, "1")
    first, second = answer.json()["results"]
    assert (first["reward"], first["error"]) == (1.25, None)
    assert (second["reward"], second["error"]) == (None, "no score in 3 attempts: HTTP 503 from the judge")
    assert wrong.status_code == 422
