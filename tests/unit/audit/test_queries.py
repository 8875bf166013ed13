"""What is asked is the job's and nobody else's, at a resolution that fits the span."""

import re

import pytest

from steelyard.api import Stage
from steelyard.audit import queries
from steelyard.audit.queries import Selector, grid

KNOWN = Selector("default", "calculator", ("default", "slice", "whole"))
UNKNOWN = Selector("default", "calculator")

PODS: dict[str, tuple[Stage, str] | None] = {
    "calculator-sampler-whole-7465874984-4xmk5": (Stage.SAMPLER, "whole"),
    "calculator-environment-84568769c8-5kfp2": (Stage.ENVIRONMENT, "default"),
    "calculator-reward-server-slice-75b945754d-jrhsr": (Stage.REWARD_SERVER, "slice"),
    "calculator-trainer-whole-0-6cvk4": (Stage.TRAINER, "whole"),
    "calculator-bus-0": None,
    "calculator-two-sampler-whole-7465874984-4xmk5": None,
    "my-calculator-sampler-whole-7465874984-4xmk5": None,
}


@pytest.mark.parametrize("name", PODS)
@pytest.mark.parametrize("of", [KNOWN, UNKNOWN], ids=["profiles known", "profiles unknown"])
def test_pods_are_known_by_their_names(of: Selector, name: str) -> None:
    assert of.pod(name) == PODS[name]


def test_another_job_whose_name_begins_like_ours_is_not_ours() -> None:
    assert KNOWN.pod("calculator-sampler-sampler-whole-7465874984-4xmk5") is None


def test_a_matcher_names_the_stages_that_are_asked_for() -> None:
    pattern = re.search(r'pod=~"([^"]+)"', KNOWN.pods(Stage.SAMPLER))
    assert pattern is not None
    assert re.fullmatch(pattern[1], "calculator-sampler-whole-7465874984-4xmk5")
    assert not re.fullmatch(pattern[1], "calculator-trainer-whole-0-6cvk4")


SPANS = {
    "ten minutes": (600, 2, 299, 301),
    "an hour": (3600, 15, 239, 240),
    "a day": (86400, 15, 5759, 5760),
    "a week": (7 * 86400, 105, 5750, 5760),
    "a minute": (60, 1, 59, 60),
}


@pytest.mark.parametrize("span", SPANS)
def test_up_to_a_day_is_read_at_15_seconds_or_finer(span: str) -> None:
    seconds, step, least, most = SPANS[span]
    found = grid(1000.0, 1000.0 + seconds)
    assert found.step == step
    assert least <= found.count <= most
    assert found.end == 1000.0 + seconds
    assert found.start - found.step >= 1000.0


def test_rates_look_at_four_scrapes_and_at_three_steps() -> None:
    asked = queries.lines(KNOWN, grid(0, 3600), scrape_seconds=30, step_seconds=90)
    assert "[120s]" in asked["states"]
    assert "[270s]" in asked["staleness"]
    assert "[15s]" not in "".join(asked.values())


def test_brackets_are_balanced() -> None:
    asked = {
        **queries.lines(UNKNOWN, grid(0, 3600), 15, None),
        **queries.totals(UNKNOWN, 3600),
        **queries.raw(UNKNOWN, 60),
        "scrapes": queries.scrapes(UNKNOWN),
    }
    for query in asked.values():
        bare = re.sub(r'"[^"]*"', "", query)
        assert all(bare.count(a) == bare.count(b) for a, b in ("()", "[]", "{}")), query
        assert 'namespace="default"' in query
