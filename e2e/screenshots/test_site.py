"""The documentation as `make docs` builds it, in a browser without a network."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from e2e.screenshots.looking import SCHEMES, WIDTHS, Scheme, look

ROOT = Path(__file__).parents[2]
PAGES = ("index", "quickstart", "concepts", "how-it-decides", "bring-your-own", "troubleshooting", "gitops")
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
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", PAGES)
def test_a_page_of_the_documentation_is_whole(
    browser: Browser, site: Path, name: str, scheme: Scheme, width: str
) -> None:
    with look(browser, (site / f"{name}.html").as_uri(), f"docs-{name}", scheme, width) as seen:
        assert seen.said == []
        assert [url for url in seen.asked if not url.startswith(("file:", "data:"))] == []
        assert seen.page.evaluate(BROKEN) == []
        assert seen.wider == []
