"""What all commands share: options, streams, formats, codes, exits."""

from __future__ import annotations

import io
import json
import re
import shlex
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import pytest
import typer
import yaml
from typer.testing import CliRunner

from steelyard.cli import COMMANDS, app, output
from steelyard.cli.codes import CODES, Exit
from steelyard.cli.output import Cell, Column, Format, Tinted, Tone
from steelyard.cli.session import MEANINGS, SHARED, Session, with_session
from steelyard.cluster import errors
from steelyard.cluster.errors import ClusterError
from tests.unit.cli.fake_kubectl import FakeKubectl, State
from tests.unit.test_documented import understood_by_steelyard

ROOT = Path(__file__).parents[3]


def hello(
    session: Session,
    name: Annotated[str, typer.Option()],
    output: output.Output = Format.TABLE,
    headers: output.NoHeaders = False,
) -> Exit | None:
    """Say who asks where."""
    del headers
    kubectl = session.kubectl
    typer.echo(f"{name} {session.namespace} {kubectl.context} {kubectl.kubeconfig} {kubectl.impersonate} {output}")
    return Exit.NEGATIVE if name == "nobody" else None


def invoke(*arguments: str) -> tuple[int, str, str]:
    alone = typer.Typer(rich_markup_mode=None)
    alone.command("hello")(with_session(hello))
    result = CliRunner().invoke(alone, list(arguments))
    return result.exit_code, result.stdout, result.stderr


def test_a_session_has_the_options_of_kubectl() -> None:
    code, out, _ = invoke(
        *("--name", "me", "-n", "team", "--context", "prod", "--kubeconfig", "/k", "--as", "her", "-o", "wide")
    )
    assert (code, out) == (0, "me team prod /k her wide\n")


def test_the_options_of_kubectl_may_stand_before_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    state, asked = State(), list[tuple[str, ...]]()

    def kubectl(*who: str) -> FakeKubectl:
        asked.append(who)
        return FakeKubectl(state)

    monkeypatch.setattr("steelyard.cli.session.from_environment", kubectl)
    for namespace in (["-n", "team"], ["--namespace=team"]):
        options = [*namespace, "--context", "prod", "--kubeconfig=/k", "--as", "her"]
        assert CliRunner().invoke(app, [*options, "status", "-o", "name"]).exit_code == 0
    assert asked == [("prod", "/k", "her")] * 2
    assert all("/namespaces/team/" in call[1] for call in state.calls)
    assert all(f" {option}" in command_help("status") for option in SHARED)
    assert CliRunner().invoke(app, ["-n", "team"]).exit_code == 2


def test_what_a_command_returns_is_its_exit_code() -> None:
    assert invoke("--name", "nobody", "-n", "team")[0] == 3


def test_a_wrong_option_is_a_usage_error() -> None:
    code, out, err = invoke("--name", "me", "--nowhere", "x")
    assert (code, out) == (2, "")
    assert "--nowhere" in err


@pytest.mark.parametrize(
    ("error", "exit_code", "want"),
    [
        (errors.Forbidden("pods is forbidden"), 6, r"^SY1004 pods is forbidden \(see docs/messages.md#sy1004\)\n$"),
        (errors.NotFound("it is not there"), 6, r"^SY1006 it is not there \("),
        (errors.NotServed("no such resource"), 6, r"^SY1006 no such resource; is Steelyard installed\?"),
        (errors.Unauthorized("who are you"), 6, r"^SY1005 .*; `kubectl get --raw /version` logs in"),
        (errors.NoKubectl("kubectl: no such file"), 1, r"^SY1001 .*install kubectl"),
        (errors.Unreachable("no such host"), 1, r"^SY1003 no such host \("),
        (errors.Expired("too old"), 1, r"^SY1009 "),
    ],
)
def test_errors_of_the_cluster_become_a_line_with_a_code(
    error: ClusterError, exit_code: int, want: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(session: Session) -> None:
        raise error

    with pytest.raises(typer.Exit) as ended:
        with_session(fails)(namespace=None, context=None, kubeconfig=None, as_user=None)
    assert ended.value.exit_code == exit_code
    said = capsys.readouterr()
    assert said.out == ""
    assert re.search(want, said.err)


def test_whoever_ends_a_watch_sees_no_complaint(capsys: pytest.CaptureFixture[str]) -> None:
    def watches(session: Session) -> None:
        raise KeyboardInterrupt

    with pytest.raises(typer.Exit) as ended:
        with_session(watches)(namespace=None, context=None, kubeconfig=None, as_user=None)
    assert ended.value.exit_code == 130
    assert capsys.readouterr() == ("", "")


def test_every_error_of_the_cluster_has_a_meaning() -> None:
    kinds = [kind for kind, _, _ in MEANINGS]
    for place, kind in enumerate(kinds):
        assert not any(issubclass(kind, earlier) for earlier in kinds[:place]), f"{kind} can never be reached"
    assert kinds[-1] is ClusterError


def test_every_code_has_its_section_and_every_section_its_code() -> None:
    page = (ROOT / output_page()).read_text("utf-8")
    sections = dict(re.findall(r"^### (SY\d{4})\n\n\*\*(.+?)\.\*\*", page, re.MULTILINE))
    assert sections == {code.name: code.title for code in CODES}
    assert len(sections) == len(CODES) == len(re.findall(r"^### ", page, re.MULTILINE))


def output_page() -> str:
    (page,) = {code.anchor.partition("#")[0] for code in CODES}
    return page


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_says_what_each_says_itself(name: str) -> None:
    attribute = name.replace("-", "_")
    command = getattr(import_module(f"steelyard.cli.commands.{attribute}"), attribute)
    assert command.__doc__.partition("\n\n")[0] == COMMANDS[name]


def command_help(name: str) -> str:
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, [name, "-h"])
    assert result.exit_code == 0
    return result.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_every_command_speaks_to_people(name: str) -> None:
    told = command_help(name)
    assert "Exit codes: 0" in " ".join(told.split())
    assert "[[" not in told.splitlines()[0]
    options = told.partition("\nOptions:\n")[2]
    assert not re.findall(r"--[\w-]+ <\w+[^>]*>", options), "the value of an option is called what it is"


@pytest.mark.parametrize("name", COMMANDS)
def test_the_examples_of_every_command_are_understood(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for example in re.findall(r"^  \$ (.+)$", command_help(name), re.MULTILINE):
        words = shlex.split(example.partition(" > ")[0])
        assert words[:2] == ["steelyard", name]
        understood_by_steelyard(words, whole=True)


READING = ("status", "tree", "top", "history", "explain", "why-not", "trace", "audit", "check", "logs", "plan", "twin")


@pytest.mark.parametrize("name", READING)
def test_every_answer_is_there_for_programs(name: str) -> None:
    formats = re.search(r"--output ([\w|.]+)", command_help(name))
    assert formats
    assert "json" in formats[1].split("|")


def test_every_document_has_a_schema_and_every_schema_a_test() -> None:
    cli, tests = ROOT / "operator/steelyard/cli", ROOT / "tests/unit/cli"
    code = "".join(file.read_text("utf-8") for file in cli.rglob("*.py"))
    written = set(re.findall(r'\b(?:write|show|document)\("(\w+)"', code))
    schemas = "".join(file.read_text("utf-8") for file in tests.glob("documents*.py"))
    assert written == set(re.findall(r'    kind: Literal\["(\w+)"\]\n    items:', schemas))
    assert len(written) > 10
    users = "".join(file.read_text("utf-8") for file in tests.glob("*.py") if not file.name.startswith("documents"))
    assert [kind for kind in written if not re.search(rf"import [^\n]*\b{kind}\b", users)] == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["top", "calculator", "-o", "name"], "name is none of table, json, yaml"),
        (["history", "calculator", "-o", "wide"], "wide is none of table, json, yaml"),
        (["pause", "calculator", "-o", "wide"], "wide is none of table, json, yaml, name"),
        (["status", "calculator", "-A"], "name its namespace with -n"),
        (["status", "--timeout", "soon"], "'soon' is no duration"),
        (["history", "calculator", "--since", "soon"], "'soon' is neither a duration (5m) nor a time"),
        (
            ["explain", "calculator", "--prometheus", "there"],
            "there: neither http(s)://host:port nor namespace/service",
        ),
        (["audit", "calculator", "--prometheus", "http://a:b"], "http://a:b: Port could not be cast"),
        (["status", ""], "'' is no name of a job"),
        (["explain", "a?watch=true"], "'a?watch=true' is no name of a job"),
        (["audit", ""], "'' is no name of a job"),
        (["status", "-n", "../x"], "'../x' is no name of a namespace"),
        (["statsu"], "No such command 'statsu'. Did you mean 'status'?"),
    ],
)
def test_what_a_command_cannot_do_is_wrong_usage_and_not_passed_over(arguments: list[str], says: str) -> None:
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert says in result.stderr


def test_the_version_is_told() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"{version('steelyard')}\n")


def test_help_lists_every_command() -> None:
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["--help"])
    assert result.exit_code == 0
    assert all(re.search(rf"^  {name}\s", result.stdout, re.MULTILINE) for name in COMMANDS)


def test_a_table_has_the_columns_that_were_asked_for_and_no_colour_off_a_terminal() -> None:
    columns = [Column("NAME"), Column("PHASE"), Column("WHY", wide=True)]
    rows: list[list[Cell]] = [["calculator", Tinted("Running", Tone.GOOD), "fine"], ["a", "", "unknown"]]
    assert output.table(columns, rows, wide=False, headers=True) == [
        "NAME         PHASE",
        "calculator   Running",
        "a            -",
    ]
    assert output.table(columns, rows, wide=True, headers=False)[0] == "calculator   Running   fine"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("environment", "want"),
    [
        ({}, "\x1b[32mgood\x1b[0m"),
        ({"NO_COLOR": "1"}, "good"),
        ({"NO_COLOR": ""}, "\x1b[32mgood\x1b[0m"),
        ({"TERM": "dumb"}, "good"),
    ],
    ids=["a terminal", "NO_COLOR", "an empty NO_COLOR", "a dumb terminal"],
)
def test_colours_show_only_where_they_can(
    environment: dict[str, str], want: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert output.paint("good", Tone.GOOD, Terminal()) == want
    assert output.paint("good", Tone.GOOD, io.StringIO()) == "good"


@pytest.mark.parametrize(("output_format", "load"), [(Format.JSON, json.loads), (Format.YAML, yaml.safe_load)])
def test_documents_for_programs_name_their_version_and_kind(
    output_format: Format, load: object, capsys: pytest.CaptureFixture[str]
) -> None:
    output.write("JobList", [{"name": "größer"}], output_format)
    assert callable(load)
    assert load(capsys.readouterr().out) == {
        "apiVersion": "cli.steelyard.dev/v1",
        "kind": "JobList",
        "items": [{"name": "größer"}],
    }
