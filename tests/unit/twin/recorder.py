"""The twin records itself."""

from dataclasses import replace
from functools import lru_cache

from steelyard.api import Allocation
from steelyard.twin.engine import Pipeline
from steelyard.twin.jobs import job_of, split
from steelyard.twin.profiles import Profile, Spread, profile
from steelyard.twin.recording import Recording, Window

SETTLED, MEASURED = 6, 14


@lru_cache
def job() -> Profile:
    base = profile("steady", 24)
    return replace(
        base,
        prompts_per_step=8,
        steps=SETTLED + MEASURED + 2,
        requeue_stale=True,
        turns=Spread(2),
        trajectory_sigma=0.2,
        cluster=replace(base.cluster, scrape_seconds=5.0),
    )


@lru_cache
def recorded(allocation: Allocation, seed: int = 3) -> Recording:
    """The twin records itself."""
    pipeline = Pipeline(job(), allocation, seed)
    while pipeline.step < SETTLED:
        pipeline.run_until(pipeline.now + 5)
    start = pipeline.now
    while pipeline.step < SETTLED + MEASURED:
        pipeline.run_until(pipeline.now + 5)
    seen, rates = pipeline.seen([]), pipeline.rates(pipeline.now - start)
    return Recording(job_of(job()), (Window(allocation, start, pipeline.now, tuple(seen.pods()), rates),))


def here() -> Recording:
    return recorded(split(job(), 4, 3, 12))
