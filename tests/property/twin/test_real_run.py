"""A twin fitted on one window of a real run: the calculator of the demo, recorded by `python -m e2e.record`."""

from pathlib import Path

import pytest

from steelyard.twin.calibrate import calibrated, predicted
from steelyard.twin.recording import read

RECORDED = Path(__file__).parent / "recordings" / "calculator.json"
"""45 s with 2 samplers, 2 environments and 1 reward server, then 45 s with 1, 4 and 2."""


def test_fitted_on_the_allocation_after_a_move_it_predicts_the_one_before() -> None:
    """The other way round it is a third too high: in the real run one in five trajectories was asked for in vain
    once they came at twice the rate, and the window before the move shows nothing of that."""
    run = read(RECORDED.read_bytes())
    before, after = run.windows
    expected = predicted(calibrated(run, after), run.job, before.allocation)
    assert expected == pytest.approx(run.observed(before).throughput, rel=0.25)
