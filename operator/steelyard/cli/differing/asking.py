"""Asks the API server what a job would be if its file were applied, and the balance what it would do then."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from steelyard.api import AgenticRLJob
from steelyard.balance import balance
from steelyard.balance.types import Instant, MetricsProblem, MetricsUnavailable, Plan, Rates
from steelyard.cli.looking import Looked, Measured, Scene, look, measure
from steelyard.cli.output import note
from steelyard.cli.session import Session
from steelyard.cluster import kinds, records
from steelyard.cluster.errors import Forbidden, NotFound, NotServed
from steelyard.cluster.kinds import Object
from steelyard.cluster.places import Place

CHILDREN = tuple(kind for kind in kinds.CHILDREN if kind is not kinds.POD_MONITOR)
"""Whether a job has a PodMonitor is the operator's setting, which its readers may not see."""


@dataclass(frozen=True)
class Applied:
    """A job with all that belongs to it, as it would be in the moment after."""

    live: Object | None
    """The job as it is; None when it is not there yet."""
    obj: Object
    """The job as it would be."""
    looked: Looked
    """The same, with its ledger, pods and children as they are."""

    @cached_property
    def now(self) -> AgenticRLJob | None:
        """The job as it is; None also where its stored spec breaks a rule."""
        return records.job(self.live).resource if self.live else None


def applied(session: Session, manifest: Object) -> Applied:
    """What `kubectl apply` would make of the manifest. Raises ClusterError, also when the API server refuses it."""
    name = str(manifest["metadata"]["name"])
    try:
        live = session.job(name)
    except NotServed:
        raise
    except NotFound:
        live = None
    obj = _dry_run(session, manifest, live)
    return Applied(live, obj, look(session, name, CHILDREN, lambda: obj))


@dataclass(frozen=True)
class Decided:
    """What the operator would decide first."""

    plan: Plan
    now: Instant
    blind: str | None = None
    """Why that is without metrics, None when it is not or needs none."""


def decided(session: Session, prometheus: Place | None, at: Scene) -> Decided:
    """The balance's answer, on what is measured now."""
    if at.resting:
        return Decided(at.resting, time.time())
    if at.seen.active is None:  # nothing runs that could be measured
        return Decided(balance(at.seen, Rates(), time.time()), time.time())
    told = measure(session, prometheus, at)
    if isinstance(told, Measured):
        return Decided(balance(at.seen, told.rates, told.now), told.now)
    nothing = Rates(unavailable=MetricsUnavailable(MetricsProblem.UNREACHABLE, told))
    return Decided(balance(at.seen, nothing, time.time()), time.time(), told)


def _dry_run(session: Session, manifest: Object, live: Object | None) -> Object:
    options = ["--dry-run=server", "--filename=-", "--output=json", f"--namespace={session.namespace}"]
    if live and (manager := _applied_by(live)):
        options += ["--server-side", "--force-conflicts", f"--field-manager={manager}"]
    try:
        obj: Object = json.loads(session.kubectl.run("apply", *options, stdin=json.dumps(manifest)))
    except Forbidden:
        note("you may not apply it, so the API server was not asked: taken as if the file were the whole spec")
        obj = _as_written(session, manifest, live)
    return {**obj, "metadata": {"resourceVersion": "0", **obj["metadata"]}}


def _applied_by(live: Object) -> str | None:
    """Who applied the spec server-side, as Flux does: as this manager, what the file leaves out is known to go."""
    for entry in live["metadata"].get("managedFields") or ():
        if entry["operation"] == "Apply" and not entry.get("subresource") and "f:spec" in entry["fieldsV1"]:
            return str(entry["manager"])
    return None


def _as_written(session: Session, manifest: Object, live: Object | None) -> Object:
    old: dict[str, Any] = live or {"metadata": {"namespace": session.namespace, "uid": ""}}
    changed = old.get("spec") != manifest["spec"]
    generation = old["metadata"].get("generation", 0) + changed
    return {**old, **manifest, "metadata": {**manifest["metadata"], **old["metadata"], "generation": generation}}
