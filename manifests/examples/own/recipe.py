"""Word problems with a calculator: an environment and a reward of one's own, for a Qwen chat model."""

import ast
import operator
import re

SYSTEM = "Solve the problem. To compute, write <calc>12*7</calc> and wait for the result. End with \\boxed{answer}."
PROMPT = "<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"
CALL = re.compile(r"<calc>([^<]*)</calc>$")
BOXED = re.compile(r"\\boxed\{([^{}]*)\}")
OPERATIONS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}


class Tutor:
    """One instance plays many episodes at a time: nothing about an episode is kept on `self`."""

    def __init__(self, max_tokens):
        self._max_tokens = max_tokens

    async def run(self, task, episode):
        episode.prompt(PROMPT.format(system=SYSTEM, question=task["question"]))
        while True:
            turn = await episode.generate(max_tokens=self._max_tokens, stop=("</calc>", "<|im_end|>"))
            call = CALL.search(turn.text)
            if call is None:
                return
            result = await episode.tool("calculator", calculate(call[1]))
            episode.observe(f"<result>{result}</result>\n")


async def calculate(expression):
    """The policy is told about a wrong call; the episode goes on."""
    try:
        return value(ast.parse(expression.strip(), mode="eval").body)
    except (ArithmeticError, SyntaxError, ValueError) as error:
        return f"error: {error}"


def value(node):
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return node.value
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATIONS:
        return OPERATIONS[type(node.op)](value(node.left), value(node.right))
    raise ValueError("only numbers and + - * /")


def environment(maxTokens="512"):  # noqa: N803 - named as in the job
    """`args` of the job arrive as keyword arguments; their values are text."""
    return Tutor(int(maxTokens))


def reward(trajectory, formatReward="0.1"):  # noqa: N803
    """Named parts; their sum is the reward."""
    boxed = BOXED.findall(said(trajectory))
    right = bool(boxed) and boxed[-1].strip() == str(trajectory.task["answer"])
    return {"correct": float(right), "format": float(formatReward) if boxed else 0.0}


def said(trajectory):
    """What the policy wrote, without the prompt and the results of tools."""
    pieces = zip(trajectory.segments, trajectory.meta["texts"], strict=True)
    return "".join(text for segment, text in pieces if segment.kind == "policy")
