"""Pure: which entries of a job's ledger may go."""

from __future__ import annotations

from collections.abc import Sequence

from steelyard.api import AllocationRevision, Origin, RevisionPhase

KEPT = 50


def prunable(revisions: Sequence[AllocationRevision], pin: str | None, keep: int = KEPT) -> list[AllocationRevision]:
    """The oldest beyond `keep`; never the active, pinned or held one, nor a parent of one that stays."""
    ordered = sorted(revisions, key=lambda revision: revision.spec.number)
    doomed = ordered[: max(0, len(ordered) - keep)]
    active = next((r for r in reversed(ordered) if r.status.phase is not RevisionPhase.SUPERSEDED), None)
    parents = {revision.spec.parent for revision in ordered[len(doomed) :]}
    return [
        revision
        for revision in doomed
        if revision is not active
        and revision.metadata.name not in {pin, *parents}
        and revision.spec.origin is not Origin.USER
    ]
