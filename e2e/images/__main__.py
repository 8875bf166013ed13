"""`python -m e2e.images COMMAND`."""

import argparse
import json
import sys

from e2e.cluster.errors import ClusterError
from e2e.cluster.progress import Progress
from e2e.cluster.shell import Failed
from e2e.images import build, requirements, venv, wheelhouse


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m e2e.images", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    building = commands.add_parser("build", help="build images and print a JSON map from target to image")
    building.add_argument(
        "targets", nargs="*", choices=[*build.TARGETS, []], metavar="target", help=", ".join(build.TARGETS)
    )
    commands.add_parser("venv", help="install the CPU packages into .venv")
    commands.add_parser("lock", help="resolve the CPU packages anew and write their requirements files")
    arguments = parser.parse_args()
    progress = Progress()
    try:
        match arguments.command:
            case "build":
                print(json.dumps(build.build(arguments.targets or build.TARGETS, progress)))
            case "venv":
                venv.install(progress)
            case "lock":
                requirements.write(wheelhouse.ensure(progress))
    except (ClusterError, Failed) as failure:
        print(failure, file=sys.stderr)
        return failure.code if isinstance(failure, ClusterError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
