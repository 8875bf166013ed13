"""The example reward: 1 for the right sum, else 0. `judgeSeconds` makes it as slow as a judge that runs a model."""

import time

from steelyard_workers.messages import Trajectory


def score(trajectory: Trajectory, judgeSeconds: str = "0") -> float:  # noqa: N803 - named as in the job
    """The entry point."""
    time.sleep(float(judgeSeconds))
    texts = trajectory.meta["texts"]
    return float(texts[-1] == f"A{trajectory.task['answer']}#")
