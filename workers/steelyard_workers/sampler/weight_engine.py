"""Runs inside vLLM's workers: loads a model folder from the shared volume into the running model, a shard a rank."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from vllm.distributed.weight_transfer.base import (
    WeightTransferEngine,
    WeightTransferInitInfo,
    WeightTransferUpdateInfo,
)
from vllm.model_executor.model_loader.reload import finalize_layerwise_reload, initialize_layerwise_reload


@dataclass
class NoInit(WeightTransferInitInfo):  # type: ignore[misc]  # mypy skips vllm
    """A shared folder needs no rendezvous."""


@dataclass
class Folder(WeightTransferUpdateInfo):  # type: ignore[misc]
    """Where the safetensors are."""

    path: str


class SharedFolderEngine(WeightTransferEngine[NoInit, Folder]):  # type: ignore[misc]
    """One update is one folder: every tensor of the model, in the names of its checkpoint."""

    init_info_cls = NoInit
    update_info_cls = Folder

    def init_transfer_engine(self, init_info: NoInit) -> None:
        """Nothing to prepare."""

    def start_weight_update(self) -> None:
        """From here on loaded tensors are gathered layer by layer."""
        initialize_layerwise_reload(self.model)

    def update_weights(self, update_info: dict[str, Any]) -> None:
        """vLLM's own version assumes an accelerator to wait for."""
        self.receive_weights(self.parse_update_info(update_info))
        if torch.accelerator.is_available():
            torch.accelerator.synchronize()

    def receive_weights(self, update_info: Folder) -> None:
        """Read the folder."""
        self.model.load_weights(_tensors(Path(update_info.path)))

    def finish_weight_update(self) -> None:
        """Put the gathered layers in the place of the old ones."""
        finalize_layerwise_reload(self.model, self.model_config)

    def shutdown(self) -> None:
        """Nothing to release."""


def _tensors(folder: Path) -> Iterator[tuple[str, torch.Tensor]]:
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, "pt") as file:
            for name in file.keys():  # noqa: SIM118 - a file handle, not a mapping
                yield name, file.get_tensor(name)
