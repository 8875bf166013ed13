"""What Helm, Flux and Argo CD make of our resources as a real API server returns them, in each phase of their lives."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from e2e.cluster import build
from e2e.cluster.progress import Progress
from e2e.cluster.shell import run
from e2e.kube import Object
from gitops.customizations import CUSTOMIZATIONS
from tests.integration.operator.operating import Operated
from tests.integration.operator.sharing import asks
from tests.integration.server import Server

FLUX = Path(__file__).parents[3] / "gitops" / "flux" / "sync.yaml"
pytestmark = pytest.mark.timeout(240, func_only=True)


class Said(NamedTuple):
    """What each of them calls an object."""

    helm: str
    """kstatus alone, which Helm 4 waits by."""
    flux: str
    """The health check expressions of the sample, else kstatus."""
    argo: str


NOT_YET = Said("InProgress", "InProgress", "Progressing")
THERE = Said("Current", "Current", "Healthy")
PARKED = Said("Current", "Current", "Suspended")
BROKEN = Said("Failed", "Failed", "Degraded")
Ask = Callable[[Object], Said]


@pytest.fixture(scope="session")
def programs() -> Path:
    return build.ensure(build.GITOPS, Progress())


@pytest.fixture(scope="session")
def ask(programs: Path) -> Ask:
    """The real kstatus, both as Kubernetes and as Flux keep it, Flux's CEL and the Lua that Argo CD embeds."""
    documents = yaml.safe_load_all(FLUX.read_text())
    checks = [check for document in documents for check in document["spec"].get("healthCheckExprs", ())]
    expressions = {check.pop("kind"): check for check in checks}

    def said(obj: Object) -> Said:
        script = CUSTOMIZATIONS / "steelyard.dev" / obj["kind"] / "health.lua"
        asked = {"object": obj, "script": script.read_text(), "expressions": expressions.get(obj["kind"])}
        answer = json.loads(run(programs / "judge", stdin=json.dumps(asked), timeout=10))
        verdicts: dict[str, str] = {tool: found["status"] for tool, found in answer.items()}
        assert verdicts["kstatus"] == verdicts["fork"]
        return Said(verdicts["kstatus"], verdicts.get("flux", verdicts["fork"]), verdicts["argo"])

    return said


def test_a_job_is_followed_from_before_it_is_seen_until_it_is_complete(operated: Operated, ask: Ask) -> None:
    """argoproj/argo-cd#11603: a suspended resource was shown as one that progresses."""
    operated.operator.stop()
    operated.create()
    assert ask(operated.job()) == NOT_YET, "nobody has looked at it"
    with operated.kubelet.keeps_waiting({"steelyard.dev/stage": "trainer"}):
        operated.operator.start()
        operated.until("it starts", lambda: operated.has("Reconciling"))
        assert ask(operated.job()) == NOT_YET
    operated.until("it is ready", lambda: operated.has("Ready"))
    job = operated.job()
    assert ask(job) == THERE
    job["metadata"]["generation"] += 1
    assert ask(job) == NOT_YET, "nobody has looked at the change"

    with operated.kubelet.drains_for(1.5):
        operated.change({"suspend": True})
        operated.until("it stops", lambda: operated.has("Reconciling"))
        assert ask(operated.job()) == NOT_YET
        operated.until("it is suspended", lambda: operated.has("Suspended"))
    assert ask(operated.job()) == PARKED

    operated.change({"suspend": False})
    operated.until("it runs again", lambda: operated.has("Ready") and operated.pods("trainer"))
    (trainer,) = operated.pods("trainer")
    operated.kubelet.finish(trainer, 0, '{"complete": true, "step": 200}')
    operated.until("it is complete", lambda: operated.has("Complete"))
    assert ask(operated.job()) == THERE


def test_a_failed_job_is_failed_for_all_of_them(operated: Operated, ask: Ask) -> None:
    operated.start()
    (trainer,) = operated.pods("trainer")

    operated.kubelet.finish(trainer, 64, "tasks: /tasks holds no *.jsonl file")
    operated.until("it has failed", lambda: operated.has("Failed"))

    assert ask(operated.job()) == BROKEN


def test_an_image_that_cannot_be_pulled_is_waited_for_and_seen(operated: Operated, ask: Ask) -> None:
    with operated.kubelet.keeps_waiting({"steelyard.dev/stage": "sampler"}, "ImagePullBackOff"):
        operated.create()
        operated.until("the condition says so", lambda: operated.has("Degraded"))

        assert ask(operated.job()) == Said("InProgress", "InProgress", "Degraded")


def test_a_job_that_queues_is_as_git_wants_it_and_its_pool_too(
    operated: Operated, server: Server, pool: str, ask: Ask
) -> None:
    operated.start(asks(pool, "low", 4), name="one")
    operated.create(asks(pool, "low", 4), name="two")
    operated.until("it waits", lambda: operated.condition("QuotaReserved", "two").get("reason") == "WaitingForGpus")
    operated.until("nothing of it runs", lambda: operated.has("Reconciling", "False", "two"))

    assert ask(operated.job("two")) == Said("InProgress", "Current", "Suspended")
    shared = server.get("RLPool", None, pool)
    assert shared is not None
    assert ask(shared) == THERE


def test_a_revision_is_there_once_it_is_applied(operated: Operated, ask: Ask) -> None:
    operated.start()

    def applied() -> bool:
        (revision,) = operated.server.list("AllocationRevision", operated.namespace)
        return bool(revision.get("status", {}).get("settlingTime"))

    operated.until("the revision is applied", applied)
    (revision,) = operated.server.list("AllocationRevision", operated.namespace)
    assert ask({**revision, "apiVersion": "steelyard.dev/v1alpha1", "kind": "AllocationRevision"}) == THERE


def test_the_sample_holds_only_fields_that_flux_knows(programs: Path) -> None:
    run(programs / "strict", stdin=FLUX.read_text(), timeout=10)
