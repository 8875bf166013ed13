"""`steelyard twin`: what a policy would make of a workload, on a simulated pipeline instead of GPUs."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from steelyard.twin import report
from steelyard.twin.calibrate import calibrated
from steelyard.twin.compare import POLICIES, UnknownPolicy, play
from steelyard.twin.page import page
from steelyard.twin.profiles import PROFILES, Profile, TooFewGpus, UnknownProfile
from steelyard.twin.profiles import profile as named
from steelyard.twin.recording import Malformed, read
from steelyard.twin.traces import Malformed as BadTrace
from steelyard.twin.traces import read as read_trace

BAD_INPUT = 2


class Output(StrEnum):
    TABLE = "table"
    JSON = "json"
    HTML = "html"


def twin(
    name: Annotated[str, typer.Option("--profile", help=f"Workload to simulate: {', '.join(PROFILES)}.")] = "drift",
    gpus: Annotated[int, typer.Option(max=4096, help="GPUs that all stages share.")] = 48,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same result.")] = 1,
    steps: Annotated[
        int | None, typer.Option(min=2, max=10000, help="Training steps; the profile's by default.")
    ] = None,
    policy: Annotated[str, typer.Option(help=f"What decides: {', '.join(POLICIES)}.")] = "steelyard",
    compare: Annotated[bool, typer.Option("--compare", help="Play every policy, not only one.")] = False,
    trace: Annotated[Path | None, typer.Option(help="Draw trajectories from recorded sessions (CSV).")] = None,
    recording: Annotated[
        Path | None, typer.Option(help="Simulate the job of this recording (`e2e.record`) instead of a profile.")
    ] = None,
    output: Annotated[Output, typer.Option("-o", "--output", help="How to print the result.")] = Output.TABLE,
) -> None:
    """Simulate a job under a policy, or under every policy, on the digital twin.

    Exit codes: 0 done, 2 bad input.
    """
    try:
        chosen = _profile(name, gpus, trace, recording)
        chosen = replace(chosen, steps=steps) if steps else chosen
        names = tuple(POLICIES) if compare else (policy,)
        played = []
        for one in names:
            typer.echo(f"simulating {one} ...", err=True)
            played.append(play(chosen, one, seed))
    except (UnknownProfile, UnknownPolicy, BadTrace, Malformed, OSError) as problem:
        typer.echo(f"error: {problem}", err=True)
        raise typer.Exit(BAD_INPUT) from problem
    typer.echo({Output.TABLE: report.table, Output.JSON: report.as_json, Output.HTML: page}[output](played), nl=False)


def _profile(name: str, gpus: int, trace: Path | None, recording: Path | None) -> Profile:
    if recording is not None:
        recorded = read(recording.read_bytes())
        return calibrated(recorded, recorded.windows[0])
    try:
        chosen = named(name, gpus)
    except TooFewGpus as problem:
        raise typer.BadParameter(str(problem), param_hint="--gpus") from problem
    if trace is None:
        return chosen
    return replace(chosen, sessions=read_trace(trace.read_text("utf-8", errors="replace")))
