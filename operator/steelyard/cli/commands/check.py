"""`steelyard check`: whether cluster, operator, metrics and jobs are as they should be, and what to do where not."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.ages import length
from steelyard.cli.codes import Exit
from steelyard.cli.manifest import read_job
from steelyard.cli.options import Prometheus
from steelyard.cli.output import Format, Tone, note, paint, write
from steelyard.cli.session import Session

if TYPE_CHECKING:
    from steelyard.cli.checking.findings import Category, Finding

AGAIN_SECONDS = 2.0


class CheckFormat(StrEnum):
    """What `-o` may be."""

    TABLE = "table"
    SHORT = "short"
    JSON = "json"
    YAML = "yaml"


def check(
    session: Session,
    pre: Annotated[
        bool, typer.Option("--pre", help="Before installing: may it be, and does the cluster suit?")
    ] = False,
    file: Annotated[
        Path | None,
        typer.Option("-f", "--file", metavar="FILE", help="A job to check the cluster against; - is stdin."),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Again and again until nothing fails.")] = False,
    timeout: Annotated[
        int,
        typer.Option(parser=length, metavar="DURATION", show_default=False, help="How long --wait waits. Default: 5m."),
    ] = 300,
    prometheus: Prometheus = None,
    output: Annotated[
        CheckFormat,
        typer.Option(
            "-o", "--output", metavar="|".join(CheckFormat), help="short: only what is wrong, to paste into a chat."
        ),
    ] = CheckFormat.TABLE,
) -> Exit:
    """Check cluster, operator, metrics and jobs; every check runs, none needs the internet.

    Exit codes: 0 all is well; 2 no job can be read from FILE; 3 something is broken; 4 only warnings; 5 --wait waited
    in vain.

    \b
    $ steelyard check -o short
    $ steelyard check -f job.yaml
    """
    from steelyard.cli.checking.findings import Scene, run, verdict

    job = read_job(file)[1] if file else None
    if job and job.metadata.namespace and not session.asked_namespace:
        session = replace(session, asked_namespace=job.metadata.namespace)
    deadline = time.monotonic() + timeout
    while True:
        found = run(Scene(session, prometheus, job), _categories(pre=pre))
        ended = verdict(found)
        if not wait or ended is not Exit.NEGATIVE or time.monotonic() >= deadline:
            break
        failing = sum(finding.level == "failure" for _, findings in found for finding in findings)
        note(f"{failing} check{'' if failing == 1 else 's'} failed, looking again ...")
        time.sleep(AGAIN_SECONDS)
    _print(found, output)
    return Exit.TIMED_OUT if wait and ended is Exit.NEGATIVE else ended


def _categories(*, pre: bool) -> Sequence[Category]:
    from steelyard.cli.checking import capacity, cluster, jobs, metrics

    if pre:
        suits = ("capacity", (capacity.gpus, capacity.storage, capacity.quotas))
        return (("cluster", (cluster.version, cluster.may_install)), suits)
    return (
        ("cluster", (cluster.version, cluster.resources)),
        ("operator", (cluster.operator,)),
        ("rights", (cluster.rights,)),
        ("metrics", (metrics.prometheus,)),
        ("capacity", (capacity.gpus, capacity.storage, capacity.quotas)),
        ("jobs", (jobs.specs, jobs.states, jobs.references, jobs.pools, jobs.images)),
    )


MARKS = {
    "ok": ("ok", Tone.GOOD),
    "unknown": ("?", Tone.FAINT),
    "warning": ("!", Tone.BUSY),
    "failure": ("NO", Tone.BAD),
}


def _print(found: Sequence[tuple[str, list[Finding]]], output: CheckFormat) -> None:
    from steelyard.cli.checking.findings import document

    if output in (CheckFormat.JSON, CheckFormat.YAML):
        rows = [document(category, finding) for category, findings in found for finding in findings]
        write("CheckReport", rows, Format(output.value))
        return
    for category, findings in found:
        if output is CheckFormat.TABLE:
            typer.echo(paint(category, Tone.STRONG))
        for finding in findings:
            if output is CheckFormat.TABLE or finding.code:
                typer.echo(_line(finding))
    levels = [finding.level.value for _, findings in found for finding in findings]
    counts = {level: levels.count(level) for level in MARKS}
    wrong = f"{counts['failure']} failed, {counts['warning']} warnings, {counts['unknown']} not looked at"
    typer.echo(f"{wrong}, {counts['ok']} ok")


def _line(finding: Finding) -> str:
    mark, tone = MARKS[finding.level.value]
    code = f" {finding.code.name}" if finding.code else ""
    where = f" (see {finding.code.anchor})" if finding.code else ""
    return f"  {paint(f'{mark:>2}', tone)}{code} {finding.about}: {finding.said}{where}"
