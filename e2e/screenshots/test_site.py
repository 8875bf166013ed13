"""The documentation as `make docs` builds it: whole, the same without a network, and looked at in a browser."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from e2e.screenshots.looking import SCHEMES, WIDTHS, Scheme, look

ROOT = Path(__file__).parents[2]
PAGES = ("index", "quickstart", "concepts", "how-it-decides", "bring-your-own", "troubleshooting", "gitops")
BROKEN = "() => [...document.images].filter(image => !image.naturalWidth).map(image => image.src)"
LOADED = re.compile(
    r"<(?:script|img|iframe|link)\b[^>]*?(?:src|href)=\"?((?:https?:)?//[^\s\">]+)|@import\s+url\(([^)]+)\)"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A broken link or anchor, or a page that the navigation forgets, ends the build."""
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(folder)]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(build, cwd=ROOT, env=quiet, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
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


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    pages = [*site.rglob("*.html"), *site.rglob("*.css")]
    assert len(pages) > 30
    outside = {str(page.relative_to(site)): LOADED.findall(page.read_text()) for page in pages}
    assert {page: found for page, found in outside.items() if found} == {}


def test_the_pictures_are_there(site: Path) -> None:
    shown = re.findall(r'<img [^>]*?src="([^"]+)"', (site / "concepts.html").read_text())
    assert len(shown) == 5
    assert [name for name in shown if not (site / name).is_file()] == []


def test_what_lies_beside_the_documentation_is_published_with_it(site: Path) -> None:
    assert 'href="manifests/examples/own/job.yaml"' in (site / "bring-your-own.html").read_text()
    assert (site / "manifests" / "examples" / "own" / "job.yaml").is_file()
    assert (site / "benchmarks" / "index.html").is_file()
