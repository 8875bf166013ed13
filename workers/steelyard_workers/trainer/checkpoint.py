"""Checkpoints: one folder `epoch.step` with the policy (a model folder like any other), the optimiser, the random state
and the ledger. A checkpoint counts once the bus's `head` names it; what no pointer ever named is garbage.
"""

import logging
import shutil
from pathlib import Path
from typing import Any

import torch

from steelyard_workers.messages import PolicyVersion
from steelyard_workers.termination import UserError
from steelyard_workers.trainer import files
from steelyard_workers.trainer.ledger import Ledger
from steelyard_workers.trainer.policy import Policy

LEDGER = "ledger.json"
STATE = "trainer.pt"

log = logging.getLogger(__name__)


class Checkpoints:
    """The job's checkpoint folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, policy: Policy, ledger: Ledger) -> str:
        """Make a checkpoint durable under its own name, which is returned. Nobody knows of it yet."""
        name = str(PolicyVersion(ledger.epoch, ledger.step))
        with files.whole_folder(self._folder / name) as folder:
            policy.save(folder, torch.float32)
            torch.save({"optimizer": policy.optimizer.state_dict(), "rng": _rng()}, folder / STATE)
            (folder / LEDGER).write_text(ledger.model_dump_json(), encoding="utf-8")
        return name

    def ledger(self, name: str) -> Ledger:
        """The ledger of a checkpoint; UserError when it is not there any more."""
        path = self._folder / name / LEDGER
        try:
            return Ledger.model_validate_json(path.read_bytes())
        except OSError as error:
            raise UserError(f"checkpoint {path}: {error.strerror}; the bus names it as the job's state") from error
        except ValueError as error:
            raise UserError(f"checkpoint {path}: not a ledger: {error}") from error

    def load(self, name: str, policy: Policy) -> None:
        """Put weights, optimiser and random state of a checkpoint into `policy`.

        Raises UserError when it is the checkpoint of another model.
        """
        folder = self._folder / name
        policy.restore(folder)
        state: dict[str, Any] = torch.load(folder / STATE, map_location=policy.device, weights_only=True)
        policy.optimizer.load_state_dict(state["optimizer"])
        _set_rng(state["rng"])

    def newest(self) -> str | None:
        """The newest complete checkpoint on disk: where to resume when the bus has lost its memory."""
        complete = [path.name for _, path in files.versions(self._folder) if (path / STATE).is_file()]
        return complete[-1] if complete else None

    def tidy(self, head: str, parent: str | None) -> None:
        """After a commit: of checkpoints older than the parent only the ledger is kept."""
        keep = {head, parent}
        newest = PolicyVersion.parse(head)
        for version, path in files.versions(self._folder):
            if path.name in keep or version > newest:
                continue
            for heavy in path.iterdir():
                if heavy.name != LEDGER:
                    heavy.unlink()

    def discard_garbage(self, epoch: int, head: str | None) -> None:
        """At the start of an epoch: remove what earlier epochs wrote and never committed.

        Where a ledger is missing nobody knows what was committed before it, and all of that stays.
        """
        named = set()
        try:
            while head is not None:
                named.add(head)
                head = self.ledger(head).parent
        except UserError as error:
            log.warning("%s; checkpoints before it are left as they are", error)
        oldest = PolicyVersion(0, 0) if head is None else PolicyVersion.parse(head)
        for version, path in files.versions(self._folder):
            if oldest < version and version.epoch < epoch and path.name not in named:
                log.info("checkpoint %s was never committed: removed", path.name)
                shutil.rmtree(path)
        for path in self._folder.glob(f"*{files.PARTIAL}"):
            shutil.rmtree(path, ignore_errors=True)


def _rng() -> dict[str, Any]:
    return {"cpu": torch.get_rng_state(), "cuda": torch.cuda.get_rng_state_all()}


def _set_rng(state: dict[str, Any]) -> None:
    torch.set_rng_state(state["cpu"].cpu())
    if len(state["cuda"]) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all([device.cpu() for device in state["cuda"]])
