"""The cluster's programs, built from their Go modules and kept by the key of the sources and the compiler."""

import os
import re
import shutil
import subprocess
import threading
from dataclasses import dataclass
from functools import cache as once
from pathlib import Path

from e2e.cluster import cache
from e2e.cluster.errors import ClusterError, Exit
from e2e.cluster.progress import Progress, Step
from e2e.cluster.shell import run, tail

SOURCES = Path(__file__).parent / "go"
VERSION = re.search(r"^\tk8s\.io/kubernetes (v\d+\.(\d+)\.\d+)$", (SOURCES / "go.mod").read_text(), re.MULTILINE)
assert VERSION is not None


@dataclass(frozen=True)
class Module:
    name: str
    directory: Path
    packages: tuple[str, ...]
    usually: str
    tags: str = ""
    ldflags: str = "-s -w"


def _stamp() -> str:
    """Without these the daemons call themselves v0.0.0-master, and charts that ask for a version refuse them."""
    assert VERSION is not None
    values = {"gitVersion": VERSION[1], "gitMajor": "1", "gitMinor": VERSION[2], "gitTreeState": "clean"}
    return " ".join(f"-X k8s.io/component-base/version.{name}={value}" for name, value in values.items())


KUBERNETES = Module(
    name="kubernetes",
    directory=SOURCES,
    packages=("./kubernetes", "./dns", "./deviceplugin", "./provisioner", "./pause"),
    usually="5 to 10 minutes on 2 cores the first time",
    ldflags=f"-s -w {_stamp()}",
)
PROMETHEUS = Module(
    name="prometheus",
    directory=SOURCES / "prometheus",
    packages=tuple(f"github.com/prometheus/prometheus/cmd/{name}" for name in ("prometheus", "promtool")),
    usually="2 to 4 minutes on 2 cores the first time",
    tags="netgo,remove_all_sd,enable_kubernetes_sd",
)
GITOPS = Module(
    name="gitops",
    directory=SOURCES / "gitops",
    packages=("./judge", "./strict"),
    usually="1 to 2 minutes on 2 cores the first time",
)


# Both Helms in one go.mod, with Kubernetes' libraries in its own version: most of them are compiled already. Helm 3 has
# to be told which Kubernetes `helm template` compares a chart's kubeVersion with; Helm 4 knows.
HELM3, HELM4 = (
    Module(
        name=f"helm{major}",
        directory=SOURCES / "helm",
        packages=(f"helm.sh/helm/v{major}/cmd/helm",),
        usually="1 to 2 minutes on 2 cores the first time",
        ldflags=f"-s -w -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor={VERSION[2]}",
    )
    for major in (3, 4)
)
MODULES = (KUBERNETES, PROMETHEUS, GITOPS, HELM3, HELM4)


@once
def key(module: Module) -> str:
    sources = ("go.mod", "go.sum", "*/*.go")
    return cache.tree_key(module.directory, sources, run("go", "env", "GOVERSION"), module.tags, module.ldflags)


def fetch() -> None:
    """Start downloading what the builds will need, in the background; they come after the images, which take minutes.

    A failure is not told here: the build meets it again and has the words for it.
    """

    def download() -> None:
        for module in (KUBERNETES, PROMETHEUS):
            subprocess.run(
                ["go", "list", "-deps", "-tags", module.tags, *module.packages],
                cwd=module.directory,
                env=_environment(),
                capture_output=True,
                check=False,
            )

    if shutil.which("go") and not all(_directory(module).exists() for module in (KUBERNETES, PROMETHEUS)):
        threading.Thread(target=download, daemon=True).start()


def ensure(module: Module, progress: Progress) -> Path:
    """The directory that holds the module's programs."""
    built = _directory(module)
    if built.exists():
        return built
    with cache.locked(cache.HEAVY):
        if not built.exists():
            with progress.step(f"build {module.name} from Go modules ({module.usually})") as step:
                _build(module, built, step)
    return built


def _directory(module: Module) -> Path:
    return cache.directory() / "bin" / f"{module.name}-{key(module)}"


def _environment() -> dict[str, str]:
    return {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly"}


def _build(module: Module, built: Path, step: Step) -> None:
    scratch = built.with_name(f"{built.name}.new")
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    command = ["go", "build", "-v", "-trimpath", "-tags", module.tags, "-ldflags", module.ldflags]
    said = []
    with subprocess.Popen(
        [*command, "-o", f"{scratch}/", *module.packages],
        cwd=module.directory,
        env=_environment(),
        stderr=subprocess.PIPE,
        text=True,
    ) as compiler:
        assert compiler.stderr is not None
        for line in compiler.stderr:
            said.append(line)
            step.note(f"{len(said)} packages or downloads")
    if compiler.returncode:
        message = tail("".join(said))
        raise ClusterError(Exit.BUILD_FAILED, f"go build of {module.name} failed in {module.directory}:\n{message}")
    scratch.rename(built)
