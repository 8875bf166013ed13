"""A twin that was fitted on one allocation of a job predicts the throughput of others."""

import pytest

from steelyard.twin.calibrate import calibrated, predicted
from steelyard.twin.jobs import split
from tests.unit.twin.recorder import here, job, recorded

OTHERS = {
    "fewer judges": (4, 1, 12),
    "a smaller trainer": (4, 3, 4),
    "fewer samplers": (2, 3, 12),
    "where it was fitted": (4, 3, 12),
}


@pytest.mark.parametrize(("samplers", "judges", "trainer"), OTHERS.values(), ids=OTHERS)
def test_a_twin_fitted_on_one_allocation_predicts_another(samplers: int, judges: int, trainer: int) -> None:
    other = recorded(split(job(), samplers, judges, trainer), seed=4)
    measured = other.observed(other.windows[0]).throughput
    expected = predicted(calibrated(here(), here().windows[0]), other.job, other.windows[0].allocation)
    assert expected == pytest.approx(measured, rel=0.1)
