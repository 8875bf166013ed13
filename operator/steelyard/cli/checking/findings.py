"""What a check found, and how checks are run: all of them, whatever the others say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

from steelyard.api import AgenticRLJob
from steelyard.cli import codes
from steelyard.cli.codes import Code, Exit
from steelyard.cli.session import Session, told
from steelyard.cluster import kinds, records
from steelyard.cluster.errors import ClusterError, Forbidden
from steelyard.cluster.kinds import Kind, Object
from steelyard.cluster.places import Place


class Level(StrEnum):
    OK = "ok"
    UNKNOWN = "unknown"
    """It could not be looked at; that is no failure."""
    WARNING = "warning"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the answer."""

    level: Level
    about: str
    """The object it is about."""
    said: str
    code: Code | None = None
    """None when all is well."""


@dataclass(frozen=True)
class Scene:
    """Whom to ask about what."""

    session: Session
    prometheus: Place | None
    file: AgenticRLJob | None
    """The job that was given with -f."""

    @cached_property
    def jobs(self) -> list[records.Job]:
        """Jobs of the namespace. Raises ClusterError."""
        return [records.job(obj) for obj in self.session.kubectl.objects(kinds.JOB, self.session.namespace)]

    @cached_property
    def specs(self) -> list[tuple[str, AgenticRLJob]]:
        """What to check the cluster against: the file, else the jobs of the namespace that have not ended."""
        if self.file is not None:
            return [(f"file {self.file.metadata.name}", self.file)]
        found = [(job, job.resource) for job in self.jobs if job.resource is not None and not _ended(job)]
        return [(f"job {'/'.join(job.key)}", resource) for job, resource in found]

    def objects(self, kind: Kind, namespace: str | None = None) -> list[Object]:
        return self.session.kubectl.objects(kind, namespace)


Check = Callable[[Scene], Iterator[Finding]]
Category = tuple[str, Sequence[Check]]


def ok(about: str, said: str) -> Finding:
    return Finding(Level.OK, about, said)


def failure(code: Code, about: str, said: str) -> Finding:
    return Finding(Level.FAILURE, about, said, code)


def warning(code: Code, about: str, said: str) -> Finding:
    return Finding(Level.WARNING, about, said, code)


def unknown(about: str, said: str) -> Finding:
    return Finding(Level.UNKNOWN, about, said, codes.PARTLY_UNREADABLE)


def run(scene: Scene, categories: Sequence[Category]) -> list[tuple[str, list[Finding]]]:
    """Every check of every category, unless the first shows that nobody answers: then they would all say the same."""
    found = []
    for name, checks in categories:
        found.append((name, [finding for check in checks for finding in _safely(scene, check)]))
        if all(finding.code is codes.CHECK_FAILED for finding in found[0][1]):
            break
    return found


def _safely(scene: Scene, check: Check) -> Iterator[Finding]:
    try:
        yield from check(scene)
    except Forbidden as error:
        yield unknown(check.__name__.replace("_", " "), f"not looked at: {error}")
    except ClusterError as error:
        yield failure(codes.CHECK_FAILED, check.__name__.replace("_", " "), told(error))


def verdict(found: Iterable[tuple[str, list[Finding]]]) -> Exit:
    """3 when something is broken, 4 when something is worth a look."""
    levels = {finding.level for _, findings in found for finding in findings}
    if Level.FAILURE in levels:
        return Exit.NEGATIVE
    return Exit.WARNINGS if Level.WARNING in levels else Exit.OK


def document(category: str, finding: Finding) -> dict[str, Any]:
    """For programs."""
    return {
        "category": category,
        "level": finding.level.value,
        "object": finding.about,
        "message": finding.said,
        "code": finding.code.name if finding.code else None,
        "help": finding.code.anchor if finding.code else None,
    }


def _ended(job: records.Job) -> bool:
    return any(found.type in ("Complete", "Failed") and found.status == "True" for found in job.status.conditions)
