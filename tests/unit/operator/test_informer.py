"""The informer: the whole state first, then every change, whatever the API server does meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from steelyard.cluster import informer as informer_module
from steelyard.cluster import kinds
from steelyard.cluster.errors import Expired, NotFound, Refused, Unavailable
from steelyard.cluster.informer import INITIAL_EVENTS_END, Informer
from steelyard.cluster.store import Store
from tests.builders import job_manifest

Object = dict[str, Any]


def obj(name: str, version: int) -> Object:
    return {"metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": str(version)}}


def bookmark(version: int, *, end: bool = False) -> tuple[str, Object]:
    annotations = {INITIAL_EVENTS_END: "true"} if end else {}
    return "BOOKMARK", {"metadata": {"resourceVersion": str(version), "annotations": annotations}}


class Script:
    """A client whose watches do what the test wrote, one list of events after the other; then they stay silent."""

    def __init__(self, *watches: list[tuple[str, Object] | Exception], listed: list[Object] | None = None) -> None:
        self.watches, self.listed = list(watches), listed or []
        self.asked: list[dict[str, str]] = []

    async def watch(self, path: str, **params: str) -> AsyncIterator[tuple[str, Object]]:
        self.asked.append(params)
        for event in self.watches.pop(0) if self.watches else []:
            if isinstance(event, Exception):
                raise event
            yield event
        if not self.watches:
            await asyncio.Event().wait()

    async def list_pages(self, path: str, selector: str) -> tuple[list[Object], str]:
        return self.listed, "50"


class Seen:
    """A sink that remembers names."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def put(self, kind: kinds.Kind, obj: Object) -> None:
        self.names.add(obj["metadata"]["name"])

    def remove(self, kind: kinds.Kind, namespace: str, name: str, uid: str, version: int) -> None:
        self.names.discard(name)


async def follow(
    script: Script, *, optional: bool = False, sink: Seen | None = None
) -> tuple[Informer, Seen, Callable[[], Awaitable[None]]]:
    seen = sink or Seen()
    informer = Informer(script, kinds.POD, seen, optional=optional)  # type: ignore[arg-type]  # only what it calls
    task = asyncio.create_task(informer.run())

    async def stop() -> None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    await asyncio.sleep(0.05)
    return informer, seen, stop


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(informer_module, "BACKOFF_SECONDS", (0.001, 0.002))
    monkeypatch.setattr(informer_module, "ABSENT_RETRY_SECONDS", 0.005)


async def test_the_state_is_whole_at_the_bookmark_and_not_before() -> None:
    informer, seen, stop = await follow(Script([("ADDED", obj("a", 1)), ("ADDED", obj("b", 2))]))
    assert not informer.synced.is_set()
    await stop()

    informer, seen, stop = await follow(Script([("ADDED", obj("a", 1)), bookmark(3, end=True), ("ADDED", obj("b", 4))]))
    assert informer.synced.is_set()
    assert seen.names == {"a", "b"}
    await stop()


async def test_a_broken_watch_goes_on_from_its_last_bookmark() -> None:
    script = Script(
        [("ADDED", obj("a", 1)), bookmark(3, end=True), bookmark(9), Unavailable("cut")],
        [("DELETED", obj("a", 10))],
    )
    _, seen, stop = await follow(script)

    assert script.asked[1]["resourceVersion"] == "9"
    assert seen.names == set()
    await stop()


async def test_a_watch_that_ends_without_a_word_is_not_opened_again_at_once() -> None:
    script = Script([bookmark(3, end=True)], *[[]] * 1000)
    _, _, stop = await follow(script)

    assert 3 < len(script.asked) < 100, "0.05 s, and 2 ms from one to the next"
    await stop()


async def test_one_object_that_cannot_be_read_leaves_the_others_be(caplog: pytest.LogCaptureFixture) -> None:
    class Choosy(Seen):
        def put(self, kind: kinds.Kind, obj: Object) -> None:
            if obj["metadata"]["name"] == "odd":
                raise KeyError("spec")
            super().put(kind, obj)

    script = Script([("ADDED", obj("odd", 1)), ("ADDED", obj("a", 2)), bookmark(3, end=True)])
    informer, seen, stop = await follow(script, sink=Choosy())

    assert informer.synced.is_set()
    assert seen.names == {"a"}
    assert "Pod default/odd is left out" in caplog.text
    await stop()


async def test_what_vanished_while_nobody_watched_is_removed() -> None:
    """A too old version means that deletions were missed: the new state says what is left."""
    script = Script(
        [("ADDED", obj("a", 1)), ("ADDED", obj("b", 2)), bookmark(3, end=True), Expired("too old")],
        [("ADDED", obj("b", 2)), bookmark(20, end=True)],
    )
    _, seen, stop = await follow(script)

    assert script.asked[1]["sendInitialEvents"] == "true"
    assert seen.names == {"b"}
    await stop()


async def test_a_server_without_watch_lists_is_asked_for_pages() -> None:
    script = Script([Refused("sendInitialEvents is forbidden")], listed=[obj("a", 1)])
    informer, seen, stop = await follow(script)

    assert informer.synced.is_set()
    assert seen.names == {"a"}
    assert script.asked[1]["resourceVersion"] == "50"
    await stop()


async def test_an_optional_kind_that_is_absent_holds_nobody_up_and_is_found_when_it_comes() -> None:
    script = Script(
        [NotFound("no such kind")], [NotFound("no such kind")], [("ADDED", obj("a", 1)), bookmark(2, end=True)]
    )
    informer, seen, stop = await follow(script, optional=True)

    assert informer.synced.is_set()
    assert informer.present
    assert seen.names == {"a"}
    await stop()


async def test_an_optional_kind_that_may_not_be_read_is_as_good_as_absent() -> None:
    """A new operator whose rights are still the old ones must not wait for ever for pools."""

    class Forbidden(Script):
        async def list_pages(self, path: str, selector: str) -> tuple[list[Object], str]:
            raise Refused("rlpools is forbidden")

    informer, _, stop = await follow(Forbidden([Refused("rlpools is forbidden")], [], []), optional=True)

    assert informer.synced.is_set()
    assert not informer.present
    await stop()


async def test_what_could_not_be_read_for_a_while_is_there_again_once_it_can() -> None:
    """Rights that come back show the same objects, in the same versions."""
    monitor = obj("a", 7)
    monitor["metadata"]["labels"] = {"steelyard.dev/job": "calculator"}

    class Forgetful(Script):
        forbidden = 1

        async def list_pages(self, path: str, selector: str) -> tuple[list[Object], str]:
            if self.forbidden:
                self.forbidden -= 1
                raise Refused("podmonitors is forbidden")
            return [monitor], "9"

    store = Store()
    store.put(kinds.JOB, a_job())
    script = Forgetful([("ADDED", monitor), bookmark(8, end=True), Refused("podmonitors is forbidden")], [], [])
    informer = Informer(script, kinds.POD_MONITOR, store, optional=True)  # type: ignore[arg-type]
    task = asyncio.create_task(informer.run())
    await asyncio.sleep(0.05)

    view = store.view(("default", "calculator"), monitored=True)
    assert script.forbidden == 0
    assert view is not None
    assert ("PodMonitor", "a") in view.children
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def a_job() -> Object:
    job = job_manifest()
    job["metadata"] |= {"uid": "job-1", "resourceVersion": "1", "generation": 1}
    return job
