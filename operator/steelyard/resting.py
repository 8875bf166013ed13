"""Pure: the jobs that are not balanced, because they have ended or have nothing to run on."""

from __future__ import annotations

from steelyard.balance.types import Action, Decision, Fact, Plan, Seen
from steelyard.children.render import Ending
from steelyard.cluster.quota import Means


def resting(before: Seen, ended: Ending | None, has: Means) -> Plan | None:
    """The plan of a job that is not balanced at this time; None for all others."""
    if ended:
        kind, why = "Ended", "the job has ended"
    elif has.waits:
        kind, why = "WaitingForGpus", "the job waits for GPUs of its pool"
    elif has.quota and before.job.spec.suspend:  # on the budget of none that it has there is nothing to decide
        kind, why = "Suspended", "the job is suspended"
    else:
        return None
    rests = Fact(False, kind, why)
    return Plan(Decision(Action.HOLD, kind, f"no change because {why}"), before.active, metrics=rests, balanced=rests)
