"""The made-up day of the benchmark: whole or not there, and one at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.audit import __main__ as benchmark
from benchmarks.audit import day


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own, an empty day, and a promtool that makes a block of each slice."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(day, "series", lambda _: [])
    monkeypatch.setattr(day, "write", lambda *_: 7)
    monkeypatch.setattr(benchmark, "run", lambda *argv: a_block(Path(argv[-1])))
    return tmp_path / "steelyard"


def a_block(data: Path) -> None:
    data.mkdir(parents=True, exist_ok=True)
    (data / f"block-{len(list(data.iterdir()))}").touch()


def test_only_the_last_day_is_kept(home: Path) -> None:
    for name in ("audit-day-0123456789ab", "audit-day-abcdef012345.new"):
        a_block(home / name / "data")
    data, samples = benchmark.tsdb(Path("bin"))
    assert [path for path in home.iterdir() if path.is_dir()] == [data.parent]
    assert (len(list(data.iterdir())), samples) == (12, 84)
    (data / "block-0").unlink()
    assert len(list(benchmark.tsdb(Path("bin"))[0].iterdir())) == 11, "what is there is used again"


def test_a_day_that_was_half_made_is_made_anew(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*argv: str) -> None:
        a_block(Path(argv[-1]))
        if len(list(Path(argv[-1]).iterdir())) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(benchmark, "run", fails)
    with pytest.raises(KeyboardInterrupt):
        benchmark.tsdb(Path("bin"))
    monkeypatch.setattr(benchmark, "run", lambda *argv: a_block(Path(argv[-1])))
    assert len(list(benchmark.tsdb(Path("bin"))[0].iterdir())) == 12
