"""Running other programs: output as text, failures as exceptions that carry what the program said."""

import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


class Failed(Exception):
    """A program ended with an error; the message holds its command line and the end of what it printed."""


def run(
    *argv: str | Path,
    stdin: str | None = None,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float | None = None,
) -> str:
    """Standard output of a program that succeeded. ``env`` is added to the environment."""
    try:
        done = subprocess.run(
            [str(part) for part in argv],
            input=stdin,
            capture_output=True,
            text=True,
            cwd=cwd,
            env=None if env is None else {**os.environ, **env},
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        raise Failed(f"{_line(argv)}: no end after {timeout:g} s") from late
    except FileNotFoundError as missing:
        raise Failed(f"{argv[0]} is not installed") from missing
    if done.returncode:
        raise Failed(f"{_line(argv)}: exit code {done.returncode}\n{tail(done.stderr + done.stdout)}")
    return done.stdout


def succeeds(*argv: str | Path) -> bool:
    try:
        run(*argv)
    except Failed:
        return False
    return True


def tail(text: str, lines: int = 15) -> str:
    return "\n".join(text.strip().splitlines()[-lines:])


def _line(argv: Sequence[str | Path]) -> str:
    return shlex.join(str(part) for part in argv)
