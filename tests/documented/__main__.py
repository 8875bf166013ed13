"""`python -m tests.documented`: every command that a page shows in a block, by what runs it."""

from __future__ import annotations

from collections import defaultdict

from tests.documented.pages import lines
from tests.documented.runs import run_by

by_place: dict[str, list[str]] = defaultdict(list)
for line in lines():
    if not line.in_prose:
        for words in line.commands():
            if words[0] != "grep":  # takes part in the command before it
                by_place[run_by(words)].append(f"{line.page}:{line.number} {' '.join(words)}")
for place, commands in sorted(by_place.items()):
    print(f"{place} ({len(commands)})", *commands, sep="\n  ")  # noqa: T201 - what it is for
