"""What jobs need of the cluster: GPUs, storage, quotas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction

from steelyard.api import AgenticRLJob, Stage, parse_quantity
from steelyard.balance.purse import SPOKEN, requests
from steelyard.cli import codes
from steelyard.cli.checking.findings import Finding, Scene, failure, ok, unknown, warning
from steelyard.cluster import kinds
from steelyard.cluster.kinds import Kind, Object
from steelyard.cluster.resource_quota import is_scoped, left_by

NODE = Kind("Node", "v1", "nodes")
STORAGE_CLASS = Kind("StorageClass", "storage.k8s.io/v1", "storageclasses")
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
NOTHING = Fraction(0)


def gpus(scene: Scene) -> Iterator[Finding]:
    """Whether nodes have what the smallest allocation of each job asks for."""
    allocatable = _allocatable(scene.objects(NODE))
    if not allocatable:
        yield warning(codes.NO_GPUS, "nodes", "no node offers an accelerator (is a device plugin running?)")
    for name, total in sorted(allocatable.items()):
        yield ok("nodes", f"{float(total):g} {name} allocatable")
    for about, job in scene.specs:
        for name, needed in sorted(least(job).items()):
            have = allocatable.get(name, NOTHING)
            if "/" in name and needed > have:
                said = f"its minima ask for {float(needed):g} {name}, all nodes together have {float(have):g}"
                yield failure(codes.NO_GPUS, about, said)
        if job.spec.budget.gpus > (total := sum(allocatable.values(), NOTHING)):
            said = f"spec.budget.gpus is {float(job.spec.budget.gpus):g}, nodes have {float(total):g} accelerators"
            yield warning(codes.NO_GPUS, about, said)


def least(job: AgenticRLJob) -> dict[str, Fraction]:
    """What the pods of the job's minima request, in the cheapest profile of each stage."""
    found: dict[str, Fraction] = {}
    for stage in Stage:
        spec = job.spec.stage(stage)
        prices = spec.profiles
        cheapest = min(prices, key=prices.__getitem__)
        for name, amount in requests(spec)[cheapest].items():
            found[name] = found.get(name, NOTHING) + amount * spec.replicas.min
    return found


def _allocatable(nodes: list[Object]) -> dict[str, Fraction]:
    """Accelerators by resource name, of nodes that take pods."""
    found: dict[str, Fraction] = {}
    for node in nodes:
        if (node.get("spec") or {}).get("unschedulable"):
            continue
        for name, amount in ((node.get("status") or {}).get("allocatable") or {}).items():
            if "/" in name and (value := parse_quantity(amount)):
                found[name] = found.get(name, NOTHING) + value
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
    needed = least(scene.file) if scene.file else {}
    found = scene.objects(kinds.QUOTA, scene.session.namespace)
    for quota in found:
        about = f"ResourceQuota {quota['metadata']['name']}"
        if is_scoped(quota):
            yield unknown(about, "not looked at: its scopes say which pods it counts")
        for resource, amount in sorted(left_by(quota).items()):
            said = f"leaves {_spoken(resource, amount)}"
            if scene.file and needed.get(resource, NOTHING) > amount:
                asked = f"its minima ask for {_spoken(resource, needed[resource])}"
                yield failure(codes.NO_QUOTA, f"file {scene.file.metadata.name}", f"{about} {said}, {asked}")
            elif not amount:
                yield warning(codes.NO_QUOTA, about, f"{said}: nothing can grow")
            else:
                yield ok(about, said)
    if not found:
        yield ok(f"namespace {scene.session.namespace}", "no ResourceQuota")


def _spoken(resource: str, amount: Fraction) -> str:
    word, unit = SPOKEN.get(resource, (resource, 1))
    return f"{float(amount / unit):g} {word}"
