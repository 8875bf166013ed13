"""The command line: ``python -m e2e.cluster COMMAND [--name NAME]``. Results on standard output, the rest on error."""

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence

from e2e.cluster import build, images, requirements
from e2e.cluster.cluster import Cluster
from e2e.cluster.errors import ClusterError, Exit
from e2e.cluster.progress import Progress
from e2e.cluster.shell import Failed


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        requirements.root(os.geteuid())
        return _COMMANDS[options.command](options)
    except ClusterError as problem:
        print(f"error: {problem}", file=sys.stderr)
        return problem.code
    except Failed as failure:
        print(f"error: {failure}", file=sys.stderr)
        return Exit.FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m e2e.cluster", description="A real Kubernetes on this machine.")
    commands = parser.add_subparsers(dest="command", required=True)

    def command(name: str, text: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=text, description=text)
        added.add_argument("--name", default="steelyard", help="which cluster (default: %(default)s)")
        return added

    up = command("up", "start the cluster, replacing what was left of an earlier one")
    up.add_argument("--control-plane", action="store_true", help="no node: objects live, pods stay Pending")
    up.add_argument("--prometheus", action="store_true", help="with Prometheus at prometheus.monitoring:9090")
    command("down", "remove the cluster and everything in it")
    command("status", "what runs, and where")
    command("kubeconfig", "print the path of the administrator's kubeconfig")
    logs = command("logs", "print a daemon's log, or name the daemons")
    logs.add_argument("daemon", nargs="?")
    logs.add_argument("--follow", "-f", action="store_true")
    load = command("load", "make images of buildah's store known to the node")
    load.add_argument("image", nargs="+")
    base = commands.add_parser("base-image", help="make the base image if needed and print its tag")
    base.set_defaults(name="")
    commands.add_parser("programs", help="build what clusters and tests run on, where it is not there yet")
    return parser


def _up(options: argparse.Namespace) -> int:
    cluster = Cluster(options.name)
    cluster.up(node=not options.control_plane, prometheus=options.prometheus)
    print(f"export KUBECONFIG={cluster.kubeconfig}")
    return 0


def _down(options: argparse.Namespace) -> int:
    Cluster(options.name).down()
    return 0


def _status(options: argparse.Namespace) -> int:
    cluster = Cluster(options.name)
    print(f"kubeconfig {cluster.kubeconfig}\nAPI server https://{cluster.subnets.node}:6443")
    daemons = cluster.daemons()
    for daemon in daemons:
        print(f"{daemon.name:24} {'runs' if daemon.runs else 'DEAD'}   {daemon.log}")
    healthy = bool(daemons) and all(daemon.runs for daemon in daemons)
    if not healthy:
        print("the cluster does not run: start it with `up`", file=sys.stderr)
    return 0 if healthy else Exit.FAILED


def _kubeconfig(options: argparse.Namespace) -> int:
    print(Cluster(options.name).kubeconfig)
    return 0


def _logs(options: argparse.Namespace) -> int:
    logs = Cluster(options.name).logs()
    if options.daemon not in logs:
        print("\n".join(sorted(logs)))
        return 0 if options.daemon is None else Exit.FAILED
    show = ["tail", "--lines=+1", *(["--follow"] if options.follow else []), str(logs[options.daemon])]
    return subprocess.run(show, check=False).returncode


def _load(options: argparse.Namespace) -> int:
    Cluster(options.name).load(*options.image)
    return 0


def _base_image(_: argparse.Namespace) -> int:
    progress = Progress()
    print(images.base(progress))
    return 0


def _programs(_: argparse.Namespace) -> int:
    progress = Progress()
    requirements.check(progress, node=False)
    for module in build.MODULES:
        build.ensure(module, progress)
    return 0


_COMMANDS = {
    "up": _up,
    "down": _down,
    "status": _status,
    "kubeconfig": _kubeconfig,
    "logs": _logs,
    "load": _load,
    "base-image": _base_image,
    "programs": _programs,
}

if __name__ == "__main__":
    sys.exit(main())
