"""The rules that concern one small model each."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from steelyard.api.base import Rule
from steelyard.api.names import MAX_JOB_NAME
from steelyard.api.quantities import parse_quantity

if TYPE_CHECKING:
    from steelyard.api.job import AgenticRLJob
    from steelyard.api.revision import AllocationRevisionSpec
    from steelyard.api.scaling import Scaling
    from steelyard.api.stages import Episode, GpuProfile, Replicas

Broken = tuple[object, ...] | None


def millis(quantity: str) -> str:
    """CEL for a quantity in whole thousandths; CEL has quantities but cannot multiply them."""
    return f"int(quantity(string({quantity})).asApproximateFloat() * 1000.0 + 0.5)"


def _min_not_above_max(replicas: Replicas) -> Broken:
    return None if replicas.min <= replicas.max else (replicas.min, replicas.max)


def _initial_in_range(replicas: Replicas) -> Broken:
    if replicas.initial is None or replicas.min <= replicas.initial <= replicas.max:
        return None
    return replicas.initial, replicas.min, replicas.max


REPLICA_RULES = (
    Rule(
        field=".min",
        says="min %s must not exceed max %s",
        check=_min_not_above_max,
        cel="self.min <= self.max",
        values=("self.min", "self.max"),
    ),
    Rule(
        field=".initial",
        says="initial %s must lie between min %s and max %s",
        check=_initial_in_range,
        cel="!has(self.initial) || (self.min <= self.initial && self.initial <= self.max)",
        values=("self.initial", "self.min", "self.max"),
    ),
)


def _whole_devices(profile: GpuProfile) -> Broken:
    broken = [
        f"{name}: {value}"
        for name, value in sorted(profile.resources.items())
        if "/" in name and parse_quantity(value).denominator != 1
    ]
    return (broken,) if broken else None


def _whole_above_one(profile: GpuProfile) -> Broken:
    return None if profile.gpus <= 1 or profile.gpus.denominator == 1 else (profile.gpus,)


def _one_share(profile: GpuProfile) -> Broken:
    if profile.memory_percent == 100:
        return None
    many = [
        f"{name}: {value}"
        for name, value in sorted(profile.resources.items())
        if "/" in name and parse_quantity(value) > 1
    ]
    return (many, profile.memory_percent) if many else None


_MANY_DEVICES = f"name.contains('/') && {millis('self.resources[name]')} > 1000"
_BROKEN_DEVICE = f"name.contains('/') && {millis('self.resources[name]')} % 1000 != 0"

PROFILE_RULES = (
    Rule(
        field=".resources",
        says="%s must be a whole number of devices",
        check=_whole_devices,
        cel=f"self.resources.all(name, !({_BROKEN_DEVICE}))",
        values=(f"self.resources.map(name, {_BROKEN_DEVICE}, name + ': ' + string(self.resources[name]))",),
    ),
    Rule(
        field=".resources",
        says="%s must be 1, since memoryPercent %s says that the device is shared: more shares are no faster",
        check=_one_share,
        cel=f"self.memoryPercent == 100 || !self.resources.exists(name, {_MANY_DEVICES})",
        values=(
            f"self.resources.map(name, {_MANY_DEVICES}, name + ': ' + string(self.resources[name]))",
            "self.memoryPercent",
        ),
    ),
    Rule(
        field=".gpus",
        says="gpus %s must be a whole number when above 1",
        check=_whole_above_one,
        cel=f"{millis('self.gpus')} <= 1000 || {millis('self.gpus')} % 1000 == 0",
        values=(f"double({millis('self.gpus')}) / 1000.0",),
    ),
)


def _tool_within_episode(episode: Episode) -> Broken:
    if episode.tool_timeout_seconds <= episode.timeout_seconds:
        return None
    return episode.tool_timeout_seconds, episode.timeout_seconds


EPISODE_RULES = (
    Rule(
        field=".toolTimeoutSeconds",
        says="toolTimeoutSeconds %s must not exceed timeoutSeconds %s",
        check=_tool_within_episode,
        cel="self.toolTimeoutSeconds <= self.timeoutSeconds",
        values=("self.toolTimeoutSeconds", "self.timeoutSeconds"),
    ),
)


def _fixed_has_allocation(scaling: Scaling) -> Broken:
    return () if scaling.mode == "Fixed" and (scaling.fixed is None or scaling.fixed.is_blank) else None


SCALING_RULES = (
    Rule(
        field=".fixed",
        says="mode Fixed needs an allocation: name at least one stage",
        check=_fixed_has_allocation,
        cel="self.mode != 'Fixed' || (has(self.fixed) && (has(self.fixed.sampler) || has(self.fixed.environment)"
        " || has(self.fixed.rewardServer) || has(self.fixed.trainer)))",
        values=(),
    ),
)


def _exactly_one(members: dict[str, str]) -> tuple[Rule, ...]:
    """The rule of a union whose members are `members`: field -> Python attribute."""

    def check(union: Any) -> Broken:
        present = [field for field, attribute in members.items() if getattr(union, attribute) is not None]
        return None if len(present) == 1 else (present,)

    present = " + ".join(f"(has(self.{field}) ? ['{field}'] : [])" for field in members)
    return (
        Rule(
            says=f"exactly one of {', '.join(members)} must be set, not %s",
            check=check,
            cel=f"size({present}) == 1",
            values=(present,),
        ),
    )


SOURCE_RULES = _exactly_one({"claim": "claim", "configMap": "config_map"})
MODEL_RULES = _exactly_one({"path": "path", "claim": "claim"})

_JOB_NAME = "^[a-z]([-a-z0-9]*[a-z0-9])?$"


def _short_name(job: AgenticRLJob) -> Broken:
    name = job.metadata.name
    return None if len(name) <= MAX_JOB_NAME else (name, len(name))


def _label_name(job: AgenticRLJob) -> Broken:
    return None if re.fullmatch(_JOB_NAME, job.metadata.name) else (job.metadata.name,)


JOB_RULES = (
    Rule(
        says=f"metadata.name %s has %s characters, at most {MAX_JOB_NAME} are allowed: pods are named after it",
        check=_short_name,
        cel=f"size(self.metadata.name) <= {MAX_JOB_NAME}",
        values=("self.metadata.name", "size(self.metadata.name)"),
    ),
    Rule(
        says="metadata.name %s must start with a letter and hold only a-z, 0-9 and -: Services are named after it",
        check=_label_name,
        cel=f"self.metadata.name.matches('{_JOB_NAME}')",
        values=("self.metadata.name",),
    ),
)


def _only_holds_expire(revision: AllocationRevisionSpec) -> Broken:
    return None if revision.expires_at is None or revision.origin == "User" else (revision.origin,)


REVISION_RULES = (
    Rule(
        field=".expiresAt",
        says="expiresAt is for origin User only, not %s",
        check=_only_holds_expire,
        cel="!has(self.expiresAt) || self.origin == 'User'",
        values=("self.origin",),
    ),
)
