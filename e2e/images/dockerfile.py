"""The stages of a Dockerfile as a graph, each with a key that changes exactly when its result can."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from e2e.cluster import cache

_STAGE = re.compile(r"^FROM (?P<source>\S+) AS (?P<name>\S+)$", re.MULTILINE)
_MOUNTED_OR_COPIED = re.compile(r"\bfrom=([\w-]+)")
_COPY = re.compile(r"^COPY (?!--from)(.+) \S+$", re.MULTILINE)
_COMMENT = re.compile(r"^#.*\n", re.MULTILINE)


@dataclass(frozen=True)
class Stage:
    """`needs` are other stages, `files` are paths in the build context; `text` has its build arguments filled in."""

    name: str
    text: str
    needs: tuple[str, ...]
    files: tuple[str, ...]

    @property
    def is_alias(self) -> bool:
        """Another name for the stage it starts from, with nothing added."""
        return "\n" not in self.text


def parse(text: str, arguments: Mapping[str, str]) -> dict[str, Stage]:
    """The stages in the order of the file, for these values of the build arguments."""
    text = re.sub(r"\$\{(\w+)\}", lambda found: arguments.get(found[1], found[0]), _COMMENT.sub("", text))
    starts = list(_STAGE.finditer(text))
    ends = [start.start() for start in starts[1:]] + [len(text)]
    names = {start["name"] for start in starts}
    stages = {}
    for start, end in zip(starts, ends, strict=True):
        body = text[start.start() : end].strip()
        sources = [start["source"], *_MOUNTED_OR_COPIED.findall(body)]
        needs = tuple(dict.fromkeys(source for source in sources if source in names))
        files = tuple(path for line in _COPY.findall(body) for path in line.split())
        stages[start["name"]] = Stage(start["name"], body, needs, files)
    return stages


def order(stages: Mapping[str, Stage], target: str) -> list[Stage]:
    """What has to exist for `target`, each stage after those it needs."""
    ordered: dict[str, Stage] = {}

    def visit(name: str) -> None:
        for need in stages[name].needs:
            visit(need)
        ordered.setdefault(name, stages[name])

    visit(target)
    return list(ordered.values())


def keys(stages: Mapping[str, Stage], contents: Callable[[str], str]) -> dict[str, str]:
    """A key per stage: its own text, the files it copies (`contents` digests a path) and the keys of what it needs."""
    found: dict[str, str] = {}
    for stage in stages.values():
        needs = [found[need] for need in stage.needs]
        found[stage.name] = cache.key(stage.text, *needs, *(contents(path) for path in stage.files))
    return found
