"""`steelyard plan`: how to split the GPUs before anything ran."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from steelyard.cli import codes
from steelyard.cli.contradictions import refuse_beside
from steelyard.cli.output import Format, complain, note, one_of, show

if TYPE_CHECKING:
    from steelyard.balance.coldstart import BadInput, Infeasible, Lengths

T = TypeVar("T")


def plan(
    asked: typer.Context,
    model: Annotated[str, typer.Option(metavar="NAME", help="Row of the model, such as qwen3-14b.")],
    hardware: Annotated[str, typer.Option(metavar="NAME", help="Row of the GPU, such as a800-80g.")],
    gpus: Annotated[int, typer.Option(metavar="N", help="GPUs for training and sampling together.")],
    requests: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help='Lengths of past trajectories, one a line: {"input_len": 512, "output_len": 9000} or a pair.',
        ),
    ] = None,
    batch: Annotated[int, typer.Option(metavar="N", help="Trajectories of a training step.")] = 512,
    context: Annotated[
        int | None,
        typer.Option(metavar="TOKENS", help="Longest trajectory that must fit; at least the longest of --requests."),
    ] = None,
    prompt_tokens: Annotated[int, typer.Option(metavar="TOKENS", help="Without --requests: of a prompt.")] = 1400,
    output_tokens: Annotated[
        int, typer.Option(metavar="TOKENS", help="Without --requests: mean of what the policy writes.")
    ] = 9600,
    sigma: Annotated[
        float, typer.Option(metavar="SIGMA", help="Without --requests: spread of the lognormal output lengths.")
    ] = 0.9,
    prediction_error: Annotated[
        float | None,
        typer.Option(
            metavar="ERROR",
            help="Measured standard error of your router's predicted log lengths; up to 0.1 TP sizes are mixed.",
        ),
    ] = None,
    polish: Annotated[
        bool, typer.Option("--polish", help="Rank the plan's neighbours by simulation, up to 3 s.")
    ] = False,
    output: Annotated[
        Format, one_of(Format.TABLE, Format.JSON, Format.YAML, help="yaml writes an AgenticRLJob.")
    ] = Format.TABLE,
) -> None:
    """Plan the split between training and sampling before the first run.

    Exit codes: 0 a plan was written, 2 something given is wrong, 3 there is no plan. Only the plan goes to stdout.

    \b
    $ steelyard plan --model qwen3-14b --hardware a800-80g --gpus 48
    $ steelyard plan --model qwen3-14b --hardware a800-80g --gpus 48 -o yaml > job.yaml
    """
    from steelyard.balance import coldstart
    from steelyard.cli import plan_job, plan_output

    if requests:
        refuse_beside("--requests", asked, "prompt_tokens", "output_tokens", "sigma")
    model_row, hardware_row = _possible(coldstart.model_row(model)), _possible(coldstart.hardware_row(hardware))
    lengths = _lengths(requests, prompt_tokens, output_tokens, sigma, context)
    question = coldstart.Question(model_row, hardware_row, lengths, gpus, batch, context, prediction_error)
    found = _possible(coldstart.plan(question))
    if polish:
        if len(found.samplers) > 1:
            raise typer.BadParameter(
                "ranks plans of one TP size, and --prediction-error mixes them", param_hint="--polish"
            )
        found = coldstart.polish(question, found)
    if output is Format.YAML:
        typer.echo(_possible(plan_job.as_job(question, found, plan_output.notes(question, found))), nl=False)
    else:
        show("Plan", [plan_output.document(question, found)], plan_output.lines(question, found), output)


def _possible(found: T | BadInput | Infeasible) -> T:
    """What was found; else what is wrong with the question, or that it has no answer, and the command ends."""
    from steelyard.balance.coldstart import BadInput, Infeasible

    if isinstance(found, BadInput):
        raise typer.BadParameter(str(found))
    if isinstance(found, Infeasible):
        complain(codes.NO_PLAN, "", found.constraint)
        raise typer.Exit(codes.NO_PLAN.exit)
    return found


def _lengths(
    requests: Path | None, prompt_tokens: int, output_tokens: int, sigma: float, context: int | None
) -> Lengths:
    from steelyard.balance import coldstart

    if requests is None:
        longest = coldstart.CONTEXT if context is None else context
        assumed = _possible(coldstart.lognormal(prompt_tokens, output_tokens, sigma, longest))
        note(
            f"no --requests: assuming prompts of {prompt_tokens:,} tokens, lognormal outputs of {output_tokens:,} "
            f"on average, sigma {sigma:g}, {assumed.longest:,} at most in all"
        )
        return assumed
    try:
        with requests.open(encoding="utf-8-sig") as lines:
            return _possible(coldstart.parse(lines))
    except OSError as error:
        raise typer.BadParameter(f"{requests}: {error.strerror}", param_hint="--requests") from error
    except UnicodeDecodeError as error:
        raise typer.BadParameter(f"{requests}: is no text in UTF-8", param_hint="--requests") from error
