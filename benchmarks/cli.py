"""How long the command line takes: `python benchmarks/cli.py [--rounds 7] [--top-seconds 30]`.

Each command is a process of its own with a real kubectl, against an API server on this machine that answers from
memory: what is timed is Python's start, ours, and kubectl's. `top` runs on a terminal of its own; once it is drawn its
share of a core is counted, kubectl's included. The result goes to benchmarks/results/cli.json.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import pty
import resource
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import parse_qsl, urlsplit

sys.path.insert(0, str(Path(__file__).parents[1]))  # the job in memory lives with the tests

from e2e.cluster.cluster import kubectl
from steelyard.cli.commands.top import KEYS
from steelyard.cluster.errors import NotFound
from tests.unit.cli.fake_kubectl import FakeKubectl, State, put
from tests.unit.cli.world import lived

RESULT = Path(__file__).parent / "results" / "cli.json"
PROGRAM = [sys.executable, "-c", "from steelyard.cli import main; main()"]
JOBS = 20
LIMITS = {"--help": 0.4, "status": 0.5}
"""Seconds that the issue allows."""
TOP_LIMIT = 0.01
"""Share of a core."""
START_SECONDS, SETTLE_SECONDS = 60.0, 5.0
TICKS = os.sysconf("SC_CLK_TCK")
SHARES = [
    {"metric": {"stage": stage, "state": state}, "value": [0, "0.5"]}
    for stage in ("sampler", "environment", "reward-server", "trainer")
    for state in ("busy", "starved")
]


def world() -> State:
    """A namespace with many jobs, one of them with all its objects."""
    state = lived(50).state()
    job = next(obj for obj in state.objects.values() if obj["kind"] == "AgenticRLJob")
    for number in range(1, JOBS):
        other = deepcopy(job)
        other["metadata"] |= {"name": f"job-{number}", "uid": f"u-{number}"}
        put(state, other)
    return state


@contextmanager
def api_server(state: State) -> Iterator[str]:
    """Answers lists and objects from memory, keeps watches open and silent, and knows what Prometheus would say."""
    memory, over = FakeKubectl(state), threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            url = urlsplit(self.path)
            params = dict(parse_qsl(url.query))
            if params.get("watch"):
                self.send_response(200)
                self.end_headers()
                over.wait()
                return
            if url.path == "/api/v1/query":
                vector: Any = {"resultType": "vector", "result": SHARES if "state" in params["query"] else []}
                self.answer({"status": "success", "data": vector})
                return
            try:
                self.answer(memory._get(url.path, params))
            except NotFound as error:
                self.answer({"kind": "Status", "reason": "NotFound", "message": str(error)}, 404)

        def answer(self, body: Any, status: int = 200) -> None:
            raw = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, format: str, *args: object) -> None:
            """Silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        over.set()
        server.shutdown()


def shell(url: str, folder: Path) -> dict[str, str]:
    """Variables of a shell whose kubectl asks that API server."""
    config = folder / "kubeconfig"
    cluster = {"name": "bench", "cluster": {"server": url}}
    context = {"name": "bench", "context": {"cluster": "bench", "user": "", "namespace": "default"}}
    config.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [cluster],
                "contexts": [context],
                "current-context": "bench",
            }
        )
    )
    return {**os.environ, "KUBECONFIG": str(config), "KUBECTL": kubectl(), "TERM": "xterm", "HOME": str(folder)}


def timed(arguments: Sequence[str], environment: dict[str, str], rounds: int) -> dict[str, float]:
    """Seconds of one command: by the clock, and of the processor with those of its kubectls."""
    walls, processor = [], []
    for _ in range(rounds):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        started = time.perf_counter()
        done = subprocess.run([*PROGRAM, *arguments], env=environment, capture_output=True, check=False)
        walls.append(time.perf_counter() - started)
        assert done.returncode == 0, done.stderr.decode()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        processor.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return {
        "medianSeconds": round(median(walls), 3),
        "bestSeconds": round(min(walls), 3),
        "processorSeconds": round(median(processor), 3),
    }


def top_share(environment: dict[str, str], url: str, seconds: float) -> float:
    """Share of a core that `steelyard top` and its kubectls take while nothing changes but the figures."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 140, 0, 0))
    argv = [*PROGRAM, "top", "calculator", "--prometheus", url]
    with subprocess.Popen(argv, env=environment, stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True) as process:
        drawn = threading.Event()
        threading.Thread(target=_drain, args=(ours, drawn), daemon=True).start()
        assert drawn.wait(START_SECONDS), "top has drawn nothing"
        time.sleep(SETTLE_SECONDS)
        spent, started = _spent(process.pid), time.perf_counter()
        time.sleep(seconds)
        share = (_spent(process.pid) - spent) / (time.perf_counter() - started)
        assert process.poll() is None, "top has ended"
        os.write(ours, b"q")
        assert process.wait(10) == 0
    os.close(theirs)
    return round(share, 4)


def _drain(terminal: int, drawn: threading.Event) -> None:
    """Read what is drawn, as a terminal does; `drawn` is set with the first whole frame."""
    seen = b""
    try:
        while said := os.read(terminal, 1 << 16):
            seen = b"" if drawn.is_set() else seen + said
            if KEYS.encode() in seen:
                drawn.set()
    except OSError:
        return


def _spent(pid: int) -> float:
    """Processor seconds of a process and its children, those that have ended included."""
    children = [task.joinpath("children").read_text().split() for task in Path(f"/proc/{pid}/task").iterdir()]
    stats = [Path(f"/proc/{one}/stat").read_text() for one in (pid, *(child for some in children for child in some))]
    return sum(sum(map(int, stat.rpartition(")")[2].split()[11:15])) for stat in stats) / TICKS


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--top-seconds", type=float, default=30.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, api_server(world()) as url:
        environment = shell(url, Path(name))
        commands = {
            "--help": ["--help"],
            "status": ["status"],
            "status JOB": ["status", "calculator"],
            "tree JOB": ["tree", "calculator"],
            "history JOB": ["history", "calculator"],
            "explain JOB --revision 2": ["explain", "calculator", "--revision", "2"],
        }
        times = {name: timed(arguments, environment, options.rounds) for name, arguments in commands.items()}
        share = top_share(environment, url, options.top_seconds)
    result = {"jobs": JOBS, "rounds": options.rounds, "commands": times, "topShareOfACore": share}
    RESULT.write_text(json.dumps(result, indent=2) + "\n")
    for name, found in times.items():
        limit = f" of {LIMITS[name]} s" if name in LIMITS else ""
        print(f"{name:26} {found['medianSeconds']:.2f} s{limit}, {found['processorSeconds']:.2f} s of the processor")
    print(f"{'top':26} {share * 100:.2f} % of a core (limit {TOP_LIMIT * 100:.0f} %)")
    slow = [name for name, limit in LIMITS.items() if times[name]["bestSeconds"] > limit]
    return 1 if slow or share > TOP_LIMIT else 0


if __name__ == "__main__":
    sys.exit(main())
