"""The page of commands."""

from pathlib import Path

from steelyard.cli.reference import generated

ROOT = Path(__file__).parents[3]


def test_the_page_of_commands_is_their_help() -> None:
    assert {name: (ROOT / name).read_text() for name in generated(ROOT)} == generated(ROOT), "run `make generate`"
