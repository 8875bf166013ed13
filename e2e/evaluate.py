"""Held-out accuracy of a calculator policy: greedy, with the tool in the loop, on prompts that training never saw."""

from pathlib import Path


def held_out_accuracy(policy: Path) -> float:
    """Share of the held-out sums, 0..1, that the policy in a model folder ends with the right answer."""
    from transformers import AutoModelForCausalLM, AutoTokenizer  # seconds, which the demo has not at its start

    from e2e.models.make_tasks import split
    from e2e.models.make_tiny import accuracy

    model = AutoModelForCausalLM.from_pretrained(policy)
    _, held_out = split()
    return accuracy(model.requires_grad_(False), AutoTokenizer.from_pretrained(policy), held_out, greedy=True)
