"""A browser for all tests, and the pages as files: what is recorded of a real run needs no cluster."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from e2e.cluster.progress import Progress
from e2e.cluster.requirements import check_browser
from steelyard.audit.document import figures
from steelyard.audit.page import page as audit_page
from steelyard.audit.record import read
from steelyard.audit.report import audit
from steelyard.cli.board.data import Board
from steelyard.cli.board.page import REFRESH_SECONDS
from steelyard.cli.commands.dashboard import page_at
from steelyard.cli.output import document
from steelyard.cli.session import Session
from steelyard.twin.compare import play
from steelyard.twin.page import page as twin_page
from steelyard.twin.profiles import profile
from tests.unit.cli.fake_kubectl import FakeKubectl, State
from tests.unit.cli.world import World

RECORDING = Path(__file__).parent / "calculator.json.gz"
"""`steelyard audit calculator -o json` of a run of the demo."""
PRICE = 2.5
POLICIES = ("steelyard", "uniform", "hpa-duty")
LOOKS = 40
"""At the cluster, before the dashboard is pictured; a job goes on for a tick in between."""


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    program = check_browser(Progress())
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Name -> file."""
    folder = tmp_path_factory.mktemp("pages")
    report = audit(read(gzip.decompress(RECORDING.read_bytes())), PRICE)
    workload = replace(profile("jump", 24), prompts_per_step=4, steps=24)
    with ThreadPoolExecutor(1) as apart:  # this thread has the browser's loop
        jobs, job = apart.map(dashboard, ("/", "/jobs/default/calculator"))
    written = {
        "audit": audit_page(report, json.dumps(document("Audit", [figures(report)]))),
        "twin": twin_page([play(workload, policy, 1) for policy in POLICIES]),
        "jobs": jobs,
        "job": job,
    }
    for name, text in written.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in written}


def dashboard(path: str) -> str:
    """A page of `steelyard dashboard` that was open while a job found its allocation."""
    world, state = World(), State()
    board = Board(Session(FakeKubectl(state)), "default", lambda: world.cluster.now)
    for _ in range(LOOKS):
        asyncio.run(world.run(1, seconds=REFRESH_SECONDS))
        state.objects = world.state().objects
        board.jobs()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("steelyard.cli.commands.dashboard.now", lambda: datetime.fromtimestamp(world.cluster.now, UTC))
        shown = page_at(board, "/secret/", path)
    assert shown is not None
    return shown.html
