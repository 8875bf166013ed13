"""A twin fitted on one window of a real run: the calculator of the demo, recorded by `python -m e2e.record`."""

from math import exp
from pathlib import Path

import pytest

from steelyard.twin.calibrate import calibrated, predicted
from steelyard.twin.recording import read

RECORDED = Path(__file__).parent / "recordings" / "calculator.json"
"""45 s with 2 samplers, 2 environments and 1 reward server, then 45 s with 1, 4 and 2."""


@pytest.mark.parametrize(("fitted", "other"), [(0, 1), (1, 0)], ids=["the one after", "the one before"])
def test_fitted_on_one_allocation_it_predicts(fitted: int, other: int) -> None:
    """At twice the rate one trajectory in five was too old for the trainer and made anew; the window before the move
    shows next to nothing of that, but the twin's trainer has the same rule."""
    run = read(RECORDED.read_bytes())
    profile, wanted = calibrated(run, run.windows[fitted]), run.windows[other]
    expected = predicted(profile, run.job, wanted.allocation)
    assert expected == pytest.approx(run.observed(wanted).throughput, rel=0.15)


def test_what_token_latency_does_not_explain_is_time_outside_the_samplers() -> None:
    """Queues, prefill and HTTP keep an episode as a tool does."""
    recorded = read(RECORDED.read_bytes())
    window = recorded.windows[0]
    model = recorded.estimated(window).model
    assert model is not None
    assert model.workload.overhead_seconds > 0
    ((_, tool),) = calibrated(recorded, window).tools.parts
    mean = tool.median * exp(tool.sigma**2 / 2)
    assert mean == pytest.approx(model.workload.outside_seconds + model.workload.overhead_seconds)
