"""Where a job's checkpoints lie on this machine, and what they say."""

from pathlib import Path

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from e2e.kube import Kube

REWARD = "reward_mean"


def folder(kube: Kube, namespace: str, claim: str) -> Path:
    """The host folder behind a claim of the embedded cluster's StorageClass. LookupError while it is not bound."""
    volume_name = ((kube.get("PersistentVolumeClaim", namespace, claim) or {}).get("spec") or {}).get("volumeName")
    volume = kube.get("PersistentVolume", None, volume_name) if volume_name else None
    if volume is None:
        raise LookupError(f"claim {namespace}/{claim} is not bound")
    source = volume["spec"].get("hostPath") or volume["spec"]["local"]
    return Path(source["path"])


def rewards(checkpoints: Path) -> list[float]:
    """Mean training reward of every step, in order, from the job's TensorBoard log."""
    log = EventAccumulator(str(checkpoints / "tensorboard"))
    log.Reload()
    by_step = {event.step: event.value for event in log.Scalars(REWARD)}
    return [by_step[step] for step in sorted(by_step)]


def last_checkpoint(checkpoints: Path) -> Path:
    """The newest checkpoint that still has its weights."""
    complete = [path.parent for path in checkpoints.glob("*.*/model.safetensors")]
    return max(complete, key=lambda path: tuple(map(int, path.name.split("."))))
