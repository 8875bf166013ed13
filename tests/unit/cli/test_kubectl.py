"""The seam to the user's kubectl: how it is called, and what its complaints mean."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from steelyard.cluster import errors
from steelyard.cluster.errors import ClusterError
from steelyard.cluster.kinds import JOB, POD
from steelyard.cluster.kubectl import Kubectl, event_of
from steelyard.cluster.kubectl_errors import meaning
from steelyard.cluster.places import NoPrometheus, Place, place_of

SCRIPT = """#!/bin/sh
printf '%s\\n' "$@" > "$ASKED"
[ "$STDIN" ] && cat > "$STDIN"
printf '%s' "$ANSWER"
printf '%s' "$COMPLAINT" >&2
exit ${STATUS:-0}
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kubectl that notes what it is asked and answers what the environment says."""
    path = tmp_path / "kubectl"
    path.write_text(SCRIPT)
    path.chmod(0o755)
    monkeypatch.setenv("ASKED", str(tmp_path / "asked"))
    return path


def asked() -> list[str]:
    return Path(os.environ["ASKED"]).read_text().splitlines()


def answers(monkeypatch: pytest.MonkeyPatch, answer: Any) -> None:
    monkeypatch.setenv("ANSWER", json.dumps(answer))


def test_the_users_options_are_passed_on_as_they_are(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, {"items": [], "metadata": {"resourceVersion": "5"}})
    kubectl = Kubectl("prod", "/home/me/config", "system:serviceaccount:a:b", str(program))
    assert kubectl.collection(JOB, "team", selector="a=b") == ([], "5")
    assert asked() == [
        "--context=prod",
        "--kubeconfig=/home/me/config",
        "--as=system:serviceaccount:a:b",
        "get",
        "--raw=/apis/steelyard.dev/v1alpha1/namespaces/team/agenticrljobs?limit=500&labelSelector=a%3Db",
        "--request-timeout=20s",
    ]


def test_options_that_were_not_given_are_left_out(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, {"kind": "Pod"})
    assert Kubectl(program=str(program)).get(POD.path("a", "b")) == {"kind": "Pod"}
    assert asked()[0] == "get"


def test_a_page_to_log_in_is_no_answer(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What proxies that ask people to log in send, with status 200."""
    monkeypatch.setenv("ANSWER", "<!doctype html>\n<title>Sign in</title>")
    with pytest.raises(errors.Unauthorized, match="no API server: <!doctype html> <title>Sign in"):
        Kubectl(program=str(program)).get("/api")


@pytest.mark.parametrize(
    ("config", "want"),
    [
        ({"contexts": [{"name": "c", "context": {"cluster": "c", "namespace": "team"}}]}, "team"),
        ({"contexts": [{"name": "c", "context": {"cluster": "c"}}]}, "default"),
        ({"contexts": None}, "default"),
    ],
)
def test_the_namespace_is_the_contexts(program: Path, monkeypatch: pytest.MonkeyPatch, config: Any, want: str) -> None:
    answers(monkeypatch, config)
    assert Kubectl(program=str(program)).namespace == want


def test_a_patch_names_the_kind_with_its_version_and_whose_it_is(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers(monkeypatch, {})
    Kubectl(program=str(program)).patch(JOB, "team", "calculator", {"spec": {"suspend": True}}, dry_run=True)
    assert asked() == [
        "patch",
        "agenticrljobs.v1alpha1.steelyard.dev",
        "calculator",
        "--namespace=team",
        "--type=merge",
        '--patch={"spec": {"suspend": true}}',
        "--field-manager=steelyard-cli",
        "--dry-run=server",
        "--output=json",
        "--request-timeout=20s",
    ]


def test_a_deletion_is_of_the_object_that_was_seen(
    program: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    answers(monkeypatch, {})
    monkeypatch.setenv("STDIN", str(tmp_path / "stdin"))
    Kubectl(program=str(program)).delete(JOB, "team", "calculator", uid="u-1")
    assert asked()[-2:] == ["--filename=-", "--request-timeout=20s"], "a server that hangs is not waited for"
    assert json.loads((tmp_path / "stdin").read_text()) == {"preconditions": {"uid": "u-1"}}


def test_a_watch_tells_changes_until_it_ends(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, {"type": "ADDED", "object": {"a": 1}})
    with Kubectl(program=str(program)).watching(POD, "team", since="7") as process:
        assert process.stdout is not None
        assert [event_of(line) for line in process.stdout] == [("ADDED", {"a": 1})]
    assert "watch=true&resourceVersion=7" in asked()[1]


def test_a_watch_that_is_too_old_says_so() -> None:
    status = {"kind": "Status", "reason": "Expired", "message": "too old resource version: 7 (9)"}
    with pytest.raises(errors.Expired, match="too old"):
        event_of(json.dumps({"type": "ERROR", "object": status}))


def test_a_log_that_ends_with_an_error_raises_it(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANSWER", "first\nsecond\n")
    monkeypatch.setenv("COMPLAINT", 'Error from server (NotFound): pods "x" not found')
    monkeypatch.setenv("STATUS", "1")
    lines = Kubectl(program=str(program)).logs("team", "x", container="worker", tail="5")
    assert [next(lines), next(lines)] == ["first", "second"]
    with pytest.raises(errors.NotFound):
        next(lines)
    assert asked() == ["logs", "--namespace=team", "x", "--container=worker", "--follow=false", "--tail=5"]


def test_several_reads_give_what_each_found_or_why_not() -> None:
    def fails() -> int:
        raise errors.Forbidden("no")

    first, second = Kubectl().at_once([lambda: 1, fails])
    assert first == 1
    assert isinstance(second, errors.Forbidden)


def test_without_kubectl_the_error_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(errors.NoKubectl, match="nowhere: No such file"):
        Kubectl(program=str(tmp_path / "nowhere")).get("/api")


COMPLAINTS: list[tuple[str, type[ClusterError], str]] = [
    ('Error from server (NotFound): agenticrljobs.steelyard.dev "x" not found', errors.NotFound, '"x" not found'),
    (
        "Error from server (NotFound): the server could not find the requested resource",
        errors.NotServed,
        "could not find",
    ),
    (
        'Error from server (Forbidden): pods is forbidden: User "v" cannot list',
        errors.Forbidden,
        'User "v" cannot list',
    ),
    ("error: You must be logged in to the server (Unauthorized)", errors.Unauthorized, "must be logged in"),
    ("Error from server (AlreadyExists): it exists", errors.Conflict, "it exists"),
    ("Error from server (Invalid): spec.budget: too small", errors.Refused, "spec.budget"),
    ("Error from server (TooManyRequests): later", errors.Unavailable, "later"),
    ("Error from server: etcdserver: leader changed", errors.Unavailable, "leader changed"),
    ("Unable to connect to the server: dial tcp: lookup x: no such host", errors.Unreachable, "no such host"),
    (
        "The connection to the server localhost:8080 was refused - did you specify the right host or port?",
        errors.NoContext,
        "^there is no kubeconfig: The connection to the server localhost:8080",
    ),
    (
        "The connection to the server 10.0.0.1:6443 was refused - did you specify the right host or port?",
        errors.Unreachable,
        "10.0.0.1",
    ),
    ('error: context "nope" does not exist', errors.NoContext, '^context "nope"'),
    ("error: stat /nowhere: no such file or directory", errors.NoContext, "/nowhere"),
    ('error: the server doesn\'t have a resource type "agenticrljobs"', errors.NotServed, "agenticrljobs"),
    ('The AgenticRLJob "x" is invalid: spec.tasks: Invalid value: is immutable: x509', errors.Refused, "spec.tasks"),
    ("Please enter Username: error: EOF", errors.Unauthorized, "Username"),
    (
        "E1130 13:00:00.123456   99 memcache.go:265] couldn't get it\nUnable to connect to the server: x509: expired",
        errors.Unreachable,
        "^Unable to connect to the server: x509",
    ),
    ("error: unknown flag: --raw", ClusterError, "^unknown flag"),
    ("", ClusterError, "said nothing"),
]


@pytest.mark.parametrize(("stderr", "kind", "words"), COMPLAINTS, ids=[c[0][:50] for c in COMPLAINTS])
def test_what_kubectl_complains_of_becomes_an_error_by_meaning(
    stderr: str, kind: type[ClusterError], words: str
) -> None:
    error = meaning(stderr)
    assert type(error) is kind
    with pytest.raises(kind, match=words):
        raise error


PROXIED = "/api/v1/namespaces/monitoring/services/prometheus:9090/proxy"


@pytest.mark.parametrize(
    ("text", "inside", "name", "base"),
    [
        ("http://prometheus.example:9090", False, "http://prometheus.example:9090", "http://prometheus.example:9090"),
        ("https://prom.corp.example/path", True, "https://prom.corp.example/path", "https://prom.corp.example/path"),
        ("https://me:secret@prom.example/x", False, "https://prom.example/x", "https://me:secret@prom.example/x"),
        ("http://prometheus.monitoring:9090", False, *["http://prometheus.monitoring:9090"] * 2),
        ("monitoring/prometheus:9090", False, "monitoring/prometheus:9090", PROXIED),
        ("http://prometheus.monitoring:9090", True, "monitoring/prometheus:9090", PROXIED),
        ("http://p.m", True, "m/p:80", "/api/v1/namespaces/m/services/p:80/proxy"),
        ("http://p.m.svc.cluster.local:9090/x/", True, "m/p:9090", "/api/v1/namespaces/m/services/p:9090/proxy/x"),
        ("https://p.m.svc:9091", True, "m/p:9091", "/api/v1/namespaces/m/services/https:p:9091/proxy"),
    ],
)
def test_where_prometheus_is(text: str, inside: bool, name: str, base: str) -> None:
    assert place_of(text, from_inside=inside) == Place(name, base, in_cluster=base.startswith("/"))


@pytest.mark.parametrize("text", ["prometheus", "ftp://x:1", "http://", "http://x:port", "a/b/c:1"])
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(NoPrometheus):
        place_of(text)
