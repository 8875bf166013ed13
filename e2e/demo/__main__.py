"""`make demo`: a tiny policy learns to use a tool while the operator moves capacity to the stage that holds it back."""

import argparse
import asyncio
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nats.errors
from rich.console import Console
from rich.live import Live

from e2e.checker import Findings, check, check_offline
from e2e.cluster import Cluster, ClusterError, requirements
from e2e.cluster.build import fetch
from e2e.cluster.progress import Progress
from e2e.demo import claims, screen, signals
from e2e.demo.gpus import GpuLog, gpu_value
from e2e.demo.report import Report, revision_row
from e2e.evaluate import held_out_accuracy
from e2e.images.build import TARGETS, build
from e2e.install import MANIFESTS, install_operator, load_release
from e2e.kube import Kube, Object, condition, load_yaml

NAMESPACE = "default"
TINY = Path(__file__).parent.parent / "models" / "tiny"
PATIENCE_SECONDS = 1200
CHECK_EVERY_SECONDS = 20
PLAIN_EVERY_SECONDS = 10


class Stopwatch:
    """Seconds by name of what took them."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._begin = time.monotonic()

    @contextmanager
    def measure(self, name: str) -> Iterator[None]:
        begin = time.monotonic()
        yield
        self.seconds[name] = round(time.monotonic() - begin, 1)

    def total(self) -> dict[str, float]:
        return {"total": round(time.monotonic() - self._begin, 1), **self.seconds}


class JobFailed(Exception):
    """The job ended otherwise than complete; the message is the operator's."""


class Watch:
    """Follows one job to its end, second by second."""

    def __init__(self, kube: Kube, name: str, console: Console) -> None:
        self._kube, self._name, self._console = kube, name, console
        self._prometheus = f"http://{kube.address('monitoring', 'prometheus')}:9090"
        self.live_findings: Findings | None = None
        self._checked = 0.0

    def to_the_end(self, gpus: GpuLog) -> None:
        """Draw until the job is complete. Raises JobFailed, or TimeoutError after PATIENCE_SECONDS."""
        begin, printed = time.monotonic(), 0.0
        with Live(console=self._console, auto_refresh=False, transient=False) as live:
            while True:
                elapsed = time.monotonic() - begin
                view = self._look(elapsed, gpus.now)
                if self._console.is_terminal:
                    live.update(screen.render(view), refresh=True)
                elif elapsed - printed >= PLAIN_EVERY_SECONDS:
                    printed = elapsed
                    self._console.print(screen.render(view))
                if condition(view.job, "Complete").get("status") == "True":
                    return
                if (failed := condition(view.job, "Failed")).get("status") == "True":
                    raise JobFailed(f"{failed.get('reason')}: {failed.get('message')}")
                if elapsed > PATIENCE_SECONDS:
                    raise TimeoutError(f"the job was not complete after {PATIENCE_SECONDS} s")
                self._check(elapsed)
                time.sleep(max(0.0, 1 - (time.monotonic() - begin - elapsed)))

    def revisions(self) -> list[Object]:
        """The job's ledger of allocations, oldest first."""
        mine = [r for r in self._kube.list("AllocationRevision", NAMESPACE) if _owner(r) == self._name]
        return sorted(mine, key=lambda revision: int(revision["spec"]["number"]))

    def job(self) -> Object:
        job = self._kube.get("AgenticRLJob", NAMESPACE, self._name)
        assert job is not None, f"somebody deleted the job {self._name}"
        return job

    def _look(self, elapsed: float, gpus: float) -> screen.View:
        return screen.View(elapsed, self.job(), self.revisions(), gpus, signals.read(self._prometheus))

    def _check(self, elapsed: float) -> None:
        """Count ids while the bus exists: after the job it is gone and only the ledgers speak."""
        if elapsed - self._checked < CHECK_EVERY_SECONDS:
            return
        self._checked = elapsed
        try:
            folder = claims.folder(self._kube, NAMESPACE, f"{self._name}-checkpoints")
            bus = self._kube.address(NAMESPACE, f"{self._name}-bus")
            self.live_findings = asyncio.run(check(f"nats://{bus}:4222", self._name, folder))
        except (LookupError, OSError, TimeoutError, nats.errors.Error):
            return  # not there yet, or not any more


def run(learning_rate: str | None, console: Console) -> Report:
    """Everything from nothing to the report."""
    watch, progress = Stopwatch(), Progress(console)
    requirements.check(progress, node=True)  # before the minutes that images take
    fetch()
    with watch.measure("images"):
        images = build(TARGETS, progress)
    cluster = Cluster("demo", progress)
    with watch.measure("cluster"):
        cluster.up(prometheus=True)
        load_release(cluster, images)
        with progress.step("the operator"):
            install_operator(cluster)
    kube = Kube(cluster.kubeconfig)
    job, *others = load_yaml(MANIFESTS / "examples" / "calculator.yaml")
    if learning_rate is not None:
        job["spec"]["algorithm"]["args"]["learningRate"] = learning_rate
    name = job["metadata"]["name"]
    seen = Watch(kube, name, console)
    with watch.measure("job"), GpuLog(kube, [job], NAMESPACE) as gpus:
        kube.apply([*others, job], NAMESPACE)
        seen.to_the_end(gpus)
    checkpoints = claims.folder(kube, NAMESPACE, f"{name}-checkpoints")
    rewards = claims.rewards(checkpoints)
    final, live = check_offline(checkpoints), seen.live_findings
    with progress.step("held-out accuracy"):
        last = claims.last_checkpoint(checkpoints)
        reached = {"first": held_out_accuracy(TINY), "last": held_out_accuracy(last)}
    return Report(
        accuracy=reached,
        reward={"firstTen": _mean(rewards[:10]), "lastTen": _mean(rewards[-10:])},
        revisions=[revision_row(revision) for revision in seen.revisions()],
        gpus={"budget": float(gpu_value(job["spec"]["budget"]["gpus"])), "maxUsed": gpus.most},
        trajectories={
            "trained": final.trained,
            "lost": len({*final.lost, *(live.lost if live else ())}),
            "duplicated": len({*final.duplicated, *(live.duplicated if live else ())}),
        },
        seconds=watch.total(),
    )


def _owner(revision: Object) -> str:
    owners = revision["metadata"].get("ownerReferences") or [{}]
    return str(owners[0].get("name"))


def _mean(values: list[float]) -> float:
    return round(sum(values) / len(values), 4)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--learning-rate", help="instead of the example's; 0 is the control run")
    parser.add_argument("--output", type=Path, default=Path("build/demo.json"))
    arguments = parser.parse_args()
    console = Console()
    try:
        report = run(arguments.learning_rate, console)
    except ClusterError as error:
        console.print(f"[red]{error}[/]")
        return error.code
    except (JobFailed, TimeoutError) as error:
        console.print(f"[red]{error}[/]\nThe cluster is left as it is: make demo-down removes it.")
        return 1
    except KeyboardInterrupt:
        console.print("Interrupted. The cluster is left as it is: make demo-down removes it.")
        return 130
    report.write(arguments.output)
    report.show(console)
    console.print(f"{arguments.output} has the figures. The cluster still runs; look around with")
    console.print(f"  kubectl --kubeconfig {Cluster('demo').kubeconfig} get arj,arev,pods")
    console.print("and remove it with `make demo-down`.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
