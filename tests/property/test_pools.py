"""No GPU of a pool is lent twice, wherever the operator is killed and whatever happens between two requests."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.cluster.protocol import Cluster
from tests.fakes import Killed
from tests.unit.operator.sharing import BIG, SMALL, Sharing

CASES = 20
"""A case takes half a second."""


async def test_an_operator_killed_at_any_write_ends_in_the_same_grants_and_never_lends_a_gpu_twice() -> None:
    start = Sharing()
    start.add("one", "low", BIG)
    await start.run()
    for writes in range(60):
        sharing = start.copy()
        sharing.add("two", "high", SMALL)
        sharing.cluster.drains = True
        sharing.cluster.dies_after = writes
        died = False
        for _ in range(6):
            try:
                await sharing.run(2)
            except Killed:
                died = True
                sharing.restart()
            sharing.cluster.let_go()

        assert sharing.grants == {"one": "5", "two": "3"}
        assert (sharing.gpus("one"), sharing.gpus("two")) == (5, 3)
        assert max(sharing.cluster.gpus) <= 8
        if not died:
            assert writes > 12
            return
    raise AssertionError("sharing takes more writes than expected")


class Slow:
    """A cluster whose requests take their time, on the way there and on the way back."""

    def __init__(self, inner: Cluster, seed: int) -> None:
        self._inner, self._random = inner, random.Random(seed)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name not in ("record", "annotate", "apply", "set_status", "set_pool_status", "event", "pool_event"):
            return found

        async def later(*args: Any) -> Any:
            await self.pause(2 if "pool" in name else 12)
            answer = await found(*args)
            await self.pause(2)
            return answer

        return later

    async def pause(self, longest: int) -> None:
        for _ in range(self._random.randrange(longest)):
            await asyncio.sleep(0)


@settings(max_examples=CASES)
@given(seed=st.integers(0, 2**32))
def test_whatever_happens_between_two_requests_no_gpu_is_lent_twice(seed: int) -> None:
    """Jobs, pool, controllers and kubelets at the same time, in any order; demands change meanwhile."""

    async def play() -> None:
        sharing = Sharing()
        for name, queue, changes in (("one", "low", BIG), ("two", "high", SMALL), ("three", "low", BIG)):
            sharing.add(name, queue, changes)
        slow, dice = Slow(sharing.cluster, seed), random.Random(seed + 1)
        sharing.restart(slow)
        sharing.cluster.drains = True
        over = False

        async def forever(what: Any) -> None:
            while not over:
                await what()
                await slow.pause(4)
                await asyncio.sleep(0)

        async def world() -> None:
            sharing.cluster.now += 1
            await asyncio.sleep(0)
            dice.choice([sharing.cluster.settle, sharing.cluster.settle, sharing.cluster.let_go])()

        async def people() -> None:
            for _ in range(dice.randrange(4, 30)):
                await asyncio.sleep(0)
            wanted = {"mode": "Fixed", "fixed": {"sampler": {"whole": dice.randint(1, 6)}}}
            sharing.change_spec(dice.choice(sharing.names), {"scaling": wanted, "suspend": dice.random() < 0.1})

        acting = [lambda name=name: sharing.tick(name) for name in sharing.names]
        tasks = [forever(what) for what in (*acting, lambda: sharing.pool.tick(sharing.cluster.now), world, people)]
        running = [asyncio.create_task(task) for task in tasks]
        for _ in range(400):
            await asyncio.sleep(0)
        over = True
        await asyncio.gather(*running)

        assert max(sharing.cluster.gpus) <= 8
        assert max(sharing.cluster.gpus) > 4, "nobody tried"

    asyncio.run(play())
