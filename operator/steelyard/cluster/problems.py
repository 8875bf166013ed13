"""Pure: what a pod's status says is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

CONFIGURATION_ERROR = 64
"""Exit code of a worker that only its user can help."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a pod does not work."""

    reason: str
    message: str
    exit_code: int | None = None

    @property
    def users(self) -> bool:
        """Only the user can help: waiting will not."""
        return self.exit_code == CONFIGURATION_ERROR


def condition(status: Mapping[str, Any], kind: str) -> Mapping[str, Any] | None:
    """The condition of this type if it is true."""
    for one in status.get("conditions") or ():
        if one["type"] == kind and one["status"] == "True":
            found: Mapping[str, Any] = one
            return found
    return None


def problem(status: Mapping[str, Any]) -> Problem | None:
    """The most telling reason first: what a container says, then what the scheduler says, then the pod's own."""
    for container in containers(status):
        state, last = container.get("state") or {}, container.get("lastState") or {}
        ended = state.get("terminated") or last.get("terminated") or {}
        code = ended.get("exitCode")
        waiting = state.get("waiting") or {}
        if waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
            said = ended.get("message") or waiting.get("message") or f"exit code {code}"
            return Problem(waiting["reason"], line(said), code)
        if state.get("terminated") and code:
            return Problem(ended.get("reason") or "Error", line(ended.get("message") or f"exit code {code}"), code)
    for one in status.get("conditions") or ():
        if one["type"] == "PodScheduled" and one["status"] == "False":
            return Problem(one.get("reason") or "Unschedulable", line(one.get("message", "")))
    if status.get("phase") == "Failed":
        return Problem(status.get("reason") or "Failed", line(status.get("message", "")))
    return None


def last_words(status: Mapping[str, Any]) -> str:
    for container in containers(status):
        if (ended := (container.get("state") or {}).get("terminated")) and ended.get("message"):
            return line(ended["message"])
    return ""


def containers(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


def line(text: str) -> str:
    return " ".join(text.split())[:500]
