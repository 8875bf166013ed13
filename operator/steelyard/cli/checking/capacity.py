"""What jobs need of the cluster: GPUs, storage, quotas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction

from steelyard.api import AgenticRLJob, Stage, parse_quantity
from steelyard.balance.purse import requests
from steelyard.cli import codes
from steelyard.cli.checking.findings import Finding, Scene, failure, ok, warning
from steelyard.cluster.kinds import Kind, Object

NODE = Kind("Node", "v1", "nodes")
STORAGE_CLASS = Kind("StorageClass", "storage.k8s.io/v1", "storageclasses")
QUOTA = Kind("ResourceQuota", "v1", "resourcequotas")
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
NOT_ACCELERATORS = ("cpu", "memory", "pods", "ephemeral-storage")


def gpus(scene: Scene) -> Iterator[Finding]:
    """Whether nodes have what the smallest allocation of each job asks for."""
    allocatable = _allocatable(scene.objects(NODE))
    if not allocatable:
        yield warning(codes.NO_GPUS, "nodes", "no node offers an accelerator (is a device plugin running?)")
    for name, total in sorted(allocatable.items()):
        yield ok("nodes", f"{float(total):g} {name} allocatable")
    for about, job in scene.specs:
        for name, needed in sorted(least(job).items()):
            have = allocatable.get(name, Fraction(0))
            if needed > have:
                said = f"its minima ask for {float(needed):g} {name}, all nodes together have {float(have):g}"
                yield failure(codes.NO_GPUS, about, said)
        if job.spec.budget.gpus > (total := sum(allocatable.values(), Fraction(0))):
            said = f"spec.budget.gpus is {float(job.spec.budget.gpus):g}, nodes have {float(total):g} accelerators"
            yield warning(codes.NO_GPUS, about, said)


def least(job: AgenticRLJob) -> dict[str, Fraction]:
    """Accelerators that the job's minima ask for, in the cheapest profile of each stage."""
    found: dict[str, Fraction] = {}
    for stage in Stage:
        spec = job.spec.stage(stage)
        prices = spec.profiles
        cheapest = min(prices, key=prices.__getitem__)
        for name, amount in requests(spec)[cheapest].items():
            if "/" in name:
                found[name] = found.get(name, Fraction(0)) + amount * spec.replicas.min
    return found


def _allocatable(nodes: list[Object]) -> dict[str, Fraction]:
    """Accelerators by resource name, of nodes that take pods."""
    found: dict[str, Fraction] = {}
    for node in nodes:
        if (node.get("spec") or {}).get("unschedulable"):
            continue
        for name, amount in ((node.get("status") or {}).get("allocatable") or {}).items():
            if "/" in name and (value := parse_quantity(amount)):
                found[name] = found.get(name, Fraction(0)) + value
    return found


def storage(scene: Scene) -> Iterator[Finding]:
    """Whether claims will find a class."""
    classes = {one["metadata"]["name"]: one for one in scene.objects(STORAGE_CLASS)}
    default = [name for name, one in classes.items() if _is_default(one)]
    for about, job in scene.specs:
        asked = job.spec.checkpoints.storage.storage_class_name
        if asked is not None and asked not in classes:
            said = (
                f"spec.checkpoints.storage.storageClassName: {asked}: there are {', '.join(sorted(classes)) or 'none'}"
            )
            yield failure(codes.NO_STORAGE, about, said)
        elif asked is None and not default:
            yield failure(codes.NO_STORAGE, about, "names no StorageClass and the cluster has no default one")
    if default:
        yield ok("storage", f"default StorageClass {', '.join(default)}; weights need ReadWriteMany from it")
    elif not scene.specs:
        yield warning(codes.NO_STORAGE, "storage", "no default StorageClass: jobs must name one")


def _is_default(storage_class: Object) -> bool:
    annotations: Mapping[str, str] = storage_class["metadata"].get("annotations") or {}
    return annotations.get(DEFAULT_CLASS) == "true"


def quotas(scene: Scene) -> Iterator[Finding]:
    """Whether the namespace's quotas leave room for the smallest allocation of the file, and how much is left."""
    found = scene.objects(QUOTA, scene.session.namespace)
    for quota in found:
        status, name = quota.get("status") or {}, quota["metadata"]["name"]
        left = _left(status.get("hard") or {}, status.get("used") or {})
        for resource, amount in sorted(left.items()):
            needed = least(scene.file).get(resource, Fraction(0)) if scene.file else Fraction(0)
            said = f"leaves {float(amount):g} {resource}"
            if needed > amount:
                about = f"file {scene.file.metadata.name}" if scene.file else name
                yield failure(
                    codes.NO_QUOTA, about, f"ResourceQuota {name} {said}, its minima ask for {float(needed):g}"
                )
            elif amount <= 0:
                yield warning(codes.NO_QUOTA, f"ResourceQuota {name}", f"{said}: nothing can grow")
            else:
                yield ok(f"ResourceQuota {name}", said)
    if not found:
        yield ok(f"namespace {scene.session.namespace}", "no ResourceQuota")


def _left(hard: Mapping[str, str], used: Mapping[str, str]) -> dict[str, Fraction]:
    """What is left of each accelerator, by the name that pods use."""
    return {
        name.removeprefix("requests."): parse_quantity(amount) - parse_quantity(used.get(name, "0"))
        for name, amount in hard.items()
        if name.startswith("requests.") and "/" in name
    }
