"""Synchronous colocated training: every phase has all GPUs in turn, strictly on-policy."""

from __future__ import annotations

from dataclasses import replace

from steelyard.twin.jobs import split
from steelyard.twin.profiles import Profile
from steelyard.twin.run import Run, Static, run

RESHARD_SECONDS = 5.0
"""From training to generation, and as much back."""


def colocated(profile: Profile, seed: int) -> Run:
    """Simulated as a pipeline in which each stage owns the whole budget and no trajectory is ever off-policy.

    With a staleness of zero a batch is admitted when the last one is trained, so the phases cannot overlap, except that
    each trajectory is judged as soon as it ends, which favours this baseline.
    """
    sizes, gpus = profile.trainer.sizes, profile.gpus
    alone = replace(
        profile,
        gpus=3 * gpus,
        max_staleness=0,
        trainer=replace(profile.trainer, sizes=tuple(sorted({*sizes[:-1], gpus}))),
        cluster=replace(profile.cluster, sync_seconds=2 * RESHARD_SECONDS),
    )
    whole = split(alone, gpus // profile.sampler.gpus, gpus // profile.reward.gpus, gpus)
    done = run(alone, Static(), seed, whole)
    return replace(done, profile=replace(profile, trainer=alone.trainer), gpu_hours=gpus * done.seconds / 3600)
