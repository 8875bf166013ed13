"""The slot clock: whatever a slot does, its states sum to its life, and a long state shows before it ends."""

import contextlib
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest

from steelyard_workers.clock import Clock, State
from steelyard_workers.metrics import SECONDS, StageMetrics


class FakeTime:
    """A monotonic clock that moves when told."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


moves = st.lists(
    st.tuples(
        st.integers(0, 4),
        st.sampled_from(["open", "close", *State]),
        st.floats(0, 1e4, allow_nan=False),
    ),
    max_size=60,
)


@given(moves)
def test_the_states_of_all_slots_sum_to_the_time_that_slots_were_open(
    history: list[tuple[int, str, float]],
) -> None:
    time = FakeTime()
    clock = Clock(time)
    slots: dict[int, object] = {}
    life = 0.0
    for index, action, elapsed in history:
        time.now += elapsed
        life += elapsed * len(slots)
        slot = slots.get(index)
        if action == "open" and slot is None:
            slots[index] = clock.open()
        elif action == "close" and slot is not None:
            clock.close(slots.pop(index))  # type: ignore[arg-type]
        elif slot is not None and action in list(State):
            slot.enter(State(action))  # type: ignore[attr-defined]
        assert sum(clock.seconds().values()) == pytest.approx(life)
        assert clock.slots == len(slots)


@given(st.lists(st.sampled_from(list(State)), max_size=8), st.floats(0.1, 100))
def test_time_goes_to_the_innermost_state_and_comes_back_after_it(nesting: list[State], step: float) -> None:
    time = FakeTime()
    clock = Clock(time)
    want = dict.fromkeys(State, 0.0)

    def descend(rest: list[State], current: State) -> None:
        time.now += step
        want[current] += step
        if rest:
            with slot.within(rest[0]):
                descend(rest[1:], rest[0])
            time.now += step
            want[current] += step

    with clock.slot(State.STARVED) as slot:
        descend(nesting, State.STARVED)
    assert clock.seconds() == pytest.approx(want)


def test_a_state_that_raises_gives_its_time_and_ends() -> None:
    time = FakeTime()
    clock = Clock(time)
    with clock.slot(State.BUSY) as slot:
        with contextlib.suppress(ValueError), slot.within(State.TOOL):
            time.now = 3
            raise ValueError("the tool failed")
        assert slot.state is State.BUSY
    assert clock.seconds()[State.TOOL] == 3


def scraped(registry: CollectorRegistry, name: str, **labels: str) -> float:
    value = registry.get_sample_value(name, labels)
    assert value is not None, f"{name}{labels} is not exported"
    return value


def test_a_wait_that_has_not_ended_already_shows_in_the_scrape() -> None:
    time = FakeTime()
    clock = Clock(time)
    registry = CollectorRegistry()
    StageMetrics("environment", clock, lambda: 1, registry)
    slot = clock.open(State.TOOL)
    seen = []
    for now in (10.0, 25.0, 600.0):
        time.now = now
        seen.append(scraped(registry, "steelyard_stage_seconds_total", stage="environment", state="tool"))
    assert seen == [10, 25, 600]
    assert slot.state is State.TOOL


def test_a_clock_that_steps_back_takes_nothing_away() -> None:
    time = FakeTime()
    clock = Clock(time)
    clock.open(State.BUSY)
    time.now = 5
    before = clock.seconds()
    time.now = 1
    assert clock.seconds() == before


def test_every_state_and_outcome_is_exported_from_the_first_scrape() -> None:
    """Absent is not zero: a counter that appears only with its first event hides that event from a rate."""
    registry = CollectorRegistry()
    clock = Clock(FakeTime())
    metrics = StageMetrics("reward-server", clock, lambda: 0, registry)
    text = generate_latest(registry).decode()
    for state in State:
        assert f'steelyard_stage_seconds_total{{stage="reward-server",state="{state}"}} 0.0' in text
    for outcome in ("ok", "failed", "timeout", "stale", "duplicate"):
        assert f'steelyard_stage_units_total{{outcome="{outcome}",stage="reward-server"}} 0.0' in text
    metrics.unit("ok", 0.3)
    assert scraped(registry, "steelyard_stage_service_seconds_sum", stage="reward-server") == pytest.approx(0.3)


def test_the_buckets_of_seconds_reach_from_a_millisecond_to_half_an_hour() -> None:
    assert SECONDS[0] == pytest.approx(0.001)
    assert SECONDS[-1] == 1800
    assert list(SECONDS) == sorted(set(SECONDS))
    assert all(upper / lower < 3 for lower, upper in itertools.pairwise(SECONDS))
