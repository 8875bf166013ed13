"""The pages for users keep up with the code: whatever the operator may answer is explained."""

import re
from pathlib import Path

import pytest

from steelyard.balance import signals
from steelyard.balance.diagnose.remedies import PAGE as PAGE_OF_SYMPTOMS
from steelyard.balance.diagnose.remedies import anchor
from steelyard.balance.types import Symptom

ROOT = Path(__file__).parents[3]
OPERATOR = ROOT / "operator" / "steelyard"
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text()


def words(folder: str, pattern: str) -> list[str]:
    source = "\n".join(file.read_text() for file in sorted((OPERATOR / folder).glob("*.py")))
    return sorted(set(re.findall(pattern, source)))


@pytest.mark.parametrize("kind", words("balance", r"(?:\bhold|_?[Jj]udged)\(\s*\"(\w+)\""))
def test_every_reason_to_change_nothing_is_explained(kind: str) -> None:
    assert f"`{kind}`" in PAGE


@pytest.mark.parametrize("condition", words("status", r"\"(\w+)\": (?:_|lambda)"))
def test_every_condition_is_explained(condition: str) -> None:
    assert re.search(rf"`{condition}\b", PAGE)


@pytest.mark.parametrize("symptom", Symptom)
def test_every_symptom_has_its_section(symptom: Symptom) -> None:
    assert f"\n## {anchor(symptom)}\n" in (ROOT / PAGE_OF_SYMPTOMS).read_text()


@pytest.mark.parametrize("metric", signals.ALL)
def test_every_metric_that_is_read_is_explained(metric: str) -> None:
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text()
    assert metric.removeprefix("vllm:").removesuffix("_sum").removesuffix("_count") in page


@pytest.mark.parametrize(
    "page", sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]), ids=lambda page: page.name
)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []
