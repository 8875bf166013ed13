"""The process around the controller: settings, its own metrics and health, what it asks of kopf, old ledgers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import kopf
import pytest
from pydantic import ValidationError

from steelyard import handlers
from steelyard.api import Origin, RevisionPhase, Stage
from steelyard.cluster import kinds
from steelyard.cluster.ledger import prunable
from steelyard.run import main
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


def ended(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[str | int | None, str, str]:
    """How `python -m steelyard` ends: what it exits with, what it prints, what it complains of."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["steelyard", *argv])
        patch.setenv("KUBECONFIG", "")  # main sets it
        with pytest.raises(SystemExit) as exit_:
            main()
    printed = capsys.readouterr()
    return exit_.value.code, printed.out, printed.err


def test_help_names_every_setting_and_needs_no_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = ended(capsys, "--help")

    assert code == 0
    assert {f"STEELYARD_{name.upper()}" for name in Settings.model_fields} <= set(out.split())
    assert "Namespaces to serve, comma separated; all when empty." in out


def test_a_wrong_setting_ends_the_operator_with_its_name_value_and_rule(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STEELYARD_LOG_LEVEL", "loud")

    code, _, complaint = ended(capsys)

    assert code == 2
    assert "STEELYARD_LOG_LEVEL: 'loud': Input should be 'DEBUG', 'INFO', 'WARNING' or 'ERROR'" in complaint


NO_CLUSTER: dict[str, tuple[str | None, str]] = {
    "outside a pod": (None, "the service account of a pod (no kubeconfig is named): Service host/port is not set."),
    "a kubeconfig that is not there": ("", "kubeconfig {path}: [Errno 2] No such file or directory: '{path}'"),
    "a kubeconfig that is no YAML": ("a: : {", "kubeconfig {path}: mapping values are not allowed here"),
    "a kubeconfig of another shape": ("[]", "kubeconfig {path}: list indices must be integers"),
    "a kubeconfig without a context": ("clusters: []", "kubeconfig {path}: Invalid kube-config file. Expected key"),
}


@pytest.mark.parametrize("case", NO_CLUSTER)
def test_without_a_cluster_one_line_says_what_was_tried(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    content, words = NO_CLUSTER[case]
    path = tmp_path / "kubeconfig"
    if content:
        path.write_text(content)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    if content is not None:
        monkeypatch.setenv("STEELYARD_KUBECONFIG", str(path))

    said, _, _ = ended(capsys)

    assert isinstance(said, str), "sys.exit prints it and exits 1"
    assert said.startswith(f"python -m steelyard: no cluster: tried {words.format(path=path)}")
    assert "\n" not in said


async def test_health_fails_with_its_reasons() -> None:
    """nolar/kopf#1276: a watch that ended left a zombie that called itself healthy."""
    telemetry, complaints = Telemetry(), list[str]()
    telemetry.count_request("GET", "200", 0.002)

    checks = {"/healthz": lambda: complaints, "/readyz": lambda: ["the Lease is not held"]}
    async with serving(telemetry, 0, checks) as port, httpx.AsyncClient(trust_env=False) as http:
        answer = await http.get(f"http://127.0.0.1:{port}/readyz")
        assert (answer.status_code, answer.text) == (503, "the Lease is not held")
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

    def remove(self, kind: kinds.Kind, namespace: str, name: str, uid: str, version: int) -> None:
        self.calls.append(("remove", kind.name, name, uid, str(version)))


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
    body["metadata"] |= {"uid": "u", "resourceVersion": "7"}
    await handler.fn(event={"type": None, "object": body})
    await handler.fn(event={"type": "MODIFIED", "object": body})
    await handler.fn(event={"type": "DELETED", "object": body})
    assert seen.calls == [
        ("put", "AgenticRLJob", "calculator"),
        ("put", "AgenticRLJob", "calculator"),
        ("remove", "AgenticRLJob", "calculator", "u", "7"),
    ]


@pytest.mark.parametrize("clusterwide", [True, False])
def test_namespaces_and_crds_are_watched_only_by_an_operator_of_the_whole_cluster(clusterwide: bool) -> None:
    assert handlers.settings(clusterwide=clusterwide).scanning.disabled is not clusterwide


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
