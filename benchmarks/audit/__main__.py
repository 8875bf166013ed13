"""How long an audit of a day takes: `python -m benchmarks.audit [--max-seconds 10]`.

A day of a made-up job (15 s scrapes, a move and new pods every four hours) becomes a Prometheus TSDB, once, in the
cache. Prometheus starts on it, the record is read as `steelyard audit` does, the report worked out and the page
written. The result goes to benchmarks/results/audit.json.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import httpx

from benchmarks.audit import day
from e2e.cluster import build, cache
from e2e.cluster.progress import Progress
from e2e.cluster.shell import run
from e2e.local import free_port
from steelyard.audit.document import figures
from steelyard.audit.page import page
from steelyard.audit.record import Record
from steelyard.audit.report import audit
from steelyard.cli import audit_record
from steelyard.cli.output import document
from steelyard.metrics.history import History
from tests.integration.processes import Process

RESULT = Path(__file__).parents[1] / "results" / "audit.json"
HOURS = 24.0
SLICE = 2 * 3600.0
"""As long as a block of the TSDB; promtool reads its input once for each."""
MOST_MEGABYTES = 5.0


def tsdb(programs: Path) -> tuple[Path, int]:
    """The day as blocks, and its samples; made when its text has changed, and then all that is kept."""
    key = cache.key(Path(day.__file__).read_text(), str(HOURS))
    folder = cache.directory() / f"audit-day-{key}"
    with cache.locked("audit-day"):
        if not folder.exists():
            for other in cache.directory().glob("audit-day-*"):
                shutil.rmtree(other)
            _make(folder, programs)
    return folder / "data", int((folder / "samples").read_text())


def _make(folder: Path, programs: Path) -> None:
    scratch = folder.with_suffix(".new")
    create = str(programs / "promtool"), "tsdb", "create-blocks-from", "openmetrics"
    series = list(day.series(HOURS))
    samples = 0
    for index in range(int(HOURS * 3600 / SLICE)):
        since = day.START + index * SLICE
        with tempfile.NamedTemporaryFile("w", suffix=".om") as text:
            samples += day.write(text, series, since, since + SLICE)
            text.flush()
            run(*create, text.name, str(scratch / "data"))
    (scratch / "samples").write_text(str(samples))
    scratch.rename(folder)


def prometheus(programs: Path, data: Path, folder: Path) -> tuple[Process, str]:
    url = f"http://127.0.0.1:{free_port()}"
    config = folder / "prometheus.yml"
    config.write_text("{}")
    argv = [
        str(programs / "prometheus"),
        f"--config.file={config}",
        f"--storage.tsdb.path={data}",
        "--storage.tsdb.retention.time=100y",
        f"--web.listen-address={url.removeprefix('http://')}",
    ]
    return Process("Prometheus", argv, folder / "prometheus.log", f"{url}/-/ready"), url


async def read(url: str) -> Record:
    async with httpx.AsyncClient(base_url=url, timeout=60, trust_env=False) as client:
        end = day.START + HOURS * 3600
        history = History(client)
        return await audit_record.read(history, day.NAME, "default", day.START, end, day.job(), day.ledger(HOURS))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--max-seconds", type=float, default=10.0, help="limit for the whole audit")
    limit = parser.parse_args().max_seconds
    programs = build.ensure(build.PROMETHEUS, Progress())
    data, samples = tsdb(programs)
    with tempfile.TemporaryDirectory() as folder:
        process, url = prometheus(programs, data, Path(folder))
        with process:
            times = [time.perf_counter()]
            record = asyncio.run(read(url))
            times.append(time.perf_counter())
            report = audit(record, 2.5)
            times.append(time.perf_counter())
            text = page(report, json.dumps(document("Audit", [figures(report)]), separators=(",", ":")))
            times.append(time.perf_counter())
    took = [round(later - earlier, 2) for earlier, later in pairwise(times)]
    result = {
        "hours": HOURS,
        "resolutionSeconds": record.grid.step,
        "samples": samples,
        "pods": len(list(day.pods(HOURS))),
        "seconds": dict(zip(("read", "report", "page"), took, strict=True)),
        "limitSeconds": limit,
        "megabytes": round(len(text.encode()) / 1e6, 2),
        "missing": list(record.missing),
    }
    result["ratio"] = round(sum(took) / limit, 3)
    RESULT.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))
    return 0 if result["ratio"] <= 1 and result["megabytes"] <= MOST_MEGABYTES and not record.missing else 1


if __name__ == "__main__":
    sys.exit(main())
