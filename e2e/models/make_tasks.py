"""The calculator's tasks: sums of two numbers below 100, training and held-out ones with no pair in common.

`python -m e2e.models.make_tasks FOLDER` writes tasks.jsonl and heldout.jsonl; the same files every time.
"""

import json
import random
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

SEED = 20
HELD_OUT = 256
TRAINING = 2048


class Sum(NamedTuple):
    """One task."""

    a: int
    b: int

    @property
    def prompt(self) -> str:
        """What the policy reads."""
        return f"Q{self.a}+{self.b}="

    @property
    def answer(self) -> int:
        """What it should find."""
        return self.a + self.b


def split(seed: int = SEED) -> tuple[list[Sum], list[Sum]]:
    """(training, held-out) tasks; every pair of numbers below 100 is in exactly one."""
    sums = [Sum(a, b) for a in range(100) for b in range(100)]
    random.Random(seed).shuffle(sums)
    return sums[HELD_OUT:], sums[:HELD_OUT]


def lines(sums: Iterable[Sum]) -> str:
    """One JSON object a line, as environments read tasks."""
    return "".join(json.dumps({"prompt": task.prompt, "answer": task.answer}) + "\n" for task in sums)


def write(folder: Path) -> None:
    """Write both files."""
    training, held_out = split()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tasks.jsonl").write_text(lines(training[:TRAINING]))
    (folder / "heldout.jsonl").write_text(lines(held_out))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
