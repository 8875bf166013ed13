"""What the demo draws, and what it makes of pods and revisions."""

from fractions import Fraction
from typing import Any

import pytest

from e2e.demo.gpus import gpu_value, gpus_held
from e2e.demo.report import revision_row
from e2e.demo.screen import BAR, moves, time_bar

PRICES = {("sampler", "whole"): Fraction(1), ("reward-server", "slice"): Fraction(1, 2)}


def pod(stage: str, profile: str, *, node: str | None = "node-1", phase: str = "Running", **metadata: Any) -> Any:
    labels = {"steelyard.dev/stage": stage, "steelyard.dev/profile": profile}
    return {"metadata": {"labels": labels, **metadata}, "spec": {"nodeName": node}, "status": {"phase": phase}}


@pytest.mark.parametrize(
    "shares",
    [
        {"busy": 1.0},
        {"busy": 0.5, "tool": 0.5},
        {"busy": 1 / 3, "tool": 1 / 3, "tokens": 1 / 3},
        {"sync": 0.001, "tool": 0.999},
    ],
)
def test_a_bar_is_always_exactly_full(shares: dict[str, float]) -> None:
    assert len(time_bar(shares).plain) == BAR


def test_a_stage_without_series_shows_no_data_and_not_an_empty_bar() -> None:
    assert time_bar(None).plain.strip() == "no data"


def test_gpus_count_for_bound_pods_that_have_not_ended_terminating_ones_included() -> None:
    pods = [
        pod("sampler", "whole"),
        pod("reward-server", "slice", deletionTimestamp="2026-01-01T00:00:00Z"),
        pod("sampler", "whole", node=None, phase="Pending"),
        pod("sampler", "whole", phase="Succeeded"),
        pod("environment", "default"),
    ]
    assert gpus_held(pods, PRICES) == Fraction(3, 2)


@pytest.mark.parametrize(("quantity", "want"), [(1, Fraction(1)), ("2", Fraction(2)), ("500m", Fraction(1, 2))])
def test_gpu_quantities(quantity: str | int, want: Fraction) -> None:
    assert gpu_value(quantity) == want


def test_a_move_names_stages_and_profiles_and_both_counts() -> None:
    before = {"sampler": {"whole": 2}, "environment": {"default": 1}, "trainer": {"whole": 1}}
    after = {
        "sampler": {"whole": 1},
        "environment": {"default": 1},
        "rewardServer": {"whole": 1},
        "trainer": {"whole": 1},
    }
    assert moves({"before": before, "after": after}) == "sampler whole 2→1, rewardServer whole 0→1"


def test_what_nobody_judged_or_measured_is_null_in_the_report() -> None:
    spec = {"number": 2, "allocation": {"after": {}}, "reason": "because"}
    row = revision_row({"spec": spec, "status": {"phase": "Settling", "measured": {"throughputBefore": "8.1"}}})
    assert (row["verdict"], row["throughputBefore"], row["throughputAfter"]) == (None, 8.1, None)
