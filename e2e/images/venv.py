"""Puts the CPU packages into the development environment, so that tests import what the images run."""

from pathlib import Path

from e2e.cluster.progress import Progress
from e2e.cluster.shell import run
from e2e.images import ROOT, requirements, wheelhouse


def install(progress: Progress) -> None:
    """Brings .venv to the lock file's state plus the CPU packages; takes nothing else away."""
    environment = ROOT / ".venv"
    wheels = wheelhouse.ensure(progress)
    with progress.step("development environment: the lock file's packages"):
        run("uv", "sync", "--locked", "--inexact", "--extra", "worker", cwd=ROOT)
    with progress.step("development environment: CPU torch, vLLM and TRL"):
        _install(environment, *sorted(wheels.glob("*.whl")))
        _install(environment, "--require-hashes", "--requirements", requirements.CPU_TEST)


def _install(environment: Path, *what: str | Path) -> None:
    run("uv", "pip", "install", "--python", environment / "bin" / "python", "--no-deps", *what)
