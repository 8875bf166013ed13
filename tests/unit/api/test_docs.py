"""The pages for users keep up with the code: whatever the operator may answer is explained."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
OPERATOR = ROOT / "operator" / "steelyard"
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text()


def words(folder: str, pattern: str) -> list[str]:
    source = "\n".join(file.read_text() for file in sorted((OPERATOR / folder).glob("*.py")))
    return sorted(set(re.findall(pattern, source)))


@pytest.mark.parametrize("kind", words("balance", r"(?:\bhold|Veto)\(\s*\"(\w+)\""))
def test_every_reason_to_change_nothing_is_explained(kind: str) -> None:
    assert f"`{kind}`" in PAGE


@pytest.mark.parametrize("condition", words("status", r"\"(\w+)\": (?:_|lambda)"))
def test_every_condition_is_explained(condition: str) -> None:
    assert re.search(rf"`{condition}\b", PAGE)


@pytest.mark.parametrize(
    "page", sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]), ids=lambda page: page.name
)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#:]+)\)", page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []
