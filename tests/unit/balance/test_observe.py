"""Raw samples to windows: absent, stale and partial stay visible; idle is not missing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from steelyard.api import Allocation, Stage
from steelyard.balance import signals
from steelyard.balance.observe import observe
from steelyard.balance.types import Rates, Series
from tests.unit.balance.builders import NOW, START, Sheet, a_pod, a_view, pods_of, steady


def test_throughput_is_measured_between_step_ends() -> None:
    observed = observe(a_view(), steady(trajectories=2).rates(), NOW)
    assert observed.throughput == pytest.approx(2.0)


def test_the_window_spans_five_training_steps() -> None:
    observed = observe(a_view(), steady(trajectories=2, batch=32).rates(), NOW)
    assert observed.window.steps == 5
    assert observed.window.step_seconds == pytest.approx(16)
    assert observed.window.seconds == pytest.approx(88)  # the last step ended 8 s ago


def test_the_window_spans_at_least_four_scrapes() -> None:
    observed = observe(a_view(), steady(trajectories=64, batch=32).rates(), NOW)
    assert observed.window.seconds == pytest.approx(4)


def test_one_step_end_gives_no_throughput() -> None:
    observed = observe(a_view(), steady(trajectories=2, batch=200).rates(), NOW)
    assert observed.throughput is None


def test_nothing_before_the_allocation_came_into_force_is_used() -> None:
    observed = observe(a_view(), steady(trajectories=2).rates(), NOW, since=NOW - 40)
    assert observed.window.since == NOW - 40
    assert observed.window.steps == 1


def test_states_are_shares_of_slot_time() -> None:
    observed = observe(a_view(), steady(trajectories=2, tool_seconds=3, token_seconds=0.5, slots=8).rates(), NOW)
    shares = observed.stages[Stage.ENVIRONMENT].shares()
    assert shares == {"tool": pytest.approx(6 / 8), "tokens": pytest.approx(1 / 8), "starved": pytest.approx(1 / 8)}


def test_a_pod_without_series_is_missing_and_named() -> None:
    """kedacore/keda#3064: an empty result is unknown, never 0."""
    sheet = steady().without(signals.STAGE_SECONDS, "reward-server-whole-0")
    observed = observe(a_view(), sheet.rates(), NOW)
    assert observed.stages[Stage.REWARD_SERVER].rate() is None
    assert observed.missing == ("reward-server has no fresh metrics from 1 of 1 pods (reward-server-whole-0)",)


def test_a_stale_series_is_missing() -> None:
    job_allows = a_view().job.spec.scaling.max_metric_age_seconds
    observed = observe(a_view(), steady().rates(), NOW + job_allows + 1)
    assert len(observed.missing) == 4


def test_one_sampler_of_two_is_partial_coverage() -> None:
    sheet = steady(samplers=2).without(signals.TOKENS_GENERATED, "sampler-whole-1")
    observed = observe(a_view(), sheet.rates(), NOW)
    assert [pod.pod.name for pod in observed.stages[Stage.SAMPLER].pods] == ["sampler-whole-0"]
    assert observed.missing == ("sampler has no fresh metrics from 1 of 2 pods (sampler-whole-1)",)


def test_a_live_series_with_rate_zero_is_idle_not_missing() -> None:
    sheet = steady().without(signals.STAGE_UNITS, "reward-server-whole-0")
    sheet.level(signals.STAGE_UNITS, "reward-server-whole-0", 17, outcome="ok")
    observed = observe(a_view(), sheet.rates(), NOW)
    assert observed.missing == ()
    assert observed.stages[Stage.REWARD_SERVER].rate() == 0.0


def test_an_unready_or_terminating_pod_owes_no_metrics() -> None:
    pods = [
        *pods_of(START),
        a_pod("sampler-new", Stage.SAMPLER, ready=False),
        a_pod("sampler-old", Stage.SAMPLER, terminating=True),
    ]
    observed = observe(a_view(pods=pods), steady().rates(), NOW)
    assert observed.missing == ()


def test_a_deleted_pods_series_are_not_counted() -> None:
    """llm-d/llm-d-autoscaling#368: series are joined to live pods."""
    sheet = steady(environments=2)
    observed = observe(a_view(), sheet.rates(), NOW)  # the view has one environment pod, the metrics still two
    assert observed.stages[Stage.ENVIRONMENT].rate() == pytest.approx(1.0)


def test_a_replica_born_inside_the_window_counts_over_its_own_life() -> None:
    allocation = START.replace(Stage.ENVIRONMENT, {"default": 2})
    rates = steady(environments=2).rates()
    young = {
        metric: {
            pod: tuple(
                Series(one.labels, tuple(sample for sample in one.samples if sample[0] > NOW - 20))
                if pod == "environment-default-1"
                else one
                for one in series
            )
            for pod, series in pods.items()
        }
        for metric, pods in rates.samples.items()
    }
    observed = observe(a_view(allocation=allocation), replace(rates, samples=young), NOW)
    assert observed.stages[Stage.ENVIRONMENT].rate() == pytest.approx(2.0)


def test_messages_in_hand_are_no_backlog() -> None:
    """A buffer's depth counts messages until they are acknowledged; the trainer acknowledges only when it commits."""
    sheet = steady()
    bus, trainer = "calculator-bus-0", "trainer-whole-0"
    sheet.level(signals.BUFFER_DEPTH, bus, 20, buffer="tasks")
    sheet.level(signals.BUFFER_DEPTH, bus, 100, buffer="experience")
    sheet.level(signals.POLICY_VERSION, trainer, 6)  # commits every 4 steps: 2 steps of 32 are in hand
    observed = observe(a_view(), sheet.rates(), NOW)
    assert observed.backlogs[Stage.ENVIRONMENT].mean == pytest.approx(20 - 7)
    assert observed.backlogs[Stage.TRAINER].mean == pytest.approx(100 - 2 * 32)


def test_no_metrics_and_no_pods_are_no_error() -> None:
    observed = observe(a_view(allocation=Allocation(), pods=[]), Rates(), NOW)
    assert observed.throughput is None
    assert observed.missing == ()


def test_a_restarted_trainer_does_not_count_backwards() -> None:
    sheet = Sheet()
    half = len(sheet.instants) // 2
    rising = [float(index // 10 * 32) for index in range(half)]
    sheet.add(signals.STAGE_UNITS, "trainer-whole-0", [*rising, *rising, 0.0][: len(sheet.instants)], outcome="ok")
    sheet.counter(signals.STAGE_SECONDS, "trainer-whole-0", 1, state="busy")
    observed = observe(a_view(), sheet.rates(), NOW, whole=True)
    assert observed.trained.increase(NOW - 120, NOW) == pytest.approx(2 * 5 * 32)
