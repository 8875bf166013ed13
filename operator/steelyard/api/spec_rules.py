"""The rules that join several parts of a job's spec: buffers, budget and fixed allocations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steelyard.api.base import Rule
from steelyard.api.names import DEFAULT_PROFILE, Stage
from steelyard.api.rules import Broken, millis

if TYPE_CHECKING:
    from steelyard.api.job import AgenticRLJobSpec


def _trajectories_hold_open_groups(spec: AgenticRLJobSpec) -> Broken:
    algorithm, found = spec.algorithm, spec.buffer.max_trajectories
    needed = (algorithm.max_staleness + 1) * algorithm.batch
    return None if found >= needed else (found, needed, algorithm.max_staleness, algorithm.batch)


def _experience_holds_a_checkpoint(spec: AgenticRLJobSpec) -> Broken:
    algorithm, every, found = spec.algorithm, spec.checkpoints.every_steps, spec.buffer.max_experience
    needed = (every + algorithm.max_staleness + 1) * algorithm.batch
    return None if found >= needed else (found, needed, every, algorithm.max_staleness, algorithm.batch)


_BATCH = "self.algorithm.groupSize * self.algorithm.promptsPerStep"
_STALENESS = "self.algorithm.maxStaleness"
_EVERY = "self.checkpoints.everySteps"
_OPEN = f"({_STALENESS} + 1) * {_BATCH}"
_KEPT = f"({_EVERY} + {_STALENESS} + 1) * {_BATCH}"

_BUFFER_RULES = (
    Rule(
        field=".buffer.maxTrajectories",
        says="maxTrajectories %s must be at least %s = (maxStaleness %s + 1) x %s trajectories a step",
        check=_trajectories_hold_open_groups,
        cel=f"self.buffer.maxTrajectories >= {_OPEN}",
        values=("self.buffer.maxTrajectories", _OPEN, _STALENESS, _BATCH),
    ),
    Rule(
        field=".buffer.maxExperience",
        says="maxExperience %s must be at least %s = (everySteps %s + maxStaleness %s + 1) x %s trajectories a step",
        check=_experience_holds_a_checkpoint,
        cel=f"self.buffer.maxExperience >= {_KEPT}",
        values=("self.buffer.maxExperience", _KEPT, _EVERY, _STALENESS, _BATCH),
    ),
)


def _budget_holds_minima(spec: AgenticRLJobSpec) -> Broken:
    needed = spec.least_gpus
    return None if needed <= spec.budget.gpus else (spec.budget.gpus, needed)


def _budget_holds_start(spec: AgenticRLJobSpec) -> Broken:
    start, prices = spec.initial_allocation, spec.gpu_prices
    if any(profile not in prices[stage] for stage, profile, _ in start.entries()):
        return None  # the rule on unknown profiles says so
    needed = start.gpus(prices)
    return None if needed <= spec.budget.gpus else (spec.budget.gpus, needed)


def _minimum(stage: str) -> str:
    profiles = f"self.stages.{stage}.gpuProfiles"
    cheapest = f"{profiles}.map(p, {millis('p.gpus')}).min()"
    return f"(size({profiles}) == 0 ? 0 : self.stages.{stage}.replicas.min * {cheapest})"


def _start(stage: str) -> str:
    profiles, fixed = f"self.stages.{stage}.gpuProfiles", f"self.scaling.fixed.{stage}"
    replicas = f"self.stages.{stage}.replicas"
    by_fixed = f"{profiles}.map(p, p.name in {fixed} ? {fixed}[p.name] * {millis('p.gpus')} : 0).sum()"
    initial = f"(has({replicas}.initial) ? {replicas}.initial : {replicas}.min)"
    by_initial = f"(size({profiles}) == 0 ? 0 : {initial} * {millis(f'{profiles}[0].gpus')})"
    return f"(self.scaling.mode == 'Fixed' && {_named(stage)} ? {by_fixed} : {by_initial})"


def _named(stage: str) -> str:
    return f"has(self.scaling.fixed) && has(self.scaling.fixed.{stage})"


def _gpus(thousandths: str) -> str:
    return f"double({thousandths}) / 1000.0"


_FIELDS = [stage.field for stage in Stage]
_MINIMA = f"({' + '.join(map(_minimum, _FIELDS))})"
_START = f"({' + '.join(map(_start, _FIELDS))})"
_BUDGET = millis("self.budget.gpus")

_BUDGET_RULES = (
    Rule(
        field=".budget.gpus",
        says="gpus %s must be at least %s, the sum of the stages' minima at their cheapest profiles",
        check=_budget_holds_minima,
        cel=f"{_MINIMA} <= {_BUDGET}",
        values=(_gpus(_BUDGET), _gpus(_MINIMA)),
    ),
    Rule(
        field=".budget.gpus",
        says="gpus %s must be at least %s, what the first allocation takes"
        " (fixed, else the initial replicas of each stage's first profile)",
        check=_budget_holds_start,
        cel=f"{_START} <= {_BUDGET}",
        values=(_gpus(_BUDGET), _gpus(_START)),
    ),
)


def _known_profiles(stage: Stage) -> Rule:
    fixed, profiles = f"self.scaling.fixed.{stage.field}", f"self.stages.{stage.field}.gpuProfiles"
    known = f"(size({profiles}) == 0 ? ['{DEFAULT_PROFILE}'] : {profiles}.map(p, p.name))"

    def check(spec: AgenticRLJobSpec) -> Broken:
        named = spec.scaling.fixed[stage] if spec.scaling.fixed else ()
        unknown = [name for name in named if name not in spec.stage(stage).profiles]
        return (unknown, list(spec.stage(stage).profiles)) if unknown else None

    return Rule(
        field=f".scaling.fixed.{stage.field}",
        says="unknown profile %s; known are %s",
        check=check,
        cel=f"!({_named(stage.field)}) || {fixed}.all(name, {fixed}[name] == 0 || name in {known})",
        values=(f"{fixed}.filter(name, {fixed}[name] > 0 && !(name in {known}))", known),
    )


def _fixed_in_range(stage: Stage) -> Rule:
    fixed, replicas = f"self.scaling.fixed.{stage.field}", f"self.stages.{stage.field}.replicas"
    total = f"{fixed}.map(name, {fixed}[name]).sum()"

    def check(spec: AgenticRLJobSpec) -> Broken:
        bounds, allocation = spec.stage(stage).replicas, spec.scaling.fixed
        if allocation is None or not allocation.names(stage):
            return None
        found = allocation.replicas(stage)
        return None if bounds.min <= found <= bounds.max else (found, bounds.min, bounds.max)

    return Rule(
        field=f".scaling.fixed.{stage.field}",
        says="%s replicas must lie between min %s and max %s",
        check=check,
        cel=f"!({_named(stage.field)}) || ({replicas}.min <= {total} && {total} <= {replicas}.max)",
        values=(total, f"{replicas}.min", f"{replicas}.max"),
    )


SPEC_RULES = (
    *_BUFFER_RULES,
    *_BUDGET_RULES,
    *(rule for stage in Stage for rule in (_known_profiles(stage), _fixed_in_range(stage))),
)
