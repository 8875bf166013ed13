"""What the workers of a job would measure, made up by the test and scraped by a real Prometheus."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

from steelyard.api import Stage


@dataclass(frozen=True)
class Work:
    """What each pod of a stage shows: `counters` grow by so much a second, `gauges` are as given.

    Keys are series as in the text format: `steelyard_stage_units_total{stage="environment",outcome="ok"}`.
    """

    counters: Mapping[str, float] = field(default_factory=dict)
    gauges: Mapping[str, float] = field(default_factory=dict)


def stage_work(stage: Stage, units_per_second: float, slots: int = 1, **shares: float) -> Work:
    """A replica that finishes units at this rate; `shares` of its slots' time by state: busy=0.9, starved=0.1."""
    label = f'stage="{stage}"'
    seconds = {f'steelyard_stage_seconds_total{{{label},state="{state}"}}': slots * s for state, s in shares.items()}
    return Work(
        counters={f'steelyard_stage_units_total{{{label},outcome="ok"}}': units_per_second, **seconds},
        gauges={f"steelyard_stage_slots{{{label}}}": slots, f"steelyard_stage_inflight{{{label}}}": slots},
    )


class Workers:
    """An HTTP server with one page of metrics a pod: `/<namespace>/<job>/<stage>/<pod>`."""

    def __init__(self) -> None:
        self._work: dict[tuple[str, str, str], Work] = {}
        self._counted: dict[tuple[str, str], float] = {}
        self._scraped: dict[str, float] = {}
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, name="workers", daemon=True)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def show(self, namespace: str, job: str, stage: str, work: Work | None) -> None:
        """What pods of this stage measure from now on; None: they do not answer. Counters go on from where they are."""
        with self._lock:
            if work is None:
                self._work.pop((namespace, job, stage), None)
            else:
                self._work[namespace, job, stage] = work

    def page(self, path: str) -> str | None:
        """The metrics of the pod at `path`, or None."""
        namespace, job, stage, _ = path.strip("/").split("/")
        with self._lock:
            work = self._work.get((namespace, job, stage))
            if work is None:
                return None
            now = time.monotonic()
            passed = now - self._scraped.get(path, now)
            self._scraped[path] = now
            for series, rate in work.counters.items():
                self._counted[path, series] = self._counted.get((path, series), 0.0) + rate * passed
            counters = {series: value for (where, series), value in self._counted.items() if where == path}
        return "".join(f"{series} {value}\n" for series, value in {**counters, **work.gauges}.items())

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        page = self.page

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                text = page(self.path)
                self.send_response(200 if text is not None else 503)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.end_headers()
                self.wfile.write((text or "").encode())

            def log_message(self, format: str, *args: object) -> None:
                """Silent: a line a scrape would drown what a test prints."""

        return Handler
