"""Text to tokens and back, with the tokenizer of the model that is trained."""

from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer as Backend

from steelyard_workers.termination import UserError


class Tokenizer:
    """The model's own tokenizer; special tokens are kept as text in both directions, none are added."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    @classmethod
    def load(cls, model: Path) -> "Tokenizer":
        """Read `tokenizer.json` of a model folder; UserError when there is none or it is broken."""
        path = model / "tokenizer.json"
        try:
            return cls(Backend.from_str(path.read_text(encoding="utf-8")))
        except OSError as error:
            raise UserError(f"model {model}: no tokenizer: {path.name}: {error.strerror}") from error
        except Exception as error:  # the library raises bare exceptions
            raise UserError(f"model {model}: {path.name} is no tokenizer: {error}") from error

    def encode(self, text: str) -> list[int]:
        """The tokens of `text`."""
        return list(self._backend.encode(text, add_special_tokens=False).ids)

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of `tokens`."""
        return str(self._backend.decode(list(tokens), skip_special_tokens=False))
