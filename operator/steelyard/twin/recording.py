"""A recorded job: windows of a real run, each under one allocation, with the raw samples the balance reads.

`python -m e2e.record` writes such a file, `steelyard twin --recording` and the calibration read it. The format is the
balance's own types as JSON, so that nothing is translated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import TypeAdapter, ValidationError

from steelyard.api import AgenticRLJob, Allocation, Stage
from steelyard.api.base import explain
from steelyard.balance.estimate import Estimated, estimate
from steelyard.balance.observe import Observed, observe
from steelyard.balance.types import Instant, PodView, Rates, Seen, StageCounts


class Malformed(ValueError):
    """The file is not a recording; the message names field, value and rule."""


@dataclass(frozen=True)
class Window:
    """A stretch of time in which one allocation was in force and had settled."""

    allocation: Allocation
    start: Instant
    end: Instant
    pods: tuple[PodView, ...]
    """The pods at its end."""
    rates: Rates


@dataclass(frozen=True)
class Recording:
    """One job and what was measured of it."""

    job: AgenticRLJob
    windows: tuple[Window, ...]

    def observed(self, window: Window) -> Observed:
        """The whole window as the balance sees it."""
        return observe(self._seen(window), window.rates, window.end, window.start, whole=True)

    def estimated(self, window: Window) -> Estimated:
        """The balance's own estimate from this window alone."""
        return estimate(self.observed(window), self.job.spec)

    def _seen(self, window: Window) -> Seen:
        return Seen(self.job, (), counted(window.pods))


def counted(pods: tuple[PodView, ...]) -> Mapping[Stage, Mapping[str, StageCounts]]:
    """Pods by stage and profile, as the balance wants them."""
    stages: dict[Stage, dict[str, StageCounts]] = {}
    for stage, profile in sorted({(pod.stage, pod.profile) for pod in pods}):
        mine = tuple(pod for pod in pods if (pod.stage, pod.profile) == (stage, profile))
        stages.setdefault(stage, {})[profile] = StageCounts(
            desired=sum(not pod.terminating for pod in mine),
            ready=sum(pod.ready and not pod.terminating for pod in mine),
            pending=sum(not pod.ready and not pod.terminating for pod in mine),
            draining=sum(pod.terminating for pod in mine),
            pods=mine,
        )
    return stages


_FORMAT = TypeAdapter(Recording)


def read(text: str | bytes) -> Recording:
    """Parse a recording. Raises Malformed."""
    try:
        recording = _FORMAT.validate_json(text)
    except ValidationError as error:
        raise Malformed(explain(error)) from error
    if not recording.windows:
        raise Malformed("windows: a recording has at least one")
    for index, window in enumerate(recording.windows):
        if not window.start < window.end:
            raise Malformed(f"windows[{index}].end: {window.end:g} is not after start ({window.start:g})")
    return recording


def write(recording: Recording) -> str:
    """The recording as one line of JSON, instants to the millisecond."""
    return _FORMAT.dump_json(recording, by_alias=True, exclude_none=True).decode()
