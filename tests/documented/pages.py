"""Every command that a page for people shows: lines of shell in fenced blocks, and code spans that begin like one."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "benchmarks/README.md", "charts/steelyard/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
PROGRAMS = ("kubectl", "steelyard", "helm", "make")
SHELL = frozenset({"", "sh", "shell", "bash", "console"})
FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
SPAN = re.compile(rf"`((?:{'|'.join(PROGRAMS)})\s(?:[^`\n]|\n(?!\n))+)`")
HERE_DOCUMENT = re.compile(r"<<-?'?(\w+)'?")
OPERATORS = frozenset("();<>|&")


@dataclass(frozen=True)
class Line:
    """One logical line of shell: continuations and here-documents belong to it."""

    page: str
    number: int
    text: str
    in_prose: bool = False
    """A code span: the command is named, perhaps without all its arguments."""
    block: int = 0
    """The line on which its block begins."""

    def __str__(self) -> str:
        return f"{self.page}:{self.number} {self.text.splitlines()[0]}"

    def commands(self) -> list[list[str]]:
        """The simple commands that it runs, as words; what redirections and here-documents hold is left out."""
        first = HERE_DOCUMENT.sub("", self.text.split("\n")[0]) if HERE_DOCUMENT.search(self.text) else self.text
        lexer = shlex.shlex(first, posix=True, punctuation_chars="();<>|&\n")
        lexer.whitespace_split, lexer.whitespace = True, " \t\r"
        found: list[list[str]] = [[]]
        words = iter(lexer)
        for word in words:
            if not set(word) <= {*OPERATORS, "\n"}:
                found[-1].append(word)
            elif set(word) & {"<", ">"}:
                next(words, None)
            else:
                found.append([])
        return [command for command in found if command and command != ["$"]]


def lines() -> list[Line]:
    return [line for page in PAGES for line in lines_of(page.relative_to(ROOT).as_posix(), page.read_text())]


def lines_of(page: str, markdown: str) -> list[Line]:
    blocks = [block for block in FENCE.finditer(markdown) if block[2] in SHELL]
    prose = FENCE.sub(lambda block: "\n" * block[0].count("\n"), markdown)
    spans = [
        Line(page, prose.count("\n", 0, span.start()) + 1, " ".join(span[1].split("\n")), in_prose=True)
        for span in SPAN.finditer(prose)
    ]
    found = [line for block in blocks for line in _in_block(page, markdown, block)]
    return sorted([*found, *spans], key=lambda line: line.number)


def _in_block(page: str, text: str, block: re.Match[str]) -> Iterator[Line]:
    rows = block[3].splitlines()
    start = text.count("\n", 0, block.start()) + 2
    position = 0
    while position < len(rows):
        begin, row = position, rows[position].strip()
        position += 1
        if block[2] == "console":
            if not row.startswith("$ "):
                continue  # what a command printed
            row = row.removeprefix("$ ")
        while row.endswith("\\"):
            row, position = row[:-1] + rows[position].strip(), position + 1
        if mark := HERE_DOCUMENT.search(row):
            end = next(at for at in range(position, len(rows)) if rows[at].strip() == mark[1])
            row, position = "\n".join([row, *rows[position : end + 1]]), end + 1
        if row and not row.startswith("#"):
            yield Line(page, start + begin, row, block=start)
