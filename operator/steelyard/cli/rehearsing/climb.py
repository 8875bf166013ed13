"""Runs the rungs of a rehearsal one after the other on the cluster, and leaves nothing behind however it ends."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from time import monotonic, sleep
from typing import Any

from steelyard.api.names import LABEL_JOB
from steelyard.children.bus import CLIENT_PORT
from steelyard.children.common import bus_name
from steelyard.cli.ages import duration
from steelyard.cli.output import note
from steelyard.cli.rehearsing.ladder import ANNOTATION_BY, ANNOTATION_SEEN, LABEL_REHEARSAL, Rung
from steelyard.cli.rehearsing.record import Figures, Record, Scene, figures, scene
from steelyard.cli.session import Session
from steelyard.cli.tracing.story import Story, stories
from steelyard.cluster import kinds
from steelyard.cluster.errors import ClusterError, Conflict, Forbidden, NotFound, Unavailable
from steelyard.cluster.kinds import Object
from steelyard.cluster.kubectl import Kubectl
from steelyard_workers import spans

LOOK_SECONDS = 2.0
SEEN_SECONDS = 15.0
"""How often a rehearsal says that it is still there."""
LEFT_SECONDS = 60.0
"""A rung that nobody looked at for so long is a leftover."""
DEGRADED_SECONDS = 120.0
"""Pods may fail while a job starts; for so long it is waited for."""
GONE_SECONDS = 180.0
READ_SECONDS = 6.0
"""How often spans are read: each time costs a kubectl."""
MOST_SPANS = 200_000
INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
WAITS = ("QuotaReserved", "Scheduled")
"""Conditions that say what a job waits for that is not ready."""


class Rehearsed(Exception):
    """Somebody else rehearses the job right now; the text says who."""


class Stopped(Exception):
    """A rung came to no end; the text says why."""


@dataclass
class Climb:
    """One rehearsal of one job."""

    session: Session
    namespace: str
    user: str
    timeout: float
    """Seconds that one rung may take."""

    def clear(self, job: str) -> None:
        """Remove what an earlier rehearsal left. Raises Rehearsed when one is still going on."""
        found = self._kubectl.objects(kinds.JOB, self.namespace, selector=f"{LABEL_REHEARSAL}={job}")
        for left in found:
            annotations = left["metadata"].get("annotations") or {}
            seen = datetime.fromisoformat(annotations.get(ANNOTATION_SEEN, "1970-01-01T00:00:00+00:00"))
            ago = (datetime.now(UTC) - seen).total_seconds()
            if ago < LEFT_SECONDS:
                who = annotations.get(ANNOTATION_BY, "somebody")
                raise Rehearsed(f"{who} rehearses {job} ({ago:.0f} s ago); if that run died, try again in a minute")
        for left in found:
            note(f"removing {left['metadata']['name']}, left by an earlier rehearsal")
            self._remove(left["metadata"]["name"])

    def try_out(self, rungs: Sequence[Rung]) -> None:
        """Let the API server check every rung before any is run. Raises ClusterError."""
        if not self._kubectl.may("create", kinds.POD, self.namespace, subresource="portforward"):
            raise Forbidden("a rehearsal reads spans from the bus: you need the right to create pods/portforward")
        for rung in rungs:
            self._kubectl.create(kinds.JOB, dict(rung.manifest), dry_run=True)

    def run(self, rung: Rung) -> Record:
        """One rung from its creation to its removal. Raises ClusterError when it cannot be created."""
        before = self._scene(rung)
        watch = _Watch(self, rung)
        with ExitStack() as at_last:
            at_last.callback(self._remove_at_last, rung.name)
            try:
                self._create(rung, at_last)
                failure = watch.until_done()
                return watch.record(before, self._scene(rung), failure)
            except KeyboardInterrupt:
                note(f"interrupted: removing {rung.name}")
                raise

    def _create(self, rung: Rung, at_last: ExitStack) -> None:
        try:
            self._kubectl.create(kinds.JOB, self._signed(rung))
        except Conflict as error:
            at_last.pop_all()  # what is there is not ours to remove
            raise Rehearsed(f"somebody else has just made {rung.name}") from error

    @property
    def _kubectl(self) -> Kubectl:
        return self.session.kubectl

    def _signed(self, rung: Rung) -> Object:
        metadata = {**rung.manifest["metadata"], "annotations": {ANNOTATION_BY: self.user, ANNOTATION_SEEN: _now()}}
        return {**rung.manifest, "metadata": metadata}

    def _scene(self, rung: Rung) -> Scene:
        """What is there now; nothing, of what the user may not list."""
        pods, events = self._kubectl.at_once(
            [
                lambda: self._kubectl.objects(kinds.POD, self.namespace),
                lambda: self._kubectl.objects(kinds.EVENT, self.namespace),
            ]
        )
        return scene(_known(pods), _known(events), rung.name)

    def _remove_at_last(self, name: str) -> None:
        with _uninterrupted():
            try:
                self._remove(name)
            except ClusterError:
                note(f"{name} may be left, with its GPUs: kubectl delete {kinds.JOB.plural} {name} -n {self.namespace}")
                raise

    def _remove(self, name: str) -> None:
        """Delete a rung's job and wait until its GPUs are free for the next."""
        try:
            job = self._kubectl.get(kinds.JOB.path(self.namespace, name))
            self._kubectl.delete(kinds.JOB, self.namespace, name, uid=job["metadata"]["uid"])
        except (NotFound, Conflict):
            pass
        end = monotonic() + GONE_SECONDS
        while self._kubectl.objects(kinds.POD, self.namespace, selector=f"{LABEL_JOB}={name}"):
            if monotonic() > end:
                note(f"pods of {name} are still stopping")
                return
            sleep(LOOK_SECONDS)


class _Watch:
    """Looks at a rung until enough is known of it."""

    def __init__(self, climb: Climb, rung: Rung) -> None:
        self._climb, self._rung = climb, rung
        self._kubectl, self._path = climb.session.kubectl, kinds.JOB.path(climb.namespace, rung.name)
        self._started = monotonic()
        self._job: Object = {}
        self._stories: list[Story] = []
        self._ready: float | None = None
        self._ready_at = float("inf")
        """The same by the cluster's clock, which spans go by."""
        self._degraded: float | None = None
        self._beaten = self._read = float("-inf")
        self._said = ""

    def until_done(self) -> str | None:
        """None once it trained enough steps, else why it came to no end."""
        while True:
            try:
                self._job = self._kubectl.get(self._path)
                if failure := self._look(monotonic()):
                    return failure
            except NotFound:
                return "somebody deleted its job"
            except Unavailable as error:
                self._say(str(error))
            if self._figures.steps >= self._rung.steps:
                return None
            if monotonic() - self._started > self._climb.timeout:
                return f"not done within {duration(self._climb.timeout)}; {self._said}"
            sleep(LOOK_SECONDS)

    def record(self, before: Scene, after: Scene, failure: str | None) -> Record:
        status = self._job.get("status") or {}
        bottleneck = (status.get("bottleneck") or {}).get("stage")
        findings = tuple(one["evidence"] for one in status.get("findings") or () if one["symptom"] != "NoMismatch")
        ready = self._ready - self._started if self._ready is not None else None
        return Record(
            self._rung.title,
            self._rung.name,
            before,
            after,
            self._figures,
            ready,
            bottleneck,
            findings,
            failure,
        )

    @property
    def _figures(self) -> Figures:
        return figures(self._stories, self._ready_at)

    def _look(self, now: float) -> str | None:
        """Why it will come to no end, None while it may."""
        if now - self._beaten >= SEEN_SECONDS:
            self._beaten = now
            seen = {"metadata": {"annotations": {ANNOTATION_SEEN: _now()}}}
            self._kubectl.patch(kinds.JOB, self._climb.namespace, self._rung.name, seen)
        conditions = {one["type"]: one for one in (self._job.get("status") or {}).get("conditions") or ()}
        holding = {kind for kind, one in conditions.items() if one["status"] == "True"}
        for kind in ("Failed", "Stalled", "Complete"):
            if kind in holding:
                return _words(conditions[kind])
        if self._ready is None and "Ready" in holding:
            self._ready = now
            self._ready_at = datetime.fromisoformat(conditions["Ready"]["lastTransitionTime"]).timestamp()
        self._degraded = (self._degraded or now) if "Degraded" in holding else None
        if self._degraded is not None and now - self._degraded > DEGRADED_SECONDS:
            return _words(conditions["Degraded"])
        waits = next((conditions[kind] for kind in WAITS if conditions.get(kind, {}).get("status") == "False"), None)
        if self._ready is not None and now - self._read >= READ_SECONDS:
            self._read_spans()
            self._read = monotonic()
        done = self._figures
        self._say(
            f"{done.trained} trajectories trained, step {done.steps} of {self._rung.steps}"
            if self._ready is not None
            else _words(waits or conditions.get("Ready") or {"reason": "Pending", "message": "waits for the operator"})
        )
        return None

    def _read_spans(self) -> None:
        """Spans so far; when the bus does not answer now it may in a moment."""
        namespace, pod = self._climb.namespace, f"{bus_name(self._rung.name)}-0"
        try:
            with self._kubectl.forwarded(namespace, pod, CLIENT_PORT) as port:
                window = asyncio.run(spans.read(f"nats://127.0.0.1:{port}", self._rung.name, None, None, MOST_SPANS))
        except (spans.Unreadable, ClusterError) as error:
            self._say(f"the spans cannot be read now: {error}")
        else:
            self._stories = stories(window.spans)

    def _say(self, words: str) -> None:
        if words != self._said:
            self._said = words
            note(f"{self._rung.title}: {words}")


def _words(condition: Mapping[str, Any]) -> str:
    return f"{condition['reason']}: {condition['message']}"


def _known(found: list[Object] | ClusterError) -> list[Object]:
    return [] if isinstance(found, ClusterError) else found


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Neither this process nor the kubectls it starts are stopped by another Ctrl-C while they tidy up."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in INTERRUPTS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
