"""What a start of the cluster leaves behind when it is killed at any line."""

from __future__ import annotations

from pathlib import Path

import pytest

from e2e.cluster.holder import record
from e2e.cluster.namespaces import Namespaces


@pytest.mark.parametrize("file", ["holder.pid", "daemons/etcd"])
def test_a_process_id_is_recorded_whole_or_not_at_all(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "daemons").mkdir()
    monkeypatch.setattr(Path, "replace", _killed)
    with pytest.raises(KeyboardInterrupt):
        record(tmp_path / file, "123")
    monkeypatch.undo()
    assert not (tmp_path / file).exists()
    assert Namespaces(tmp_path).daemons() == {}

    record(tmp_path / file, "456")
    assert (tmp_path / file).read_text() == "456"


def _killed(*_: object) -> None:
    raise KeyboardInterrupt
