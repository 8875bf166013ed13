"""What the model can read: the last check before a trajectory may enter a step."""

from steelyard_workers.messages import Experience


class Limits:
    """What a trajectory must keep to for this model to train on it."""

    def __init__(self, vocabulary: int, longest: int | None) -> None:
        self.vocabulary = vocabulary
        self.longest = longest

    def objection(self, experience: Experience) -> str | None:
        """Why the model cannot read this trajectory, if it cannot."""
        length = sum(len(segment.tokens) for segment in experience.segments)
        if self.longest is not None and length > self.longest:
            return f"{length} tokens, the model reads {self.longest}"
        highest = max((max(segment.tokens, default=0) for segment in experience.segments), default=0)
        if highest >= self.vocabulary:
            return f"token {highest}, the model's vocabulary ends at {self.vocabulary - 1}"
        return None
