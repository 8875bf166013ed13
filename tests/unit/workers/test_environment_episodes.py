"""Episodes: what a trajectory holds, how every wait in it is bounded, and what becomes of episodes that go wrong."""

import asyncio
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from prometheus_client import CollectorRegistry

from steelyard.api import Episode as Bounds
from steelyard_workers import trace as trace_module
from steelyard_workers.clock import Clock, State
from steelyard_workers.environment import episode as episode_module
from steelyard_workers.environment import runner as runner_module
from steelyard_workers.environment.calculator import environment as calculator
from steelyard_workers.environment.protocol import EpisodeApi
from steelyard_workers.environment.runner import Runner
from steelyard_workers.messages import PolicyVersion, Trajectory
from steelyard_workers.metrics import EpisodeMetrics, StageMetrics
from steelyard_workers.trace import BusSpans, Tracer
from tests.unit.workers.fakes import FakeBus, FakeDelivery, Script, answer, samplers, task, tokenizer

pytestmark = pytest.mark.looptime


@pytest.fixture(autouse=True)
async def _simulated_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits: durations are read from the loop, whose time jumps to the next thing to do."""
    clock = SimpleNamespace(monotonic=asyncio.get_running_loop().time)
    for module in (episode_module, runner_module, trace_module):
        monkeypatch.setattr(module, "time", clock)


class Stage:
    """A runner with everything around it, and what it did."""

    def __init__(
        self, play: Any, script: Script, bus: FakeBus | None = None, bounds: Mapping[str, int] | None = None
    ) -> None:
        self.clock, self.registry = Clock(asyncio.get_running_loop().time), CollectorRegistry()
        self.bus = bus or FakeBus()
        self.runner = Runner(
            play,
            Bounds.model_validate({"timeoutSeconds": 600, "toolTimeoutSeconds": 60, "maxTurns": 30, **(bounds or {})}),
            bus=self.bus,  # type: ignore[arg-type]
            samplers=samplers(script),
            tokenizer=tokenizer(),
            tracer=Tracer(
                job="calculator", job_uid="u", stage="environment", pod="p", sample_percent=0, spans=BusSpans()
            ),
            stage=StageMetrics("environment", self.clock, lambda: 0, self.registry),
            episodes=EpisodeMetrics(self.registry),
        )

    async def play(self) -> tuple[Trajectory, FakeDelivery]:
        delivery = FakeDelivery(task())
        with self.clock.slot() as slot:
            await self.runner.work(delivery, slot)  # type: ignore[arg-type]
        return self.bus.stored[delivery.id], delivery

    def metric(self, name: str, **labels: str) -> float:
        return self.registry.get_sample_value(name, labels) or 0.0


def scripted(*answers: httpx.Response) -> Script:
    left = list(answers)
    return lambda _: left.pop(0)


class Plays:
    """An environment from a function."""

    def __init__(self, run: Callable[[EpisodeApi], Any]) -> None:
        self._run = run

    async def run(self, task: Mapping[str, Any], episode: EpisodeApi) -> None:
        await self._run(episode)


async def test_a_calculator_episode_becomes_a_trajectory_with_masks_logprobs_and_versions() -> None:
    stage = Stage(calculator(), scripted(answer("C12+34>", "1.4"), answer("A46#", "1.5, 1.6")))
    trajectory, delivery = await stage.play()
    assert trajectory.outcome == "ok"
    assert trajectory.meta["texts"] == ["Q12+34=", "C12+34>", "R46;", "A46#"]
    assert [segment.kind for segment in trajectory.segments] == ["prompt", "policy", "tool", "policy"]
    assert [segment.logprobs is None for segment in trajectory.segments] == [True, False, True, False]
    assert (trajectory.policy_first, trajectory.policy_last) == (PolicyVersion(1, 4), PolicyVersion(1, 6))
    assert trajectory.seed == 7
    assert delivery.fate == "acked"
    assert stage.metric("steelyard_stage_units_total", stage="environment", outcome="ok") == 1
    assert stage.metric("steelyard_tool_seconds_count", tool="calculator", outcome="ok") == 1
    assert stage.metric("steelyard_trajectory_tokens_sum", kind="prompt") == 7
    assert stage.metric("steelyard_trajectory_tokens_sum", kind="generated") == 11
    assert stage.metric("steelyard_trajectory_tokens_sum", kind="tool") == 4


async def test_a_call_that_does_not_parse_ends_the_episode_and_is_still_learnt_from() -> None:
    trajectory, _ = await Stage(calculator(), scripted(answer("12+34"))).play()
    assert trajectory.outcome == "ok"
    assert trajectory.meta["texts"][-1] == "12+34"


async def raises(_: EpisodeApi) -> None:
    raise KeyError("prompt")


async def says_nothing(episode: EpisodeApi) -> None:
    episode.prompt("Q1+1=")


async def hangs(episode: EpisodeApi) -> None:
    await episode.generate(max_tokens=4)
    await asyncio.sleep(60)


async def has_a_slow_tool(episode: EpisodeApi) -> None:
    await episode.generate(max_tokens=4)
    await episode.tool("slow", asyncio.sleep(60))


async def times_out_by_itself(episode: EpisodeApi) -> None:
    raise TimeoutError("the user's own")


async def has_a_broken_tool(episode: EpisodeApi) -> None:
    async def broken() -> None:
        raise OSError("no sandbox left")

    await episode.generate(max_tokens=4)
    await episode.tool("broken", broken())


async def goes_on_for_ever(episode: EpisodeApi) -> None:
    while True:
        await episode.generate(max_tokens=4)


@pytest.mark.parametrize(
    ("run", "bounds", "outcome", "reason"),
    [
        (raises, {}, "failed", "KeyError: 'prompt'"),
        (says_nothing, {}, "failed", "the policy wrote nothing in this episode"),
        (hangs, {"timeoutSeconds": 1, "toolTimeoutSeconds": 1}, "timeout", "the episode took longer than 1 s"),
        (has_a_slow_tool, {"toolTimeoutSeconds": 1}, "timeout", "slow took longer than 1 s"),
        (times_out_by_itself, {}, "failed", "TimeoutError: the user's own"),
        (has_a_broken_tool, {}, "failed", "OSError: no sandbox left"),
        (goes_on_for_ever, {"maxTurns": 3}, "ok", None),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
async def test_every_end_of_an_episode_is_a_trajectory_with_its_outcome_and_reason(
    run: Callable[[EpisodeApi], Any], bounds: dict[str, int], outcome: str, reason: str | None
) -> None:
    """NovaSky-AI/SkyRL#1173, alibaba/ROLL#215, PrimeIntellect-ai/prime-rl#2360: no task vanishes and no slot is lost,
    whatever the episode does; every wait has its own bound, counted by itself."""
    stage = Stage(Plays(run), lambda _: answer("C1"), bounds=bounds)
    trajectory, delivery = await stage.play()
    assert (trajectory.outcome, trajectory.meta.get("reason")) == (outcome, reason)
    assert delivery.fate == "acked"
    assert stage.metric("steelyard_stage_units_total", stage="environment", outcome=outcome) == 1


async def test_the_log_has_the_traceback_of_what_an_environment_raises_once(caplog: pytest.LogCaptureFixture) -> None:
    async def has_a_bug(episode: EpisodeApi) -> None:
        await episode.generate(max_tokens=4)
        raise ZeroDivisionError("of the user's own")

    stage = Stage(Plays(has_a_bug), lambda _: answer("C1"))
    await stage.play()
    await stage.play()
    assert caplog.text.count("in has_a_bug") == 1
    assert caplog.text.count("ZeroDivisionError: of the user's own") == 3, "and two lines, one for each trajectory"


@pytest.mark.parametrize(
    ("run", "finish", "truncated"),
    [(hangs, "stop", False), (hangs, "length", True), (goes_on_for_ever, "stop", True)],
    ids=["said all", "cut off by max_tokens", "cut off by maxTurns"],
)
async def test_a_trajectory_that_was_cut_off_says_so(
    run: Callable[[EpisodeApi], Any], finish: str, truncated: bool
) -> None:
    trajectory, _ = await Stage(Plays(run), lambda _: answer("C1", finish=finish), bounds={"maxTurns": 3}).play()
    assert trajectory.outcome == "ok"
    assert trajectory.truncated is truncated


async def test_a_sampler_that_hangs_ends_with_the_episode() -> None:
    """verl-project/verl#12: two requests still "running", no error."""
    stage = Stage(calculator(), lambda _: answer("C1"), bounds={"timeoutSeconds": 1, "toolTimeoutSeconds": 1})
    stage.runner._samplers = samplers(lambda _: httpx.Response(503))
    trajectory, _ = await stage.play()
    assert trajectory.outcome == "timeout"
    assert asyncio.get_running_loop().time() == pytest.approx(1)


async def test_the_long_tail_of_a_tool_shows_with_its_outcome() -> None:
    stage = Stage(Plays(has_a_slow_tool), lambda _: answer("C1"), bounds={"toolTimeoutSeconds": 1})
    await stage.play()
    assert stage.metric("steelyard_tool_seconds_count", tool="slow", outcome="timeout") == 1
    assert stage.metric("steelyard_tool_seconds_sum", tool="slow", outcome="timeout") == 1


async def test_slot_time_goes_to_tokens_tools_and_a_full_output() -> None:
    async def slow(_: httpx.Request) -> httpx.Response:
        await asyncio.sleep(0.05)
        return answer("C12+34>")

    bus = FakeBus()
    bus.room.clear()
    stage = Stage(calculator(toolSeconds="0.05", toolSigma="0.0"), slow, bus=bus)  # type: ignore[arg-type]
    playing = asyncio.create_task(stage.play())
    await bus.blocks.wait()
    await asyncio.sleep(0.05)
    bus.room.set()
    await playing
    seconds = stage.clock.seconds()
    assert seconds[State.TOKENS] == pytest.approx(0.1)
    assert seconds[State.TOOL] == pytest.approx(0.05)
    assert seconds[State.BLOCKED] == pytest.approx(0.05)
    served = stage.metric("steelyard_stage_service_seconds_sum", stage="environment")
    assert served == pytest.approx(seconds[State.BUSY]), "work without waiting, which is what a busy slot does"


async def test_tools_that_run_at_the_same_time_are_one_wait() -> None:
    async def play(episode: EpisodeApi) -> None:
        await episode.generate(max_tokens=4)
        await asyncio.gather(episode.tool("search", asyncio.sleep(2)), episode.tool("browse", asyncio.sleep(4)))
        await asyncio.sleep(1)

    stage = Stage(Plays(play), lambda _: answer("C1"))
    await stage.play()
    seconds = stage.clock.seconds()
    assert seconds[State.TOOL] == pytest.approx(4)
    assert seconds[State.BUSY] == pytest.approx(1)
    assert stage.metric("steelyard_stage_service_seconds_sum", stage="environment") == pytest.approx(1)


async def test_a_trajectory_that_is_stored_already_counts_as_duplicate() -> None:
    stage = Stage(calculator(), lambda _: answer("C1"))
    await stage.play()
    _, delivery = await stage.play()
    assert delivery.fate == "acked"
    assert stage.metric("steelyard_stage_units_total", stage="environment", outcome="duplicate") == 1


async def test_a_trajectory_too_large_for_the_bus_is_buried_with_its_reason() -> None:
    bus = FakeBus(largest=100)
    stage = Stage(calculator(), lambda _: answer("C1"), bus=bus)
    with pytest.raises(KeyError):
        await stage.play()
    assert list(bus.buried.values()) == ["more than the bus takes"]


async def test_the_time_of_an_episode_starts_when_there_is_a_sampler() -> None:
    """A cold start: the environment is ready long before vLLM is, and its first groups must not time out for that."""
    bounds = {"timeoutSeconds": 1, "toolTimeoutSeconds": 1}
    stage = Stage(calculator(), scripted(answer("C12+34>"), answer("A46#")), bounds=bounds)
    late = stage.runner._samplers._replicas
    known = {replica.address for replica in late._known.values()}
    late.update(set())
    playing = asyncio.create_task(stage.play())
    await asyncio.sleep(1.2)
    late.update(known)
    trajectory, _ = await playing
    assert trajectory.outcome == "ok"
    assert stage.clock.seconds()[State.TOKENS] >= 1.2
