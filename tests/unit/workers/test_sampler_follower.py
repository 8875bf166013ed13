"""Following the pointer: the order of an update, readiness around it, and an engine that fails it."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from steelyard_workers.clock import Clock, State
from steelyard_workers.messages import PolicyVersion
from steelyard_workers.sampler import follower as module
from steelyard_workers.sampler.canary import FLOAT32_TOLERANCE
from steelyard_workers.sampler.follower import EngineUnfit, Follower
from steelyard_workers.sampler.progress import STALL_SECONDS, Progress
from steelyard_workers.sampler.traffic import Traffic, admitted
from tests.unit.workers.test_sampler_canary import safetensors

TOKENS = (1, 2, 3)


class FakeEngine:
    """Computes with what it loaded, unless told to fail."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.logprob = 0.0
        self.fails = ""
        self.hangs = ""
        self.ignores_updates = False

    @property
    def tolerance(self) -> float:
        return FLOAT32_TOLERANCE

    async def _do(self, call: str) -> None:
        self.calls.append(call)
        if call == self.fails:
            raise RuntimeError("worker died")
        if call == self.hangs:
            await asyncio.Event().wait()

    async def pause(self) -> None:
        await self._do("pause")

    async def load(self, folder: Path, version: PolicyVersion) -> None:
        await self._do("load")
        if not self.ignores_updates:
            self.logprob = logprob_of(version)

    async def resume(self) -> None:
        await self._do("resume")

    async def logprobs(self, tokens: tuple[int, ...]) -> tuple[float, ...]:
        await self._do("canary")
        return (self.logprob,) * (len(tokens) - 1)


def logprob_of(version: PolicyVersion) -> float:
    return -1.0 - 0.001 * version.step - 0.1 * version.epoch


class Sampler:
    """A follower with its engine and a weights folder."""

    def __init__(self, weights: Path, max_staleness: int = 2) -> None:
        self.engine, self.weights = FakeEngine(), weights
        self.updates: list[PolicyVersion] = []
        self.synced = 0
        self.follower = Follower(
            self.engine, weights, max_staleness, syncing=self._syncing, updated=self.updates.append
        )

    @contextmanager
    def _syncing(self) -> Iterator[None]:
        self.synced += 1
        yield

    def publish(self, epoch: int, step: int, *, whole: bool = True, canary: bool = True) -> dict[str, Any]:
        """A version in the weights folder; returns its pointer."""
        version = PolicyVersion(epoch, step)
        folder = self.weights / str(version)
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(safetensors() if whole else safetensors(data=0))
        if canary:
            value = logprob_of(version)
            (folder / "canary.json").write_text(f'{{"tokens": [1, 2, 3], "logprobs": [{value}, {value}]}}')
        return {"epoch": epoch, "step": step, "path": str(version)}


@pytest.fixture
def sampler(tmp_path: Path) -> Sampler:
    return Sampler(tmp_path)


async def test_an_update_freezes_replaces_releases_and_then_proves_the_engine(sampler: Sampler) -> None:
    """NVIDIA-NeMo/RL and vLLM alike: updating under running requests mixes old attention states with new weights."""
    assert await sampler.follower.catch_up(sampler.publish(1, 3))
    assert sampler.engine.calls == ["pause", "load", "resume", "canary"]
    assert sampler.follower.version == PolicyVersion(1, 3)
    assert (sampler.updates, sampler.synced) == ([PolicyVersion(1, 3)], 1)


async def test_the_same_pointer_again_changes_nothing(sampler: Sampler) -> None:
    pointer = sampler.publish(1, 3)
    await sampler.follower.catch_up(pointer)
    await sampler.follower.catch_up(pointer)
    assert sampler.engine.calls.count("load") == 1


async def test_without_a_pointer_the_base_model_serves(sampler: Sampler) -> None:
    """PrimeIntellect-ai/prime-rl#2219, verl-project/verl#5815: no order of starting is assumed."""
    assert sampler.follower.objection
    assert await sampler.follower.catch_up(None)
    assert sampler.follower.objection is None
    assert sampler.engine.calls == []


async def test_a_higher_epoch_is_followed_to_a_lower_step(sampler: Sampler) -> None:
    await sampler.follower.catch_up(sampler.publish(1, 9))
    await sampler.follower.catch_up(sampler.publish(2, 7))
    assert sampler.follower.version == PolicyVersion(2, 7)


@pytest.mark.parametrize(
    ("at", "pointer", "ready"),
    [((1, 3), (1, 3), True), ((1, 3), (1, 5), True), ((1, 3), (1, 6), False), ((1, 9), (2, 7), True)],
    ids=["newest", "within maxStaleness", "beyond it", "ahead of a pointer that a resume took back"],
)
async def test_readiness_goes_by_the_lag_behind_the_pointer(
    sampler: Sampler, at: tuple[int, int], pointer: tuple[int, int], ready: bool
) -> None:
    await sampler.follower.catch_up(sampler.publish(*at))
    if pointer != at:
        assert not await sampler.follower.catch_up(sampler.publish(*pointer, whole=False))
    assert (sampler.follower.objection is None) == ready


async def test_a_torn_version_is_left_alone_and_taken_once_it_is_whole(sampler: Sampler) -> None:
    pointer = sampler.publish(1, 3, whole=False)
    assert not await sampler.follower.catch_up(pointer)
    assert sampler.engine.calls == []
    (sampler.weights / "1.3" / "model.safetensors").write_bytes(safetensors())
    assert await sampler.follower.catch_up(pointer)


async def test_a_version_that_was_swept_away_is_passed_over_for_the_next(sampler: Sampler) -> None:
    assert not await sampler.follower.catch_up({"epoch": 1, "step": 3, "path": "1.3"})
    assert await sampler.follower.catch_up(sampler.publish(1, 4))


async def test_a_version_without_a_canary_is_taken_on_trust(sampler: Sampler) -> None:
    assert await sampler.follower.catch_up(sampler.publish(1, 3, canary=False))
    assert "canary" not in sampler.engine.calls


async def test_an_engine_that_keeps_its_old_weights_is_unready_at_once_and_given_up_after_three_attempts(
    sampler: Sampler,
) -> None:
    await sampler.follower.catch_up(sampler.publish(1, 3))
    sampler.engine.ignores_updates = True
    pointer = sampler.publish(1, 4)
    assert not await sampler.follower.catch_up(pointer)
    assert sampler.follower.objection == "version 1.4 is not what the trainer published"
    assert not await sampler.follower.catch_up(pointer)
    with pytest.raises(EngineUnfit, match="the engine still computes with the version before"):
        await sampler.follower.catch_up(pointer)


@pytest.mark.parametrize("phase", ["pause", "load", "resume", "canary"])
async def test_a_phase_that_fails_once_is_repeated_from_the_start(sampler: Sampler, phase: str) -> None:
    """PrimeIntellect-ai/prime-rl#2673: a pause that answers 5xx is tried again, with a bound."""
    pointer = sampler.publish(1, 3)
    sampler.engine.fails = phase
    assert not await sampler.follower.catch_up(pointer)
    assert sampler.follower.objection
    sampler.engine.fails = ""
    sampler.engine.calls.clear()
    assert await sampler.follower.catch_up(pointer)
    assert sampler.engine.calls == ["pause", "load", "resume", "canary"]
    assert sampler.follower.objection is None


@pytest.mark.parametrize("phase", ["pause", "load", "resume", "canary"])
async def test_a_phase_that_never_ends_costs_the_engine_and_not_the_job(
    sampler: Sampler, phase: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PrimeIntellect-ai/prime-rl#2230: stuck for 43 h because one server never answered."""
    for bound in ("PAUSE_SECONDS", "LOAD_SECONDS", "CANARY_SECONDS"):
        monkeypatch.setattr(module, bound, 0.02)
    pointer = sampler.publish(1, 3)
    sampler.engine.hangs = phase
    assert [await sampler.follower.catch_up(pointer) for _ in range(2)] == [False, False]
    with pytest.raises(EngineUnfit):
        await sampler.follower.catch_up(pointer)


def test_the_slot_is_busy_while_requests_run_and_an_update_or_a_drain_comes_first() -> None:
    now = [0.0]
    clock = Clock(lambda: now[0])
    traffic = Traffic(clock)

    def pass_second() -> None:
        now[0] += 1

    pass_second()
    with traffic.request():
        pass_second()
        with traffic.request():
            pass_second()
            with traffic.syncing():
                pass_second()
        pass_second()
    pass_second()
    spent = clock.seconds()
    assert (spent[State.STARVED], spent[State.BUSY], spent[State.SYNC]) == (2, 3, 1)


async def test_a_drain_waits_for_running_requests_and_no_longer_than_it_may() -> None:
    traffic = Traffic(Clock())
    with traffic.request():
        await asyncio.wait_for(traffic.drain(0.05), 2)
        waiting = asyncio.create_task(traffic.drain(60))
        await asyncio.sleep(0.01)
        assert not waiting.done()
    await asyncio.wait_for(waiting, 2)


@pytest.mark.parametrize(
    ("path", "client", "want"),
    [
        ("/v1/completions", "10.0.0.9", True),
        ("/metrics", "10.0.0.9", True),
        ("/readyz", "10.0.0.9", True),
        ("/pause", "10.0.0.9", False),
        ("/pause/", "10.0.0.9", False),
        ("//pause", "10.0.0.9", False),
        ("/metrics/../pause", "10.0.0.9", False),
        ("/v1/load_lora_adapter", "10.0.0.9", False),
        ("/a_route_of_the_next_release", "10.0.0.9", False),
        ("/pause", "127.0.0.1", True),
        ("/pause", "127.8.8.8", True),
        ("/pause", "::1", True),
        ("/pause", "::ffff:10.0.0.9", False),
        ("/pause", "not an address", False),
        ("/pause", None, True),
    ],
)
def test_who_may_ask_what(path: str, client: str | None, want: bool) -> None:
    assert admitted(path, (client, 1234) if client else None) is want


class Counter:
    """Tokens and time, set by hand."""

    def __init__(self) -> None:
        self.tokens, self.now = 0.0, 0.0


def test_an_engine_that_holds_requests_and_writes_nothing_is_noticed() -> None:
    """verl-project/verl#12: two requests still running, no error, for ever."""
    at = Counter()
    progress = Progress(lambda: at.tokens, lambda: at.now)

    def look(elapsed: float, running: int, tokens: float = 0, syncing: bool = False) -> str | None:
        at.now += elapsed
        at.tokens += tokens
        return progress.objection(running, syncing)

    assert look(10, running=2, tokens=5) is None
    assert look(STALL_SECONDS - 1, running=2) is None
    assert look(1, running=2) == f"2 requests and no token for {STALL_SECONDS:.0f} s"
    assert look(1, running=2, tokens=1) is None
    assert look(10 * STALL_SECONDS, running=0) is None
    assert look(1, running=1) is None
    assert look(10 * STALL_SECONDS, running=1, syncing=True) is None
