"""`steelyard twin`: what a policy would make of a workload, on a simulated pipeline instead of GPUs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from steelyard.cli.codes import Exit
from steelyard.cli.contradictions import refuse_beside
from steelyard.cli.output import Format, PageOutput, note, write, write_page
from steelyard.twin import report
from steelyard.twin.calibrate import calibrated
from steelyard.twin.compare import POLICIES, UnknownPolicy, play
from steelyard.twin.page import page
from steelyard.twin.profiles import MOST_GPUS, PROFILES, Profile, TooFewGpus, UnknownProfile
from steelyard.twin.profiles import profile as named
from steelyard.twin.recording import Malformed, read
from steelyard.twin.traces import Malformed as BadTrace
from steelyard.twin.traces import Session
from steelyard.twin.traces import read as read_trace


def twin(
    asked: typer.Context,
    name: Annotated[
        str, typer.Option("--profile", metavar="NAME", help=f"Workload to simulate: {', '.join(PROFILES)}.")
    ] = "drift",
    gpus: Annotated[int, typer.Option(max=MOST_GPUS, metavar="N", help="GPUs that all stages share.")] = 48,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Same seed, same result.")] = 1,
    steps: Annotated[
        int | None, typer.Option(min=2, max=10000, metavar="N", help="Training steps; the profile's by default.")
    ] = None,
    policy: Annotated[str, typer.Option(metavar="NAME", help=f"What decides: {', '.join(POLICIES)}.")] = "steelyard",
    compare: Annotated[bool, typer.Option("--compare", help="Play every policy, not only one.")] = False,
    trace: Annotated[
        Path | None, typer.Option(metavar="FILE.csv", help="Draw trajectories from recorded sessions.")
    ] = None,
    recording: Annotated[
        Path | None,
        typer.Option(metavar="FILE.json", help="Simulate the job of this recording (`e2e.record`), no profile."),
    ] = None,
    output: PageOutput = Format.TABLE,
) -> Exit:
    """Simulate a job under a policy, or under every policy, on the digital twin.

    Exit codes: 0 done, 2 bad input.

    \b
    $ steelyard twin --profile drift --gpus 48
    $ steelyard twin --compare --profile drift -o drift.html
    """
    if recording:
        refuse_beside("--recording", asked, "name", "gpus", "trace")
    if compare:
        refuse_beside("--compare", asked, "policy")
    chosen = _recorded(recording) if recording else _profile(name, gpus)
    chosen = replace(chosen, sessions=_sessions(trace)) if trace else chosen
    chosen = replace(chosen, steps=steps) if steps else chosen
    played = []
    for one in tuple(POLICIES) if compare else (policy,):
        note(f"simulating {one} ...")
        try:
            played.append(play(chosen, one, seed))
        except UnknownPolicy as problem:
            raise typer.BadParameter(str(problem), param_hint="--policy") from problem
    if output == Format.TABLE:
        typer.echo(report.table(played), nl=False)
    elif output == Format.JSON:
        write("Twin", [report.document(played)], Format.JSON)
    else:
        write_page(page(played), output)
    return Exit.OK


def _profile(name: str, gpus: int) -> Profile:
    try:
        return named(name, gpus)
    except UnknownProfile as problem:
        raise typer.BadParameter(str(problem), param_hint="--profile") from problem
    except TooFewGpus as problem:
        raise typer.BadParameter(str(problem), param_hint="--gpus") from problem


def _recorded(file: Path) -> Profile:
    try:
        recorded = read(_bytes(file, "--recording"))
        return calibrated(recorded, recorded.windows[0])
    except Malformed as problem:
        raise typer.BadParameter(f"{file}: {problem}", param_hint="--recording") from problem


def _sessions(file: Path) -> tuple[Session, ...]:
    try:
        return read_trace(_bytes(file, "--trace").decode("utf-8-sig", errors="replace"))
    except BadTrace as problem:
        raise typer.BadParameter(f"{file}: {problem}", param_hint="--trace") from problem


def _bytes(file: Path, option: str) -> bytes:
    try:
        return file.read_bytes()
    except OSError as problem:
        raise typer.BadParameter(f"{file}: {problem.strerror}", param_hint=option) from problem
