"""Ten thousand of each kind of bad input to the core (300 in a quick run): an answer or an error, never an exception.

Seeded chance instead of Hypothesis: so many cases then cost seconds, and each is told by its seed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from math import inf, nan
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import numpy as np
import pytest

from steelyard.api import RevisionPhase, Stage
from steelyard.balance import balance, signals
from steelyard.balance.allocate import Infeasible as DoesNotFit
from steelyard.balance.allocate import allocate
from steelyard.balance.coldstart import (
    BadInput,
    Infeasible,
    Lengths,
    Plan,
    Question,
    hardware_names,
    lognormal,
    model_names,
    parse,
    plan,
)
from steelyard.balance.fleet import Claim, Curve, grants_now, share
from steelyard.balance.offers import Choice, Point, Resource, Run
from steelyard.balance.trace import trace
from steelyard.balance.types import Rates, Series
from steelyard.balance.why_not import why_not
from steelyard.twin import recording, traces
from steelyard.twin.calibrate import calibrated
from steelyard.twin.profiles import Profile
from tests.builders import a_revision
from tests.property.effort import THOROUGH
from tests.property.test_balance import SANE_INPUTS, sound
from tests.unit.balance.builders import NOW, a_view, steady
from tests.unit.balance.problems import Problem, fits
from tests.unit.balance.test_gate import time
from tests.unit.balance.test_verdict import AFTER, a_move, measuring
from tests.unit.coldstart.builders import a_model, some_hardware

CASES = 10_000 if THOROUGH else 300
ODD_VALUES = (0.0, -1.0, 1e-300, 1.0, 20.0, 1e6, 1e300, inf, -inf, nan)
ODD_FIGURES = ("0", "-1", "5e-324", "1e-100", "1e-12", "1e15", "1e100", "1e308", "nan", "inf", "x")
ODD = (nan, inf, -inf, -1.0, 0.0, 5e-324, 1e-300, 1e308, 1.0, 2.5, 7.0)
RECORDED = Path(__file__).parent / "twin" / "recordings" / "calculator.json"


def chances(cases: int = CASES) -> Iterator[Random]:
    return (Random(seed) for seed in range(cases))


def a_stage(chance: Random, resources: int) -> Choice:
    """Rates that are no rates, profiles that others beat or equal, no profile at all, a price of nothing."""
    runs = [
        Run(
            profile,
            chance.randint(1, 3),
            tuple(chance.choice([0, 0, 1, 2, 9, 2**50]) for _ in range(resources)),
            np.array([chance.choice(ODD) for _ in range(chance.randint(1, 4))]),
        )
        for profile in chance.sample(["whole", "slice", "tiny"], chance.randint(0, 3))
    ]
    if chance.random() < 0.3 and runs:  # the same profile by another name
        runs.append(Run("twin", runs[0].first, runs[0].price, runs[0].rates))
    costs = tuple(chance.randint(0, 9) for _ in range(resources))
    return Choice(tuple(runs), Point((("odd", 1),), costs, chance.choice(ODD)) if chance.random() < 0.5 else None)


def test_allocations_of_nonsense_fit_or_name_what_binds() -> None:
    for chance in chances():
        names = ("GPUs", "CPUs", "GiB of memory")[: chance.randint(1, 3)]
        resources = tuple(Resource(name, chance.choice([-5, 0, 1, 4, 12, 2**50])) for name in names)
        stages = {stage: a_stage(chance, len(names)) for stage in list(Stage)[: chance.randint(1, 4)]}
        best = allocate(stages, resources, efficient=chance.random() < 0.5)
        if isinstance(best, DoesNotFit):
            assert best.constraint
        else:
            assert fits(Problem(stages, resources), tuple(best.points.values()))
            assert 0 <= best.throughput < inf


def test_pools_are_shared_whatever_jobs_claim() -> None:
    for chance in chances():
        found = []
        for job in "abcd"[: chance.randint(0, 4)]:
            stairs = [(chance.choice(ODD), chance.choice(ODD)) for _ in range(chance.randint(0, 4))]
            gpus, rates = np.array(stairs).reshape(-1, 2).T
            weight, guaranteed, limit, held, waited, since = (chance.choice(ODD) for _ in range(6))
            curve = Curve(gpus, rates)
            found.append(Claim(job, curve, weight, chance.randint(-3, 3), guaranteed, limit, held, waited, since))
        pool = chance.choice(ODD)
        got = share(found, pool, ageing_seconds=chance.choice(ODD))
        total = sum(grant.gpus for grant in got.values())
        assert got.keys() == {claim.job for claim in found}
        assert all(0 <= grant.borrowed <= grant.gpus < inf and grant.reason for grant in got.values())
        assert pool == inf or total <= max(0.0, pool if pool == pool else 0.0) + 1e-6
        held_now = {claim.job: claim.held for claim in found}
        given = grants_now({job: grant.gpus for job, grant in got.items()}, held_now, pool)
        assert all(0 <= amount < inf for amount in given.values())


def test_every_question_about_a_first_run_has_a_plan_or_a_reason() -> None:
    lengths = [1.0, 2.0, 300.0, 9e3, 2e5, 9.9e5, 2e6]
    for chance in chances():
        count = chance.randint(1, 6)
        found = plan(
            Question(
                a_model(chance.choice(model_names())),
                some_hardware(chance.choice(hardware_names())),
                Lengths(*(np.array([chance.choice(lengths) for _ in range(count)]) for _ in range(2))),
                chance.choice([-1, 0, 1, 2, 5, 8, 33, 10**9]),
                chance.choice([-1, 0, 1, 7, 64, 510, 10**7]),
                chance.choice([None, None, -1, 0, 1, 40_000, 10**9]),
                chance.choice([None, *ODD]),
            )
        )
        assert isinstance(found, Plan) or str(found)
        assert isinstance(found, Plan | Infeasible | BadInput)
        assert not isinstance(found, Plan) or 0 < found.seconds < inf


def test_every_distribution_of_lengths_is_drawn_or_refused() -> None:
    odd = (*ODD, 100.0, 9000.0, 40_960.0, 1e7)
    for chance in chances():
        prompt, output, sigma, context = (chance.choice(odd) for _ in range(4))
        found = lognormal(prompt, output, sigma, context)
        assert isinstance(found, BadInput) or ((found.generated >= 1).all() and (found.total <= context).all())


Refusal = TypeVar("Refusal", bound=Exception)
Answer = TypeVar("Answer")


def answer(refusal: type[Refusal], call: Callable[..., Answer], *given: Any) -> Answer | Refusal:
    """What the call returns, or how it refuses."""
    try:
        return call(*given)
    except refusal as refused:
        return refused


SPOILS = ("", "-1", "0", "nan", "1e400", "9" * 30, "x", '"', "[", "{}", "null", "\x00", "1.5", ",")


def spoiled(chance: Random, lines: list[list[str]], glue: str) -> list[str]:
    """Some cells replaced, left out or doubled."""
    rows = [list(line) for line in lines]
    for _ in range(chance.randint(1, 3)):
        row = chance.choice(rows)
        place = chance.randrange(len(row)) if row else 0
        row[place : place + chance.randint(0, 1)] = [chance.choice(SPOILS)] * chance.randint(0, 2)
    return [glue.join(row) for row in rows]


def test_a_malformed_history_names_its_row() -> None:
    for chance in chances():
        rows = spoiled(chance, [["[", "512", ", ", "9000", "]"] for _ in range(4)], "")
        found = parse(rows)
        if isinstance(found, Lengths):
            assert (found.total > 0).all()
            assert np.isfinite(found.total).all()
        else:
            assert re.match(r"requests( row [1-4](, column (in|out)put_len)?)?$", found.field), found


@pytest.mark.parametrize(
    "columns",
    [
        ("trajectory", "turn", "input_tokens_added", "output_tokens"),
        ("session_id", "round_idx", "input_len", "output_len", "tool_wait_after_ms"),
    ],
    ids=["agent turns", "coding sessions"],
)
def test_a_malformed_trace_names_its_row_and_column(columns: tuple[str, ...]) -> None:
    for chance in chances():
        lines = [list(columns), *([str(n // 2), str(n % 2), "50", "20", "100"][: len(columns)] for n in range(4))]
        found = answer(traces.Malformed, traces.read, "\n".join(spoiled(chance, lines, ",")))
        if isinstance(found, traces.Malformed):
            assert re.match(rf"row [1-6](, column ({'|'.join(columns)}))?: .", str(found)), found
            assert len(str(found)) < 500
        else:
            assert found
            assert all(turn.output_tokens >= 1 for session in found for turn in session.turns)


def test_a_recording_of_nonsense_is_a_job_to_simulate_or_names_what_is_wrong() -> None:
    whole = json.loads(RECORDED.read_text())
    for chance in chances(max(CASES // 100, 10)):
        spoil(chance, copy := json.loads(json.dumps(whole)))
        found = answer(recording.Malformed, simulated, json.dumps(copy))
        assert str(found) if isinstance(found, recording.Malformed) else 0 < found.sampler.alpha < inf


def simulated(text: str) -> Profile:
    read = recording.read(text)
    return calibrated(read, read.windows[0])


def spoil(chance: Random, document: object) -> None:
    """Replace something, somewhere in it, by nonsense."""
    while True:
        keys = list(document) if isinstance(document, dict) else list(range(len(document)))  # type: ignore[arg-type]
        key = chance.choice(keys)
        inner = document[key]  # type: ignore[index]
        if isinstance(inner, dict | list) and inner and chance.random() < 0.9:
            document = inner
            continue
        document[key] = chance.choice([None, -1, 0, 1e300, "x", [], {}, True])  # type: ignore[index]
        return


def test_decisions_on_nonsense_are_explained() -> None:
    view = a_view(revisions=(a_revision(1, status={"settling_time": time(NOW - 200)}, inputs=SANE_INPUTS),))
    names = [pod.name for pod in view.pods()]
    for chance in chances(CASES // 10):
        rates = nonsense(chance, names)
        told = trace(view, rates, NOW, view.job)
        assert told.inputs
        assert told.plan.decision.reason
        stage, wanted = chance.choice(list(Stage)), chance.choice([0, 1, 3, 1000])
        assert why_not(view, rates, NOW, stage, wanted).rules


def test_metrics_of_nonsense_get_an_answer() -> None:
    """Empty, negative, endless, NaN, contradictory and absent figures."""
    view = a_view(revisions=(a_revision(1, status={"settling_time": time(NOW - 200)}, inputs=SANE_INPUTS),))
    names = [pod.name for pod in view.pods()]
    for chance in chances():
        up_since = {part: chance.choice([NOW - 30, 0.0, -1.0, NOW + 1e9, inf, nan]) for part in (*Stage, "bus", "x")}
        sound(balance(replace(view, up_since=up_since), nonsense(chance, names), NOW))


def test_ledgers_of_nonsense_get_an_answer() -> None:
    """Whoever may write a revision may write any figures into it; the move is judged all the same."""
    move = a_move(RevisionPhase.SETTLING, throughput=2.0, **measuring(110))
    sheets = [steady(trajectories=rate, environments=2, batch=4, tool_seconds=3).rates() for rate in (0.2, 2.0)]
    for seed, chance in enumerate(chances()):
        odd_share = chance.choice([0.05, 0.2, 0.5])
        figures = {
            name: chance.choice(ODD_FIGURES) if chance.random() < odd_share else text
            for name, text in move.spec.inputs.items()
        }
        written = move.model_copy(update={"spec": move.spec.model_copy(update={"inputs": figures})})
        plan = balance(a_view(revisions=(written,), allocation=AFTER), chance.choice(sheets), NOW)
        sound(plan)
        assert "nan" not in (plan.updates["calculator-2"].evidence or ""), seed


def nonsense(chance: Random, names: list[str]) -> Rates:
    """Any metrics of any pods with any values."""
    metrics = chance.sample(list(signals.ALL), chance.randint(0, len(signals.ALL)))
    pods = chance.sample(names, chance.randint(0, len(names)))
    return Rates(
        chance.choice([0.0, 60.0, 300.0]),
        {
            metric: {name: tuple(odd(chance) for _ in range(chance.randint(0, 2))) for name in pods}
            for metric in metrics
        },
    )


def odd(chance: Random) -> Series:
    label = chance.choice(
        [("state", "busy"), ("state", "tool"), ("outcome", "ok"), ("buffer", "experience"), ("x", "")]
    )
    length, step = chance.randint(0, 12), chance.choice([0.0, 1.0, 5.0, 15.0])
    value, samples = chance.choice(ODD_VALUES), []
    for index in range(length):
        samples.append((NOW - step * (length - index), value))
        value = chance.choice([value, value + chance.random() * 50, chance.choice(ODD_VALUES)])
    return Series((label,), tuple(samples))
