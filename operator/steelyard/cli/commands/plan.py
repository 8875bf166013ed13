"""`steelyard plan`: how to split the GPUs before anything ran. Exit codes: 0 a plan, 2 bad input, 3 no plan exists."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

if TYPE_CHECKING:
    from steelyard.balance.coldstart import BadInput, Lengths

BAD_INPUT, INFEASIBLE = 2, 3


class Output(StrEnum):
    """What `-o` may be."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


def plan(
    model: Annotated[str, typer.Option(help="Row of the model, such as qwen3-14b.")],
    hardware: Annotated[str, typer.Option(help="Row of the GPU, such as a800-80g.")],
    gpus: Annotated[int, typer.Option(help="GPUs for training and sampling together.")],
    requests: Annotated[
        Path | None,
        typer.Option(
            help='Lengths of past trajectories, one a line: {"input_len": 512, "output_len": 9000} or a pair.'
        ),
    ] = None,
    batch: Annotated[int, typer.Option(help="Trajectories of a training step.")] = 512,
    context: Annotated[
        int | None,
        typer.Option(help="Longest trajectory that must fit, in tokens; at least the longest of --requests."),
    ] = None,
    prompt_tokens: Annotated[int, typer.Option(help="Without --requests: tokens of a prompt.")] = 1400,
    output_tokens: Annotated[int, typer.Option(help="Without --requests: mean tokens that the policy writes.")] = 9600,
    sigma: Annotated[float, typer.Option(help="Without --requests: spread of the lognormal output lengths.")] = 0.9,
    prediction_error: Annotated[
        float | None,
        typer.Option(
            help="Measured standard error of your router's predicted log lengths; up to 0.1 TP sizes are mixed."
        ),
    ] = None,
    polish: Annotated[
        bool, typer.Option("--polish", help="Rank the plan's neighbours by simulation, up to 3 s.")
    ] = False,
    output: Annotated[Output, typer.Option("-o", "--output", help="yaml writes an AgenticRLJob.")] = Output.TABLE,
) -> None:
    """Plan the split between training and sampling before the first run.

    Exit codes: 0 a plan was written, 2 something given is wrong, 3 there is no plan. Only the plan goes to stdout.
    """
    from steelyard.balance import coldstart
    from steelyard.cli import plan_job, plan_output

    model_row, hardware_row = coldstart.model_row(model), coldstart.hardware_row(hardware)
    lengths = _lengths(requests, prompt_tokens, output_tokens, sigma, context)
    for given in (model_row, hardware_row, lengths):
        if isinstance(given, coldstart.BadInput):
            _fail(given, BAD_INPUT)
    assert isinstance(model_row, coldstart.ModelRow)
    assert isinstance(hardware_row, coldstart.HardwareRow)
    assert isinstance(lengths, coldstart.Lengths)
    question = coldstart.Question(model_row, hardware_row, lengths, gpus, batch, context, prediction_error)
    found = coldstart.plan(question)
    if isinstance(found, coldstart.BadInput):
        _fail(found, BAD_INPUT)
    if isinstance(found, coldstart.Infeasible):
        _fail(found.constraint, INFEASIBLE)
    if polish:
        found = coldstart.polish(question, found)
    if output is Output.TABLE:
        plan_output.show(question, found)
    elif output is Output.JSON:
        typer.echo(plan_output.as_json(question, found))
    else:
        written = plan_job.as_job(question, found, plan_output.notes(question, found))
        if isinstance(written, coldstart.Infeasible):
            _fail(written.constraint, INFEASIBLE)
        typer.echo(written, nl=False)


def _lengths(
    requests: Path | None, prompt_tokens: int, output_tokens: int, sigma: float, context: int | None
) -> Lengths | BadInput:
    from steelyard.balance import coldstart

    if requests is None:
        assumed = coldstart.lognormal(
            prompt_tokens, output_tokens, sigma, coldstart.CONTEXT if context is None else context
        )
        if isinstance(assumed, coldstart.Lengths):
            typer.echo(
                f"no --requests: assuming prompts of {prompt_tokens:,} tokens, lognormal outputs of {output_tokens:,} "
                f"on average, sigma {sigma:g}, {assumed.longest:,} at most in all",
                err=True,
            )
        return assumed
    try:
        with requests.open(encoding="utf-8") as lines:
            return coldstart.parse(lines)
    except (OSError, UnicodeDecodeError) as error:
        return coldstart.BadInput("requests", str(requests), f"cannot be read: {error}")


def _fail(why: object, code: int) -> NoReturn:
    typer.echo(f"error: {why}", err=True)
    raise typer.Exit(code)
