"""What commands print: data on stdout and nothing else there, words about it on stderr."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TextIO

import typer
from typer.models import OptionInfo

from steelyard.api.names import GROUP
from steelyard.cli.codes import Code
from steelyard.cluster.kinds import Kind

API_VERSION = "cli.steelyard.dev/v1"
"""Of every JSON and YAML document; fields are added to it, never renamed or removed."""
GAP = "   "


class Format(StrEnum):
    """What `-o` may be."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"

    @property
    def for_programs(self) -> bool:
        return self in (Format.JSON, Format.YAML)


def one_of(*formats: Format, help: str = "How to print it; json and yaml are for programs.") -> OptionInfo:
    """`-o` of a command that has these formats and no others."""

    def known(given: Format) -> Format:
        if given not in formats:
            raise typer.BadParameter(f"{given} is none of {', '.join(formats)}")
        return given

    option: OptionInfo = typer.Option("-o", "--output", metavar="|".join(formats), callback=known, help=help)
    return option


Output = Annotated[Format, one_of(*Format)]
DocumentOutput = Annotated[Format, one_of(Format.TABLE, Format.JSON, Format.YAML)]
"""Of commands that answer about one thing, with neither columns nor names to choose."""
ObjectOutput = Annotated[Format, one_of(Format.TABLE, Format.JSON, Format.YAML, Format.NAME)]
"""Of commands whose answer is objects and has no further columns."""


def _page(given: str) -> str:
    if given not in (Format.TABLE, Format.JSON) and not given.endswith(".html"):
        raise typer.BadParameter(f"{given} is none of table, json, and a file that ends in .html")
    if given.endswith(".html") and not Path(given).parent.is_dir():  # said before minutes of work, not after
        raise typer.BadParameter(f"there is no folder {Path(given).parent}")
    return given


PageOutput = Annotated[
    str,
    typer.Option(
        "-o", "--output", metavar="table|json|FILE.html", callback=_page, help="How to print it, or the page to write."
    ),
]
"""Of commands whose answer is a page, too."""
NoHeaders = Annotated[bool, typer.Option("--no-headers", help="Leave out the line with the names of the columns.")]


class Tone(StrEnum):
    """What a word means to who reads it, as a terminal colours it."""

    GOOD = "32"
    BAD = "31"
    BUSY = "33"
    FAINT = "2"
    STRONG = "1"


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table; `wide` ones are shown by `-o wide` only."""

    name: str
    wide: bool = False


def coloured(stream: TextIO) -> bool:
    """Whether a stream shows colours: a terminal that is not dumb, and NO_COLOR is not set."""
    return live(stream) and not os.environ.get("NO_COLOR")


def live(stream: TextIO) -> bool:
    """Whether a stream is a terminal whose cursor can be moved."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def paint(text: str, tone: Tone | None, stream: TextIO | None = None) -> str:
    """The text in its colour, where colours show."""
    return f"\x1b[{tone}m{text}\x1b[0m" if tone and text and coloured(stream or sys.stdout) else text


class Tinted(NamedTuple):
    """A cell with a colour."""

    text: str
    tone: Tone | None


Cell = str | Tinted


def table(
    columns: Sequence[Column], rows: Iterable[Sequence[Cell]], *, wide: bool = False, headers: bool = True
) -> list[str]:
    """Lines of a table as kubectl draws them."""
    shown = [index for index, column in enumerate(columns) if wide or not column.wide]
    lines = [[_cell(row[index]) for index in shown] for row in rows]
    if headers:
        lines.insert(0, [Tinted(columns[index].name, None) for index in shown])
    widths = [max((len(line[place].text) for line in lines), default=0) for place in range(len(shown))]
    return [_line(cells, widths) for cells in lines]


def _cell(cell: Cell) -> Tinted:
    text, tone = cell if isinstance(cell, Tinted) else (cell, None)
    return Tinted(text or "-", tone)


def _line(cells: Sequence[Tinted], widths: Sequence[int]) -> str:
    padded = [paint(text, tone) + " " * (width - len(text)) for (text, tone), width in zip(cells, widths, strict=True)]
    return GAP.join(padded).rstrip()


def document(kind: str, items: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A JSON document of ours."""
    return {"apiVersion": API_VERSION, "kind": kind, "items": list(items)}


def write(kind: str, items: Sequence[Mapping[str, Any]], output: Format) -> None:
    """A document on stdout, as JSON or YAML."""
    whole = document(kind, items)
    if output is Format.YAML:
        import yaml

        typer.echo(yaml.safe_dump(whole, sort_keys=False, allow_unicode=True), nl=False)
    else:
        typer.echo(json.dumps(whole, indent=2, ensure_ascii=False))


def show(kind: str, items: Sequence[Mapping[str, Any]], lines: Iterable[str], output: Format) -> None:
    """An answer on stdout: a document for programs, else its lines."""
    if output.for_programs:
        write(kind, items, output)
        return
    for line in lines:
        typer.echo(line)


def write_page(html: str, output: str) -> None:
    """The page that `PageOutput` named."""
    file = Path(output)
    try:
        file.write_text(html, encoding="utf-8")
    except OSError as error:
        raise typer.BadParameter(f"{file}: {error.strerror}", param_hint="-o") from error
    note(f"{file}: {file.stat().st_size / 1e6:.1f} MB; open it in a browser")


def named(kind: Kind, name: str) -> str:
    """What `-o name` prints, as kubectl does: `agenticrljob.steelyard.dev/calculator`."""
    return f"{kind.name.lower()}.{GROUP}/{name}"


def note(text: str) -> None:
    """Words about the data, on stderr."""
    typer.echo(text, err=True)


def complain(code: Code, about: str, sentence: str) -> None:
    """A message with its code: what it is about, what is wrong, where to read on."""
    where = f"{about}: " if about else ""
    typer.echo(f"{paint(code.name, Tone.BAD, sys.stderr)} {where}{sentence} (see {code.anchor})", err=True)
