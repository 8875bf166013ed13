"""A trainer in a process of its own that kills itself at a named point, and a stand-in for the stages before it.

Processes come from a fork server that has imported torch once, so a trainer starts in a fraction of a second and still
dies of a real SIGKILL.
"""

import asyncio
import contextlib
import functools
import importlib
import inspect
import json
import multiprocessing
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Literal

from e2e.local import Pipeline
from steelyard_workers.bus import Bus
from steelyard_workers.config import JobConfig
from steelyard_workers.messages import PolicyVersion, Segment, Task, Trajectory

_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(
    ["steelyard_workers.trainer.run", "transformers.models.qwen2.modeling_qwen2", "torch._dynamo"]
)
_SECONDS_TO_SEND = 0.1  # what the trainer said before its death, acknowledgements too, has left the process


@dataclass(frozen=True)
class Doom:
    """Death at the `nth` call of a function of the trainer, before or after it. `target` is `module:Class.method`.
    Another signal than SIGKILL (`act`) is sent at that call only, and life goes on.

    With `argument`, only calls with an argument whose text contains it count.
    """

    target: str
    nth: int = 1
    moment: Literal["before", "after"] = "after"
    argument: str = ""
    act: signal.Signals = signal.SIGKILL

    def arm(self) -> None:
        """Put the trap into this process."""
        _patch(self.target, self._trap)

    def _trap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        calls = 0

        def is_time(args: tuple[Any, ...]) -> bool:
            nonlocal calls
            calls += self.argument in repr(args)
            return calls == self.nth

        def die() -> None:
            os.kill(os.getpid(), self.act)

        @functools.wraps(original)
        async def later(*args: Any, **kwargs: Any) -> Any:
            time_to_die = is_time(args)
            if time_to_die and self.moment == "before":
                await asyncio.sleep(_SECONDS_TO_SEND)
                die()
            result = await original(*args, **kwargs)
            if time_to_die and self.moment == "after":
                await asyncio.sleep(_SECONDS_TO_SEND)
                die()
            return result

        @functools.wraps(original)
        def at_once(*args: Any, **kwargs: Any) -> Any:
            time_to_die = is_time(args)
            if time_to_die and self.moment == "before":
                die()
            result = original(*args, **kwargs)
            if time_to_die and self.moment == "after":
                die()
            return result

        return later if inspect.iscoroutinefunction(original) else at_once


def acknowledge_early() -> None:
    """The mutant: it acknowledges what a step consumed as soon as the step is done, commit or not."""
    from steelyard_workers.trainer.loop import Loop

    def mutate(publish: Callable[..., Any]) -> Callable[..., Any]:
        async def publish_and_acknowledge(loop: Loop) -> None:
            await publish(loop)
            for delivery in loop.collector.committed():
                await delivery.ack()

        return publish_and_acknowledge

    _patch("steelyard_workers.trainer.loop:Loop._publish", mutate)


class TrainerProcess:
    """One life of a trainer of a pipeline."""

    def __init__(
        self, pipeline: Pipeline, doom: Doom | None = None, mutation: Callable[[], None] | None = None
    ) -> None:
        self._process: BaseProcess = _forks.Process(
            target=_live, args=(pipeline["trainer"].environment, pipeline.folder / "trainer.log", doom, mutation)
        )
        self._process.start()
        self._log = pipeline.folder / "trainer.log"

    async def ended(self, seconds: float = 50) -> int:
        """Its exit code, minus the signal when it was killed."""
        await asyncio.to_thread(self._process.join, seconds)
        code = self._process.exitcode
        assert code is not None, f"the trainer still runs:\n{self._log.read_text()[-4000:]}"
        return code

    async def died(self) -> None:
        """It met its doom."""
        code = await self.ended()
        assert code == -signal.SIGKILL, f"exit code {code}:\n{self._log.read_text()[-4000:]}"

    async def completed(self) -> None:
        """It trained all steps."""
        code = await self.ended()
        assert code == 0, f"exit code {code}:\n{self._log.read_text()[-4000:]}"

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        assert self._process.pid is not None
        os.kill(self._process.pid, number)

    @property
    def runs(self) -> bool:
        """It has not ended."""
        return self._process.is_alive()

    @property
    def is_stopped(self) -> bool:
        """It is frozen by SIGSTOP."""
        assert self._process.pid is not None
        return Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"

    def close(self) -> None:
        """It runs no longer."""
        if self._process.is_alive():
            self._process.kill()
        self._process.join()


Answer = Callable[[Task, PolicyVersion], Trajectory]


def answer(task: Task, version: PolicyVersion) -> Trajectory:
    """A trajectory of a few tokens that depend on the seed."""
    words = tuple(3 + (task.seed >> shift) % 20 for shift in range(4))
    return Trajectory(
        **dict(task),
        outcome="ok",
        policy_first=version,
        policy_last=version,
        segments=(
            Segment(kind="prompt", tokens=(1, 2)),
            Segment(kind="policy", tokens=words, logprobs=(-3.0,) * len(words)),
        ),
    )


@contextlib.asynccontextmanager
async def stages_before(pipeline: Pipeline, make: Answer = answer, pace_seconds: float = 0.0) -> AsyncIterator[Bus]:
    """Environment and reward server in one: tasks become experience for as long as the block runs."""
    job = JobConfig.load(pipeline.folder / "job.json")
    async with Bus.connected(pipeline.nats_url, job, "stages-before") as bus:
        works = [asyncio.create_task(work) for work in (_play(bus, make, pace_seconds), _score(bus))]
        try:
            yield bus
        finally:
            for work in works:
                work.cancel()
            await asyncio.gather(*works, return_exceptions=True)


async def _play(bus: Bus, make: Answer, pace_seconds: float) -> None:
    while True:
        for delivery in await bus.take(Task, 16, wait_seconds=0.2):
            await asyncio.sleep(pace_seconds)
            pointer, _ = await bus.keys.read("policy")
            version = PolicyVersion(pointer["epoch"], pointer["step"]) if pointer else PolicyVersion(1, 0)
            await bus.put(make(delivery.message, version))
            await delivery.ack()


async def _score(bus: Bus) -> None:
    while True:
        for delivery in await bus.take(Trajectory, 16, wait_seconds=0.2):
            await bus.put(delivery.message.scored(float(delivery.message.seed % 2)))
            await delivery.ack()


def few_tasks(folder: Path) -> Path:
    """A data set of five records."""
    folder.mkdir()
    (folder / "tasks.jsonl").write_text("".join(json.dumps({"prompt": f"task {n}"}) + "\n" for n in range(5)))
    return folder


def _patch(target: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    module, _, path = target.partition(":")
    *owners, name = path.split(".")
    owner: Any = importlib.import_module(module)
    for step in owners:
        owner = getattr(owner, step)
    setattr(owner, name, make(getattr(owner, name)))


def _live(environment: dict[str, str], log: Path, doom: Doom | None, mutation: Callable[[], None] | None) -> None:
    from steelyard_workers.trainer.__main__ import main

    with log.open("a", buffering=1) as out:
        os.dup2(out.fileno(), sys.stdout.fileno())
        os.dup2(out.fileno(), sys.stderr.fileno())
        os.environ.update(environment, PORT="0")  # two trainers may live at a time
        if doom:
            doom.arm()
        if mutation:
            mutation()
        sys.exit(main())
