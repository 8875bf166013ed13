"""Every page, light and dark, on a desk and on a phone: no error, nothing fetched, nothing wider than the screen."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser

BUILD = Path(__file__).parents[2] / "build" / "screenshots"
WIDTHS = {"desk": (1280, 900), "phone": (390, 844)}
PAGES = ("audit", "twin")

WIDER = """() => {
  const most = document.documentElement.clientWidth;
  const scrolls = element =>
    element && (getComputedStyle(element).overflowX !== 'visible' || scrolls(element.parentElement));
  return [...document.querySelectorAll('main *')].filter(
    element => element.getBoundingClientRect().right > most + 1 && !scrolls(element.parentElement)
  ).map(element => element.tagName + '.' + element.className.toString()).slice(0, 5)
}"""
"""Elements that reach beyond the screen, those inside a part that scrolls by itself left out."""
SMALL = """() => [...document.querySelectorAll('main *')].filter(
  element => element.childNodes.length && [...element.childNodes].some(node => node.nodeType === 3 && node.data.trim())
    && element.getBoundingClientRect().width && parseFloat(getComputedStyle(element).fontSize) < 10
).map(element => element.textContent.trim()).slice(0, 5)"""
"""Texts that nobody can read."""


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_whole(
    browser: Browser, pages: dict[str, Path], name: str, scheme: Literal["light", "dark"], width: str
) -> None:
    across, down = WIDTHS[width]
    opened = browser.new_page(viewport={"width": across, "height": down}, color_scheme=scheme)
    said: list[str] = []
    asked: list[str] = []
    opened.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
    opened.on("pageerror", lambda error: said.append(str(error)))
    opened.on("request", lambda request: asked.append(request.url))
    opened.goto(pages[name].as_uri())
    BUILD.mkdir(parents=True, exist_ok=True)
    opened.screenshot(path=BUILD / f"{name}-{scheme}-{width}.png", full_page=True)
    assert said == []
    assert asked == [pages[name].as_uri()]
    assert opened.evaluate(WIDER) == []
    assert opened.evaluate(SMALL) == []
    opened.close()


@pytest.mark.parametrize("name", PAGES)
def test_a_page_says_the_same_without_javascript(browser: Browser, pages: dict[str, Path], name: str) -> None:
    texts = []
    for allowed in (True, False):
        opened = browser.new_page(java_script_enabled=allowed)
        opened.goto(pages[name].as_uri())
        texts.append(opened.inner_text("main"))
        opened.close()
    assert texts[0] == texts[1]
