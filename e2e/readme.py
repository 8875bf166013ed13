"""The commands of a page, so that a test runs what readers are told to run and not a copy of it."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from e2e.cluster.cluster import kubectl
from e2e.helm import ROOT, Helm

README = (ROOT / "README.md", "Use it")
"""Where the newcomer's path is: install, apply, watch, explain."""


def commands(page: Path, heading: str) -> list[str]:
    """The lines of the first fenced block below a heading, comments taken off."""
    section = page.read_text().partition(f"\n## {heading}\n")[2]
    block = re.search(r"^```\w*\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    assert block, f"{page.name} has no commands below '{heading}'"
    lines = (re.sub(r"\s+#.*", "", line).strip() for line in block[1].splitlines())
    return [line for line in lines if line]


class Terminal:
    """A reader's shell in the root of a checkout, with helm, kubectl and the plug-in on the PATH."""

    def __init__(self, helm: Helm, kubeconfig: Path, folder: Path) -> None:
        for name, program in (("helm", helm.program), ("kubectl", kubectl()), ("kubectl-steelyard", _steelyard())):
            found = shutil.which(str(program))
            assert found, f"{program} is not installed"
            (folder / name).symlink_to(found)
        own: Mapping[str, str] = {
            "PATH": f"{folder}:{os.environ['PATH']}",
            "KUBECONFIG": str(kubeconfig),
            **helm.environment(),
        }
        self._environment = {**os.environ, **own}

    def run(self, command: str, timeout: float = 180, code: int = 0) -> str:
        """Standard output; AssertionError with everything that was said when the command ends with another code."""
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=ROOT,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert done.returncode == code, f"$ {command}\nexit code {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout


def _steelyard() -> str:
    return str(Path(sys.executable).with_name("steelyard"))
