"""What more trainer replicas add: a power law first, the universal scalability law once three sizes were seen."""

from __future__ import annotations

import pytest

from steelyard.balance.trainer_curve import EXPONENT, TrainerCurve, TrainerSize, fitted


def size(replicas: int, rate: float, tokens: float = 1000.0) -> TrainerSize:
    return TrainerSize(replicas, rate, tokens)


def usl(contention: float, coherency: float, *replicas: int) -> list[TrainerSize]:
    curve = TrainerCurve(contention, coherency)
    return [size(n, 5.0 * curve.speedup(n)) for n in replicas]


def test_one_or_two_sizes_leave_the_power_law() -> None:
    for seen in ([], [size(2, 9.0)]):
        assert fitted(size(4, 16.0), seen).speedup(8) == pytest.approx(8**EXPONENT)


def test_three_sizes_give_back_the_law_that_made_them() -> None:
    *before, now = usl(0.05, 0.002, 1, 2, 4)
    curve = fitted(now, before)
    assert curve.contention == pytest.approx(0.05)
    assert curve.coherency == pytest.approx(0.002)


def test_a_trainer_that_slows_itself_down_is_told_so() -> None:
    """With kappa 0.05 the peak is at about four replicas: eight train less than four."""
    *before, now = usl(0.1, 0.05, 1, 2, 4)
    curve = fitted(now, before)
    assert curve.speedup(8) < curve.speedup(4)


def test_better_than_linear_counts_as_linear() -> None:
    curve = fitted(size(4, 24.0), [size(1, 5.0), size(2, 11.0)])
    assert curve.speedup(8) == pytest.approx(8)


def test_noise_never_makes_a_coefficient_negative() -> None:
    curve = fitted(size(4, 16.0), [size(1, 5.0), size(2, 8.0), size(3, 13.5)])
    assert curve.contention is not None
    assert curve.contention >= 0
    assert curve.coherency >= 0


def test_the_newest_measurement_of_a_size_counts() -> None:
    *before, now = usl(0.05, 0.0, 1, 2, 4)
    assert fitted(now, [size(2, 1.0), *before]).contention == pytest.approx(0.05)


def test_sizes_seen_under_other_lengths_do_not_count() -> None:
    """Trajectories four times as long would make two replicas look slower than one."""
    assert fitted(size(4, 16.0, tokens=4000), [size(1, 20.0), size(2, 38.0)]) == TrainerCurve()
