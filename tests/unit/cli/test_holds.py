"""What hold, pause, undo and resume write: decided before anything is sent, with field, value and rule."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import typer

from steelyard.api import Allocation, AllocationRevision, Origin, Stage
from steelyard.balance.ledger import completed
from steelyard.balance.types import Seen
from steelyard.cli import holds
from steelyard.cli.ages import length
from steelyard.cli.gitops import git_owner
from tests.builders import a_job, a_revision, an_allocation

NOW = datetime(2026, 11, 30, 13, 0, tzinfo=UTC)
APPLIED = {"applied_time": NOW}


def seen(*revisions: AllocationRevision, changes: Mapping[str, Any] | None = None, **job: Any) -> Seen:
    return Seen(a_job(changes, **job), completed(revisions or [a_revision(1, status=APPLIED)]))


def samplers(**profiles: int) -> Allocation:
    return an_allocation({Stage.SAMPLER: profiles})


def by_hand(number: int, after: Allocation, ends: timedelta | None = timedelta(hours=1)) -> AllocationRevision:
    expires = None if ends is None else NOW + ends
    return a_revision(number, after, origin=Origin.USER, expires_at=expires, status=APPLIED)


WANTED = {
    "the profile that runs is kept": (samplers(whole=4), None, 2, samplers(whole=2)),
    "another profile takes the place of the one that runs": (samplers(whole=4), "slice", 6, samplers(slice=6)),
    "of a mix one profile is left": (samplers(whole=2, slice=2), "whole", 3, samplers(whole=3)),
}


@pytest.mark.parametrize(("now", "profile", "replicas", "want"), WANTED.values(), ids=WANTED)
def test_a_stage_gets_exactly_what_is_asked(
    now: Allocation, profile: str | None, replicas: int, want: Allocation
) -> None:
    at = seen(a_revision(1, now, status=APPLIED))
    assert holds.with_replicas(at, Stage.SAMPLER, profile, replicas) == want


REFUSED: dict[str, tuple[Mapping[str, Any], Allocation, str]] = {
    "too many replicas": ({}, samplers(whole=7), "spec.stages.sampler.replicas: 7: must lie between min 1 and max 6"),
    "too few": (
        {"stages.environment.replicas.min": 2},
        an_allocation(),
        "spec.stages.environment.replicas: 1: must lie between min 2 and max 32",
    ),
    "none at all": ({}, samplers(), "spec.stages.sampler.replicas: 0: must lie between min 1 and max 6"),
    "more GPUs than the budget": (
        {"budget.gpus": 5},
        samplers(whole=4),
        "spec.budget.gpus: 5: the allocation takes 6 GPUs: sampler 4 whole,",
    ),
    "a profile that is gone": (
        {},
        samplers(half=1),
        "spec.stages.sampler.gpuProfiles: half: the profiles are whole, slice",
    ),
    "a pin": ({"scaling.pin": "calculator-1"}, samplers(whole=2), "spec.scaling.pin: calculator-1: a pin is stronger"),
}


@pytest.mark.parametrize(("changes", "wanted", "says"), REFUSED.values(), ids=REFUSED)
def test_what_the_operator_would_refuse_is_refused_before(
    changes: Mapping[str, Any], wanted: Allocation, says: str
) -> None:
    with pytest.raises(holds.NotAllowed) as refused:
        holds.hold(seen(changes=changes), wanted, None, "alice holds it")
    assert str(refused.value).startswith(says)


def test_a_pool_that_lends_less_than_the_budget_is_the_limit() -> None:
    at = seen(status={"gpus": {"budget": "5", "used": "5"}})
    with pytest.raises(holds.NotAllowed, match=r"status.gpus.budget: 5: what the pool lends; the allocation takes 6"):
        holds.check(at, an_allocation())
    holds.check(at, samplers(whole=3))


ASKED_WRONGLY = {
    "an unknown profile": (samplers(whole=4), "half", "--profile: half: spec.stages.sampler.gpuProfiles has whole"),
    "a mix without a profile": (samplers(whole=2, slice=2), None, "--profile: not given: sampler runs slice, whole"),
}


@pytest.mark.parametrize(("now", "profile", "says"), ASKED_WRONGLY.values(), ids=ASKED_WRONGLY)
def test_the_profile_must_be_clear(now: Allocation, profile: str | None, says: str) -> None:
    with pytest.raises(holds.NotAllowed) as refused:
        holds.with_replicas(seen(a_revision(1, now, status=APPLIED)), Stage.SAMPLER, profile, 2)
    assert str(refused.value).startswith(says)


def test_before_the_first_allocation_there_is_nothing_to_hold() -> None:
    with pytest.raises(holds.NotAllowed, match=r"status.activeRevision: none"):
        holds.present(Seen(a_job()))


def test_a_hold_is_the_next_entry_of_the_ledger() -> None:
    at = seen(a_revision(1, status=APPLIED), a_revision(4, samplers(whole=3), before=an_allocation(), status=APPLIED))
    entry = holds.hold(at, samplers(whole=2), NOW, "alice holds it")
    assert (entry.metadata.name, entry.spec.number, entry.spec.parent) == ("calculator-5", 5, "calculator-4")
    assert (entry.spec.origin, entry.spec.expires_at) == (Origin.USER, NOW)
    assert entry.metadata.labels == {"steelyard.dev/job": "calculator"}
    assert entry.spec.reason == "alice holds it: sampler 3 -> 2"
    assert entry.spec.allocation.before == samplers(whole=3)


EARLIER = (
    a_revision(1, samplers(whole=1), status=APPLIED),
    a_revision(2, samplers(whole=2), status=APPLIED),
    a_revision(3, samplers(whole=5)),  # never applied
    a_revision(4, samplers(whole=4), status=APPLIED),
)


def test_undo_goes_back_to_what_ran_before_the_present_allocation() -> None:
    assert holds.undone(seen(*EARLIER), None).spec.number == 2
    held = by_hand(5, samplers(whole=4))
    assert holds.undone(seen(*EARLIER, held), None).spec.number == 2, "a pause in between moved nothing"


def test_undo_goes_back_to_the_entry_that_is_named() -> None:
    assert holds.undone(seen(*EARLIER), 1).metadata.name == "calculator-1"


@pytest.mark.parametrize(
    ("number", "says"), [(9, "--to: 9: the ledger has 1, 2, 3, 4"), (4, "--to: 4: calculator-4 is what runs now")]
)
def test_undo_needs_an_entry_that_differs(number: int, says: str) -> None:
    with pytest.raises(holds.NotAllowed) as refused:
        holds.undone(seen(*EARLIER), number)
    assert str(refused.value).startswith(says)


def test_undo_of_the_first_allocation_says_that_there_is_nothing_before() -> None:
    with pytest.raises(holds.NotAllowed, match="no earlier entry"):
        holds.undone(seen(), None)


FIRST = a_revision(1, status=APPLIED)
ENDS: dict[str, tuple[tuple[AllocationRevision, ...], list[int], int]] = {
    "nothing is held": ((FIRST,), [], 1),
    "one hold": ((FIRST, by_hand(2, samplers(whole=2))), [2], 1),
    "a hold without end": ((FIRST, by_hand(2, samplers(whole=2), None)), [2], 1),
    "holds on top of each other": ((FIRST, by_hand(2, samplers(whole=2)), by_hand(3, samplers(whole=3))), [3, 2], 1),
    "a hold that is over": ((FIRST, by_hand(2, samplers(whole=2), timedelta(seconds=-1))), [], 2),
    "a hold over one that is over": (
        (FIRST, by_hand(2, samplers(whole=2), timedelta(seconds=-1)), by_hand(3, samplers(whole=3))),
        [3],
        2,
    ),
    "a hold that was taken back": ((FIRST, by_hand(2, samplers(whole=2)), a_revision(3, status=APPLIED)), [], 3),
}


@pytest.mark.parametrize(("revisions", "ended", "left"), ENDS.values(), ids=ENDS)
def test_resume_ends_every_hold_in_force_and_no_other(
    revisions: tuple[AllocationRevision, ...], ended: list[int], left: int
) -> None:
    at = seen(*revisions)
    found = holds.in_force(at, NOW.timestamp())
    assert [one.spec.number for one in found] == ended
    after = holds.after_resume(at, found)
    assert after is not None
    assert after.spec.number == left


MARKS: dict[str, tuple[dict[str, Any], str | None]] = {
    "nobody": ({"labels": {"app.kubernetes.io/instance": "web"}}, None),
    "Argo CD by annotation": (
        {"annotations": {"argocd.argoproj.io/tracking-id": "web:steelyard.dev/AgenticRLJob:default/calculator"}},
        "Argo CD (web)",
    ),
    "Argo CD by label": ({"labels": {"argocd.argoproj.io/instance": "web"}}, "Argo CD (web)"),
    "Flux's kustomizations": ({"labels": {"kustomize.toolkit.fluxcd.io/name": "apps"}}, "Flux (apps)"),
    "Flux's releases": ({"labels": {"helm.toolkit.fluxcd.io/name": "rl"}}, "Flux (rl)"),
    "by who wrote the spec": ({"managedFields": [{"manager": "kustomize-controller", "operation": "Apply"}]}, "Flux"),
    "a status is nobody's claim": (
        {"managedFields": [{"manager": "argocd-controller", "subresource": "status"}]},
        None,
    ),
    "kubectl": ({"managedFields": [{"manager": "kubectl-client-side-apply"}]}, None),
}


@pytest.mark.parametrize(("metadata", "want"), MARKS.values(), ids=MARKS)
def test_git_is_known_by_the_marks_of_its_tools(metadata: dict[str, Any], want: str | None) -> None:
    assert git_owner(metadata) == want


@pytest.mark.parametrize("text", ["", "5", "h", "1.5h", "0m", "-1h", "1h 30m", "400d"])
def test_what_is_no_length_of_time_is_named(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is no duration"):
        length(text)
