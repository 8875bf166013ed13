"""The closing line of `make test` says what happened, and its exit code whether that is good."""

from pathlib import Path

import pytest

from e2e.summary import main

CASES = {
    "passes": '<testcase classname="t" name="a"/>',
    "fails": '<testcase classname="t" name="b"><failure/></testcase>',
    "cannot be set up": '<testcase classname="t" name="c"><error/></testcase>',
    "is skipped": '<testcase classname="t" name="d"><skipped/></testcase>',
}


@pytest.mark.parametrize(
    ("reports", "line", "code"),
    [
        (["passes", "passes"], "2 passed, 0 failed", 0),
        (["passes", "fails"], "1 passed, 1 failed", 1),
        (["passes", "cannot be set up"], "1 passed, 1 failed", 1),
        (["passes", "is skipped"], "skipped: t::d\n1 passed, 0 failed", 1),
        ([], "0 passed, 0 failed", 1),
    ],
    ids=["all pass", "a failure", "an error", "a skipped test", "no report"],
)
def test_a_run_succeeds_when_every_test_ran_and_passed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    reports: list[str],
    line: str,
    code: int,
) -> None:
    for number, report in enumerate(reports):
        (tmp_path / f"{number}.xml").write_text(f"<testsuites><testsuite>{CASES[report]}</testsuite></testsuites>")
    monkeypatch.setattr("sys.argv", ["summary", str(tmp_path)])
    assert main() == code
    assert capsys.readouterr().out == f"{line}\n"
