"""What can go wrong and is said with a code: `SYnnnn`, stable for ever, each with a section of docs/messages.md.

SY10xx: reaching the cluster. SY11xx: what was asked for. SY12xx: waiting. SY2xxx: what `steelyard check` found.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

PAGE = "docs/messages.md"


class Exit(IntEnum):
    """How a command ends."""

    OK = 0
    UNEXPECTED = 1
    USAGE = 2
    NEGATIVE = 3
    """The answer is no: degraded, refused, not valid."""
    WARNINGS = 4
    """Nothing is broken, something is worth a look."""
    TIMED_OUT = 5
    DENIED = 6
    """Forbidden or not there."""
    INTERRUPTED = 130
    """By Ctrl-C or another signal to end, as a shell has it."""


@dataclass(frozen=True, slots=True)
class Code:
    """One kind of message."""

    name: str
    title: str
    """The heading of its section."""
    exit: Exit

    @property
    def anchor(self) -> str:
        return f"{PAGE}#{self.name.lower()}"


NO_KUBECTL = Code("SY1001", "kubectl is not installed", Exit.UNEXPECTED)
NO_CONTEXT = Code("SY1002", "kubectl knows no such cluster", Exit.UNEXPECTED)
UNREACHABLE = Code("SY1003", "The API server does not answer", Exit.UNEXPECTED)
FORBIDDEN = Code("SY1004", "You may not do this", Exit.DENIED)
UNAUTHORIZED = Code("SY1005", "You are not logged in", Exit.DENIED)
NOT_FOUND = Code("SY1006", "There is no such object", Exit.DENIED)
REFUSED = Code("SY1007", "The API server refused the request", Exit.UNEXPECTED)
CONFLICT = Code("SY1008", "The object has changed meanwhile", Exit.UNEXPECTED)
FAILED = Code("SY1009", "kubectl failed", Exit.UNEXPECTED)
NO_PROMETHEUS = Code("SY1010", "Prometheus cannot be read", Exit.UNEXPECTED)
PARTLY_UNREADABLE = Code("SY1011", "A part of the answer could not be read", Exit.OK)
MACHINE = Code("SY1012", "Your own machine refuses", Exit.UNEXPECTED)
NOT_ALLOWED = Code("SY1101", "The job does not allow it", Exit.NEGATIVE)
NO_SPANS = Code("SY1102", "There are no spans to show", Exit.DENIED)
REHEARSED = Code("SY1103", "The job is being rehearsed", Exit.NEGATIVE)
NO_PLAN = Code("SY1104", "There is no plan", Exit.NEGATIVE)
BROKEN_SPEC = Code("SY1110", "The job's spec breaks a rule", Exit.NEGATIVE)

TIMED_OUT = Code("SY1201", "What was waited for did not come in time", Exit.TIMED_OUT)
NEVER = Code("SY1202", "What was waited for will not come", Exit.NEGATIVE)

CHECK_FAILED = Code("SY2001", "A check could not be made", Exit.NEGATIVE)
OLD_CLUSTER = Code("SY2002", "The cluster is too old", Exit.NEGATIVE)
NOT_INSTALLED = Code("SY2003", "Steelyard's resources are not installed", Exit.NEGATIVE)
NO_OPERATOR = Code("SY2004", "The operator does not run", Exit.NEGATIVE)
STALE_LEASE = Code("SY2005", "No operator holds the Lease", Exit.NEGATIVE)
CANNOT_READ = Code("SY2006", "You may not read what commands show", Exit.NEGATIVE)
CANNOT_ACT = Code("SY2007", "You may look and not act", Exit.WARNINGS)
CANNOT_INSTALL = Code("SY2008", "You may not install Steelyard", Exit.NEGATIVE)
NO_SERIES = Code("SY2009", "Series that decisions rest on are missing", Exit.NEGATIVE)
NO_GPUS = Code("SY2010", "There are not the GPUs that were asked for", Exit.NEGATIVE)
NO_STORAGE = Code("SY2011", "Claims will find no storage", Exit.NEGATIVE)
NO_QUOTA = Code("SY2012", "A quota leaves too little", Exit.NEGATIVE)
NO_SUCH_REFERENCE = Code("SY2013", "Something that a job names is missing", Exit.NEGATIVE)
NO_IMAGE = Code("SY2014", "An image cannot be pulled", Exit.NEGATIVE)
UNWELL = Code("SY2015", "A job is not well", Exit.NEGATIVE)

CODES: tuple[Code, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Code))
