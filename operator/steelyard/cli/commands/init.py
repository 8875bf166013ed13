"""`steelyard init`: a job to start from, with comments that teach."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from steelyard.cli.codes import Exit
from steelyard.cli.output import note

FIRST_GPUS = 2
"""One for the sampler, one for the trainer."""
DEFAULT_MAX = 8
"""`replicas.max` when it is not named."""


def init(
    model: Annotated[
        str, typer.Option(metavar="PLACE", help="The policy: a claim (NAME, NAME/FOLDER), or /a/folder of the images.")
    ],
    env: Annotated[str, typer.Option(metavar="MODULE:FUNCTION", help="Factory of your environment.")],
    reward: Annotated[str, typer.Option(metavar="MODULE:FUNCTION", help="Your reward.")],
    tasks: Annotated[
        str, typer.Option(metavar="PLACE", help="The tasks: a claim (NAME, NAME/FOLDER), or configmap/NAME.")
    ],
    gpus: Annotated[
        int, typer.Option(min=0, metavar="N", help="GPUs for all stages together; 0 runs on CPUs.")
    ] = FIRST_GPUS,
    code: Annotated[
        str | None, typer.Option(metavar="PLACE", help="Your modules, as --tasks. Default: configmap/MODULE of --env.")
    ] = None,
    name: Annotated[str, typer.Option(metavar="NAME", help="Of the job.")] = "first",
    file: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="File to write. Default: stdout.")
    ] = None,
) -> Exit:
    """Write a job to start from, with comments that teach.

    It is checked by the rules that the API server has. Exit codes: 0 written, 2 something given is wrong.

    \b
    $ steelyard init --model qwen --env recipe:environment --reward recipe:reward --tasks configmap/tasks
    """
    import yaml
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from pydantic import ValidationError

    from steelyard.api import AgenticRLJob, explain

    template = Environment(  # noqa: S701 - YAML; every value is written as JSON
        loader=PackageLoader("steelyard.cli"), undefined=StrictUndefined, keep_trailing_newline=True
    ).get_template("job.yaml.j2")
    modules = [entry.partition(":")[0].partition(".")[0] for entry in (env, reward)]
    text = template.render(
        name=name,
        file=file or "job.yaml",
        comment=lambda text: " ".join(str(text).split()),
        model={"path": model} if model.startswith("/") else {"claim": _claim(model)},
        tasks=_files(tasks),
        code=_code(code, modules),
        gpus=gpus,
        env=env,
        reward=reward,
        sampler=_stage(gpus, gpus - 1),
        trainer=_stage(gpus, 1),
    )
    try:
        AgenticRLJob.model_validate(yaml.safe_load(text))
    except ValidationError as error:
        raise typer.BadParameter(explain(error)) from error
    return _write(text, file, name, modules if code is None else [])


def _claim(place: str) -> dict[str, Any]:
    name, _, folder = place.partition("/")
    return {"name": name, **({"subPath": folder} if folder else {})}


def _files(place: str) -> dict[str, Any]:
    kind, _, name = place.partition("/")
    return {"configMap": {"name": name}} if kind == "configmap" else {"claim": _claim(place)}


def _code(place: str | None, modules: list[str]) -> dict[str, Any] | None:
    """Where the user's modules are; None when both come with the worker images."""
    if place is not None:
        return _files(place)
    own = next((module for module in modules if module != "steelyard_workers"), None)
    return _files(f"configmap/{own.replace('_', '-')}") if own else None


def _stage(gpus: int, most: int) -> str:
    """A stage with one whole GPU a replica, as YAML on one line."""
    if gpus == 0:
        return "{}"
    bounds = f"replicas: {{max: {most}}}, " if most > DEFAULT_MAX else ""
    return f"{{{bounds}gpuProfiles: [{{name: whole, resources: {{nvidia.com/gpu: 1}}, gpus: 1}}]}}"


def _write(text: str, file: Path | None, name: str, modules: list[str]) -> Exit:
    if file is None:
        typer.echo(text, nl=False)
    else:
        try:
            with file.open("x", encoding="utf-8") as stream:
                stream.write(text)
        except OSError as error:
            raise typer.BadParameter(f"{file}: {error.strerror}", param_hint="-o") from error
    own = dict.fromkeys(module for module in modules if module != "steelyard_workers")
    if own:
        files = " ".join(f"--from-file={module}.py" for module in own)
        note(f"your code: kubectl create configmap {next(iter(own)).replace('_', '-')} {files}")
    written = file or "job.yaml"
    note(f"next: steelyard rehearse {written}, or kubectl apply -f {written} and steelyard status {name} -w")
    return Exit.OK
