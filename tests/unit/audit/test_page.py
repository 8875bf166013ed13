"""The page is complete, needs nothing from outside and runs nothing; its colours can be told apart."""

import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from itertools import combinations
from xml.etree import ElementTree

import pytest

from steelyard.audit.drawings import STATES
from steelyard.audit.page import page
from steelyard.audit.record import Record
from steelyard.audit.report import audit
from steelyard.pages import templates
from tests.unit.audit.builders import a_line, a_record, replicas, states
from tests.unit.audit.colours import BLINDNESS, apart
from tests.unit.audit.simulated import recorded
from tests.unit.pages.stacked import Stacked, misnamed

GAP = a_record(
    {
        "replicas": [replicas([1, None, 1, 1])],
        "states": states("sampler", busy=[1, None, 1, 1]),
        "kv_usage": [a_line([0.5, None, 0.5, 0.5])],
    }
)
RECORDS: dict[str, Callable[[], Record]] = {
    "the simulated demo": recorded,
    "a job that is gone": lambda: a_record(job=None),
    "a gap": lambda: GAP,
}


def drawn(record: Record, document: str = "{}") -> str:
    return page(audit(record, 2.5), document)


@pytest.mark.parametrize("case", RECORDS)
def test_the_page_fetches_nothing_and_runs_nothing(case: str) -> None:
    text = drawn(RECORDS[case]())
    assert not re.findall(r"<link|<img|<iframe|@import|url\(|https?://|\son\w+=|javascript:", text)
    assert re.findall(r"<script[^>]*>", text) == ['<script type="application/json" id="steelyard-audit">']


def test_a_cell_that_stands_alone_on_a_phone_has_the_name_of_its_column() -> None:
    text = drawn(recorded())
    assert len(Stacked(text).tables) == 3
    assert misnamed(text) == []


class Balanced(HTMLParser):
    """Every element that needs an end has one."""

    VOID = frozenset({"meta", "br"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        """`<line/>` ends itself."""

    def handle_endtag(self, tag: str) -> None:
        assert tag == self.open.pop(), f"</{tag}> closes {self.open}"


@pytest.mark.parametrize("case", RECORDS)
def test_the_page_is_wellformed_and_says_no_none(case: str) -> None:
    text = drawn(RECORDS[case]())
    parser = Balanced()
    parser.feed(text.removeprefix("<!doctype html>"))
    assert parser.open == []
    assert not re.findall(r">\s*(None|nan|inf|-0)\s*<", text)


def test_every_drawing_stays_in_its_box_and_has_a_name() -> None:
    drawings = [ElementTree.fromstring(found) for found in re.findall(r"<svg.*?</svg>", drawn(recorded()), re.DOTALL)]
    assert len(drawings) > 8
    for drawing in drawings:
        width, height = map(float, drawing.get("viewBox", "").split()[2:])
        assert drawing.get("aria-label")
        for shape in drawing.iter():
            numbers = [float(one) for one in re.findall(r"-?[\d.]+", shape.get("points", ""))]
            assert all(-1 <= x <= width + 1 for x in numbers[::2])
            assert all(-1 <= y <= height + 1 for y in numbers[1::2])


def test_a_gap_breaks_the_lane_and_the_line() -> None:
    text = drawn(GAP)
    assert len(re.findall(r'<polygon class="busy"', text)) == 2
    assert len(re.findall(r'<polyline class="line"', text)) == 2


def test_gpus_of_a_profile_that_the_spec_has_no_more_are_not_known_and_never_none() -> None:
    record = a_record({"replicas": [replicas([1] * 4), replicas([1] * 4, "trainer", "old")]})
    assert audit(record).time is None
    assert "the job's spec says no more how many GPUs a replica had of trainer old." in drawn(record)


def test_what_the_lines_over_the_lanes_show_is_there_as_text() -> None:
    text = " ".join(re.sub(r"<[^>]+>", " ", drawn(recorded())).split())
    (told,) = re.findall(r"Held back, as the waits tell: (.+?)\.", text)
    shares = {who: int(share) for share, who in re.findall(r"(\d+) % of the time by (?:the )?([\w-]+)", told)}
    assert "environment" in shares
    assert sum(shares.values()) == pytest.approx(100, abs=2)
    assert re.search(r"trajectories a second: mean [\d.]+, most [\d.]+", text)


def test_paper_has_the_light_colours_the_bars_and_whole_tables() -> None:
    """What a browser makes of it: e2e/screenshots."""
    text = drawn(recorded())
    assert "@media (prefers-color-scheme: dark)" not in text
    paper = text.partition("@media print {")[2]
    assert "print-color-adjust: exact" in paper
    assert ".wide { overflow: visible" in paper


def test_text_of_others_cannot_become_markup() -> None:
    record = a_record(missing=("<b>bold</b>",))
    text = drawn(record, json.dumps({"said": "</script><script>alert(1)</script>"}))
    assert "<b>bold</b>" not in text
    assert "<script>alert" not in text


def palette(dark: bool) -> dict[str, str]:
    sheet = templates("steelyard.audit").get_template("audit.css.j2").render(states=STATES)
    light, _, rest = sheet.partition("@media screen and (prefers-color-scheme: dark)")
    found = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", rest[: rest.index("\n}")] if dark else light))
    return {state: found[state] for state in STATES}


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("blindness", BLINDNESS)
def test_the_states_can_be_told_apart_by_everybody(blindness: str, dark: bool) -> None:
    """Colour difference (CIE76) of any two, as somebody with this vision sees them."""
    colours = palette(dark)
    distances = {(a, b): apart(colours[a], colours[b], blindness) for a, b in combinations(STATES, 2)}
    nearest = min(distances, key=distances.__getitem__)
    assert distances[nearest] > 10, nearest
