"""What can go wrong between the operator and the API server, by what it means for the caller."""

from __future__ import annotations

from collections.abc import Collection


class ClusterError(Exception):
    """The API server did not do what was asked; the text is fit for a condition."""


class Unavailable(ClusterError):
    """Not now: no answer, overloaded, broken or about to go. Asking again later helps, and nobody need be told."""


class NotLeader(Unavailable):
    """The Lease is not ours at the moment, so nothing may be written."""


class NotFound(ClusterError):
    """The object, its namespace or its kind does not exist."""


class NotServed(NotFound):
    """The API server does not know the kind."""


class Conflict(ClusterError):
    """The object exists already or has changed since it was read."""


class Expired(ClusterError):
    """The resourceVersion is too old to watch from; the state must be read again."""


class Refused(ClusterError):
    """Invalid, forbidden or over a quota: repeating it unchanged will not help."""


class Forbidden(Refused):
    """The user has no right to do this."""


class Unauthorized(Refused):
    """The API server does not know who is asking."""


class Unreachable(Unavailable):
    """Nobody answers where the API server should be."""


class NoContext(ClusterError):
    """kubectl's configuration names no such context, cluster or file."""


class NoKubectl(ClusterError):
    """There is no kubectl to run."""


NAMESPACE_TERMINATING = "NamespaceTerminating"


def of_status(status: int, message: str, causes: Collection[str] = ()) -> ClusterError:
    """The error that an HTTP status stands for. `causes` are reasons of the API server's own."""
    kinds: dict[int, type[ClusterError]] = {404: NotFound, 409: Conflict, 410: Expired}
    if status == 429 or status >= 500 or NAMESPACE_TERMINATING in causes:  # the job itself is about to go
        return Unavailable(message)
    return kinds.get(status, Refused)(message)
