"""The documentation as `make docs` builds it, in a browser without a network."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser

from e2e.screenshots.test_screenshots import BUILD, WIDER, WIDTHS

ROOT = Path(__file__).parents[2]
PAGES = ("index", "quickstart", "concepts", "gitops")
BROKEN = "() => [...document.images].filter(image => !image.naturalWidth).map(image => image.src)"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(folder)]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(build, cwd=ROOT, env=quiet, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_of_the_documentation_is_whole(
    browser: Browser, site: Path, name: str, scheme: Literal["light", "dark"], width: str
) -> None:
    across, down = WIDTHS[width]
    opened = browser.new_page(viewport={"width": across, "height": down}, color_scheme=scheme, offline=True)
    said: list[str] = []
    asked: list[str] = []
    opened.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
    opened.on("pageerror", lambda error: said.append(str(error)))
    opened.on("request", lambda request: asked.append(request.url))

    opened.goto((site / f"{name}.html").as_uri())
    BUILD.mkdir(parents=True, exist_ok=True)
    opened.screenshot(path=BUILD / f"docs-{name.replace('/', '-')}-{scheme}-{width}.png", full_page=True)

    assert said == []
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    assert opened.evaluate(BROKEN) == []
    assert opened.evaluate(WIDER) == []
    opened.close()
