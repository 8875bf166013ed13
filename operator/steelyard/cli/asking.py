"""Prometheus asked again and again, for what a view shows beside the cluster's own objects; it only enriches."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from steelyard.audit.record import Total
from steelyard.cli.session import Session, told
from steelyard.cluster.errors import ClusterError
from steelyard.cluster.places import NoPrometheus, Place
from steelyard.cluster.prometheus_access import opened, operators_place
from steelyard.metrics.history import History

Answers = Mapping[str, tuple[Total, ...]]
"""Figure -> its lines; one without series is absent."""


class Asking:
    """One connection for as long as the block runs. Without one there are no answers, and `why_not` says why."""

    def __init__(self, session: Session, named: Place | None) -> None:
        self._session, self._named = session, named
        self._runner, self._open = asyncio.Runner(), AsyncExitStack()
        self._history: History | None = None
        self.why_not: str | None = None

    def __enter__(self) -> Self:
        try:
            place = self._named or operators_place(self._session.kubectl)
            client = self._runner.run(self._open.enter_async_context(opened(place, self._session.kubectl)))
            self._history = History(client)
        except ClusterError as error:
            self.why_not = told(error)
        except NoPrometheus as error:
            self.why_not = str(error)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._runner.run(self._open.aclose())
        self._runner.close()

    def ask(self, queries: Mapping[str, str]) -> Answers:
        """Values of now. What cannot be answered is absent."""
        if self._history is None:
            return {}
        self._history.missing.clear()
        answers = self._runner.run(self._history.totals(queries, time.time()))
        self.why_not = self._history.missing[0] if self._history.missing else None
        return answers
