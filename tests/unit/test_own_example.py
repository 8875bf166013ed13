"""The example of docs/bring-your-own.md works, and the page shows it as it is."""

from __future__ import annotations

import asyncio
import importlib.util
import re
import subprocess
import sys
from collections.abc import Awaitable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from steelyard.api import AgenticRLJob
from steelyard_workers.environment.protocol import Turn
from steelyard_workers.messages import PolicyVersion, Segment, SegmentKind, Trajectory, TrajectoryId
from steelyard_workers.reward.judge_process import score
from steelyard_workers.trainer.dataset import Dataset

ROOT = Path(__file__).parents[2]
OWN = ROOT / "manifests" / "examples" / "own"
PAGE = (ROOT / "docs" / "bring-your-own.md").read_text()
PYTHON = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
TASK = {"question": "A box holds 24 pens. How many pens are in 17 boxes?", "answer": 408, "prompt": "?", "label": 408}


@pytest.fixture(scope="module")
def recipe() -> ModuleType:
    spec = importlib.util.spec_from_file_location("recipe", OWN / "recipe.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Scripted:
    """An episode whose policy says what it is told to say."""

    def __init__(self, *says: str) -> None:
        self._says = list(says)
        self.said: list[tuple[SegmentKind, str]] = []

    def prompt(self, text: str) -> None:
        self.said.append(("prompt", text))

    def observe(self, text: str) -> None:
        self.said.append(("tool", text))

    async def generate(self, *, max_tokens: int, stop: Sequence[str] = ()) -> Turn:
        text = self._says.pop(0)
        assert text.endswith(tuple(stop))
        self.said.append(("policy", text))
        return Turn(text, (1,), finished=True)

    async def tool(self, name: str, call: Awaitable[Any]) -> Any:
        return await call


def trajectory(said: Sequence[tuple[SegmentKind, str]], task: Mapping[str, Any] = TASK) -> Trajectory:
    segments = [Segment(kind=kind, tokens=(1,), logprobs=(0.0,) if kind == "policy" else None) for kind, _ in said]
    version = PolicyVersion(1, 0)
    return Trajectory(
        id=TrajectoryId(group=0, k=0, attempt=0),
        task=dict(task),
        seed=1,
        outcome="ok",
        policy_first=version,
        policy_last=version,
        segments=tuple(segments),
        meta={"texts": [text for _, text in said]},
    )


@pytest.mark.parametrize(
    ("call", "result"),
    [("24*17", "408"), (" (3+5)/2 ", "4.0"), ("2**999", "error: only"), ("24*", "error: "), ("1/0", "error: ")],
)
def test_an_episode_with_a_tool_is_played(recipe: ModuleType, call: str, result: str) -> None:
    episode = Scripted(f"I compute <calc>{call}</calc>", "So \\boxed{408}<|im_end|>")
    asyncio.run(recipe.environment(maxTokens="64").run(TASK, episode))
    assert [kind for kind, _ in episode.said] == ["prompt", "policy", "tool", "policy"]
    assert str(TASK["question"]) in episode.said[0][1]
    assert episode.said[2][1].startswith(f"<result>{result}")


@pytest.mark.parametrize(
    ("answer", "parts"),
    [
        ("\\boxed{7} no, \\boxed{408}", {"correct": 1.0, "format": 0.1}),
        ("\\boxed{407}", {"correct": 0.0, "format": 0.1}),
        ("408", {"correct": 0.0, "format": 0.0}),
    ],
)
def test_its_reward_has_parts(recipe: ModuleType, answer: str, parts: dict[str, float]) -> None:
    found = score(recipe.reward, {"formatReward": "0.1"}, trajectory([("prompt", "?"), ("policy", answer)]))
    assert found == {"reward": sum(parts.values()), "parts": parts}


def test_an_episode_is_played_by_somebody_who_types() -> None:
    typed = "I compute <calc>24*17</calc>\nSo \\boxed{408}<|im_end|>\n"
    played = subprocess.run(
        [sys.executable, OWN / "try_it.py"], input=typed, capture_output=True, text=True, check=True
    )
    assert "[tool] <result>408</result>" in played.stdout
    assert played.stdout.endswith("reward {'correct': 1.0, 'format': 0.1}\n")


def test_its_data_set_is_one() -> None:
    dataset = Dataset.load(OWN, seed=7)
    group = TrajectoryId(group=0, k=0, attempt=0)
    assert len(dataset) == 16
    assert {*dataset.task(group).task} == {"question", "answer"}


def test_its_job_names_what_kustomize_makes() -> None:
    kubectl = Path(sys.executable).with_name("kubectl")
    made = subprocess.run([kubectl, "kustomize", OWN], check=True, capture_output=True, text=True).stdout
    objects = [one for one in yaml.safe_load_all(made) if one]
    job = AgenticRLJob.model_validate(next(one for one in objects if one["kind"] == "AgenticRLJob"))
    maps = {one["metadata"]["name"]: one["data"] for one in objects if one["kind"] == "ConfigMap"}
    assert job.spec.code
    assert job.spec.code.config_map
    assert job.spec.tasks.config_map
    assert [*maps[job.spec.code.config_map.name]] == ["recipe.py"]
    assert [*maps[job.spec.tasks.config_map.name]] == ["tasks.jsonl"]


SHOWN = (OWN / "recipe.py").read_text()
CASES = {
    "compute_score, a number": ("compute_score(", lambda **columns: float(columns["solution_str"] == "408")),
    "compute_score, a mapping": ("compute_score(", lambda **columns: {"score": 1.0, "acc": 1.0}),
    "OpenRLHF, a mapping": ("reward_func([", lambda queries, prompts, labels: {"rewards": [float(labels[0] == 408)]}),
    "OpenRLHF, a list": ("reward_func([", lambda queries, prompts, labels: [float(queries == ["?408"])]),
    "TRL": (
        "reward_func(prompts",
        lambda prompts, completions, answer, **_: [float(completions == [str(answer[0])] and prompts == ["?"])],
    ),
    "TRL, not applicable": ("reward_func(prompts", lambda **_: [None]),
}


@pytest.mark.parametrize("case", CASES)
def test_rewards_of_other_frameworks_are_wrapped_as_the_page_shows(recipe: ModuleType, case: str) -> None:
    call, function = CASES[case]
    (block,) = [block for block in PYTHON if call in block]
    names: dict[str, Any] = {"said": recipe.said, "compute_score": function, "reward_func": function}
    exec(block, names)
    task = {**TASK, "data_source": "x", "reward_model": {"ground_truth": "408"}}
    found = score(names["reward"], {}, trajectory([("prompt", "?"), ("policy", "408")], task))
    assert found["reward"] == (0.0 if case == "TRL, not applicable" else 1.0)


def test_every_other_block_is_of_the_example() -> None:
    of_others = [block for block in PYTHON if re.search(r"compute_score\(|reward_func\(|World", block)]
    assert len(of_others) == 4
    assert [block for block in PYTHON if block not in of_others and block not in SHOWN] == []
    assert '{"question": "A box holds 24 pens. How many pens are in 17 boxes?", "answer": 408}' in PAGE
