"""The data set: which task each group gets and which seed each trajectory, both fixed by the job's seed."""

import hashlib
import json
import random
from functools import lru_cache
from pathlib import Path
from typing import Any

from steelyard_workers.messages import Task, TrajectoryId
from steelyard_workers.termination import UserError

HELD_OUT = "heldout.jsonl"


class Dataset:
    """Tasks in the job's order: each pass over the records is shuffled anew, group g takes the g-th place."""

    def __init__(self, records: list[dict[str, Any]], seed: int) -> None:
        self._records = records
        self._seed = seed
        self._order = lru_cache(maxsize=2)(self._shuffled)

    @classmethod
    def load(cls, folder: Path, seed: int) -> "Dataset":
        """Read every *.jsonl of a folder but the held-out one. UserError names file and line of what is wrong."""
        if not folder.is_dir():
            raise UserError(f"tasks: {folder} is no folder")
        files = sorted(path for path in folder.glob("*.jsonl") if path.name != HELD_OUT)
        if not files:
            raise UserError(f"tasks: no *.jsonl in {folder}")
        records = [record for path in files for record in _records(path)]
        if not records:
            raise UserError(f"tasks: {', '.join(path.name for path in files)}: no records")
        return cls(records, seed)

    def __len__(self) -> int:
        return len(self._records)

    def task(self, id_: TrajectoryId) -> Task:
        """The task of a trajectory, the same at every call."""
        lap, place = divmod(id_.group, len(self._records))
        digest = hashlib.blake2b(f"{self._seed}/{id_}".encode(), digest_size=8).digest()
        seed = int.from_bytes(digest) >> 32  # 32 bits: every sampler and every user's generator takes them
        return Task(id=id_, task=self._records[self._order(lap)[place]], seed=seed)

    def _shuffled(self, lap: int) -> list[int]:
        order = list(range(len(self._records)))
        random.Random(f"{self._seed}/{lap}").shuffle(order)  # noqa: S311 - reproducible on purpose
        return order


def _records(path: Path) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"tasks: {path}: {error}") from error
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except ValueError as error:
            raise UserError(f"tasks: {path} line {number}: not JSON: {error}") from error
        if not isinstance(record, dict):
            raise UserError(f"tasks: {path} line {number}: want a JSON object, found {type(record).__name__}")
        records.append(record)
    return records
