"""Whole audits: of the simulated demo, of a job that is gone, of nothing at all."""

from dataclasses import replace

import pytest

from steelyard.api import Stage
from steelyard.audit.coarse import coarse
from steelyard.audit.glance import Glance, layers, recommended, usual_bottleneck
from steelyard.audit.report import Audit, audit, questions, verdict
from steelyard.audit.settings import settings, yaml_of
from steelyard.audit.text import text
from steelyard.balance.types import Bottleneck, Finding, Symptom
from tests.builders import a_job, an_allocation
from tests.unit.audit.builders import a_line, a_record, applied, replicas, states
from tests.unit.audit.simulated import recorded


@pytest.fixture(scope="module")
def report() -> Audit:
    return audit(recorded(), 2.5)


def test_the_line_above_all_names_the_bottleneck_the_work_and_what_moves_saved(report: Audit) -> None:
    said = verdict(report)
    assert said.startswith("The environment holds this pipeline back; ")
    assert "GPU-hours were work; moves saved" in said


def test_the_three_questions_are_answered_with_figures(report: Audit) -> None:
    where, what, worth = questions(report)
    assert where.answer.startswith("The biggest wait: trainer has no batch of experience, ")
    assert "cost" in where.more
    assert what.answer.startswith("The environment: ")
    assert "docs/symptoms.md#" in what.more
    assert worth.answer.startswith("No. Do not reallocate: ")
    assert "With other bounds" in worth.more


def test_gpu_hours_are_the_budget_over_time_and_their_cost_is_their_price(report: Audit) -> None:
    """Four GPUs for eight minutes, less the seconds in which nothing was there to be scraped."""
    assert report.time is not None
    assert report.time.held == pytest.approx(4 * 480 / 3600, rel=0.02)
    assert report.time.held == pytest.approx(sum(report.time.of(which) for which in ("busy", "waiting", "idle")))
    assert report.cost(report.time.wasted) == pytest.approx(2.5 * report.time.wasted)


def test_moves_are_held_against_never_moving(report: Audit) -> None:
    assert [move.verdict for move in report.moves[1:]] == ["Kept", "Kept"]
    assert report.static is not None
    assert report.static.speedup is not None
    assert report.static.speedup > 1.5


def test_the_balance_itself_is_asked_what_it_sees(report: Audit) -> None:
    assert len(report.glances) == 5
    assert any(found.symptom is Symptom.ROLLOUT_SLOW for layer in report.layers for found, _ in layer.findings)
    assert report.most_gain == pytest.approx(0, abs=0.01)
    assert report.glances[0].most_gain is not None
    assert report.glances[0].most_gain > 0.5


def test_a_maximum_that_the_best_split_touches_is_raised(report: Audit) -> None:
    (environment,) = (one for one in report.bounds if one.changed)
    assert environment.stage is Stage.ENVIRONMENT
    assert environment.high > environment.now_high
    assert f"max: {environment.high}" in yaml_of(report.bounds)
    assert yaml_of([one for one in report.bounds if not one.changed]) == ""


def test_a_job_that_is_gone_has_waits_but_no_costs() -> None:
    record = replace(recorded(), job=None, revisions=(), missing=("the job is gone",))
    report = audit(record, 2.5)
    assert report.time is None
    assert report.static is None
    assert report.glances == ()
    assert report.biggest is not None
    assert verdict(report) == "The environment holds this pipeline back."
    assert "GPU-hours are not known" in questions(report)[0].more
    assert questions(report)[2].answer == "Not known."
    assert "the job is gone" in settings(report)["spec"]


def test_nothing_measured_is_said_and_not_computed() -> None:
    report = audit(a_record(job=None))
    assert verdict(report) == "Nothing was measured in this time."
    assert questions(report)[0].answer.startswith("Not known")
    assert report.throughput is None
    assert text(report).startswith("Nothing was measured")


def test_moves_without_a_verdict_are_not_called_a_loss() -> None:
    record = a_record(
        {"replicas": [replicas([4, 4, 4, 4])], "states": states("sampler", busy=[4.0] * 4)},
        revisions=(applied(1, -60, 4), applied(2, 30, 5, before=4)),
    )
    assert "its moves are not judged yet" in verdict(audit(record))


def test_the_summary_in_the_terminal_has_the_figures(report: Audit) -> None:
    said = text(report)
    assert "environment 1 -> 2" in said
    assert "Recommended bounds:" in said
    assert "None" not in said


def a_glance(at: float, stage: Stage | None, *symptoms: Symptom, samplers: int = 4) -> Glance:
    bottleneck = Bottleneck(stage, f"evidence at {at:g}") if stage else None
    found = tuple(Finding(symptom, None, f"at {at:g}", "here") for symptom in symptoms)
    return Glance(at, 1.0, bottleneck, found, None, 0.1, an_allocation({Stage.SAMPLER: {"whole": samplers}}), 0.1, ())


def test_the_usual_bottleneck_is_that_of_most_windows_with_its_newest_evidence() -> None:
    seen = [a_glance(1, Stage.SAMPLER), a_glance(2, Stage.TRAINER), a_glance(3, Stage.SAMPLER), a_glance(4, None)]
    assert usual_bottleneck(seen) == (Bottleneck(Stage.SAMPLER, "evidence at 3"), 2)
    assert usual_bottleneck([a_glance(1, None)]) is None


def test_findings_lie_in_layers_from_the_machines_up_with_how_often_they_were_seen() -> None:
    seen = [a_glance(1, None, Symptom.TRAINER_SLOW, Symptom.DISK_WAITS), a_glance(2, None, Symptom.TRAINER_SLOW)]
    machines, trajectories, stages, learning = layers(seen)
    assert [(found.symptom, count) for found, count in machines.findings] == [(Symptom.DISK_WAITS, 1)]
    assert [(found.evidence, count) for found, count in stages.findings] == [("at 2", 2)]
    assert trajectories.findings == learning.findings == ()


def test_the_first_thing_to_look_at_is_what_most_windows_show_not_what_one_did() -> None:
    seen = [a_glance(1, None, Symptom.DISK_WAITS, Symptom.REWARD_QUEUE), *[a_glance(2, None, Symptom.REWARD_QUEUE)] * 2]
    report = replace(audit(a_record()), glances=tuple(seen), layers=layers(seen))
    assert report.first is not None
    assert report.first.symptom is Symptom.REWARD_QUEUE


def test_every_symptom_has_a_layer() -> None:
    found = layers([a_glance(1, None, *Symptom)])
    assert {one.symptom for layer in found for one, _ in layer.findings} == set(Symptom)


@pytest.mark.parametrize(
    ("bounds", "best", "want"),
    [
        ({"min": 1, "max": 6}, [2, 4], (1, 6)),
        ({"min": 3, "max": 6}, [2, 4], (2, 6)),
        ({"min": 1, "max": 4}, [2, 4], (1, 5)),
        ({"min": 1, "max": 4}, [3, 8], (1, 10)),
    ],
)
def test_bounds_hold_the_best_splits_and_leave_room(
    bounds: dict[str, int], best: list[int], want: tuple[int, int]
) -> None:
    spec = a_job({"stages.sampler.replicas": bounds}).spec
    found = recommended(spec, [a_glance(1, None, samplers=samplers) for samplers in best])[0]
    assert (found.low, found.high) == want


def test_without_a_model_no_bounds_are_recommended() -> None:
    assert recommended(a_job().spec, [replace(a_glance(1, None), best=None)]) == ()


def test_drawings_are_coarser_and_keep_their_gaps() -> None:
    record = a_record({"kv_usage": [a_line([0.0, 3.0, None, None, None, 5.0, 7.0])]}, count=7)
    drawn = coarse(record, most=4)
    assert drawn.one("kv_usage") == (1.5, None, 5.0)
    assert drawn.grid.start == record.grid.start + record.grid.step
    assert coarse(record, most=7) is record
