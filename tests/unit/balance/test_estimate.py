"""From windows to the model: utilisation law, visits by flow, errors that widen, priors and the ledger's memory."""

from __future__ import annotations

from dataclasses import replace
from math import log
from statistics import fmean, pstdev

import numpy as np
import pytest

from steelyard.api import AgenticRLJob, Stage
from steelyard.balance import signals
from steelyard.balance.closed_loop import TokenLatency
from steelyard.balance.estimate import Estimated, estimate
from steelyard.balance.known import Known, Remembered
from steelyard.balance.ledger import inputs_of, known
from steelyard.balance.model import Estimate, Load, Model
from steelyard.balance.observe import observe
from steelyard.balance.trainer_curve import EXPONENT, TrainerCurve, TrainerSize
from steelyard.balance.types import Series
from tests.builders import SLICE, WHOLE, a_revision
from tests.unit.balance.builders import NOW, START, Sheet, a_view, steady
from tests.unit.balance.loop import demo_job


def estimated(sheet: Sheet, job: AgenticRLJob | None = None, known: Known | None = None) -> Estimated:
    job = job or demo_job()
    return estimate(observe(a_view(job), sheet.rates(), NOW), job.spec, known or Known())


def model_of(sheet: Sheet, job: AgenticRLJob | None = None, known: Known | None = None) -> Model:
    model = estimated(sheet, job, known).model
    assert model is not None
    return model


def rate(model: Model, stage: Stage, profile: str = "whole") -> Estimate:
    return model.capacities.rates[stage][profile]


def test_reward_capacity_is_slots_over_service_demand() -> None:
    model = model_of(steady(trajectories=2, judge_seconds=0.4))
    assert rate(model, Stage.REWARD_SERVER).value == pytest.approx(1 / 0.4)


def test_trainer_capacity_comes_from_whole_steps() -> None:
    model = model_of(steady(trajectories=2, train_seconds=4, batch=32))
    assert rate(model, Stage.TRAINER).value == pytest.approx(32 / 4)


def test_environment_demand_is_slot_time_per_episode() -> None:
    workload = model_of(steady(tool_seconds=3, token_seconds=0.5)).workload
    assert workload.outside_seconds == pytest.approx(3)
    assert workload.waiting_seconds == pytest.approx(0.5)


def test_tokens_per_episode_follow_the_flow() -> None:
    assert model_of(steady(tokens=40)).workload.tokens == pytest.approx(40)


def test_slots_are_what_the_replicas_say_not_what_the_spec_says() -> None:
    assert model_of(steady(slots=6)).capacities.slots == 6


def test_the_error_of_the_trainer_is_that_of_its_steps_not_of_its_count_which_jumps_at_each_end() -> None:
    """Steps that all take the same are known to a scrape, however few fall into the window."""
    steady_steps = rate(model_of(steady(trajectories=2, train_seconds=8, batch=32)), Stage.TRAINER)
    assert steady_steps.value == pytest.approx(32 / 8)
    assert steady_steps.error < 0.05


def test_queues_inside_the_samplers_are_not_latency_that_more_samplers_would_keep() -> None:
    calm, crowded = steady(token_seconds=8.0, slots=64), steady(token_seconds=8.0, slots=64)
    for index in range(2):
        crowded.without(signals.REQUESTS_WAITING, f"sampler-whole-{index}")
        crowded.level(signals.REQUESTS_WAITING, f"sampler-whole-{index}", 6)
    for sheet in (calm, crowded):  # of the 8 s, the samplers' own latency explains 2
        for index in range(2):
            sheet.without(signals.TOKEN_LATENCY_SUM, f"sampler-whole-{index}")
            sheet.counter(signals.TOKEN_LATENCY_SUM, f"sampler-whole-{index}", 2.0 * 2.0 / 2)
    known = Known(latency={"whole": TokenLatency(0.05, 0.0, 64, 0.02)})
    assert model_of(calm, known=known).workload.overhead_seconds == pytest.approx(6.0, rel=0.05)
    assert model_of(crowded, known=known).workload.overhead_seconds == pytest.approx(0.0, abs=0.3)


def test_more_of_the_same_devices_is_less_of_a_guess_than_other_devices() -> None:
    pair = {"name": "pair", "resources": {"nvidia.com/gpu": 2}, "gpus": 2, "speedPercent": 190}
    many = {"name": "many", "resources": {"nvidia.com/gpu": 16}, "gpus": 16, "speedPercent": 900}
    job = demo_job({"budget.gpus": 32, "stages.trainer.gpuProfiles": [WHOLE, pair, many, SLICE]})
    model = model_of(steady(), job)
    known, twice, far, other = (rate(model, Stage.TRAINER, name) for name in ("whole", "pair", "many", "slice"))
    assert twice.value == pytest.approx(1.9 * known.value)
    assert known.error < twice.error < 0.15 < far.error <= other.error
    assert other.error > 0.3


def test_few_units_widen_the_error_and_do_not_freeze_the_estimate() -> None:
    many, few = model_of(steady(trajectories=4, batch=32)), model_of(steady(trajectories=4, batch=16))
    assert rate(few, Stage.REWARD_SERVER).value == pytest.approx(rate(many, Stage.REWARD_SERVER).value)
    assert rate(few, Stage.REWARD_SERVER).error > rate(many, Stage.REWARD_SERVER).error > 0


def test_unsteady_service_shows_in_the_batch_means() -> None:
    sheet = steady(trajectories=2, judge_seconds=0.3)
    unsteady = steady(trajectories=2, judge_seconds=0.3)
    unsteady.without(signals.STAGE_SECONDS, "reward-server-whole-0")
    busy = [0.6 * (at - NOW) + 20 * (int(at) % 40 > 20) + 200 for at in unsteady.instants]
    unsteady.add(signals.STAGE_SECONDS, "reward-server-whole-0", busy, state="busy")
    assert rate(model_of(unsteady), Stage.REWARD_SERVER).error > 2 * rate(model_of(sheet), Stage.REWARD_SERVER).error


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        ("reward-server-whole-0", "reward-server has finished no unit in the window"),
        ("trainer-whole-0", "trainer has finished no unit in the window"),
        ("environment-default-0", "environment has finished no unit in the window"),
    ],
)
def test_a_stage_without_units_is_unknown_and_said_so(broken: str, says: str) -> None:
    got = estimated(steady().without(signals.STAGE_UNITS, broken))
    assert got.model is None
    assert says in got.unknown


def test_an_idle_sampler_is_unknown_and_said_so() -> None:
    sheet = steady()
    for pod in ("sampler-whole-0", "sampler-whole-1"):
        sheet.without(signals.TOKEN_LATENCY_COUNT, pod)
    assert estimated(sheet).unknown == ("sampler has generated no token in the window",)


def test_losses_after_a_stage_raise_its_visits() -> None:
    """Half of what is scored comes too late and is made anew: two episodes and two scores for each that is trained."""
    sheet = steady(trajectories=2)
    sheet.steps(signals.STAGE_UNITS, "trainer-whole-0", 32, 16, outcome="stale")
    visits = model_of(sheet).workload.visits
    assert visits[Stage.ENVIRONMENT] == pytest.approx(2)
    assert visits[Stage.REWARD_SERVER] == pytest.approx(2)
    assert visits[Stage.TRAINER] == 1


def test_a_failed_trajectory_travels_on_and_is_lost_once() -> None:
    """One of three fails in the environment and is scored as a failure: 1.5 visits to both, not 2.25 to the first."""
    sheet = steady(trajectories=2)
    sheet.counter(signals.STAGE_UNITS, "environment-default-0", 1, outcome="timeout")
    sheet.counter(signals.STAGE_UNITS, "reward-server-whole-0", 1, outcome="timeout")
    visits = model_of(sheet).workload.visits
    assert visits[Stage.ENVIRONMENT] == pytest.approx(1.5)
    assert visits[Stage.REWARD_SERVER] == pytest.approx(1.5)


def test_one_load_does_not_identify_the_sampler() -> None:
    model = model_of(steady())
    assert model.capacities.latency == {}
    assert rate(model, Stage.SAMPLER).error > 0.5


def test_a_load_that_the_ledger_remembers_identifies_it() -> None:
    """Now 0.625 (counted as 1) sequences at 12.5 ms; the ledger saw 4 at 20 ms: tau = 0.01 + 0.0025·b."""
    known = Known(loads={"whole": [Load(4.0, 0.02, 4000.0)]})
    latency = model_of(steady(), known=known).capacities.latency["whole"]
    assert latency.alpha == pytest.approx(0.01)
    assert latency.beta == pytest.approx(0.0025)


def test_a_profile_never_tried_gets_the_speed_its_user_expects_and_a_wide_error() -> None:
    model = model_of(steady(trajectories=2, judge_seconds=0.4))
    assert rate(model, Stage.REWARD_SERVER, "slice").value == pytest.approx(0.45 * 2.5)
    assert rate(model, Stage.REWARD_SERVER, "slice").error >= 0.3


def test_a_profile_that_the_ledger_measured_needs_no_prior() -> None:
    known = Known({Stage.REWARD_SERVER: {"slice": Remembered({"slice": Estimate(2.0, 0.02)})}})
    slice_ = rate(model_of(steady(), known=known), Stage.REWARD_SERVER, "slice")
    assert slice_.value == 2.0
    assert slice_.error == pytest.approx(0.03)


@pytest.mark.parametrize(
    ("tokens", "seconds", "want"),
    [(40, 0.8, 2.0), (20, 0.8, 1.0), (20, 1.6, 1.0), (20, 0.5, 1.6), (80, 0.4, 2.0)],
    ids=[
        "as long, and the whole disappoints",
        "twice as long, and the whole takes twice as long",
        "four times as long: what length explains",
        "a little longer",
        "shorter, and the whole is as fast",
    ],
)
def test_what_longer_trajectories_cost_one_profile_they_cost_the_others(
    tokens: float, seconds: float, want: float
) -> None:
    """When trajectories had so many `tokens` a whole judge took 0.4 s and a slice 0.5 s. Now they have 40, and a whole
    takes so many seconds."""
    then = Remembered({"whole": Estimate(2.5, 0.02), "slice": Estimate(2.0, 0.02)}, tokens)
    model = model_of(
        steady(trajectories=0.5, judge_seconds=seconds, batch=8), known=Known({Stage.REWARD_SERVER: {"slice": then}})
    )
    assert rate(model, Stage.REWARD_SERVER, "slice").value == pytest.approx(want, rel=0.02)


def test_what_is_measured_now_beats_what_the_ledger_remembers() -> None:
    known = Known({Stage.REWARD_SERVER: {"whole": Remembered({"whole": Estimate(99.0, 0.0)})}})
    assert rate(model_of(steady(judge_seconds=0.4), known=known), Stage.REWARD_SERVER).value == pytest.approx(2.5)


def test_an_identified_sampler_stays_identified_when_its_load_settles() -> None:
    known = Known(latency={"whole": TokenLatency(0.01, 0.001, 64, 0.02)})
    latency = model_of(steady(), known=known).capacities.latency["whole"]
    assert latency.alpha == 0.01
    assert latency.error == pytest.approx(0.03)


def test_sync_is_counted_in_seconds_per_version() -> None:
    sheet = steady(trajectories=2, batch=32)
    for pod in ("sampler-whole-0", "sampler-whole-1"):
        sheet.counter(signals.STAGE_SECONDS, pod, 0.1, state="sync")  # a version every 16 s
    assert model_of(sheet).capacities.sync_seconds == pytest.approx(1.6, rel=0.1)


def test_a_backlog_before_the_judge_must_be_worked_off_within_the_horizon() -> None:
    sheet = steady().level(signals.BUFFER_DEPTH, "calculator-bus-0", 60, buffer="trajectories")
    assert model_of(sheet).catching_up[Stage.REWARD_SERVER] == pytest.approx(60 / 600)


def test_what_waits_for_the_trainer_asks_for_no_larger_one() -> None:
    """Admission bounds it: a trainer that is always busy has as much waiting however long the run is."""
    sheet = steady(trajectories=2, train_seconds=16, batch=32)
    sheet.level(signals.BUFFER_DEPTH, "calculator-bus-0", 92, buffer="experience")
    model = model_of(sheet)
    assert model.rate(Stage.TRAINER, START[Stage.TRAINER]) == pytest.approx(2.0, rel=0.02)


def with_trainers(replicas: int, sheet: Sheet) -> Sheet:
    """Ranks behind the first work as it does, and leave the counting of samples to it."""
    for rank in range(1, replicas):
        sheet.counter(signals.STAGE_SECONDS, f"trainer-whole-{rank}", 1, state="busy")
    return sheet


def trainer_model(replicas: int, sheet: Sheet, remembered: Known | None = None) -> Model:
    allocation = START.replace(Stage.TRAINER, {"whole": replicas})
    observed = observe(a_view(allocation=allocation), with_trainers(replicas, sheet).rates(), NOW)
    model = estimate(observed, demo_job().spec, remembered or Known()).model
    assert model is not None
    return model


def test_what_the_trainer_spends_on_publishing_is_part_of_its_service() -> None:
    sheet = steady(trajectories=2, train_seconds=4, batch=32)
    sheet.counter(signals.STAGE_SECONDS, "trainer-whole-0", 1 / 16, state="sync")  # a second at every step
    assert rate(model_of(sheet), Stage.TRAINER).value == pytest.approx(32 / 5)


def test_two_trainers_are_measured_together_and_one_alone_follows_from_the_curve() -> None:
    """f(n) = f(n0)·(n/n0)^0.9: what two do now is promised for two, not two to the 0.9 of it."""
    model = trainer_model(2, steady(trajectories=2, train_seconds=4, batch=32))
    assert model.rate(Stage.TRAINER, {"whole": 2}) == pytest.approx(32 / 4)
    assert model.rate(Stage.TRAINER, {"whole": 4}) == pytest.approx(32 / 4 * 2**EXPONENT)
    assert rate(model, Stage.TRAINER).value == pytest.approx(32 / 4 / 2**EXPONENT)


def test_three_sizes_of_the_trainer_replace_the_power_law() -> None:
    """Measured 5, 8 and now 10.7 samples/s at 1, 2 and 4 replicas: eight would do 11, where the power law says 32."""
    sizes = [TrainerSize(1, 5.0, 40.0), TrainerSize(2, 8.0, 40.0)]
    model = trainer_model(4, steady(trajectories=2, train_seconds=3, batch=32), Known(trainer_sizes={"whole": sizes}))
    assert model.rate(Stage.TRAINER, {"whole": 8}) == pytest.approx(11.0, rel=0.01)


def test_the_ledger_remembers_what_the_trainer_did_at_each_size() -> None:
    revisions = []
    for number, replicas in enumerate((1, 2), start=2):
        measured = trainer_model(replicas, steady(trajectories=2, train_seconds=4 / replicas, batch=32))
        before = START.replace(Stage.TRAINER, {"whole": replicas})
        revisions.append(a_revision(number, START, before=before, inputs=inputs_of(measured, 2.0)))
    sizes = known(revisions).trainer_sizes["whole"]
    assert [(size.replicas, round(size.rate, 2), round(size.tokens)) for size in sizes] == [(1, 8.0, 40), (2, 16.0, 40)]


def test_a_fitted_curve_goes_through_the_ledger() -> None:
    sizes = [TrainerSize(1, 5.0, 40.0), TrainerSize(2, 8.0, 40.0)]
    model = trainer_model(4, steady(trajectories=2, train_seconds=3, batch=32), Known(trainer_sizes={"whole": sizes}))
    before = START.replace(Stage.TRAINER, {"whole": 4})
    remembered = known([a_revision(2, START, before=before, inputs=inputs_of(model, 2.0))])
    assert remembered.trainer_sizes["whole"][0].rate == pytest.approx(32 / 3, rel=1e-3)


def test_a_ledger_that_somebody_wrote_odd_curves_into_is_read_all_the_same() -> None:
    inputs = {**inputs_of(trainer_model(1, steady()), 2.0), "trainer.contention": "-1", "trainer.coherency": "-1"}
    sizes = known([a_revision(2, START, before=START, inputs=inputs)]).trainer_sizes["whole"]
    assert sizes[0].rate == pytest.approx(model_of(steady()).rate(Stage.TRAINER, {"whole": 1}), rel=1e-3)
    assert TrainerCurve(0.0, 0.0).speedup(3) == 3


def test_idle_and_missing_are_told_apart() -> None:
    idle = steady().without(signals.STAGE_UNITS, "reward-server-whole-0")
    idle.level(signals.STAGE_UNITS, "reward-server-whole-0", 17, outcome="ok")
    gone = steady().without(signals.STAGE_SECONDS, "reward-server-whole-0")
    assert estimated(idle).unknown == ("reward-server has finished no unit in the window",)
    assert estimated(gone).unknown == ("reward-server has no pod with metrics",)


def test_a_replica_that_vanishes_takes_its_units_with_it_and_the_rest_is_measured_as_before() -> None:
    """Two environments played half the episodes each; one is gone, and half the episodes remain, each as long."""
    model = model_of(steady(environments=2, trajectories=2, tool_seconds=3))
    assert model.workload.outside_seconds == pytest.approx(3)


def test_errors_widen_with_fewer_units_and_stay_finite() -> None:
    """A window of five steps: 160, 40 and 10 units."""
    errors = [rate(model_of(steady(trajectories=2, batch=batch)), Stage.REWARD_SERVER).error for batch in (32, 8, 2)]
    assert errors == sorted(errors)
    assert 0 < errors[0] < errors[-1] <= 2


def test_waiting_is_explained_by_the_load_of_every_sampler() -> None:
    """One runs a quarter of a sequence at 6 ms a token, the other a whole one at 9 ms: of 0.5 s that an episode waits
    for its 40 tokens 0.3 s are decoding, whichever sampler is looked at first."""
    sheet = steady()
    for index, spent in enumerate((0.2, 0.8)):
        sheet.without(signals.TOKEN_LATENCY_SUM, f"sampler-whole-{index}")
        sheet.counter(signals.TOKEN_LATENCY_SUM, f"sampler-whole-{index}", spent)
    known = Known(latency={"whole": TokenLatency(0.005, 0.004, 64.0)})
    model = estimate(observe(a_view(), sheet.rates(), NOW), demo_job().spec, known).model
    assert model is not None
    assert model.workload.overhead_seconds == pytest.approx(0.2)


@pytest.mark.parametrize("seconds", [50.0, 6.0], ids=["scrapes in a step", "steps in a scrape"])
def test_the_trainers_error_is_as_large_as_windows_differ(seconds: float) -> None:
    """A hundred windows of steps that differ by a fifth, where ends are known to a scrape of 15 s."""
    chance, sheet, found, claimed = np.random.default_rng(1), steady(), [], []
    for _ in range(100):
        ends = np.cumsum(chance.normal(seconds, seconds / 5, 60))
        scrapes = chance.uniform(0, 15) + 15.0 * np.arange(24)
        steps, instants = np.searchsorted(ends, scrapes, "right").astype(float), NOW - scrapes[-1] + scrapes
        for metric, values, labels in (
            (signals.STAGE_SECONDS, scrapes, {"state": "busy"}),
            (signals.STAGE_UNITS, 32 * steps, {"outcome": "ok"}),
            (signals.STEP_COUNT, steps, {}),
        ):
            samples = tuple(zip(instants.tolist(), values.tolist(), strict=True))
            sheet.samples[metric]["trainer-whole-0"] = [Series(tuple(labels.items()), samples)]
        observed = observe(a_view(), replace(sheet.rates(), window_seconds=400), NOW, whole=True)
        window = replace(observed.window, scrape_seconds=15.0)  # of the trainer; the others are scraped every second
        model = estimate(replace(observed, window=window), demo_job().spec).model
        assert model is not None
        found.append(log(model.capacities.rates[Stage.TRAINER]["whole"].value))
        claimed.append(model.capacities.rates[Stage.TRAINER]["whole"].error)
    assert 0.75 * pstdev(found) < fmean(claimed) < 1.5 * pstdev(found)
