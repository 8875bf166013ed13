"""Makes the policy that the demo and the tests start from: one that uses its tool, but often wrongly.

    python -m e2e.models.make_tiny e2e/models/tiny

A dialogue is `Q12+34=` `C12+34>` `R46;` `A46#`: question, call by the policy, result by the tool, answer by the policy.
The teacher of the warm start errs on purpose. Where b ends in 0..5 it mostly calls with a wrong a, elsewhere it mostly
calls rightly, and it does the other in the rest of the cases: so neither the greedy policy nor the sampled one starts
well, and both kinds of call are there to be found by reinforcement. About four minutes on one core; the same weights
for the same torch build.
"""

import argparse
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
import torch.nn.functional as functional
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from e2e.models.make_tasks import Sum, split

SPECIAL = ["<pad>", "<bos>", "<eos>", "<unk>"]
CHARACTERS = list("0123456789+-*/=()<>[]{}.,:;!? abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_\n\"'|#")
VOCABULARY = 128
CALL_TOKENS, ANSWER_TOKENS = 10, 6

FAVOURED = 0.6  # how often the teacher does what it mostly does
RIGHT_ANSWER = 0.9  # how often it copies the tool's result into its answer
BATCH = 48
PEAK_RATE = 1.5e-3

Dialogue = list[tuple[str, bool]]  # text and whether the policy wrote it


def make_tokenizer() -> PreTrainedTokenizerFast:
    """One token a character."""
    vocabulary = {token: number for number, token in enumerate(SPECIAL + CHARACTERS)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", bos_token="<bos>", eos_token="<eos>", unk_token="<unk>"
    )


def make_model() -> Qwen2ForCausalLM:
    """0.62 million parameters. Embeddings are not tied: vLLM on CPUs keeps a stale copy of a tied head."""
    return Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=VOCABULARY,
            hidden_size=128,
            intermediate_size=256,
            num_hidden_layers=4,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=512,
            tie_word_embeddings=False,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
        )
    )


def demonstration(task: Sum, teacher: random.Random) -> Dialogue:
    """What the teacher shows for a task."""
    mostly_right = task.b % 10 > 5
    is_right = mostly_right == (teacher.random() < FAVOURED)
    a = task.a if is_right else task.a - task.a % 10 + (task.a + 1) % 10
    result = a + task.b
    answer = result if teacher.random() < RIGHT_ANSWER else teacher.randrange(199)
    return [(task.prompt, False), (f"C{a}+{task.b}>", True), (f"R{result};", False), (f"A{answer}#", True)]


def padded(rows: Sequence[Sequence[int]]) -> Tensor:
    """Rows of one length, filled up with zeros on the right."""
    length = max(map(len, rows))
    return torch.tensor([[*row, *[0] * (length - len(row))] for row in rows])


def imitate(
    model: Qwen2ForCausalLM, encode: Callable[[str], list[int]], tasks: Sequence[Sum], steps: int, seed: int
) -> None:
    """Cross-entropy on what the teacher writes; the tool's words are context only."""
    teacher = random.Random(seed)
    optimizer = torch.optim.AdamW(model.parameters(), PEAK_RATE, weight_decay=0.0)
    start = time.monotonic()
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = PEAK_RATE * min(1.0, step / 100) * max(0.05, 1 - step / steps)
        dialogues = [demonstration(teacher.choice(tasks), teacher) for _ in range(BATCH)]
        tokens = padded([[token for text, _ in dialogue for token in encode(text)] for dialogue in dialogues])
        mask = padded([[int(own) for text, own in dialogue for _ in text] for dialogue in dialogues])[:, 1:]
        logits = model(tokens, attention_mask=(tokens != 0).long()).logits[:, :-1]
        surprise = functional.cross_entropy(logits.transpose(1, 2), tokens[:, 1:], reduction="none")
        loss = (surprise * mask).sum() / mask.sum()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 250 == 0 or step == steps - 1:
            print(f"step {step}: loss {loss.item():.4f}, {time.monotonic() - start:.0f} s", flush=True)


def write(model: Qwen2ForCausalLM, contexts: list[list[int]], stop: int, limit: int, greedy: bool) -> list[list[int]]:
    """What the policy writes after each context, up to and with the stop token."""
    written: list[list[int]] = [[] for _ in contexts]
    for _ in range(limit):
        going = [i for i, tokens in enumerate(written) if not tokens or tokens[-1] != stop]
        if not going:
            break
        rows = [contexts[i] + written[i] for i in going]
        tokens = padded(rows)
        ends = torch.tensor([len(row) - 1 for row in rows])
        logits = model(tokens, attention_mask=(tokens != 0).long()).logits[torch.arange(len(rows)), ends]
        chosen = logits.argmax(-1) if greedy else torch.multinomial(logits.softmax(-1), 1)[:, 0]
        for i, token in zip(going, chosen.tolist(), strict=True):
            written[i].append(token)
    return written


def accuracy(
    model: Qwen2ForCausalLM, tokenizer: PreTrainedTokenizerFast, tasks: Sequence[Sum], *, greedy: bool
) -> float:
    """Share of the tasks that end with the right answer."""
    vocabulary = tokenizer.get_vocab()
    contexts = [[vocabulary[character] for character in task.prompt] for task in tasks]
    calls = write(model, contexts, vocabulary[">"], CALL_TOKENS, greedy)
    for context, call in zip(contexts, calls, strict=True):
        context += call + [vocabulary[character] for character in f"R{_calculate(tokenizer.decode(call))};"]
    answers = write(model, contexts, vocabulary["#"], ANSWER_TOKENS, greedy)
    right: list[bool] = [
        tokenizer.decode(answer) == f"A{task.answer}#" for task, answer in zip(tasks, answers, strict=True)
    ]
    return sum(right) / len(right)


def _calculate(call: str) -> str:
    terms = call.removeprefix("C").removesuffix(">").split("+")
    return str(sum(map(int, terms))) if len(terms) == 2 and all(term.isdecimal() for term in terms) else "?"


def main() -> None:
    """Make tokenizer and policy, report the accuracy they start with, save both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=2500)
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    torch.set_num_threads(1)
    tokenizer, model = make_tokenizer(), make_model()
    vocabulary = tokenizer.get_vocab()
    training, held_out = split()
    imitate(model, lambda text: [vocabulary[character] for character in text], training, options.steps, options.seed)
    model.eval().requires_grad_(False)
    print(f"held-out accuracy, greedy: {accuracy(model, tokenizer, held_out, greedy=True):.3f}")
    print(f"held-out accuracy, sampled: {accuracy(model, tokenizer, held_out, greedy=False):.3f}")
    model.save_pretrained(options.folder)
    tokenizer.save_pretrained(options.folder)


if __name__ == "__main__":
    main()
