"""Tables whose rows are cards on a phone, where no header is shown: the names of their columns and of their cells."""

from __future__ import annotations

from html.parser import HTMLParser


class Stacked(HTMLParser):
    """Of each such table: the names in its header, and of each row the names of its cells."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tables: list[tuple[list[str], list[list[str | None]]]] = []
        self._inside = self._heads = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "table" and "stack" in (given.get("class") or "").split():
            self._inside = True
            self.tables.append(([], []))
        elif self._inside and tag == "th":
            self._heads = True
            self.tables[-1][0].append("")
        elif self._heads and tag == "br":
            self.handle_data(" ")
        elif self._inside and tag == "tr":
            self.tables[-1][1].append([])
        elif self._inside and tag == "td":
            hidden = "detail" in (given.get("class") or "").split()
            self.tables[-1][1][-1].append("" if hidden else given.get("data-name"))

    def handle_endtag(self, tag: str) -> None:
        if tag == "table":
            self._inside = False
        elif tag == "th":
            self._heads = False

    def handle_data(self, data: str) -> None:
        if self._heads:
            self.tables[-1][0][-1] += data


def misnamed(html: str) -> list[tuple[str, str | None]]:
    """(column, cell) where they differ; cells that a phone does not show are left out."""
    return [
        (head, cell)
        for heads, rows in Stacked(html).tables
        for row in rows[1:]  # the first is the header
        for head, cell in zip(heads, row, strict=True)
        if cell not in ("", head)
    ]
