"""Pure: what kubectl says on stderr when it fails -> the error it means."""

from __future__ import annotations

import re

from steelyard.cluster.errors import (
    ClusterError,
    Conflict,
    Expired,
    Forbidden,
    NoContext,
    NotFound,
    NotServed,
    Refused,
    Unauthorized,
    Unavailable,
    Unreachable,
)

FROM_SERVER = re.compile(r"Error from server(?: \((?P<reason>\w*)\))?: (?P<words>.*)", re.DOTALL)
REASONS: dict[str, type[ClusterError]] = {
    "NotFound": NotFound,
    "Forbidden": Forbidden,
    "Unauthorized": Unauthorized,
    "AlreadyExists": Conflict,
    "Conflict": Conflict,
    "Expired": Expired,
    "Gone": Expired,
    "Invalid": Refused,
    "BadRequest": Refused,
    "MethodNotAllowed": Refused,
    "RequestEntityTooLarge": Refused,
}
"""All others mean: not now."""
UNKNOWN = "could not find the requested resource"
"""What the API server says of a path that it does not serve, as opposed to an object that is not there."""

WORDS: tuple[tuple[re.Pattern[str], type[ClusterError]], ...] = (
    (re.compile(r"must be logged in|Unauthorized|getting credentials|exec plugin|Please enter"), Unauthorized),
    (re.compile(r"context .* does not exist|current-context|invalid configuration|no configuration"), NoContext),
    (re.compile(r"error loading config|stat .*no such file|cluster .* does not exist"), NoContext),
    (re.compile(r"doesn't have a resource type"), NotServed),
    (re.compile(r'^The \w+ ".*" is invalid:'), Refused),
    (
        re.compile(
            r"Unable to connect|was refused|no such host|i/o timeout|timed out|deadline exceeded|x509|TLS|EOF|"
            r"no route to host|network is unreachable|connection reset"
        ),
        Unreachable,
    ),
)
"""What kubectl says itself, the first that fits."""

NOWHERE = "The connection to the server localhost:8080 was refused"
"""Where kubectl looks when nothing tells it of a cluster."""

NOISE = re.compile(r"^[EWI]\d{4} [\d:.]+ +\d+ [\w.]+:\d+\] .*\n?", re.MULTILINE)
"""Lines of its log about the discovery that failed before."""


def meaning(stderr: str) -> ClusterError:
    """The error, with kubectl's words on one line."""
    told = NOISE.sub("", stderr).strip() or stderr.strip()
    if found := FROM_SERVER.search(told):
        reason = found["reason"] or ""
        if reason == "NotFound" and UNKNOWN in found["words"]:
            return NotServed(_line(found["words"]))
        return REASONS.get(reason, Unavailable)(_line(found["words"]))
    if NOWHERE in told:
        return NoContext(f"there is no kubeconfig: {_line(told)}")
    for pattern, kind in WORDS:
        if pattern.search(told):
            return kind(_line(told))
    return ClusterError(_line(told) or "kubectl failed and said nothing")


def _line(text: str) -> str:
    return " ".join(text.removeprefix("error: ").split())
