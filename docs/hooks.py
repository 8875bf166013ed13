"""What the site adds to mkdocs: links that leave docs/ publish what they lead to, a navigation may name a folder."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#|/)([^)\s#]+)")
FENCE = re.compile(r"^(```.*?^```)", re.MULTILINE | re.DOTALL)


def on_config(config: MkDocsConfig) -> None:
    """`folder/*` in the navigation stands for its pages, in the order of their names."""
    config.nav = _expanded(config.nav, Path(config.docs_dir))


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Publish what pages, and the navigation, name of the rest of the repository under its path there."""
    root = Path(config.docs_dir).parent
    todo = [*files.documentation_pages(), *(_publish(name, files, config) for name in _named(config.nav))]
    while todo:
        if (file := todo.pop()) is None or not file.is_documentation_page():
            continue
        outside = [path for path in _linked(file) if not path.is_relative_to(config.docs_dir)]
        names = [path.relative_to(root).as_posix() for path in outside if path.is_relative_to(root)]
        todo += [_publish(name, files, config) for name in names]


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links as the repository has them become links of the site."""
    here, docs = _source(page.file), Path(config.docs_dir)

    def moved(found: re.Match[str]) -> str:
        target = _leads_to(here, found[1])
        base = docs if target.is_relative_to(docs) else docs.parent
        if not target.is_relative_to(base):
            return found[0]
        uri = target.relative_to(base).as_posix()
        if files.get_file_from_path(uri) is None:
            return found[0]
        return posixpath.relpath(uri, posixpath.dirname(page.file.src_uri) or ".")

    return "".join(part if part.startswith("```") else LINK.sub(moved, part) for part in FENCE.split(markdown))


def _expanded(nav: Any, docs: Path) -> Any:
    if isinstance(nav, list):
        return [one for item in nav for one in (_pages(item, docs) or [_expanded(item, docs)])]
    if isinstance(nav, dict):
        return {title: _pages(item, docs) or _expanded(item, docs) for title, item in nav.items()}
    return nav


def _pages(item: Any, docs: Path) -> list[str]:
    """Pages of a folder that the navigation names, none when it names something else."""
    if not (isinstance(item, str) and item.endswith("/*")):
        return []
    return [page.relative_to(docs).as_posix() for page in sorted((docs / item[:-2]).glob("*.md"))]


def _named(nav: Any) -> list[str]:
    if isinstance(nav, dict):
        return _named([*nav.values()])
    return [name for item in nav for name in _named(item)] if isinstance(nav, list) else [nav]


def _publish(name: str, files: Files, config: MkDocsConfig) -> File | None:
    path = Path(config.docs_dir).parent / name
    if files.get_file_from_path(name) is not None or not path.is_file():
        return None
    inclusion = InclusionLevel.INCLUDED if name in _named(config.nav) else InclusionLevel.NOT_IN_NAV
    file = File.generated(config, name, abs_src_path=str(path), inclusion=inclusion)
    files.append(file)
    return file


def _source(file: File) -> Path:
    assert file.abs_src_path is not None
    return Path(file.abs_src_path)


def _linked(file: File) -> list[Path]:
    here = _source(file)
    return [_leads_to(here, link) for link in LINK.findall(FENCE.sub("", here.read_text()))]


def _leads_to(page: Path, link: str) -> Path:
    """A file; of a folder the one that says what is in it."""
    target = (page.parent / link).resolve()
    return next((file for name in ("README.md", "kustomization.yaml") if (file := target / name).is_file()), target)
