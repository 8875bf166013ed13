"""What the page of `steelyard dashboard` shows, and that looking changes nothing."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from html import unescape
from html.parser import HTMLParser
from typing import Any

import pytest

from steelyard.api import Origin
from steelyard.cli.board.data import FRESH_SECONDS, Board
from steelyard.cli.commands import dashboard as command
from steelyard.cli.session import Session
from steelyard.cluster.kinds import JOB, REVISION, Object
from tests.builders import a_revision, an_allocation, job_manifest
from tests.unit.cli.fake_kubectl import FakeKubectl, State, put
from tests.unit.pages.stacked import Stacked, misnamed

STATUS: dict[str, Any] = {
    "phase": "Running",
    "activeRevision": "calculator-2",
    "throughput": "7.9",
    "training": {"step": 12, "steps": 64, "reward": "0.91"},
    "gpus": {"used": "4", "budget": "4"},
    "bottleneck": {"stage": "rewardServer", "evidence": "41 trajectories wait before it"},
    "stages": {
        "sampler": {"profiles": {"whole": {"desired": 2, "ready": 1}}, "utilization": "0.42", "throughput": "84.6"},
        "rewardServer": {"profiles": {"whole": {"desired": 1, "ready": 1}}, "utilization": "0.97", "backlog": "41"},
    },
    "lastDecisions": [
        {"time": "2026-11-30T12:00:00Z", "action": "Hold", "kind": "OpenMove", "reason": "no change yet <b>bold</b>"}
    ],
}


def a_job(name: str = "calculator", **status: Any) -> Object:
    manifest = job_manifest(name=name)
    manifest["metadata"]["creationTimestamp"] = "2026-11-30T11:00:00Z"
    return {**manifest, "status": {**STATUS, **status}}


def entry(number: int, **fields: Any) -> Object:
    return {**a_revision(number, **fields).to_dict(), "kind": "AllocationRevision"}


@pytest.fixture
def state() -> State:
    kept = {"verdict": "Kept", "phase": "Judged", "evidence": "8 instead of 5 a second"}
    second = entry(2, before=an_allocation(), reason="sampler 4 -> 3", status=kept)
    return put(State(), a_job(), entry(1), second)


@pytest.fixture
def board(state: State) -> Board:
    ticks = iter(range(0, 10_000, int(FRESH_SECONDS) + 1))
    return Board(Session(FakeKubectl(state)), "default", lambda: float(next(ticks)))


def shown(board: Board, path: str = "/jobs/default/calculator") -> str:
    page = command.page_at(board, "/secret/", path)
    assert page is not None
    return page.html


def text(html: str) -> str:
    """The words of a page, spaces collapsed."""
    return unescape(" ".join(re.sub(r"<style>.*?</style>|<[^>]+>", " ", html, flags=re.DOTALL).split()))


def test_a_job_is_shown_with_its_stages_decisions_and_ledger(board: Board) -> None:
    words = text(shown(board))
    for says in (
        "calculator Running",
        "reward-server holds the pipeline back: 41 trajectories wait before it.",
        "step 12 of 64",
        "reward-server bottleneck ready 1 of 1 whole at work 97 %",
        "ready 1 of 2 whole at work 42 %",
        "Hold (OpenMove)",
        "sampler 4 -> 3",
        "Kept",
        "8 instead of 5 a second",
    ):
        assert says in words


def test_words_from_the_cluster_are_never_markup(board: Board, state: State) -> None:
    html = shown(board)
    assert "<b>bold</b>" not in html
    assert "&lt;b&gt;bold" in html


def test_every_look_adds_to_the_course(board: Board) -> None:
    first, second = shown(board), shown(board)
    points = [re.findall(r'points="([^"]+)"', html)[0].split() for html in (first, second)]
    assert [len(found) for found in points] == [2, 2], "a lone sample is a dash, two are a line"
    assert points[0] != points[1]


def test_a_line_breaks_where_no_page_was_open(state: State) -> None:
    times = iter([0.0, 5.0, 60.0, 65.0])
    board = Board(Session(FakeKubectl(state)), "default", lambda: next(times))
    html = [shown(board) for _ in range(4)][-1]
    assert len(re.findall("polyline", html.split('aria-label="trajectories trained"')[1].split("</svg>")[0])) == 2


def test_every_drawing_has_a_name_for_who_cannot_see_it(board: Board) -> None:
    names = re.findall(r'<svg[^>]* aria-label="([^"]*)"', [shown(board) for _ in range(2)][-1])
    assert "sampler at work" in names
    assert all(names)


def test_pages_that_are_open_share_one_look(state: State) -> None:
    board = Board(Session(FakeKubectl(state)), "default", lambda: 100.0)
    board.jobs()
    board.jobs()
    assert len([call for call in state.calls if JOB.plural in call[1]]) == 1
    assert len(board.history(board.jobs()[0])) == 1


HELD: dict[str, tuple[timedelta | None, str | None]] = {
    "for a while": (timedelta(hours=1), "calculator-3 is held for 59m"),
    "without end": (None, "calculator-3 is held until it is resumed: bob paused scaling"),
    "no more": (timedelta(seconds=-1), None),
}


@pytest.mark.parametrize(("ends_in", "says"), HELD.values(), ids=HELD)
def test_a_hold_in_force_is_told_with_how_to_end_it(
    board: Board, state: State, ends_in: timedelta | None, says: str | None
) -> None:
    expires = datetime.now(UTC) + ends_in if ends_in else None
    put(state, entry(3, origin=Origin.USER, reason="bob paused scaling", expires_at=expires))
    words = text(shown(board))
    assert ("is held" in words) == (says is not None)
    if says is not None:
        assert says in words
        assert "steelyard resume calculator -n default" in words


def test_all_jobs_are_listed_with_links(board: Board, state: State) -> None:
    put(state, a_job("second", phase="Failed"))
    html = shown(board, "/")
    assert 'href="/secret/jobs/default/calculator"' in html
    assert 'class="badge bad">Failed' in html
    assert "There are no jobs" in shown(Board(Session(FakeKubectl(State())), "default", lambda: 0.0), "/")


def test_a_young_job_shows_dashes_not_zeros(board: Board, state: State) -> None:
    young = a_job()
    young["status"] = {}
    put(state, young)
    words = text(shown(board))
    assert "calculator Pending" in words
    assert "trajectories/s –" in words
    assert "at work –" in words
    assert "0 %" not in words


def test_what_cannot_be_read_is_said_on_the_page(board: Board, state: State) -> None:
    state.denied = {REVISION.path("default"): "Error from server (Forbidden): revisions are not for you"}
    assert "revisions are not for you" in text(shown(board))
    state.denied = {JOB.path("default"): "Unable to connect to the server: no route to host"}
    page = command.page_at(board, "/secret/", "/")
    assert page is not None
    assert (page.status, page.refresh) == (502, 5)
    assert "no route to host" in page.html


@pytest.mark.parametrize("path", ["/jobs", "/jobs/default", "/jobs/default/calculator/x", "/favicon.ico", "/stillness"])
def test_other_paths_lead_nowhere(board: Board, path: str) -> None:
    assert command.page_at(board, "/secret/", path) is None


def test_a_job_that_is_gone_is_told(board: Board) -> None:
    page = command.page_at(board, "/secret/", "/jobs/default/gone")
    assert page is not None
    assert page.status == 404
    assert "there is no job gone in namespace default" in page.html


def test_refreshing_can_be_stopped_and_taken_up_again(board: Board) -> None:
    live = command.page_at(board, "/secret/", "/jobs/default/calculator")
    still = command.page_at(board, "/secret/", "/still/jobs/default/calculator")
    assert live is not None
    assert still is not None
    assert (live.refresh, still.refresh) == (5, None)
    assert 'href="/secret/still/jobs/default/calculator"' in live.html
    assert 'href="/secret/jobs/default/calculator"' in still.html


@pytest.mark.parametrize("path", ["/", "/jobs/default/calculator"])
def test_a_cell_that_stands_alone_on_a_phone_has_the_name_of_its_column(board: Board, path: str) -> None:
    html = shown(board, path).replace(">traj/s<", ">trajectories/s<")
    assert len(Stacked(html).tables) == 1
    assert misnamed(html) == []


def test_profiles_that_a_stage_does_not_use_are_left_out(board: Board, state: State) -> None:
    used = {"whole": {"desired": 2, "ready": 1}, "slice": {"desired": 0, "ready": 0}}
    put(state, a_job(stages={"sampler": {"profiles": used}}))
    assert "ready 1 of 2 whole at work" in text(shown(board))


class Outside(HTMLParser):
    """Collects what a page would fetch or run."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "link", "img", "iframe", "form", "object", "embed"):
            self.found.append((tag, None))
        for name, value in attrs:
            if name.startswith("on") or (name in ("src", "href") and not (value or "").startswith("/secret/")):
                self.found.append((name, value))


@pytest.mark.parametrize("path", ["/", "/jobs/default/calculator", "/jobs/default/gone"])
def test_a_page_fetches_nothing_and_runs_nothing(board: Board, path: str) -> None:
    html = shown(board, path)
    outside = Outside()
    outside.feed(html)
    assert outside.found == []
    assert "url(" not in html
    assert "@import" not in html


def test_nothing_is_written_to_the_cluster(board: Board, state: State) -> None:
    for path in ("/", "/jobs/default/calculator", "/still/jobs/default/calculator"):
        shown(board, path)
    assert {call[0] for call in state.calls} == {"get"}
