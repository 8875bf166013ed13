"""Recordings are the balance's own types as JSON, read strictly: what is wrong is named."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from steelyard.api import Stage
from steelyard.balance.types import PodView, Rates, Series
from steelyard.twin.calibrate import MOST_STEPS, calibrated
from steelyard.twin.jobs import job_of
from steelyard.twin.recording import Malformed, Recording, Window, counted, read, write
from tests.builders import a_job, an_allocation

RECORDED = Path(__file__).parents[2] / "property" / "twin" / "recordings" / "calculator.json"


def a_recording() -> Recording:
    pods = (
        PodView("calculator-sampler-1", "u1", Stage.SAMPLER, "whole", True, created=900.0),
        PodView("calculator-sampler-2", "u2", Stage.SAMPLER, "whole", False, problem="Unschedulable"),
        PodView("calculator-sampler-3", "u3", Stage.SAMPLER, "slice", True, terminating=True),
    )
    series = Series((("stage", "sampler"), ("state", "busy")), ((1000.0, 2.0), (1015.0, 3.5)))
    rates = Rates(60.0, {"steelyard_stage_seconds_total": {"calculator-sampler-1": (series,)}})
    return Recording(a_job(), (Window(an_allocation(), 1000.0, 1060.0, pods, rates),))


def test_a_recording_survives_being_written() -> None:
    assert read(write(a_recording())) == a_recording()


def test_pods_are_counted_as_the_operator_counts_them() -> None:
    stages = counted(a_recording().windows[0].pods)[Stage.SAMPLER]
    whole, part = stages["whole"], stages["slice"]
    assert (whole.desired, whole.ready, whole.pending, whole.draining) == (2, 1, 1, 0)
    assert (part.desired, part.ready, part.pending, part.draining) == (0, 0, 0, 1)


def _with(old: str, new: str) -> Callable[[str], str]:
    def damage(text: str) -> str:
        assert old in text
        return text.replace(old, new, 1)

    return damage


MALFORMED = {
    "not JSON": (lambda text: text[:-9], "Invalid JSON"),
    "nothing": (lambda _: "", "^Invalid JSON"),
    "something else": (lambda _: "[]", "^Input should be an object"),
    "no job": (lambda _: '{"windows": []}', "job: Field required"),
    "a job that the API would refuse": (
        _with('"maxStaleness":2', '"maxStaleness":-1'),
        "job.spec.algorithm.maxStaleness",
    ),
    "no windows": (
        lambda text: text[: text.index('"windows"')] + '"windows":[]}',
        "windows: a recording has at least one",
    ),
    "an instant in words": (_with('"start":1000.0', '"start":"noon"'), r"windows\[0\].start: \"noon\""),
    "an end before its start": (_with('"end":1060.0', '"end":1000.0'), r"windows\[0\].end: 1000 is not after start"),
    "a stage that does not exist": (
        _with('"stage":"sampler","profile"', '"stage":"judge","profile"'),
        r"pods\[0\].stage",
    ),
    "a sample of one number": (
        _with("[1015.0,3.5]", "[1015.0]"),
        r"samples\.steelyard_.*\[0\].samples\[1\]\[1\]: Field",
    ),
}


@pytest.mark.parametrize(("damage", "names"), MALFORMED.values(), ids=MALFORMED)
def test_what_is_malformed_is_named(damage: Callable[[str], str], names: str) -> None:
    with pytest.raises(Malformed, match=names):
        read(damage(write(a_recording())))


def test_a_window_without_samples_says_what_is_not_known() -> None:
    recording = a_recording()
    empty = replace(recording.windows[0], rates=Rates(60.0))
    estimated = recording.estimated(empty)
    assert estimated.model is None
    assert "trainer has no pod with metrics" in estimated.unknown


def changed(**fields: object) -> Recording:
    """The recorded job with other fields of its spec."""
    recording = read(RECORDED.read_bytes())
    spec = recording.job.spec
    parts = {name: getattr(spec, name).model_copy(update=new) for name, new in fields.items()}
    return replace(recording, job=recording.job.model_copy(update={"spec": spec.model_copy(update=parts)}))


UNFIT = {
    "too few GPUs": ({"gpus": Fraction(5, 2)}, "job.spec.budget.gpus: 2 whole GPUs; every .* one of each takes 3"),
    "too many GPUs": ({"gpus": Fraction(1001)}, "job.spec.budget.gpus: 1001; the twin simulates at most 1000"),
}


@pytest.mark.parametrize(("budget", "says"), UNFIT.values(), ids=UNFIT)
def test_a_budget_that_the_twin_cannot_split_is_named(budget: dict[str, Fraction], says: str) -> None:
    recording = changed(budget=budget)
    with pytest.raises(Malformed, match=says):
        calibrated(recording, recording.windows[0])


def test_a_job_of_large_batches_and_a_long_run_is_simulated() -> None:
    """The API's default buffers would be too small for it."""
    recording = changed(algorithm={"prompts_per_step": 512, "steps": 10_000_000})
    found = calibrated(recording, recording.windows[0])
    assert found.batch == 4096
    assert found.steps == MOST_STEPS
    assert job_of(found).spec.buffer.max_experience >= 7 * 4096
