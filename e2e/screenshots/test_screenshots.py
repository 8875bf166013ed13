"""Every page, light and dark, on a desk and on a phone: no error, nothing fetched, nothing wider than the screen."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, ViewportSize

from e2e.screenshots.looking import BUILD, SCHEMES, WIDER, WIDTHS, Scheme, look

REPORTS = ("audit", "twin")
PAGES = (*REPORTS, "jobs", "job")

SMALL = """() => [...document.querySelectorAll('main *')].filter(
  element => element.childNodes.length && [...element.childNodes].some(node => node.nodeType === 3 && node.data.trim())
    && element.getBoundingClientRect().width && parseFloat(getComputedStyle(element).fontSize) < 10
).map(element => element.textContent.trim()).slice(0, 5)"""
"""Texts that nobody can read."""


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_whole(browser: Browser, pages: dict[str, Path], name: str, scheme: Scheme, width: str) -> None:
    url = pages[name].as_uri()
    with look(browser, url, name, scheme, width) as seen:
        assert seen.said == []
        assert seen.asked == [url]
        assert seen.wider == []
        assert seen.page.evaluate(SMALL) == []


@pytest.mark.parametrize("name", PAGES)
def test_a_page_says_the_same_without_javascript(browser: Browser, pages: dict[str, Path], name: str) -> None:
    texts = []
    for allowed in (True, False):
        opened = browser.new_page(java_script_enabled=allowed)
        opened.goto(pages[name].as_uri())
        texts.append(opened.inner_text("main"))
        opened.close()
    assert texts[0] == texts[1]


A4: ViewportSize = {"width": 718, "height": 1047}
"""CSS pixels between margins of a centimetre."""
UNPRINTED = """() => [...document.querySelectorAll('main *')].filter(
  element => getComputedStyle(element).printColorAdjust !== 'exact'
).length"""
BACKGROUND = "() => getComputedStyle(document.body).backgroundColor"


@pytest.mark.parametrize("name", REPORTS)
def test_on_paper_a_report_is_whole_light_and_has_its_colours(
    browser: Browser, pages: dict[str, Path], name: str
) -> None:
    opened = browser.new_page(viewport=A4, color_scheme="dark")
    opened.emulate_media(media="print")
    opened.goto(pages[name].as_uri())
    opened.screenshot(path=BUILD / f"{name}-paper.png", full_page=True)
    assert opened.evaluate(WIDER) == []
    assert opened.evaluate(UNPRINTED) == 0
    assert opened.evaluate(BACKGROUND) == "rgb(255, 255, 255)"
    opened.close()
