"""The program as a process: streams that take any text, and an end that leaves nothing behind. Only `main` calls it."""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from steelyard.cli import codes
from steelyard.cli.output import complain


def name() -> str | None:
    """What help calls the program; None for the name of its file."""
    return "kubectl steelyard" if Path(sys.argv[0]).name == "kubectl-steelyard" else None


@contextmanager
def prepared() -> Iterator[None]:
    """While the block lasts data is UTF-8, a signal to end is as Ctrl-C, and what the machine refuses is one line."""
    for stream in ("stdin", "stdout", "stderr"):
        if getattr(sys, stream) is None:  # closed by whoever started us; the first to be opened takes its place
            setattr(sys, stream, Path(os.devnull).open("r" if stream == "stdin" else "w"))  # noqa: SIM115 - to the end
    for written in (sys.stdout, sys.stderr):
        if isinstance(written, io.TextIOWrapper):
            written.reconfigure(encoding="utf-8", errors="backslashreplace")  # as kubectl writes, in any locale
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # `nohup` wants it ignored
            signal.signal(number, signal.default_int_handler)  # what a command started ends with it
    try:
        yield
    except OSError as error:
        complain(codes.MACHINE, error.filename or "", error.strerror or str(error))
        os._exit(codes.MACHINE.exit)  # what is left in a stream cannot be written at the end either
