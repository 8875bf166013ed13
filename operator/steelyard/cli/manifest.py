"""Reads the one AgenticRLJob of a file that a user names, by the API's own types."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from steelyard.api.names import JOB_KIND
from steelyard.cli import codes
from steelyard.cli.output import complain

if TYPE_CHECKING:
    from steelyard.api import AgenticRLJob

STDIN = Path("-")


def read_job(file: Path) -> tuple[dict[str, Any], AgenticRLJob, int]:
    """The job as it is written and parsed, and how many other objects the file has; `-` is stdin.

    A file without it is a usage error; a job that breaks a rule ends the command as its stored spec would.
    """
    from pydantic import ValidationError

    from steelyard.api import AgenticRLJob, explain

    found = _objects(file)
    jobs = [one for one in found if one.get("kind") == JOB_KIND]
    if len(jobs) != 1:
        raise typer.BadParameter(f"{file}: holds {len(jobs)} {JOB_KIND}s, must hold one")
    manifest = {key: value for key, value in jobs[0].items() if key != "status"}
    try:
        return manifest, AgenticRLJob.model_validate(manifest), len(found) - 1
    except ValidationError as error:
        complain(codes.BROKEN_SPEC, str(file), explain(error))
        raise typer.Exit(codes.BROKEN_SPEC.exit) from error


def _objects(file: Path) -> Sequence[dict[str, Any]]:
    import yaml

    try:
        text = sys.stdin.read() if file == STDIN else file.read_text("utf-8")
        return [one for one in yaml.safe_load_all(text) if isinstance(one, dict)]
    except OSError as error:
        raise typer.BadParameter(f"{file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise typer.BadParameter(f"{file}: is no text in UTF-8") from error
    except yaml.YAMLError as error:
        raise typer.BadParameter(f"{file}: is no YAML: {' '.join(str(error).split())}") from error
