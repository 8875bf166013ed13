"""What the status says after something went wrong or came back."""

from __future__ import annotations

from steelyard.cluster.errors import Refused
from tests.unit.operator.operating import FIXED, Operated


async def test_a_resumed_job_runs_again_in_every_word_of_its_status(operated: Operated) -> None:
    """kubeflow/trainer#3666, kubeflow/sdk#803: the last condition decided, and a resumed job stayed Suspended."""
    operated.change_spec({"suspend": True})
    await operated.run(12)
    assert operated.status["phase"] == "Suspended"
    operated.change_spec({"suspend": False})
    await operated.run(12)
    assert operated.status["phase"] == "Running"
    assert operated.condition("Suspended")[0] == "False"
    assert operated.condition("Ready")[0] == "True"


async def test_a_child_that_cannot_be_made_leaves_no_empty_status() -> None:
    """kubeflow/trainer#2351, kubeflow/trainer#3671: creation failed and the status stayed empty."""
    operated = Operated(FIXED)
    operated.cluster.refuses = Refused("deployments.apps is forbidden: exceeded quota: objects")
    await operated.run(2)
    assert operated.condition("QuotaReserved")[:2] == ("False", "Refused")
    assert operated.condition("Stalled")[:2] == ("True", "ApplyRefused")
    assert operated.status["activeRevision"] == "calculator-1"
    operated.cluster.refuses = None
    await operated.run(8)
    assert operated.condition("QuotaReserved")[0] == "True"
    assert operated.status["phase"] == "Running"
