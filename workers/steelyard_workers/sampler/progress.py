"""Notices an engine that holds requests and writes nothing: it looks healthy from outside and never comes back."""

import time
from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry

STALL_SECONDS = 300.0
COUNTERS = frozenset({"vllm:prompt_tokens_total", "vllm:generation_tokens_total"})


class Progress:
    """Compares the engine's token counters from one look to the next."""

    def __init__(self, tokens: Callable[[], float], now: Callable[[], float] = time.monotonic) -> None:
        self._tokens, self._now = tokens, now
        self._seen = -1.0
        self._since = now()

    def objection(self, running: int, syncing: bool) -> str | None:
        """Why the engine should be restarted, None while it works, has nothing to do or is being updated."""
        tokens = self._tokens()
        if tokens != self._seen or not running or syncing:
            self._seen, self._since = tokens, self._now()
            return None
        still = self._now() - self._since
        return f"{running} requests and no token for {still:.0f} s" if still >= STALL_SECONDS else None


def engine_tokens(registry: CollectorRegistry) -> float:
    """All tokens that vLLM counted in this process."""
    samples: Iterable[float] = (
        sample.value for metric in registry.collect() for sample in metric.samples if sample.name in COUNTERS
    )
    return sum(samples)
