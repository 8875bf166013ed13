"""What can be known about a model folder before an engine touches it."""

import json
from pathlib import Path


class Torn(Exception):
    """The weights of this version are not all there; the engine still has its old ones."""


def check_whole(folder: Path) -> None:
    """Raise Torn unless the folder holds safetensors files that are as long as their own headers say."""
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise Torn(f"{folder}: no safetensors")
    for path in files:
        try:
            with path.open("rb") as file:
                header_length = int.from_bytes(file.read(8), "little")
                header = json.loads(file.read(min(header_length, 2**27)))
            ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
            size = path.stat().st_size
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise Torn(f"{path}: {type(error).__name__}: {error}") from error
        if size != 8 + header_length + max(ends, default=0):
            raise Torn(f"{path}: {size} bytes, its header says {8 + header_length + max(ends, default=0)}")
