"""What `helm test` runs says what is wrong, and is not content with anything that answers."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from e2e.helm import CHART
from tests.integration.guarded import ANSWER, guarded


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The script, which asks only once."""
    spec = importlib.util.spec_from_file_location("check", CHART / "files" / "check.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0)
    monkeypatch.setenv("PROMETHEUS_SECRET", str(tmp_path))
    monkeypatch.setenv("OPERATOR_URL", "http://127.0.0.1:1")
    (tmp_path / "authorization").write_text("Bearer right\n")
    return module


PAGE, REFUSED = "<html>log in</html>", '{"status": "error", "error": "not so many"}'
ANSWERS: dict[str, tuple[str, int, str]] = {
    "an answer": (ANSWER, 200, "ok   Prometheus answers\n"),
    "a page for people": (PAGE, 200, f"FAIL Prometheus answers: what answers is no Prometheus: '{PAGE}': set"),
    "a refusal": (REFUSED, 200, f"FAIL Prometheus answers: {REFUSED}: set prometheus.url"),
    "an error of its own": ("too late", 503, "FAIL Prometheus answers: 503 too late: set prometheus.url"),
}
"""What comes back -> text, status, and what is said of it."""


@pytest.mark.parametrize("what", ANSWERS)
def test_what_is_wrong_with_prometheus_is_said(
    check: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    text, status, said = ANSWERS[what]

    with guarded(tmp_path, "Bearer right", text, status) as url:
        monkeypatch.setenv("PROMETHEUS_URL", url)
        code = check.main()

    operator, prometheus = capsys.readouterr().out.splitlines(keepends=True)
    assert operator.startswith("FAIL the operator acts: <urlopen error [Errno 111] Connection refused>: its log")
    assert prometheus.startswith(said)
    assert code == 1


def test_all_is_well(
    check: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with guarded(tmp_path, "Bearer right") as url:
        monkeypatch.setenv("PROMETHEUS_URL", url)
        monkeypatch.setitem(check.CHECKS, "the operator acts", (lambda: "", ""))
        assert check.main() == 0

    assert capsys.readouterr().out == "ok   the operator acts\nok   Prometheus answers\n"


def test_an_operator_that_does_not_act_says_why(
    check: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "ask", lambda url: (f"503 {url}", ""))

    assert check.operator() == "503 http://127.0.0.1:1/readyz"
