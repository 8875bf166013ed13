"""The process around the controller: settings, its own metrics and health, what it asks of kopf, old ledgers."""

from __future__ import annotations

from typing import Any

import httpx
import kopf
import pytest
from pydantic import ValidationError

from steelyard import handlers
from steelyard.api import Origin, RevisionPhase, Stage
from steelyard.cluster import kinds
from steelyard.cluster.ledger import prunable
from steelyard.settings import Settings
from steelyard.telemetry import Telemetry, serving
from tests.builders import a_job, a_revision, job_manifest


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEELYARD_NAMESPACES", "team-a, team-b")
    monkeypatch.setenv("STEELYARD_PROMETHEUS_URL", "http://prometheus:9090")
    monkeypatch.setenv("STEELYARD_IMAGE_SAMPLER", "mine/sampler:2")
    monkeypatch.setenv("POD_NAME", "steelyard-operator-abc")

    settings = Settings()

    assert settings.namespaces == ("team-a", "team-b")
    assert settings.prometheus_url == "http://prometheus:9090"
    assert settings.images.of(a_job(), Stage.SAMPLER) == "mine/sampler:2"
    assert settings.identity == "steelyard-operator-abc"


def test_two_processes_on_one_machine_are_two_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("POD_NAME", raising=False)
    here = Settings().identity
    monkeypatch.setattr("os.getpid", lambda: -1)

    assert Settings().identity != here


def test_a_wrong_setting_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEELYARD_HTTP_PORT", "eighty")

    with pytest.raises(ValidationError, match="http_port"):
        Settings()


async def test_health_fails_with_its_reasons() -> None:
    """nolar/kopf#1276: a watch that ended left a zombie that called itself healthy."""
    telemetry, complaints = Telemetry(), list[str]()
    telemetry.count_request("GET", "200")

    async with serving(telemetry, 0, lambda: complaints) as port, httpx.AsyncClient(trust_env=False) as http:
        assert (await http.get(f"http://127.0.0.1:{port}/healthz")).status_code == 200
        complaints.append("the watch of Pod is dead")
        answer = await http.get(f"http://127.0.0.1:{port}/healthz")
        assert (answer.status_code, answer.text) == (503, "the watch of Pod is dead")
        page = (await http.get(f"http://127.0.0.1:{port}/metrics")).text
        assert 'steelyard_operator_api_requests_total{outcome="200",verb="GET"} 1.0' in page


class Seen:
    """A sink that remembers."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, ...]] = []

    def put(self, kind: kinds.Kind, obj: dict[str, Any]) -> None:
        self.calls.append(("put", kind.name, obj["metadata"]["name"]))

    def remove(self, kind: kinds.Kind, namespace: str, name: str, uid: str) -> None:
        self.calls.append(("remove", kind.name, name, uid))


async def nothing() -> None:
    """Stops nothing."""


async def test_kopf_is_asked_for_events_alone_so_that_it_leaves_no_trace_on_the_users_object() -> None:
    seen, registry = Seen(), kopf.OperatorRegistry()
    handlers.register(registry, seen, lambda **_: None, nothing)

    assert [handler.fn.__name__ for handler in registry._watching.get_all_handlers()] == ["job_event"]
    assert not registry._changing.get_all_handlers()
    assert not registry._spawning.get_all_handlers()
    assert not registry._indexing.get_all_handlers()

    (handler,) = registry._watching.get_all_handlers()
    body = job_manifest()
    body["metadata"]["uid"] = "u"
    await handler.fn(event={"type": None, "object": body})
    await handler.fn(event={"type": "MODIFIED", "object": body})
    await handler.fn(event={"type": "DELETED", "object": body})
    assert seen.calls == [
        ("put", "AgenticRLJob", "calculator"),
        ("put", "AgenticRLJob", "calculator"),
        ("remove", "AgenticRLJob", "calculator", "u"),
    ]


def test_old_revisions_go_but_never_one_that_is_still_needed() -> None:
    ledger = [
        a_revision(1, phase=RevisionPhase.SUPERSEDED),
        a_revision(2, phase=RevisionPhase.SUPERSEDED, origin=Origin.USER),
        a_revision(3, phase=RevisionPhase.SUPERSEDED),
        a_revision(4, phase=RevisionPhase.SUPERSEDED),
        a_revision(5, phase=RevisionPhase.SUPERSEDED),
        a_revision(6, phase=RevisionPhase.JUDGED),
    ]

    gone = prunable(ledger, pin="calculator-3", keep=1)

    assert [revision.spec.number for revision in gone] == [1, 4], "held, pinned, parent and active stay"
    assert prunable(ledger, pin=None, keep=10) == []
