"""`python -m steelyard_workers.trainer`: exit 0 when the last step is committed, 75 when stopped after a commit."""

import json
import sys

from steelyard_workers.termination import STOPPED, reported, write_termination


def main() -> int:
    """Run and say how it ended, in the exit code and in the termination log."""
    with reported():
        from steelyard_workers.trainer.assignment import Assignment

        assignment = Assignment.read()
        # torch takes long to import: a user's mistake is said before, and a stop may come meanwhile
        from steelyard_workers.trainer.run import train
        from steelyard_workers.worker import log_to_stderr

        log_to_stderr()
        last = train(assignment)
        if last is None:
            return STOPPED
        write_termination(json.dumps({"complete": True, "step": last}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
