"""One sampler replica: who runs, who waits, at what pace."""

from __future__ import annotations

from math import inf

import pytest

from steelyard.twin.flow import Group, Trajectory
from steelyard.twin.profiles import Sampler
from steelyard.twin.sampler import SamplerPod
from steelyard.twin.workload import Draw


def a_pod(**spec: float) -> SamplerPod:
    """Two sequences at once, a token every 0.1 s alone and every 0.2 s together; it is ready at 0."""
    pod = SamplerPod("s", "pair", Sampler(**{"alpha": 0.0, "beta": 0.1, "max_num_seqs": 2, **spec}), 1, 0.0)  # type: ignore[arg-type]
    pod.start(0.0)
    return pod


def a_turn(tokens: float, context: float = 0.0) -> Trajectory:
    draw = Draw([tokens], [context], [0.0], 1.0, False, 0.0)
    return Trajectory(0, Group(0, 1), draw, 1.0, wanted=tokens, need=context + tokens / 2)


def test_sequences_together_are_slower_than_alone() -> None:
    pod = a_pod()
    pod.take(a_turn(100), 0.0)
    assert pod.due == pytest.approx(10.0)
    pod.take(a_turn(100), 5.0)  # the first has 50 tokens left, now at half the pace
    pod.end(pod.due)
    assert pod.due == pytest.approx(15.0)


def test_requests_run_in_order_and_a_small_one_does_not_pass_a_large_one() -> None:
    pod, large, small = a_pod(kv_tokens=1000), a_turn(100, context=900), a_turn(10)
    pod.take(a_turn(100, context=200), 0.0)
    pod.take(large, 0.0)
    pod.take(small, 0.0)
    assert (pod.running, pod.waiting) == (1, 2)
    pod.end(10.0)
    assert (pod.running, pod.waiting) == (2, 0), "what waited runs together once the first has ended"


def test_a_sequence_larger_than_the_kv_cache_runs_alone() -> None:
    pod = a_pod(kv_tokens=100)
    pod.take(a_turn(100, context=900), 0.0)
    assert (pod.running, pod.waiting) == (1, 0)


def test_new_weights_stop_the_clock_of_every_sequence() -> None:
    pod = a_pod()
    pod.take(a_turn(100), 0.0)
    pod.pause(4.0)
    assert pod.due == inf
    pod.resume(7.0, version=1)
    assert pod.due == pytest.approx(13.0)
    assert pod.version == 1
