"""One coroutine per pool: look, share, write. Jobs find their grants in its status and obey them.

Every round starts from what is there: the rows of the status, what jobs have signed for and what their pods hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from steelyard.api import PoolStatus
from steelyard.balance.fleet import Curve, curve_of
from steelyard.balance.ledger import model_of
from steelyard.balance.model import Model
from steelyard.balance.types import Instant, Seen
from steelyard.cluster.protocol import Cluster
from steelyard.cluster.records import JobKey
from steelyard.cluster.view import PoolView, View
from steelyard.pools.lend import changes, lend
from steelyard.pools.members import fixed_gpus, members, silence
from steelyard.pools.report import figures, pool_status, status_of_broken, told, worth_writing
from steelyard.supervisor import Supervisor
from steelyard.telemetry import Telemetry

EVERY_SECONDS = 15.0
DEBOUNCE_SECONDS = 1.0
"""A thousand jobs that start must not each begin a round."""
AT_ONCE = 0.0


@dataclass(frozen=True)
class PoolDependencies:
    """What a pool's coroutine works with."""

    cluster: Cluster
    telemetry: Telemetry
    clock: Callable[[], Instant]
    measured: Mapping[JobKey, Model]
    """What each job was last measured to be, from the jobs' own coroutines."""


class Pool:
    """One pool's story. It remembers curves only, which are made again when they are lost."""

    def __init__(self, name: str, deps: PoolDependencies) -> None:
        self.name = f"pool {name}"
        self._pool, self._deps, self._cluster = name, deps, deps.cluster
        self._curves = Curves(deps.measured)
        self._numbers_written = deps.clock()

    async def tick(self, now: Instant) -> float | None:
        """One round; returns the seconds until the next, None when there is no such pool any more."""
        view = self._cluster.pool_view(self._pool)
        if view is None:
            self._deps.telemetry.pools.forget(self._pool)
            return None
        if view.pool.resource is None:
            await self._write(view, status_of_broken(view.pool, now), now)
            return EVERY_SECONDS
        found = members(view, self._curves.of(view, now))
        rows = lend(view.pool.resource.spec, found, now)
        reserved = sum((one.reserved for one in found), Fraction(0))
        await self._write(view, pool_status(view.pool, rows, reserved, now), now)
        changed = changes(view.pool.lent, rows)
        if changed:
            await self._cluster.pool_event(view.pool, "Normal", "GrantsChanged", told(changed))
        lowered = sum(after < before for before, after in changed.values())
        size = float(view.pool.resource.spec.gpus)
        self._deps.telemetry.pools.show(self._pool, figures(size, rows, now), len(changed) - lowered, lowered)
        # What was taken away becomes free when it is given back, which may be at once: nobody tells us then.
        return AT_ONCE if lowered else EVERY_SECONDS

    async def confess(self, error: Exception) -> None:
        """Tell whoever looks at the pool about a bug."""
        if view := self._cluster.pool_view(self._pool):
            said = f"the operator failed on this pool and tries again: {type(error).__name__}: {error}"
            await self._cluster.pool_event(view.pool, "Warning", "OperatorError", said)

    async def _write(self, view: PoolView, new: PoolStatus, now: Instant) -> None:
        if worth_writing(view.pool.status, new, now - self._numbers_written):
            await self._cluster.set_pool_status(view.pool, new)
            self._numbers_written = now


class Curves:
    """The curve of each job, made once for a revision and again when the job's horizon has passed.

    Estimates move with every measurement, and GPUs must not move with them.
    """

    def __init__(self, measured: Mapping[JobKey, Model]) -> None:
        self._measured = measured
        self._made: dict[JobKey, tuple[object, Instant, Curve]] = {}

    def of(self, view: PoolView, now: Instant) -> dict[JobKey, Curve]:
        """Curves of the jobs that ask for GPUs."""
        asking = {key: one for key, one in view.jobs.items() if not silence(one)}
        self._made = {key: self._curve(key, one, now) for key, one in asking.items()}
        return {key: curve for key, (_, _, curve) in self._made.items()}

    def _curve(self, key: JobKey, view: View, now: Instant) -> tuple[object, Instant, Curve]:
        assert view.job.resource is not None
        model, fixed = self._model(key, view), fixed_gpus(view, now)
        active = Seen(view.job.resource, view.revisions).active
        made_from = view.job.metadata.generation, active and active.metadata.name, model is None, fixed
        if (old := self._made.get(key)) and old[0] == made_from and now < old[1]:
            return old
        spec = view.job.resource.spec
        within = spec if fixed is None else view.job.resource.within(min(fixed, spec.budget.gpus)).spec
        return made_from, now + spec.scaling.horizon_seconds, curve_of(model if fixed is None else None, within)

    def _model(self, key: JobKey, view: View) -> Model | None:
        """What was measured last, else the newest that the ledger holds."""
        if (model := self._measured.get(key)) is not None:
            return model
        recorded = (model_of(one.spec.inputs) for one in reversed(view.revisions) if one.spec.inputs)
        return next((model for model in recorded if model is not None), None)


class Pools(Supervisor[str]):
    """Supervises the pools."""

    def __init__(self, deps: PoolDependencies) -> None:
        telemetry = deps.telemetry
        super().__init__(
            lambda name: Pool(name, deps),
            deps.clock,
            telemetry.pool_ticks,
            telemetry.pool_tick_seconds,
            DEBOUNCE_SECONDS,
        )
