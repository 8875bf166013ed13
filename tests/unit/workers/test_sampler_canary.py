"""The canary: which figures prove that an engine has the weights, and which folders are not worth loading."""

import json
import math
import random
from pathlib import Path

import pytest

from steelyard_workers.sampler.canary import FILE, FLOAT32_TOLERANCE, REDUCED_TOLERANCE, Canary, Sighting
from steelyard_workers.sampler.checkpoint import Torn, check_whole

LENGTH = 32


def canary(seed: int = 0, drift: float = 0.0) -> Canary:
    """Log-probabilities of some version; `drift` nats away from those of the same seed without drift."""
    values = random.Random(seed)
    logprobs = [-values.uniform(0.1, 12) for _ in range(LENGTH)]
    return Canary(tuple(range(LENGTH + 1)), tuple(value + drift * values.choice((-1, 1)) for value in logprobs))


def measured(of: Canary, noise: float) -> tuple[float, ...]:
    """What an engine with these weights says, its arithmetic erring by `noise` nats."""
    errors = random.Random(99)
    return tuple(value + errors.uniform(-2, 2) * noise for value in of.logprobs)


OLD, NEW = canary(), canary(drift=0.002)
NEW_IN_16_BITS = canary(drift=0.04)


@pytest.mark.parametrize(
    ("published", "loaded", "noise", "tolerance", "want"),
    [
        (NEW, NEW, 1e-5, FLOAT32_TOLERANCE, None),
        (NEW, OLD, 1e-5, FLOAT32_TOLERANCE, "the engine still computes with the version before"),
        (NEW, canary(seed=1), 1e-5, FLOAT32_TOLERANCE, "log-probabilities differ by"),
        (NEW_IN_16_BITS, NEW_IN_16_BITS, 0.05, REDUCED_TOLERANCE, None),
        (NEW_IN_16_BITS, OLD, 0.05, REDUCED_TOLERANCE, None),
        (NEW_IN_16_BITS, canary(seed=1), 0.05, REDUCED_TOLERANCE, "log-probabilities differ by"),
    ],
    ids=[
        "the new weights in float32",
        "the old weights after a small step, in float32",
        "other weights in float32",
        "the new weights in 16 bits",
        "the old weights after a step too small to be told from the arithmetic, in 16 bits",
        "other weights in 16 bits",
    ],
)
def test_what_an_engine_says_proves_its_weights(
    published: Canary, loaded: Canary, noise: float, tolerance: float, want: str | None
) -> None:
    """PrimeIntellect-ai/prime#381: a server that keeps the old weights after an update must be noticed."""
    before = Sighting(OLD, measured(OLD, noise))
    objection = Sighting(published, measured(loaded, noise)).objection(tolerance, before)
    assert objection is None if want is None else objection is not None and objection.startswith(want)


def test_the_first_version_is_judged_without_one_before() -> None:
    assert Sighting(NEW, measured(NEW, 1e-5)).objection(FLOAT32_TOLERANCE, None) is None
    assert Sighting(NEW, measured(canary(seed=1), 1e-5)).objection(FLOAT32_TOLERANCE, None)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_an_engine_that_gives_no_number_is_not_believed(bad: float) -> None:
    assert Sighting(NEW, (bad, *NEW.logprobs[1:])).objection(REDUCED_TOLERANCE, None)


def test_too_few_figures_are_not_believed() -> None:
    assert Sighting(NEW, NEW.logprobs[1:]).objection(REDUCED_TOLERANCE, None)


def test_versions_with_different_canary_tokens_are_not_compared() -> None:
    other = Sighting(Canary(tuple(range(1, LENGTH + 2)), OLD.logprobs), OLD.logprobs)
    assert Sighting(NEW, OLD.logprobs).objection(REDUCED_TOLERANCE, other) is None


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        '{"tokens": [1, 2]}',
        '{"tokens": [1, 2], "logprobs": [-1, -2]}',
        '{"tokens": [], "logprobs": []}',
        '{"tokens": [1, 2], "logprobs": ["x"]}',
    ],
)
def test_a_canary_that_is_not_whole_makes_its_version_torn(content: str, tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(content)
    with pytest.raises(Torn):
        Canary.load(tmp_path)


def test_a_canary_is_read_and_may_be_missing(tmp_path: Path) -> None:
    assert Canary.load(tmp_path) is None
    (tmp_path / FILE).write_text('{"tokens": [1, 2, 3], "logprobs": [-1, -0.5]}')
    assert Canary.load(tmp_path) == Canary((1, 2, 3), (-1.0, -0.5))


def safetensors(data: int = 16, said: int = 16) -> bytes:
    """A file whose header promises `said` bytes and that holds `data`."""
    entry = {"dtype": "F32", "shape": [said // 4], "data_offsets": [0, said]}
    header = json.dumps({"__metadata__": {"format": "pt"}, "weight": entry}).encode()
    return len(header).to_bytes(8, "little") + header + b"\0" * data


@pytest.mark.parametrize(
    ("files", "whole"),
    [
        ({"model.safetensors": safetensors()}, True),
        ({"model-1.safetensors": safetensors(), "model-2.safetensors": safetensors(0, 0)}, True),
        ({}, False),
        ({"model.safetensors": b""}, False),
        ({"model.safetensors": safetensors()[:20]}, False),
        ({"model.safetensors": safetensors(data=12)}, False),
        ({"model.safetensors": safetensors(data=20)}, False),
        ({"model.safetensors": b"\xff" * 64}, False),
        ({"model-1.safetensors": safetensors(), "model-2.safetensors": safetensors(data=0)}, False),
    ],
    ids=["whole", "two files", "none", "empty", "header cut", "data cut", "too long", "rubbish", "the second cut"],
)
def test_a_folder_is_whole_when_its_files_are_as_long_as_their_headers_say(
    files: dict[str, bytes], whole: bool, tmp_path: Path
) -> None:
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    if whole:
        check_whole(tmp_path)
    else:
        with pytest.raises(Torn):
            check_whole(tmp_path)
