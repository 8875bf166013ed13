"""Exactly one operator acts, whatever happens to it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.operator.operating import LEASE_SECONDS, Operated, Operator
from tests.integration.processes import Prometheus

pytestmark = pytest.mark.timeout(240, func_only=True)


@pytest.fixture
def second(credentials: Path, prometheus: Prometheus) -> Iterator[Operator]:
    """Another operator on the same cluster."""
    operator = Operator(sys.executable, credentials, prometheus.url, credentials.parent, identity="operator-1")
    with operator:
        yield operator


def held(operator: Operator) -> bool:
    return operator.metric("steelyard_operator_lease_held") == 1.0


def test_a_second_operator_waits_and_takes_over_when_the_first_is_gone(operated: Operated, second: Operator) -> None:
    operated.start()
    assert held(operated.operator)
    assert not held(second)
    assert second.metric('steelyard_operator_ticks_total{result="not-leader"}') > 0
    assert second.metric('steelyard_operator_api_requests_total{outcome="200",verb="PATCH"}') == 0

    operated.operator.kill()
    operated.until("the second one acts", lambda: held(second), LEASE_SECONDS)
    operated.start(name="another")

    operated.operator.start()
    assert not held(operated.operator)
    second.stop()
    operated.until("it acts again, at once", lambda: held(operated.operator))
    second.start()
