"""One long job on a real cluster, the README's: it learns, is rebalanced, and survives everything that is done to it.

The tests run in this order on the same job; each leaves it training.
"""

import json
import tarfile
import time
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster import Cluster
from e2e.dashboards import Shown, without_data
from e2e.demo import claims
from e2e.demo.gpus import GpuLog, gpu_value
from e2e.evaluate import held_out_accuracy
from e2e.faults import kill, main_process
from e2e.install import MANIFESTS
from e2e.install import NAMESPACE as OPERATOR_NAMESPACE
from e2e.kube import Kube, Object, load_yaml, wait_for
from e2e.local import TINY
from e2e.readme import Terminal
from e2e.scenarios.live import NAMESPACE, READY_SECONDS, LiveJob
from tests.documented.runs import CONTAINERS as ON_CONTAINERS
from tests.documented.runs import lines_run_by

LEARNT_STEPS = 64
"""Of the example: its policy has learnt by then."""
MOVE_SECONDS = 600
CONFESS_SECONDS = 180
"""The operator tells within a minute of a worker's last words (an integration test holds it to that); a worker that
first imports torch, beside a job that trains on the same two cores, takes half a minute to say them."""
DASHBOARD_TRIES = 12
SHOWN_OR_ENDED = "[[ $? =~ ^(0|124)$ ]]"
"""What has no end is ended (124)."""
CONTAINERS = {"bus": "nats"}
STAGES = ("sampler", "environment", "rewardServer", "trainer")


def test_capacity_moves_to_the_bottleneck_and_the_move_is_judged(job: LiveJob) -> None:
    def kept() -> list[Object]:
        judged = [r for r in job.revisions() if (r.get("status") or {}).get("verdict") == "Kept"]
        return [r for r in judged if r["spec"]["allocation"].get("before")]

    moved = wait_for("a move with the verdict Kept", kept, MOVE_SECONDS)
    assert moved[0]["spec"]["reason"]
    assert moved[0]["status"]["measured"]["throughputAfter"]


def test_a_harmful_allocation_that_a_user_tries_is_taken_back_and_the_ledger_says_why(job: LiveJob) -> None:
    wait_for("balance", lambda: job.condition("Balanced").get("status") == "True", MOVE_SECONDS)
    good = job.revisions()[-1]["spec"]["allocation"]["after"]
    tried = job.try_allocation({**good, "environment": {"default": 1}}, "would one environment do?")
    assert tried["status"]["verdict"] == "RolledBack"
    assert tried["status"].get("windows", 0) == 0, "it took more than one window"
    assert "that the allocation before would reach now" in tried["status"]["evidence"]

    def taken_back() -> Object | None:
        last = job.revisions()[-1]
        return last if last["spec"]["number"] == tried["spec"]["number"] + 1 else None

    rollback = wait_for("the way back", taken_back, 60)
    assert rollback["spec"]["origin"] == "Rollback"
    assert rollback["spec"]["allocation"]["after"] == good
    assert tried["metadata"]["name"] in rollback["spec"]["reason"]


def test_an_audit_knows_where_every_gpu_hour_went_and_what_each_move_was_worth(
    job: LiveJob, terminal: Terminal, tmp_path: Path
) -> None:
    """From the cluster's own Prometheus, by way of the API server."""
    audit = f"kubectl steelyard audit {job.name} --for 1h"
    (told,) = json.loads(terminal.run(f"{audit} -o json"))["items"]
    assert told["missing"] == []
    hours = told["gpuHours"]
    assert hours["held"] > 0
    assert hours["busy"] + hours["waiting"] + hours["idle"] == pytest.approx(hours["held"])
    judged = {one["name"]: one for one in told["revisions"] if one["verdict"] in ("Kept", "RolledBack")}
    assert {one["verdict"] for one in judged.values()} == {"Kept", "RolledBack"}
    assert [name for name, one in judged.items() if not (one["throughputBefore"] and one["throughputAfter"])] == []

    page = tmp_path / "report.html"
    terminal.run(f"{audit} -o {page}")
    assert [name for name in judged if name not in page.read_text()] == []


def test_who_asks_about_it_is_told_by_figures_and_exit_codes(job: LiveJob, terminal: Terminal) -> None:
    def asked(question: str, code: int = 0) -> Object:
        (told,) = json.loads(terminal.run(f"kubectl steelyard {question} -o json", code=code))["items"]
        return dict(told)

    explained = asked(f"explain {job.name}")
    assert explained["unreadable"] is None
    assert explained["decision"]["reason"]
    assert {one["stage"] for one in explained["inputs"] if one["sampleAgeSeconds"] is not None} == set(STAGES)
    most = job.resource["spec"]["stages"]["environment"]["replicas"]["max"]
    refused = asked(f"why-not {job.name} --stage environment --to {most + 1}", code=3)
    assert "Replicas" in [rule["kind"] for rule in refused["rules"] if not rule["passed"]]
    assert {child["name"] for child in asked(f"tree {job.name}")["children"]} >= set(STAGES)
    assert asked(f"status {job.name}")["trajectoriesPerSecond"] > 0

    shorter = asked(f"diff -f {MANIFESTS / 'examples' / 'calculator.yaml'} --exit-code", code=4)
    assert [one["path"] for one in shorter["fields"]] == ["spec.algorithm.steps"]
    assert [one["stage"] for one in shorter["replicas"] if one["pods"] == "restart"] == ["trainer"]


@pytest.mark.parametrize("stage", ["environment", "reward-server", "trainer", "bus", "sampler"])
def test_training_goes_on_after_a_kill_of(job: LiveJob, stage: str) -> None:
    victim = wait_for(f"a {stage} to kill", partial(_killed, job, stage), READY_SECONDS)
    wait_for(f"a ready {stage}", lambda: _healed(job, stage, victim), READY_SECONDS)
    job.wait_progress(3)


def test_an_operator_killed_in_the_middle_of_a_move_makes_the_same_move_once(job: LiveJob, kube: Kube) -> None:
    number = job.revisions()[-1]["spec"]["number"]
    fixed = {"environment": {"default": 2}, "rewardServer": {"whole": 1}}
    job.change(scaling={"mode": "Fixed", "fixed": fixed})

    def moves() -> list[Object]:
        """The operator may have made another one of its own before it saw the change."""
        later = [one for one in job.revisions() if one["spec"]["number"] > number]
        return [one for one in later if one["spec"]["allocation"]["after"]["environment"] == fixed["environment"]]

    wait_for("the move's revision", moves, 60, every=0.01)
    kill(_operator(kube), "operator")
    wait_for("two environments", lambda: len(job.ready("environment")) == 2, READY_SECONDS)
    wait_for("one reward server", lambda: len(job.ready("reward-server")) == 1, READY_SECONDS)
    (made,) = moves()
    assert job.revisions()[-1]["metadata"]["name"] == made["metadata"]["name"]


def test_a_stage_changes_its_gpu_profile(job: LiveJob, gpus: GpuLog, manifest: Object) -> None:
    fixed: dict[str, Any] = {
        "sampler": {"whole": 1},
        "environment": {"default": 2},
        "rewardServer": {"whole": None, "slice": 2},
    }
    job.change(scaling={"fixed": fixed})

    def on_slices() -> bool:
        ready = job.ready("reward-server")
        profiles = [pod["metadata"]["labels"]["steelyard.dev/profile"] for pod in ready]
        return profiles == ["slice", "slice"]

    wait_for("two reward servers on slices", on_slices, READY_SECONDS)
    job.wait_progress(3)
    assert gpus.most <= float(gpu_value(manifest["spec"]["budget"]["gpus"]))


MAY_LACK = {
    "container_pressure_": "pressure of containers needs cgroup v2",
    "kubelet_volume_stats_": "the provisioner of the embedded cluster reports no fill",
    "DCGM_": "its GPUs are made up",
    "Verdict Inconclusive": "no move of this job need be",
}


def test_every_panel_of_every_dashboard_has_data(job: LiveJob, kube: Kube) -> None:
    """What happened until now gives most of them data; a hold and a pool give the others theirs."""
    kube.apply(load_yaml(MANIFESTS / "examples" / "pool.yaml"))
    job.write(job.revisions()[-1]["spec"]["allocation"]["after"], "while somebody looks", timedelta(seconds=40))

    shown, missing = partial(Shown, NAMESPACE, job.name, seconds=3600), list[str]()
    for _ in range(DASHBOARD_TRIES):
        missing = without_data(job.prometheus, shown(), MAY_LACK)
        if not missing:
            break
        time.sleep(5)
    assert missing == []


def test_a_user_follows_trajectories_reads_logs_and_asks_for_help(
    job: LiveJob, terminal: Terminal, tmp_path: Path
) -> None:
    """Through the user's own kubectl: ports are forwarded, logs and metrics come by way of the API server."""
    told = json.loads(terminal.run(f"kubectl steelyard trace {job.name} -o json"))["items"]
    trained = [one for one in told if one["outcome"] == "trained"]
    assert trained
    assert all(one["step"] >= 1 and one["staleness"] >= 0 and one["tokens"] > 0 for one in trained)
    tree = terminal.run(f"kubectl steelyard trace {job.name} {trained[0]['trajectory']}")
    assert ":8000, " in tree, "the sampler's address"
    assert "tool calculator" in tree
    for shown in lines_run_by(ON_CONTAINERS):
        text = shown.text.partition("  #")[0].replace("NAME", job.name).replace("12/3/0", trained[0]["trajectory"])
        text = text.replace("run.json", str(tmp_path / "run.json"))
        terminal.run(f"{'timeout 10 ' if ' -f' in text else ''}kubectl {text}; {SHOWN_OR_ENDED}")
    logs = terminal.run(f"kubectl steelyard logs {job.name} --stage trainer --tail 3").splitlines()
    assert {line.partition("-trainer-")[0] for line in logs} == {f"trainer/{job.name}"}
    file = tmp_path / "bundle.tar.gz"
    terminal.run(f"kubectl steelyard bundle {job.name} -o {file}")
    with tarfile.open(file) as bundle:
        names = {name.partition("/")[2] for name in bundle.getnames()}
    assert {"jobs.yaml", "pods.yaml", "versions.yaml", f"metrics/{job.name}.json", "manifest.yaml"} <= names
    assert len([name for name in names if name.startswith("logs/")]) >= len(job.all_pods())


@pytest.mark.usefixtures("rehearsal")  # it takes minutes, mostly of waiting, and eight GPUs are enough for all
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"stages": {"environment": {"image": "localhost/nobody/nothing:1"}}}, "localhost/nobody/nothing:1"),
        ({"stages": {"environment": {"entrypoint": "no.such.module:thing"}}}, "no.such.module:thing"),
        ({"stages": {"rewardServer": {"entrypoint": "math:no_such_function"}}}, "math:no_such_function"),
        ({"tasks": {"configMap": {"name": "empty-tasks"}}}, "/tasks"),
        ({"model": {"path": "/models/none"}}, "/models/none"),
        ({"algorithm": {"args": {"learningRate": "fast"}}}, "learningRate"),
    ],
    ids=["image", "environment entry point", "reward entry point", "data set", "model", "algorithm argument"],
)
def test_a_broken_job_says_what_is_wrong_and_disturbs_nobody(
    job: LiveJob, kube: Kube, manifest: Object, change: Object, words: str
) -> None:
    kube.apply([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "empty-tasks"}}], NAMESPACE)
    stages = manifest["spec"]["stages"]
    small = {
        "sampler": {"drainSeconds": 1, "replicas": {"min": 1, "max": 1, "initial": 1}},
        "rewardServer": {"gpuProfiles": stages["rewardServer"]["gpuProfiles"][1:]},
    }
    broken = merged(manifest, {"metadata": {"name": "broken"}, "spec": {"stages": small}})
    broken = merged(broken, {"spec": change})
    kube.apply([broken], NAMESPACE)
    other = LiveJob(kube, "broken")

    def confessed() -> list[str]:
        conditions = [other.condition(kind) for kind in ("Failed", "Degraded", "Stalled")]
        said = [c.get("message", "") for c in conditions if c.get("status") == "True"]
        return [message for message in said if words in message]

    try:
        wait_for(f"a condition that names {words}", confessed, CONFESS_SECONDS)
        job.wait_progress(1)
    finally:
        kube.delete("AgenticRLJob", NAMESPACE, "broken")
        wait_for("the broken job's pods to go", lambda: not other.all_pods(), READY_SECONDS)
        kube.delete("PersistentVolumeClaim", NAMESPACE, "broken-checkpoints")


def test_suspend_stops_every_pod_and_resume_goes_on_from_the_checkpoint(job: LiveJob, kube: Kube) -> None:
    before = job.step() or 0
    job.change(suspend=True)
    wait_for("the word that it is suspended", lambda: job.condition("Suspended")["status"] == "True", READY_SECONDS)
    wait_for("no pods", lambda: not job.all_pods(), READY_SECONDS)
    for claim in ("checkpoints", "weights", "bus"):
        assert kube.get("PersistentVolumeClaim", NAMESPACE, f"{job.name}-{claim}"), claim
    job.change(suspend=False)
    assert job.wait_step(before + 3) >= before + 3


def test_no_trajectory_was_lost_or_trained_twice(job: LiveJob) -> None:
    job.wait_step(LEARNT_STEPS)
    findings = job.findings()
    assert findings.ok, findings
    assert findings.trained > 1000


def test_the_budget_was_never_exceeded(gpus: GpuLog, manifest: Object) -> None:
    assert 0 < gpus.most <= float(gpu_value(manifest["spec"]["budget"]["gpus"]))


def test_kubectl_shows_the_job_and_its_ledger(job: LiveJob, installed: Cluster) -> None:
    jobs = installed.kubectl("get", "arj", job.name).splitlines()
    assert jobs[0].split()[1:] == ["PHASE", "STEP", "REWARD", "THROUGHPUT", "BOTTLENECK", "GPUS", "AGE"]
    assert len(installed.kubectl("get", "arev").splitlines()) > 2


def test_a_deleted_job_goes_with_all_it_had_but_the_checkpoints(job: LiveJob, kube: Kube) -> None:
    kube.delete("AgenticRLJob", NAMESPACE, job.name)

    def left() -> list[str]:
        kinds = ("Deployment", "StatefulSet", "Job", "Service", "ConfigMap", "Pod")
        found = [obj for kind in kinds for obj in kube.list(kind, NAMESPACE, f"steelyard.dev/job={job.name}")]
        return [obj["metadata"]["name"] for obj in found]

    wait_for("nothing of the job", lambda: not left(), READY_SECONDS)
    assert kube.get("PersistentVolumeClaim", NAMESPACE, f"{job.name}-checkpoints")
    wait_for(
        "no weights", lambda: kube.get("PersistentVolumeClaim", NAMESPACE, f"{job.name}-weights") is None, READY_SECONDS
    )


def test_what_it_learnt_through_all_of_this_is_in_the_checkpoints_that_stay(job: LiveJob) -> None:
    learnt = held_out_accuracy(claims.last_checkpoint(job.checkpoints))
    assert learnt >= held_out_accuracy(TINY) + 0.2


def merged(base: Object, change: Object) -> Object:
    """A copy of `base` with the leaves of `change`."""
    both = {
        key: merged(base[key], value) if isinstance(value, dict) and key in base else value
        for key, value in change.items()
    }
    return {**base, **both}


def _killed(job: LiveJob, stage: str) -> Object | None:
    """The first ready pod of the stage that still ran when it was killed: a move may take one away meanwhile."""
    for pod in job.ready(stage):
        try:
            kill(pod, CONTAINERS.get(stage, "worker"))
        except ProcessLookupError:
            continue
        return pod
    return None


def _healed(job: LiveJob, stage: str, victim: Object) -> bool:
    """A ready pod of the stage that is another one than the victim, or the victim after a restart."""
    before = {_identity(victim)}
    return any(_identity(pod) not in before for pod in job.ready(stage))


def _identity(pod: Object) -> tuple[str, tuple[str, ...]]:
    return pod["metadata"]["uid"], tuple(status.get("containerID", "") for status in pod["status"]["containerStatuses"])


def _operator(kube: Kube) -> Object:
    def running() -> Object | None:
        for pod in kube.list("Pod", OPERATOR_NAMESPACE):
            try:
                main_process(pod, "operator")
            except ProcessLookupError:
                continue
            return pod
        return None

    return wait_for("the operator's process", running, 60)
