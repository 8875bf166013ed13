"""The helm commands of every page, as both versions of Helm understand them; what their values make of the chart."""

from __future__ import annotations

import re

import pytest

from e2e.helm import ROOT, Helm
from tests.documented.pages import Line, lines

LINES = [line for line in lines() if any(words[0] == "helm" for words in line.commands())]
FLAG = re.compile(r"^ +(?:(-\w), )?(--[\w-]+)", re.MULTILINE)


@pytest.mark.parametrize("line", LINES, ids=lambda line: f"{line.page}:{line.number}")
def test_helm_understands_what_a_page_shows(line: Line, either: Helm) -> None:
    for words in line.commands():
        known = {name for found in FLAG.findall(either(words[1], "--help")) for name in found if name}
        flags = {word.partition("=")[0] for word in words[2:] if word.startswith("-")}
        assert flags <= known


@pytest.mark.parametrize("line", LINES, ids=lambda line: f"{line.page}:{line.number}")
def test_the_chart_takes_the_values_that_a_page_shows(line: Line, newest: Helm) -> None:
    for words in line.commands():
        values = [flag for at, word in enumerate(words) if word == "--set" for flag in words[at : at + 2]]
        assert newest("template", "steelyard", ROOT / "charts" / "steelyard", *values)


def test_pages_show_helm() -> None:
    assert {"docs/install.md", "docs/monitoring.md"} <= {line.page for line in LINES}
