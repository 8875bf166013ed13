"""Each command that a page shows is one that its program understands, and is run by a suite or said not to be."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

import pytest
from typer.core import TyperGroup
from typer.exceptions import TyperException
from typer.main import get_command

from steelyard.cli import app
from tests.documented.pages import PAGES, ROOT, Line, lines, lines_of
from tests.documented.runs import BEGINNINGS, ON_A_SERVER, WHOLE, run_by

KUBECTL = Path(sys.executable).with_name("kubectl")
FLAG = re.compile(r"^ +(?:(-\w), )?(--[\w-]+)", re.MULTILINE)
PLACE = re.compile(r"[A-Z]{2,}")
GROUPS = frozenset({"auth", "certificate", "config", "create", "rollout", "set", "top"})
"""Verbs of kubectl that have commands below them."""
HELM = frozenset({"install", "rollback", "template", "test", "uninstall", "upgrade"})
LINES = lines()


def understood_by_steelyard(words: list[str], *, whole: bool) -> None:
    """Typer reads the options, and nothing runs. What readers put their own in for, JOB say, is some name."""
    words = [word.lower() if PLACE.fullmatch(word) else word for word in words]
    if not whole and len(words) == 1:
        return
    group = get_command(app)
    assert isinstance(group, TyperGroup)
    context = group.make_context("steelyard", [], resilient_parsing=True)
    command = group.get_command(context, words[1])
    assert command, f"steelyard has no command {words[1]}"
    for file in (word for word in words[2:] if re.fullmatch(r"[\w-]+\.(jsonl|json|csv|yaml)", word)):
        Path(file).touch()
    try:
        command.make_context(words[1], words[2:], parent=context)
    except TyperException as error:
        if whole or type(error).__name__ != "MissingParameter":
            raise AssertionError(f"{' '.join(words)}: {error}") from error


def understood_by_kubectl(words: list[str], *, whole: bool) -> None:
    """Each flag is one of the command's own `--help`, or of `kubectl options`."""
    if words[1] == "steelyard":
        return understood_by_steelyard(words[1:], whole=whole)
    depth = 2 if words[1] in GROUPS and not words[2].startswith("-") else 1
    known = flags_of(*words[1 : 1 + depth])
    for word in (word for word in words[1 + depth :] if word.startswith("-") and word != "-"):
        flag = word.partition("=")[0] if word.startswith("--") else word[:2]
        assert flag in known, f"kubectl {words[1]} has no flag {flag}"
    return None


@cache
def help_of(*command: str) -> str:
    done = subprocess.run([KUBECTL, *command, "--help"], capture_output=True, text=True, check=False, timeout=20)
    assert done.returncode == 0, f"kubectl {' '.join(command)} is no command: {done.stderr}"
    return done.stdout


@cache
def flags_of(*command: str) -> set[str]:
    everywhere = subprocess.run([KUBECTL, "options"], capture_output=True, text=True, check=True, timeout=20).stdout
    return {name for found in FLAG.findall(help_of(*command) + everywhere) for name in found if name}


def understood_by_make(words: list[str], *, whole: bool) -> None:
    makefile = (ROOT / "Makefile").read_text()
    for word in words[1:]:
        variable = word.partition("=")[0]
        what = rf"^{variable} \?=" if "=" in word else rf"^{word}:.*## "
        assert re.search(what, makefile, re.MULTILINE), f"the Makefile has no {variable}"


def understood_by_helm(words: list[str], *, whole: bool) -> None:
    """Its options are for the real helm to judge: tests/integration/chart/test_documented.py asks it."""
    assert words[1] in HELM, f"helm has no command {words[1]}"
    charts = [word for word in words[2:] if word.startswith("charts/")]
    assert [chart for chart in charts if not (ROOT / chart / "Chart.yaml").is_file()] == []


def understood_by_pip(words: list[str], *, whole: bool) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert words[1] == "install"
    assert re.fullmatch(rf"\.\[({'|'.join(extras)})\]", words[2])


def understood_by_python(words: list[str], *, whole: bool) -> None:
    if words[1] == "-m":
        assert find_spec(words[2]), f"no module {words[2]}"
    else:
        assert (ROOT / words[1]).is_file()


def understood_by_pytest(words: list[str], *, whole: bool) -> None:
    assert (ROOT / words[1]).exists()


def taken_as_it_is(words: list[str], *, whole: bool) -> None:
    """Neither ours nor about ours."""


class Understands(Protocol):
    """Asserts that a program understands the words; not `whole`: arguments may be left out."""

    def __call__(self, words: list[str], *, whole: bool) -> None: ...


PROGRAMS: dict[str, Understands] = {
    "kubectl": understood_by_kubectl,
    "steelyard": understood_by_steelyard,
    "make": understood_by_make,
    "helm": understood_by_helm,
    "pip": understood_by_pip,
    "python": understood_by_python,
    ".venv/bin/pytest": understood_by_pytest,
    **dict.fromkeys(("export", "grep", "uvx"), taken_as_it_is),
}


def understood(line: Line) -> None:
    for words in line.commands():
        assert words[0] in PROGRAMS, f"{line}: nothing checks {words[0]}; is the block no shell? Then name its language"
        try:
            PROGRAMS[words[0]](words, whole=not line.in_prose)
        except AssertionError as error:
            raise AssertionError(f"{line}: {error}") from error


@pytest.fixture
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that a command reads are made in a folder of the test."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("_elsewhere")
@pytest.mark.parametrize("page", sorted({line.page for line in LINES}))
def test_programs_understand_what_a_page_shows(page: str) -> None:
    for line in LINES:
        if line.page == page:
            understood(line)


def test_pages_that_show_commands_were_read() -> None:
    assert len(PAGES) > 25
    assert {line.page for line in LINES} >= {"README.md", "docs/quickstart.md", "docs/tasks.md", "docs/gitops.md"}


def test_each_command_of_a_block_is_run_by_a_test_or_said_not_to_be() -> None:
    blocks = [line for line in LINES if not line.in_prose]
    places = {run_by(words) for line in blocks for words in line.commands() if words[0] != "grep"}
    assert {*WHOLE.values(), *BEGINNINGS.values()} <= places, "nothing to run is left for one of them"


@pytest.mark.parametrize("place", sorted({ON_A_SERVER, *WHOLE.values(), *BEGINNINGS.values()}))
def test_what_runs_commands_is_there(place: str) -> None:
    file, found, function = place.partition("::")
    assert f"def {function}(" in (ROOT / file).read_text() if found else place.startswith("nowhere: ")


def test_a_command_that_nothing_runs_is_found() -> None:
    with pytest.raises(AssertionError, match="does not say what runs it"):
        run_by(["rm", "-rf", "/"])


WRONG = {
    "an option that a command does not have": "```\nsteelyard plan --modle x\n```",
    "a command that there is not": "see `steelyard frobnicate JOB`",
    "a flag that kubectl does not have": "```sh\nkubectl get arj --colour\n```",
    "a verb that kubectl does not have": "```\nkubectl fetch arj\n```",
    "a target that there is not": "`make coffee`",
    "a chart that there is not": "```\nhelm install steelyard charts/coffee\n```",
    "a program that nobody checks": "```console\n$ curl example.org\n```",
    "a second command on a line": "```\nmake help && kubectl fetch arj\n```",
}


@pytest.mark.usefixtures("_elsewhere")
@pytest.mark.parametrize("case", WRONG)
def test_what_no_program_understands_is_found(case: str) -> None:
    (line,) = lines_of("page.md", WRONG[case])
    with pytest.raises(AssertionError):
        understood(line)


def test_lines_are_put_together_as_a_shell_does() -> None:
    shown = "$ kubectl get \\\n    arj   # all of them\nNAME  PHASE\n$ kubectl create -f - <<EOF\nkind: X\nEOF"
    page = f"```console\n{shown}\n```\n"
    first, second = lines_of("page.md", page)
    assert first.commands() == [["kubectl", "get", "arj"]]
    assert second.commands() == [["kubectl", "create", "-f", "-"]]
    assert (first.number, second.number) == (2, 5)
    assert second.text == "kubectl create -f - <<EOF\nkind: X\nEOF"
