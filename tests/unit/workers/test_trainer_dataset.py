"""Tasks come in an order fixed by the seed; a data set that cannot be read is refused with file and line."""

from pathlib import Path

import pytest

from steelyard_workers.messages import TrajectoryId
from steelyard_workers.termination import UserError
from steelyard_workers.trainer.dataset import Dataset


def prompts(dataset: Dataset, groups: range) -> list[str]:
    return [dataset.task(TrajectoryId(group=group, k=0, attempt=0)).task["prompt"] for group in groups]


def dataset(seed: int = 7, size: int = 10) -> Dataset:
    return Dataset([{"prompt": str(number)} for number in range(size)], seed)


def test_each_lap_visits_every_record_once_in_an_order_of_its_own() -> None:
    first, second = prompts(dataset(), range(10)), prompts(dataset(), range(10, 20))
    assert sorted(first) == sorted(second) == sorted(map(str, range(10)))
    assert first != second


def test_the_seed_alone_fixes_order_and_sampling() -> None:
    one, other = dataset(), dataset()
    id_ = TrajectoryId(group=3, k=1, attempt=0)
    assert one.task(id_) == other.task(id_)
    assert prompts(dataset(7), range(10)) != prompts(dataset(8), range(10))
    assert one.task(id_).seed != dataset(8).task(id_).seed


def test_members_and_attempts_of_a_group_share_the_task_and_not_the_seed() -> None:
    tasks = [dataset().task(TrajectoryId(group=3, k=k, attempt=attempt)) for k in (0, 1) for attempt in (0, 1)]
    assert len({task.task["prompt"] for task in tasks}) == 1
    assert len({task.seed for task in tasks}) == 4


def test_files_are_read_in_order_of_name_without_the_held_out_one(tmp_path: Path) -> None:
    (tmp_path / "b.jsonl").write_text('{"prompt": "2"}\n')
    (tmp_path / "a.jsonl").write_text('{"prompt": "0"}\n\n{"prompt": "1"}\n')
    (tmp_path / "heldout.jsonl").write_text('{"prompt": "secret"}\n')
    (tmp_path / "notes.txt").write_text("no tasks")
    assert sorted(prompts(Dataset.load(tmp_path, 7), range(3))) == ["0", "1", "2"]


BAD = {
    "no folder": (None, "is no folder"),
    "no file": ({}, r"no \*\.jsonl"),
    "only held-out tasks": ({"heldout.jsonl": "{}"}, r"no \*\.jsonl"),
    "no record": ({"a.jsonl": "\n\n"}, "a.jsonl: no records"),
    "a line that is not JSON": ({"a.jsonl": '{"prompt": 1}\n{"prompt"\n'}, "a.jsonl line 2: not JSON"),
    "a line that is no object": ({"a.jsonl": "[1, 2]\n"}, "a.jsonl line 1: want a JSON object, found list"),
    "bytes that are no text": ({"a.jsonl": b"\xff\xfe\xff"}, "a.jsonl: .*utf-8"),
}


@pytest.mark.parametrize(("files", "words"), BAD.values(), ids=BAD)
def test_a_bad_data_set_is_refused_with_its_place(
    files: dict[str, str | bytes] | None, words: str, tmp_path: Path
) -> None:
    folder = tmp_path / "tasks"
    if files is not None:
        folder.mkdir()
        for name, content in files.items():
            (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UserError, match=words):
        Dataset.load(folder, 7)
