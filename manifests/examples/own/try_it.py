"""Plays an episode of recipe.py on this machine, without a cluster or a model: you type what the policy writes."""

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace

import recipe


class Typed:
    """An episode whose policy sits at the keyboard."""

    def __init__(self):
        self.segments, self.texts = [], []

    def prompt(self, text):
        self._add("prompt", text)

    def observe(self, text):
        self._add("tool", text)

    async def generate(self, stop=(), **_):
        text = await asyncio.to_thread(input, f"policy (ends with {' or '.join(stop)})> ")
        self._add("policy", text)
        return SimpleNamespace(text=text, tokens=(), finished=text.endswith(stop))

    async def tool(self, _, call):
        return await call

    def _add(self, kind, text):
        print(f"[{kind}] {text}")  # noqa: T201
        self.segments.append(SimpleNamespace(kind=kind))
        self.texts.append(text)


task = json.loads(Path(__file__).with_name("tasks.jsonl").read_text().splitlines()[0])
episode = Typed()
asyncio.run(recipe.environment().run(task, episode))
trajectory = SimpleNamespace(task=task, segments=episode.segments, meta={"texts": episode.texts})
print("reward", recipe.reward(trajectory))  # noqa: T201
