"""A wheel that does not come, or comes otherwise than locked, is one sentence and no half-filled house."""

import hashlib
from io import BytesIO
from pathlib import Path

import pytest

from e2e.cluster import ClusterError, Exit
from e2e.images.wheelhouse import Locked, _download

CONTENT = b"a wheel"


@pytest.fixture
def url(tmp_path: Path) -> str:
    (tmp_path / "torch.whl").write_bytes(CONTENT)
    return (tmp_path / "torch.whl").as_uri()


def test_a_wheel_is_what_the_lock_file_says(url: str) -> None:
    file, notes = BytesIO(), list[str]()
    _download(Locked(url, hashlib.sha256(CONTENT).hexdigest()), file, notes.append)
    assert file.getvalue() == CONTENT
    assert notes == ["0 of 0 MiB"]


def test_another_wheel_than_the_locked_one_is_refused(url: str) -> None:
    with pytest.raises(ClusterError, match=r"torch\.whl: 7 of 7 bytes came, .*; uv.lock says 0123") as refused:
        _download(Locked(url, "0123"), BytesIO(), lambda _: None)
    assert refused.value.code is Exit.NO_PACKAGES


def test_a_download_that_fails_says_from_where_and_why(url: str) -> None:
    with pytest.raises(ClusterError, match=r"cannot download file:.*/elsewhere\.whl: .*No such file") as failed:
        _download(Locked(url.replace("torch", "elsewhere"), "0123"), BytesIO(), lambda _: None)
    assert failed.value.code is Exit.NO_PACKAGES
