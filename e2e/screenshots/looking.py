"""One look at a page: its picture is kept, and what the browser said, asked for and could not fit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, Page

BUILD = Path(__file__).parents[2] / "build" / "screenshots"
Scheme = Literal["light", "dark"]
SCHEMES: tuple[Scheme, ...] = ("light", "dark")
WIDTHS = {"desk": (1280, 900), "phone": (390, 844)}

WIDER = """() => {
  const most = document.documentElement.clientWidth;
  const scrolls = element =>
    element && (getComputedStyle(element).overflowX !== 'visible' || scrolls(element.parentElement));
  return [...document.querySelectorAll('main *')].filter(
    element => element.getBoundingClientRect().right > most + 1 && !scrolls(element.parentElement)
  ).map(element => element.tagName + '.' + element.className.toString()).slice(0, 5)
}"""
"""Elements that reach beyond the screen, those inside a part that scrolls by itself left out."""


@dataclass
class Look:
    page: Page
    said: list[str] = field(default_factory=list)
    """On the console, and errors."""
    asked: list[str] = field(default_factory=list)
    """URLs."""

    @property
    def wider(self) -> list[str]:
        """What reaches beyond the screen."""
        found: list[str] = self.page.evaluate(WIDER)
        return found


@contextmanager
def look(browser: Browser, url: str, name: str, scheme: Scheme, width: str) -> Iterator[Look]:
    """Open a page, without a network, and take its picture."""
    across, down = WIDTHS[width]
    page = browser.new_page(viewport={"width": across, "height": down}, color_scheme=scheme, offline=True)
    found = Look(page)
    page.on("console", lambda message: found.said.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: found.said.append(str(error)))
    page.on("request", lambda request: found.asked.append(request.url))
    page.goto(url)
    BUILD.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=BUILD / f"{name}-{scheme}-{width}.png", full_page=True)
    yield found
    page.close()
