"""The page and the table: complete, and in need of nothing from outside."""

import re
from xml.etree import ElementTree

import pytest

from steelyard.twin.compare import Played, play
from steelyard.twin.page import page, throughputs
from steelyard.twin.report import document, table
from tests.unit.twin.small import small

NAMES = ("steelyard", "uniform", "colocated-sync")


@pytest.fixture(scope="module")
def played() -> list[Played]:
    return [play(small(gpus=16, steps=3), name, 1) for name in NAMES]


def test_the_page_fetches_nothing_and_runs_nothing(played: list[Played]) -> None:
    text = page(played)
    assert not re.findall(r"<script|<link|<img|@import|url\(|https?://", text)


def test_the_page_shows_every_policy_with_wellformed_drawings(played: list[Played]) -> None:
    text = page(played)
    assert all(f"<h3>{name}</h3>" in text for name in NAMES)
    drawings = [ElementTree.fromstring(found) for found in re.findall(r"<svg.*?</svg>", text, re.DOTALL)]
    assert len(drawings) == 2 * len(NAMES)
    for drawing in drawings:
        for shape in drawing.iter():
            numbers = [float(one) for one in re.findall(r"[-\d.]+", shape.get("points", ""))]
            assert all(-0.1 <= one <= 1000.1 for one in numbers)


def test_no_mark_lies_behind_the_last_step() -> None:
    one = play(small(gpus=16, steps=11), "uniform", 1)
    marks = re.findall(r'class="x[^"]*" style="left: ([\d.]+)%', page([one]))
    assert marks
    assert all(float(left) <= 100 for left in marks)


def test_every_decision_is_on_the_page_with_its_reason(played: list[Played]) -> None:
    text = page(played)
    assert played[0].decisions
    assert all(decision.action in text for _, decision in played[0].decisions)


def test_the_table_and_the_json_agree(played: list[Played]) -> None:
    found = document(played)
    assert [row["policy"] for row in found["policies"]] == list(NAMES)
    printed = {line.split()[0]: float(line.split()[1]) for line in table(played).splitlines()[1:] if line.strip()}
    for row in found["policies"]:
        assert printed[row["policy"]] == pytest.approx(row["throughput"], rel=0.01)
        assert len(row["stepEnds"]) == found["steps"]


def test_one_policy_alone_tells_its_decisions(played: list[Played]) -> None:
    assert played[0].decisions[0][1].reason[:40] in table(played[:1]).replace("\n", " ")


def test_throughput_over_time_ends_with_the_run(played: list[Played]) -> None:
    points = list(throughputs(played[0].run))
    assert points[-1][0] == len(played[0].run.step_ends)
    assert all(rate > 0 for _, rate in points)
