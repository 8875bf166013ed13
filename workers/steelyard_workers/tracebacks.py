"""The traceback of what user code raises, once for each line that raises it: enough to find it, and no flooded log."""

import logging
import traceback

log = logging.getLogger(__name__)

_shown: set[tuple[type[Exception], str, int]] = set()


def show_once(error: Exception) -> None:
    """Log the traceback, unless this process has shown one of the same kind of error from the same line."""
    frame, line = list(traceback.walk_tb(error.__traceback__))[-1]
    place = type(error), frame.f_code.co_filename, line
    if place not in _shown:
        _shown.add(place)
        log.error("raised here for the first time; from now on it is told without a traceback", exc_info=error)
