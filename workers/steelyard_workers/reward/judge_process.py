"""The child of `judge`: reads trajectories, a line each, from stdin and writes a line of JSON for each.

What the user's code prints goes to stderr, so that it cannot garble the answers.
"""

import asyncio
import inspect
import json
import math
import os
import sys
from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any, BinaryIO

from steelyard_workers.messages import Trajectory
from steelyard_workers.plugins import load
from steelyard_workers.termination import UserError
from steelyard_workers.tracebacks import show_once


def score(function: Callable[..., Any], args: Mapping[str, str], trajectory: Trajectory) -> dict[str, Any]:
    """One answer: reward and parts, or why there is none."""
    try:
        result = function(trajectory, **args)
        if inspect.isawaitable(result):
            result = asyncio.run(_awaited(result))
    except Exception as error:  # user code may raise anything
        show_once(error)
        return {"failed": f"{type(error).__name__}: {error}"}
    parts = result if isinstance(result, Mapping) else {}
    values = list(parts.values()) if isinstance(result, Mapping) else [result]
    if not values or not all(isinstance(value, Real) and math.isfinite(value) for value in values):
        return {"failed": f"the reward function returned {result!r}, no finite number"}
    return {"reward": float(sum(values)), "parts": {str(name): float(value) for name, value in parts.items()}}


async def _awaited(result: Any) -> Any:
    return await result


def main(entrypoint: str, args: Mapping[str, str], answers: BinaryIO) -> None:
    """Answer until stdin ends."""
    try:
        function = load(entrypoint, "stages.rewardServer.entrypoint")
        inspect.signature(function).bind(None, **args)
    except UserError as error:
        _write(answers, {"unusable": str(error)})
        return
    except TypeError as error:
        _write(answers, {"unusable": f"stages.rewardServer.args {dict(args)} do not fit {entrypoint}: {error}"})
        return
    except ValueError:  # a callable without a readable signature is taken at its word
        pass
    _write(answers, {"ready": True})
    for line in sys.stdin.buffer:
        _write(answers, score(function, args, Trajectory.model_validate_json(line)))


def _write(answers: BinaryIO, answer: Mapping[str, Any]) -> None:
    answers.write(json.dumps(answer).encode() + b"\n")
    answers.flush()


if __name__ == "__main__":
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as out:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        main(sys.argv[1], json.loads(sys.argv[2]), out)
