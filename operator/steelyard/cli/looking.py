"""A job as the operator sees it, as far as its reader may see: the same records, the same view, the same metrics.

What could not be read is said and left out; nothing here decides.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import typer

from steelyard.api import AgenticRLJob
from steelyard.api.names import LABEL_JOB
from steelyard.balance import balance
from steelyard.balance.types import Instant, Plan, Rates, Seen
from steelyard.children.render import Ending
from steelyard.cli import codes
from steelyard.cli.output import complain
from steelyard.cli.session import Session, told
from steelyard.cluster import kinds
from steelyard.cluster.errors import ClusterError
from steelyard.cluster.kinds import Kind, Object
from steelyard.cluster.places import NoPrometheus, Place
from steelyard.cluster.prometheus_access import clock, opened, operators_place
from steelyard.cluster.quota import Means, means
from steelyard.cluster.store import Store
from steelyard.cluster.view import View, seen
from steelyard.metrics import Prometheus
from steelyard.resting import resting

CHILDREN = tuple(kinds.BY_NAME[name] for name in ("StatefulSet", "Deployment", "Job"))
"""Of a job's children those that say how many pods there should be."""
WINDOWS = 3
"""The first answer says how far back to look; the operator learns it tick by tick."""


@dataclass(frozen=True)
class Looked:
    """What one look found."""

    view: View
    lacking: tuple[str, ...]
    """What could not be read, each with the reason."""

    @property
    def job(self) -> AgenticRLJob | None:
        return self.view.job.resource


def look(
    session: Session, name: str, children: Sequence[Kind] = CHILDREN, read_job: Callable[[], Object] | None = None
) -> Looked:
    """Read the job and all that its balance rests on, at once. Raises ClusterError when the job cannot be read.

    `read_job` gives another job than the API server's: what this one would be.
    """
    kubectl, namespace = session.kubectl, session.namespace
    mine = f"{LABEL_JOB}={name}"
    collections: list[tuple[Kind, str | None, str]] = [
        *((kind, namespace, mine) for kind in (kinds.REVISION, kinds.POD, *children)),
        *((kind, namespace, "") for kind in (kinds.AUTOSCALER, kinds.QUOTA)),
    ]
    reads: Sequence[Callable[[], list[Object]]] = [
        lambda: [read_job() if read_job else session.job(name)],
        *(partial(kubectl.objects, kind, where, selector=selector) for kind, where, selector in collections),
    ]
    (job, *others) = kubectl.at_once(reads)
    if isinstance(job, ClusterError):
        raise job
    store, lacking = Store(), []
    store.put(kinds.JOB, job[0])
    for (kind, _, _), found in zip(collections, others, strict=True):
        if isinstance(found, ClusterError):
            lacking.append(f"{kind.plural}: {told(found)}")
            continue
        for obj in found:
            store.put(kind, {"kind": kind.name, **obj})
    if (job[0].get("spec") or {}).get("pool"):
        lacking += _read_pool(session, store, job[0]["spec"]["pool"].get("name"))
    view = store.view((namespace, name), monitored=False)
    assert view is not None
    return Looked(view, tuple(lacking))


def look_at_sound(session: Session, name: str) -> tuple[Looked, AgenticRLJob]:
    """The same, and what could not be read is said; a job whose stored spec breaks a rule ends the command."""
    looked, about = look(session, name), f"{session.namespace}/{name}"
    for missing in looked.lacking:
        complain(codes.PARTLY_UNREADABLE, about, missing)
    if looked.job is None:
        complain(
            codes.BROKEN_SPEC, about, f"the spec breaks a rule and everything runs as before: {looked.view.job.broken}"
        )
        raise typer.Exit(codes.BROKEN_SPEC.exit)
    return looked, looked.job


def _read_pool(session: Session, store: Store, name: str) -> list[str]:
    try:
        store.put(kinds.POOL, session.kubectl.get(kinds.POOL.path(name=name)))
    except ClusterError as error:
        return [f"RLPool {name}: {told(error)}"]
    return []


@dataclass(frozen=True)
class Scene:
    """What the balance would be asked about."""

    own: AgenticRLJob
    """The job as its user wrote it."""
    seen: Seen
    """With the job as its pool lets it be."""
    ended: Ending | None
    means: Means
    """What the job may hold GPUs by."""

    @property
    def resting(self) -> Plan | None:
        """The plan of a job that is not balanced now: ended, suspended, waiting."""
        return resting(self.seen, self.ended, self.means)


def scene(looked: Looked, job: AgenticRLJob) -> Scene:
    """As `steelyard.controller` puts it together at each tick."""
    view = looked.view
    ended = _ending(view)
    has = means(view, job, asks=not (ended or job.spec.suspend))
    return Scene(job, seen(view, job.within(has.budget)), ended, has)


def _ending(view: View) -> Ending | None:
    """How the job ended, as the operator says."""
    for kind in ("Complete", "Failed"):
        said = view.job.status.condition(kind)
        if said and said.status == "True" and said.observed_generation == view.job.metadata.generation:
            return Ending(kind == "Complete", said.message, ())
    return None


@dataclass(frozen=True)
class Measured:
    """What Prometheus told."""

    rates: Rates
    now: Instant
    """By Prometheus' own clock: the reader's may be wrong."""
    place: str


def measure(session: Session, named: Place | None, at: Scene) -> Measured | str:
    """Samples as far back as the balance wants, or why there are none. `named` says where, else the operator does."""
    try:
        return asyncio.run(_measured(session, named or operators_place(session.kubectl), at))
    except ClusterError as error:
        return f"Prometheus: {told(error)}"
    except NoPrometheus as error:
        return str(error)


async def _measured(session: Session, place: Place, at: Scene) -> Measured | str:
    async with opened(place, session.kubectl) as client:
        now = await clock(client)
        prometheus, window = Prometheus(client), 60.0
        for _ in range(WINDOWS):
            rates = await prometheus.read(at.own, at.seen.pods(), now, window)
            if rates.unavailable:
                return f"Prometheus at {place}: {rates.unavailable.message}"
            wanted = balance(at.seen, rates, now).window_seconds
            if wanted <= rates.window_seconds:
                break
            window = wanted
        return Measured(rates, now, str(place))
