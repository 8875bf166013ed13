"""What counts as a move (docs/decisions/0013)."""

from __future__ import annotations

from steelyard.twin.jobs import split
from steelyard.twin.profiles import profile
from steelyard.twin.run import moves


def test_a_move_is_a_replica_or_a_block_of_the_trainers_gpus_that_is_started() -> None:
    drift = profile("drift")
    start, rollout = split(drift, 8, 4, 28), split(drift, 14, 5, 12)
    assert moves(drift, [start]) == 0
    assert moves(drift, [start, rollout]) == 6 + 1
    assert moves(drift, [rollout, start]) == 4, "16 GPUs are four blocks; what is only taken away is not counted"
    assert moves(drift, [start, rollout, start]) == 11
