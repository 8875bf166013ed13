"""How a worker ends so that the operator can say why: exit codes and the one line in the termination log."""

import logging
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

USER_ERROR = 64
STOPPED = 75  # by a SIGTERM, the trainer after its commit: neither done nor failed

log = logging.getLogger(__name__)


class UserError(Exception):
    """Something only the user can mend (an entry point, a data set, a checkpoint); the message names it."""


def write_termination(line: str) -> None:
    """Leave `line` where Kubernetes looks for a container's last words; outside a container it is only logged."""
    path = Path(os.environ.get("STEELYARD_TERMINATION_LOG", "/dev/termination-log"))
    try:
        path.write_text(line[:4096], encoding="utf-8")
    except OSError as error:
        log.warning("no termination log at %s (%s): %s", path, error.strerror, line)


@contextmanager
def reported() -> Iterator[None]:
    """Turn a UserError raised in the block into exit code 64 with its message, on one line, as last words.

    A SIGTERM ends the block until something in it handles the signal better. A container's main process would ignore
    it: the kernel shields PID 1 from signals without a handler, and the pod would live on for its whole grace.
    """
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(STOPPED))
    try:
        yield
    except UserError as error:
        line = " ".join(str(error).split())
        write_termination(line)
        log.error("%s", line)
        sys.exit(USER_ERROR)
    finally:
        signal.signal(signal.SIGTERM, before)
