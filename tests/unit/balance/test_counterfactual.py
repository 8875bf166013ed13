"""What the model of before becomes under the workload of now: what is drift, and what the move did."""

from __future__ import annotations

from dataclasses import replace

import pytest

from steelyard.api import Stage
from steelyard.balance.counterfactual import LEAST_ERROR, drifted, throughput_error
from steelyard.balance.model import Estimate, Model
from steelyard.balance.observe import observe
from tests.unit.balance.builders import NOW, START, a_view, steady
from tests.unit.balance.test_model import LATENCY, a_model


def measured(longer: float = 1.0, judge: float = 4.0, trainer: float = 8.0, room: float = LATENCY.most) -> Model:
    """Trajectories so much longer than 40 tokens; samples a second of a judge and a trainer; sequences of a sampler."""
    latency = replace(LATENCY, most=room)
    rates = {
        Stage.SAMPLER: {"whole": Estimate(latency.capacity)},
        Stage.REWARD_SERVER: {"whole": Estimate(judge)},
        Stage.TRAINER: {"whole": Estimate(trainer)},
    }
    return a_model(
        workload=replace(a_model().workload, tokens=40 * longer),
        capacities=replace(a_model().capacities, rates=rates, latency={"whole": latency}),
    )


SLOWER: dict[str, tuple[Model, float]] = {
    "as fast as before": (measured(), 8.0),
    "slower although trajectories are alike: the move's doing": (measured(trainer=4.0), 8.0),
    "slower by less than trajectories got longer: drift": (measured(longer=3.0, trainer=5.0), 5.0),
    "slower by more than they got longer: drift as far as that": (measured(longer=2.0, trainer=2.0), 4.0),
    "faster with shorter trajectories: drift": (measured(longer=0.5, trainer=12.0), 12.0),
    "faster with longer ones: not what length explains": (measured(longer=2.0, trainer=12.0), 8.0),
}


@pytest.mark.parametrize("case", SLOWER)
def test_what_length_explains_is_drift_and_the_rest_is_the_moves_doing(case: str) -> None:
    now, want = SLOWER[case]
    found = drifted(measured(), now, START)
    assert found.rate(Stage.TRAINER, START[Stage.TRAINER]) == pytest.approx(want)
    assert found.rate(Stage.REWARD_SERVER, START[Stage.REWARD_SERVER]) == pytest.approx(4.0)


def test_a_profile_that_the_move_brought_tells_through_what_was_expected_of_it() -> None:
    """The judges came to slices, of which half the speed was expected; a quarter less is what longer answers cost."""
    then, now = measured(), measured(longer=2.0)
    for model, rate in ((then, 2.0), (now, 1.5)):
        model.capacities.rates[Stage.REWARD_SERVER]["slice"] = Estimate(rate)  # type: ignore[index]
    found = drifted(then, now, START.replace(Stage.REWARD_SERVER, {"slice": 2}))
    assert found.rate(Stage.REWARD_SERVER, {"whole": 1}) == pytest.approx(3.0)


def test_a_sampler_would_have_no_more_room_for_long_sequences_than_it_has_now() -> None:
    found = drifted(measured(), measured(longer=2.0, room=16), START).capacities
    assert found.latency["whole"].most == 16
    assert found.rates[Stage.SAMPLER]["whole"].value == pytest.approx(16 / LATENCY.at(16))


def test_one_interval_does_not_tell_by_how_much_intervals_differ() -> None:
    """Two step ends, so one interval: 2 % would let it condemn a move, half is what it is worth. Of six it is seen."""
    few, many = (observe(a_view(), steady().rates(), NOW, NOW - seconds, whole=True) for seconds in (40, 115))
    assert (few.window.steps, many.window.steps) == (1, 6)
    assert throughput_error(few) == 0.5
    assert throughput_error(many) == LEAST_ERROR
