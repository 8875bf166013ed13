"""What the cold-start planner expects of a job that names its model and GPUs, until it was measured.

Only two things: how fast a sampler profile that was never tried is beside one that was, and how many samplers to start
with. Absolute rates are never taken from here: a running profile is measured within one window.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from steelyard.api import AgenticRLJobSpec, Allocation, Planning, Stage
from steelyard.balance.coldstart import CONTEXT, HardwareRow, Lengths, ModelRow, hardware_row, lognormal, model_row
from steelyard.balance.coldstart.lengths import SIGMA
from steelyard.balance.coldstart.plan import NEARLY
from steelyard.balance.coldstart.rollout import TP_SIZES, Engine, demand, engine
from steelyard.balance.coldstart.training import table

NEUTRAL_PERCENT = 100


def speeds(stage: Stage, spec: AgenticRLJobSpec, tokens: float) -> Mapping[str, float]:
    """GPU profile -> speed relative to the stage's other profiles, at `tokens` generated per trajectory.

    The user's speedPercent, unless it is 100 throughout, which says nothing, and spec.planning says more.
    """
    profiles = spec.stage(stage).gpu_profiles
    told = {profile.name: float(profile.speed_percent) for profile in profiles}
    if stage is not Stage.SAMPLER or spec.planning is None or set(told.values()) != {NEUTRAL_PERCENT} or tokens <= 0:
        return told
    lengths = Lengths(np.array([float(spec.planning.prompt_tokens)]), np.array([tokens]))
    engines = {profile.name: _engine(spec.planning, profile.gpus) for profile in profiles}
    known = {name: tokens / demand(lengths, one, 1).mean_time for name, one in engines.items() if one}
    return known if len(known) == len(told) else told


def start(spec: AgenticRLJobSpec) -> Allocation:
    """The allocation a job starts with: spec's own, with as many samplers as are planned where it names no number."""
    initial, planned = spec.initial_allocation, _planned_samplers(spec)
    if planned is None:
        return initial
    return initial.replace(Stage.SAMPLER, {next(iter(spec.stages.sampler.profiles)): planned})


def _planned_samplers(spec: AgenticRLJobSpec) -> int | None:
    """The fewest samplers that keep up with the trainer as far as the budget allows; None where nothing is known."""
    planning, replicas = spec.planning, spec.stages.sampler.replicas
    if planning is None or planning.output_tokens is None or replicas.initial or spec.scaling.mode == "Fixed":
        return None
    gpus, trainer = (next(iter(spec.stage(stage).profiles.values())) for stage in (Stage.SAMPLER, Stage.TRAINER))
    one, lengths = _engine(planning, gpus), _expected(planning, planning.output_tokens)
    if one is None or trainer < 1:
        return None
    trained = table(*_rows(planning), lengths, int(trainer), spec.algorithm.batch, lengths.longest).envelope[-1]
    if not np.isfinite(trained):
        return None
    others = spec.initial_allocation.replace(Stage.SAMPLER, {}).gpus(spec.gpu_prices)
    most = min(replicas.max, int((spec.budget.gpus - others) / gpus))
    if most < 1:
        return None
    seconds = np.maximum(demand(lengths, one, spec.algorithm.batch).seconds(np.arange(1, most + 1)), trained)
    return max(replicas.min, int(np.argmax(seconds <= seconds.min() * NEARLY)) + 1)


def _rows(planning: Planning) -> tuple[ModelRow, HardwareRow]:
    model, hardware = model_row(planning.model), hardware_row(planning.hardware)
    assert isinstance(model, ModelRow)
    assert isinstance(hardware, HardwareRow)
    return model, hardware


def _engine(planning: Planning, gpus: Fraction) -> Engine | None:
    """The engine of a profile; None for parts of a GPU and for sizes that no engine has."""
    return engine(*_rows(planning), int(gpus)) if gpus in TP_SIZES else None


def _expected(planning: Planning, output_tokens: int) -> Lengths:
    context = max(CONTEXT, 4 * (planning.prompt_tokens + output_tokens))
    lengths = lognormal(planning.prompt_tokens, output_tokens, SIGMA, context)
    assert isinstance(lengths, Lengths), lengths
    return lengths
