"""Holds on a real operator: applied, told, ended, and never written into the user's object."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from e2e.kube import Object
from tests.integration.cli.conftest import Answer
from tests.integration.operator.operating import Operated
from tests.integration.processes import Prometheus

SAMPLERS = "calculator-sampler-whole"
Steelyard = Callable[..., Answer]
pytestmark = pytest.mark.timeout(240, func_only=True)


def samplers(operated: Operated) -> int:
    return operated.replicas().get(SAMPLERS, 0)


def decided(operated: Operated) -> str:
    decisions: list[Object] = operated.job()["status"].get("lastDecisions") or [{}]
    return str(decisions[0].get("kind"))


def test_a_hold_is_applied_told_and_ended(operated: Operated, steelyard: Steelyard) -> None:
    operated.start()
    before, generation = samplers(operated), operated.job()["metadata"]["generation"]
    answer = steelyard("hold", "calculator", "--stage", "sampler", "--replicas", str(before - 1), "--for", "1h")
    assert answer.code == 0, answer.err
    assert answer.out.startswith(f"calculator-2 holds sampler {before} -> {before - 1} for 1h, until ")
    operated.until("the hold is applied", lambda: samplers(operated) == before - 1)
    operated.until("it is told", lambda: decided(operated) == "Held")

    assert steelyard("resume", "calculator").code == 0
    operated.until("what was before is in force again", lambda: samplers(operated) == before)
    operated.until("the ledger is what it was", lambda: operated.revisions() == ["calculator-1"])
    assert operated.job()["metadata"]["generation"] == generation


def test_a_pause_changes_nothing_and_undo_goes_back(operated: Operated, steelyard: Steelyard) -> None:
    operated.start()
    before = samplers(operated)
    operated.change({"scaling": {"fixed": {"sampler": {"whole": 1}}}})
    operated.until("the change is applied", lambda: samplers(operated) == 1)
    assert steelyard("pause", "calculator").code == 0
    operated.until("the pause is in force", lambda: decided(operated) == "Held")
    assert samplers(operated) == 1

    undone = steelyard("undo", "calculator", "--for", "1h")
    assert undone.code == 0, undone.err
    assert yaml.safe_load(undone.out)["spec"] == {"scaling": {"pin": "calculator-1"}}
    operated.until("the first allocation is back", lambda: samplers(operated) == before)
    ended = steelyard("resume", "calculator")
    assert ended.out.splitlines()[-1].startswith("calculator-2 is in force again: sampler")
    operated.until("the change is in force again", lambda: samplers(operated) == 1)


def test_the_printed_patch_keeps_what_the_hold_began(
    operated: Operated, steelyard: Steelyard, tmp_path: Any, cluster: Any
) -> None:
    operated.start()
    before = samplers(operated)
    operated.change({"scaling": {"fixed": {"sampler": {"whole": 1}}}})
    operated.until("the change is applied", lambda: samplers(operated) == 1)
    patch = tmp_path / "patch.yaml"
    patch.write_text(steelyard("undo", "calculator", "--for", "1h").out)
    cluster.kubectl(
        *("patch", "agenticrljob", "calculator", f"--namespace={operated.namespace}"),
        *("--type=merge", f"--patch-file={patch}"),
    )
    steelyard("resume", "calculator")
    operated.until("the pin holds it", lambda: decided(operated) == "Pinned")
    operated.until("the first allocation is there", lambda: samplers(operated) == before)
    refused = steelyard("pause", "calculator")
    assert refused.code == 3
    assert "spec.scaling.pin: calculator-1" in refused.err


def test_what_the_spec_does_not_allow_never_reaches_the_ledger(operated: Operated, steelyard: Steelyard) -> None:
    operated.start()
    answer = steelyard("hold", "calculator", "--stage", "sampler", "--replicas", "7")
    assert answer.code == 3
    assert "spec.stages.sampler.replicas: 7: must lie between min 1 and max 6" in answer.err
    assert operated.revisions() == ["calculator-1"]


def test_a_workload_is_suspended_and_goes_on(operated: Operated, steelyard: Steelyard) -> None:
    operated.start()
    assert steelyard("pause", "calculator", "--workload").code == 0
    operated.until("all pods are gone", lambda: not operated.pods())
    assert "steelyard resume calculator --workload" in steelyard("resume", "calculator").err
    assert steelyard("resume", "calculator", "--workload").code == 0
    operated.until("the job is ready again", lambda: operated.has("Ready"))


def test_a_job_of_argo_cd_is_not_suspended_but_held(operated: Operated, steelyard: Steelyard) -> None:
    operated.start()
    mark = {"argocd.argoproj.io/tracking-id": "web:steelyard.dev/AgenticRLJob:default/calculator"}
    operated.server.patch("AgenticRLJob", operated.namespace, "calculator", {"metadata": {"annotations": mark}})
    refused = steelyard("pause", "calculator", "--workload")
    assert (refused.code, yaml.safe_load(refused.out)["spec"]) == (3, {"suspend": True})
    assert steelyard("pause", "calculator", "--for", "1h").code == 0
    operated.until("it is held", lambda: decided(operated) == "Held")


def test_without_rights_the_servers_words_are_told(operated: Operated, steelyard: Steelyard) -> None:
    operated.start()
    answer = steelyard("pause", "calculator", "--as", "mallory")
    assert answer.code == 6
    assert 'User "mallory" cannot' in answer.err


def test_a_bundle_of_a_real_job_names_what_it_could_not_read_and_holds_no_secret(
    operated: Operated, steelyard: Steelyard, prometheus: Prometheus, tmp_path: Any
) -> None:
    """No kubelet answers here, so logs are what is missing."""
    import tarfile

    operated.server.request(
        "POST",
        f"/api/v1/namespaces/{operated.namespace}/secrets",
        {"metadata": {"name": "wandb"}, "stringData": {"api-key": "hunter2-from-a-secret"}},
    )
    variables = [
        {"name": "JUDGE", "value": "hunter2-in-a-variable"},
        {"name": "WANDB_API_KEY", "valueFrom": {"secretKeyRef": {"name": "wandb", "key": "api-key"}}},
    ]
    template = {"spec": {"containers": [{"name": "worker", "env": variables}]}}
    operated.start({"stages.environment.template": template})
    file = tmp_path / "b.tar.gz"
    answer = steelyard("bundle", "calculator", "-o", str(file), "--prometheus", prometheus.url)
    assert answer.code == 4, answer.err
    with tarfile.open(file) as archive:
        found = {
            name.partition("/")[2]: archive.extractfile(name).read().decode()  # type: ignore[union-attr]
            for name in archive.getnames()
        }
    assert not [name for name, text in found.items() if "hunter2" in text]
    manifest = yaml.safe_load(found["manifest.yaml"])
    assert {name.split("/")[0] for name in manifest["missing"]} == {"logs"}
    assert manifest["withheld"]["pods.yaml"]["JUDGE"] == 1
    assert {pod["metadata"]["name"] for pod in yaml.safe_load(found["pods.yaml"])} == {
        pod["metadata"]["name"] for pod in operated.pods()
    }
    assert "WANDB_API_KEY" in found["pods.yaml"]
    assert "metrics/calculator.json" in found
    assert {one["kind"] for one in yaml.safe_load(found["children/deployments.yaml"])} <= {"Deployment"}
