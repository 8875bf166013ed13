"""An audit against a real Prometheus: a made-up job whose every rate is known."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from benchmarks.audit import __main__ as benchmark
from benchmarks.audit import day
from e2e.cluster import build
from e2e.cluster.progress import Progress
from e2e.cluster.shell import run
from steelyard.api import AgenticRLJob, AllocationRevision, Stage
from steelyard.audit.gputime import gpu_time, prices_of
from steelyard.audit.record import Record
from steelyard.audit.report import Audit, audit
from steelyard.balance import signals
from steelyard.cli import audit_record
from steelyard.metrics.history import History

SECONDS = 1200.0
"""Twenty minutes of the first four hours."""
SKIPPED = 120.0
"""The audit begins so much later, when every pod is there."""
END = day.START + SECONDS
HOURS = (SECONDS - SKIPPED) / 3600


@pytest.fixture(scope="module")
def programs() -> Path:
    return build.ensure(build.PROMETHEUS, Progress())


@pytest.fixture(scope="module")
def url(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("prometheus")
    text = folder / "day.om"
    with text.open("w") as into:
        day.write(into, list(day.series(day.ERA / 3600)), day.START, END)
    run(str(programs / "promtool"), "tsdb", "create-blocks-from", "openmetrics", str(text), str(folder / "data"))
    process, url = benchmark.prometheus(programs, folder / "data", folder)
    with process:
        yield url


def read(url: str, job: AgenticRLJob | None, ledger: tuple[AllocationRevision, ...]) -> Record:
    async def reading() -> Record:
        async with httpx.AsyncClient(base_url=url, timeout=20, trust_env=False) as client:
            return await audit_record.read(History(client), day.NAME, "default", END - HOURS * 3600, END, job, ledger)

    return asyncio.run(reading())


@pytest.fixture(scope="module")
def report(url: str) -> Audit:
    return audit(read(url, day.job(), day.ledger(day.ERA / 3600)), 2.0)


def grown(name: str, **labels: str) -> float:
    """By how much the made-up counters of that name grew."""
    wanted = [f'{label}="{value}"' for label, value in labels.items()]
    series = [one for one in day.series(day.ERA / 3600) if one.name == name and all(w in one.labels for w in wanted)]
    return sum(one.value(END) - one.value(END - HOURS * 3600) for one in series)


def test_every_question_is_understood(report: Audit) -> None:
    assert report.record.missing == ()
    asked = {"states", "replicas", "units", "generated", "running", "waiting", "kv_usage", "buffers", "staleness"}
    assert asked <= set(report.record.lines)


@pytest.mark.parametrize("stage", Stage)
def test_shares_of_time_are_those_of_the_pods(report: Audit, stage: Stage) -> None:
    rates = day.STATES[stage]
    for state, rate in rates.items():
        assert report.waits[stage].shares[state] == pytest.approx(rate / sum(rates.values()), abs=0.01)


def test_gpu_hours_are_replicas_times_their_gpus_times_hours(report: Audit) -> None:
    assert report.time is not None
    assert report.time.held == pytest.approx((4 + 2 + 1) * HOURS, rel=0.02)
    assert report.time.hours[Stage.SAMPLER]["busy"] == pytest.approx(4 * 0.7 * HOURS, rel=0.03)
    assert report.time.of("busy") + report.time.wasted == pytest.approx(report.time.held)


def test_what_was_trained_and_how_long_tools_took_is_what_the_counters_say(report: Audit) -> None:
    assert report.trained == pytest.approx(grown(signals.STAGE_UNITS, stage="trainer", outcome="ok"), rel=0.02)
    search, shell = sorted(report.tools, key=lambda tool: tool.name)
    assert search.calls == pytest.approx(grown(f"{signals.TOOL_SECONDS}_count", tool="search"), rel=0.02)
    assert search.failed / search.calls == pytest.approx(0.02 / 0.92, rel=0.05)
    assert search.spread.mean == pytest.approx(3.0, rel=0.02)
    assert search.spread.p50 == pytest.approx(3.0 * 0.693, rel=0.15)  # as fine as the buckets
    assert shell.spread.p99 is not None


def test_pressure_claims_and_devices_are_joined_to_stages(report: Audit) -> None:
    record = report.record
    assert {line.label("stage") for line in record.of("io_waiting")} == {stage.value for stage in Stage}
    (memory,) = record.of("device_memory")
    assert memory.label("stage") == "sampler"
    assert [value for value in memory.values if value is not None][-1] == pytest.approx(0.75)
    claims = {line.label("persistentvolumeclaim"): line.values[-1] for line in record.of("claims")}
    assert claims == {"calculator-weights": pytest.approx(0.2), "calculator-checkpoints": pytest.approx(0.6)}


def test_the_balance_sees_in_raw_windows_what_the_operator_would_have(report: Audit) -> None:
    assert report.record.windows
    for window, glance in zip(report.record.windows, report.glances, strict=True):
        assert len(window.pods) == 4 + 5 + 2 + 1
        assert glance.most_gain is not None, glance.unknown
        assert glance.throughput == pytest.approx(1.5, rel=0.2)


def test_a_job_that_is_gone_is_found_by_the_names_of_its_pods(url: str, report: Audit) -> None:
    gone = read(url, None, ())
    assert audit(gone).time is None
    prices = prices_of(report.record)
    assert prices is not None
    assert report.time is not None
    assert gpu_time(gone, prices).held == pytest.approx(report.time.held, rel=0.01)


def test_nobody_of_that_name_has_no_figures(url: str) -> None:
    async def reading() -> Record:
        async with httpx.AsyncClient(base_url=url, timeout=20, trust_env=False) as client:
            return await audit_record.read(History(client), "calc", "default", END - 600, END, None, ())

    record = asyncio.run(reading())
    assert not record.lines
    assert not record.totals
    assert any("no series" in words for words in record.missing)
