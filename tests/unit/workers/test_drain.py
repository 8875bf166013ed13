"""Draining over the unix socket, and how a worker tells the operator why it ended."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from steelyard_workers.drain import Drain
from steelyard_workers.plugins import load
from steelyard_workers.termination import STOPPED, USER_ERROR, UserError, reported


async def hook(path: Path) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "steelyard_workers.drain", env=os.environ | {"STEELYARD_DRAIN_SOCKET": str(path)}
    )


async def test_the_hook_returns_only_when_everything_taken_is_handed_back(tmp_path: Path) -> None:
    path = tmp_path / "drain.sock"
    async with Drain().listening(path) as drain:
        process = await hook(path)
        await asyncio.wait_for(drain.requested.wait(), 20)
        await asyncio.sleep(0.1)
        assert process.returncode is None
        drain.finish()
        assert await asyncio.wait_for(process.wait(), 20) == 0


async def test_a_second_hook_during_the_drain_waits_as_well(tmp_path: Path) -> None:
    path = tmp_path / "drain.sock"
    async with Drain().listening(path) as drain:
        hooks = [await hook(path), await hook(path)]
        await asyncio.wait_for(drain.requested.wait(), 20)
        drain.finish()
        assert [await asyncio.wait_for(each.wait(), 20) for each in hooks] == [0, 0]


async def test_without_a_worker_the_hook_says_so_and_does_not_fail(tmp_path: Path) -> None:
    assert await (await hook(tmp_path / "nobody.sock")).wait() == 0


async def test_a_stale_socket_file_of_a_killed_worker_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "drain.sock"
    server = await asyncio.start_unix_server(lambda *_: None, path)
    server.close()
    path.touch()
    async with Drain().listening(path) as drain:
        drain.finish()
        assert await (await hook(path)).wait() == 0


async def test_sigterm_asks_for_the_same_as_the_hook(tmp_path: Path) -> None:
    async with Drain().listening(tmp_path / "drain.sock") as drain:
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(drain.requested.wait(), 5)
        assert not drain.done.is_set()


@pytest.mark.parametrize(
    ("entrypoint", "says"),
    [
        ("json", "want the form package.module:callable"),
        ("json:", "want the form package.module:callable"),
        (":dumps", "want the form package.module:callable"),
        ("no_such_module:score", "does not import: ModuleNotFoundError: No module named 'no_such_module'"),
        ("broken_reward:score", "does not import: ZeroDivisionError: division by zero"),
        ("json:no_such_name", "module json has no callable 'no_such_name'"),
        ("json:__name__", "module json has no callable '__name__'"),
    ],
)
def test_an_entry_point_that_cannot_be_used_ends_the_worker_with_64_and_its_reason(
    entrypoint: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_reward.py").write_text("ratio = 1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    last_words = tmp_path / "termination-log"
    monkeypatch.setenv("STEELYARD_TERMINATION_LOG", str(last_words))
    with pytest.raises(SystemExit) as ended, reported():
        load(entrypoint, "stages.rewardServer.entrypoint")
    assert ended.value.code == USER_ERROR
    line = last_words.read_text()
    assert line.startswith(f"stages.rewardServer.entrypoint {entrypoint!r}")
    assert says in line
    assert "\n" not in line


def test_an_entry_point_may_be_a_method_of_a_class() -> None:
    assert load("json:JSONDecoder.decode", "entrypoint") is json.JSONDecoder.decode


def test_only_the_users_mistakes_end_with_64() -> None:
    """A bug keeps its traceback."""
    with pytest.raises(ZeroDivisionError), reported():
        _ = 1 / 0
    assert issubclass(UserError, Exception)


def test_a_stop_that_comes_before_anything_listens_ends_the_worker_at_once() -> None:
    """A container's main process ignores a SIGTERM without a handler: a pod deleted while it imported torch stayed."""
    usual = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as ended, reported():
        signal.raise_signal(signal.SIGTERM)
    assert ended.value.code == STOPPED
    assert signal.getsignal(signal.SIGTERM) == usual
