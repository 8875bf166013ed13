"""Two jobs share a pool of real GPUs: who matters more takes one back, and it is drained before anybody else has it."""

from functools import partial

import pytest

from e2e.demo.gpus import GpuLog
from e2e.kube import Kube, Object, wait_for
from e2e.scenarios.live import NAMESPACE, READY_SECONDS, STEP_SECONDS, LiveJob, devices

GPUS = 4
POOL: Object = {
    "apiVersion": "steelyard.dev/v1alpha1",
    "kind": "RLPool",
    "metadata": {"name": "small"},
    "spec": {
        "gpus": GPUS,
        "queues": [
            {"name": "urgent", "namespaces": [NAMESPACE], "priority": 10},
            {"name": "patient", "namespaces": [NAMESPACE]},
        ],
    },
}


def member(manifest: Object, queue: str, samplers: int) -> Object:
    """A job in that queue, and of its name, that wants so many GPUs for sampling and one for its trainer."""
    spec = manifest["spec"]
    on_cpu = {key: value for key, value in spec["stages"]["rewardServer"].items() if key != "gpuProfiles"}
    own = {
        "pool": {"name": POOL["metadata"]["name"], "queue": queue},
        "stages": {**spec["stages"], "rewardServer": on_cpu},
        "scaling": {"mode": "Fixed", "intervalSeconds": 1, "fixed": {"sampler": {"whole": samplers}}},
        "checkpoints": {**spec["checkpoints"], "reclaim": "Delete"},
    }
    return {**manifest, "metadata": {"name": queue}, "spec": {**spec, **own}}


def gone(job: LiveJob) -> bool:
    return not job.all_pods()


@pytest.mark.usefixtures("tasks", "rehearsal")  # the latter beside it
def test_the_urgent_job_takes_a_gpu_back_by_draining_and_nothing_is_lost(kube: Kube, manifest: Object) -> None:
    wanted = [member(manifest, "patient", samplers=2), member(manifest, "urgent", samplers=1)]
    patient, urgent = (LiveJob(kube, job["metadata"]["name"]) for job in wanted)
    kube.apply([POOL])
    try:
        with GpuLog(kube, wanted, NAMESPACE) as gpus:
            kube.apply(wanted[:1], NAMESPACE)
            patient.wait_step(1)
            wait_for("both samplers of the patient job", lambda: len(patient.pods("sampler")) == 2, READY_SECONDS)

            kube.apply(wanted[1:], NAMESPACE)

            def trains() -> int | None:
                held = devices([*patient.all_pods(), *urgent.all_pods()])
                assert len(held) == len(set(held)), f"a GPU twice among {held}"
                return urgent.step()

            wait_for("the urgent job to train", trains, STEP_SECONDS)
            patient.wait_progress(1)
            assert [len(job.pods("sampler")) for job in (patient, urgent)] == [1, 1]
        assert gpus.most == GPUS
        for job in (patient, urgent):
            assert job.findings().ok, job.findings()
    finally:
        for job in (patient, urgent):
            kube.delete("AgenticRLJob", NAMESPACE, job.name)
        for job in (patient, urgent):
            wait_for(f"the pods of {job.name} to go", partial(gone, job), READY_SECONDS)
        kube.delete("RLPool", None, POOL["metadata"]["name"])
