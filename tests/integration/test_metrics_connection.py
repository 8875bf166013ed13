"""What a Prometheus asks for beside the question: a header that may be replaced, an authority that is not public."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from steelyard.balance.types import MetricsProblem
from steelyard.cluster.kubectl import Kubectl
from steelyard.cluster.places import NoPrometheus, place_of
from steelyard.cluster.prometheus_access import FOLDER, opened
from steelyard.metrics.answers import Unavailable, ask
from steelyard.metrics.connect import connect
from steelyard.settings import Settings, explained
from tests.integration.guarded import guarded


async def asked(url: str, secret: Path | None) -> list[object]:
    async with connect(url, 5, secret) as client:
        return list(await ask(client, "a question", "query", query="vector(1)"))


async def test_a_header_and_an_authority_of_its_own_are_enough(tmp_path: Path) -> None:
    """A file made by an editor ends with a line's end, which no header may have."""
    (tmp_path / "authorization").write_text("Bearer one\n")

    with guarded(tmp_path, "Bearer one") as url:
        assert await asked(url, tmp_path) == []


async def test_a_header_that_is_replaced_is_sent_without_a_restart(tmp_path: Path) -> None:
    with guarded(tmp_path, "Bearer two") as url:
        async with connect(url, 5, tmp_path) as client:
            for header, status in ((None, 401), ("Bearer one", 401), ("Bearer two", 200)):
                if header:
                    (tmp_path / "authorization").write_text(header)
                assert (await client.get("/api/v1/query")).status_code == status


async def test_what_is_not_allowed_is_said(tmp_path: Path) -> None:
    (tmp_path / "authorization").write_text("Bearer wrong")

    with guarded(tmp_path, "Bearer right") as url, pytest.raises(Unavailable, match="status 401") as error:
        await asked(url, tmp_path)

    assert error.value.reason.problem is MetricsProblem.BAD_RESPONSE


async def test_an_authority_that_is_not_named_is_not_trusted(tmp_path: Path) -> None:
    with guarded(tmp_path) as url, pytest.raises(Unavailable, match="CERTIFICATE_VERIFY_FAILED"):
        await asked(url, None)


async def test_the_command_line_reads_a_folder_of_the_same_form(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "authorization").write_text("Bearer mine")
    monkeypatch.setenv(FOLDER, str(tmp_path))

    with guarded(tmp_path, "Bearer mine") as url:
        async with opened(place_of(url), Kubectl()) as client:
            assert await ask(client, "a question", "query", query="vector(1)") == []


@pytest.mark.parametrize("content", [None, "not a certificate"])
async def test_a_folder_of_the_command_line_that_is_wrong_is_named(
    content: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "secret"
    if content:
        folder.mkdir()
        (folder / "ca.crt").write_text(content)
    monkeypatch.setenv(FOLDER, str(folder))

    with pytest.raises(NoPrometheus, match=FOLDER):
        async with opened(place_of("https://prometheus.example"), Kubectl()):
            pass


WRONG = {
    "a folder that is not there": (None, "Path does not point to a directory"),
    "an authority that is none": ("not a certificate", "its file ca.crt holds no certificate"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_secret_is_one_line_that_names_it(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content, words = WRONG[case]
    folder = tmp_path / "secret"
    if content is not None:
        folder.mkdir()
        (folder / "ca.crt").write_text(content)
    monkeypatch.setenv("STEELYARD_PROMETHEUS_SECRET", str(folder))

    with pytest.raises(ValidationError) as error:
        Settings()

    assert explained(error.value).startswith(f"STEELYARD_PROMETHEUS_SECRET: '{folder}'")
    assert words in explained(error.value)
