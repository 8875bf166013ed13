"""The rules of pools: what a pool may promise, and that a job cannot leave the pool that counts its GPUs."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from steelyard.api.base import Rule
from steelyard.api.rules import Broken, millis

if TYPE_CHECKING:
    from steelyard.api.pool import RLPoolSpec


def _guarantees_exist(pool: RLPoolSpec) -> Broken:
    promised = sum((queue.guaranteed_gpus for queue in pool.queues), Fraction(0))
    return None if promised <= pool.gpus else (pool.gpus, promised)


_PROMISED = f"self.queues.map(q, {millis('q.guaranteedGpus')}).sum()"
_GPUS = millis("self.gpus")

POOL_RULES = (
    Rule(
        field=".gpus",
        says="gpus %s must be at least %s, the sum of the queues' guaranteedGpus",
        check=_guarantees_exist,
        cel=f"{_PROMISED} <= {_GPUS}",
        values=(f"double({_GPUS}) / 1000.0", f"double({_PROMISED}) / 1000.0"),
    ),
)

POOL_IS_FOR_LIFE: dict[str, Any] = {
    "x-kubernetes-validations": [
        {
            "rule": "has(self.pool) == has(oldSelf.pool) && (!has(self.pool) || self.pool.name == oldSelf.pool.name)",
            "fieldPath": ".pool",
            "message": "pool.name is immutable: a job cannot leave the pool that counts its GPUs, nor join one later",
        }
    ]
}
"""Schema of a job's spec. Only the API server sees old and new; a rule on `pool` itself would miss its removal."""
