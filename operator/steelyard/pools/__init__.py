"""Pools: many jobs share GPUs. `loop` is the coroutine of a pool; what it decides and says is pure."""
