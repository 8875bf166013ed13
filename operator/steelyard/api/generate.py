"""`python -m steelyard.api.generate`: write everything that is made from the types, or check it with --check."""

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from steelyard.api import chart
from steelyard.api.reference import reference
from steelyard.api.schema import all_crds

_HEADER = "# Generated from operator/steelyard/api by `make generate`; do not edit.\n"


def generated(root: Path) -> dict[str, str]:
    """Path below the repository's root -> content."""
    crds = all_crds()
    manifests = {name: _HEADER + as_yaml(crd) for name, crd in crds.items()}
    schema = json.loads((root / "charts/steelyard/values.schema.json").read_text())
    return {
        **{f"crds/{name}": text for name, text in manifests.items()},
        **{f"charts/steelyard/templates/crds/{name}": chart.crd_template(text) for name, text in manifests.items()},
        "charts/steelyard/values.yaml": chart.values(schema),
        "docs/reference/crd.md": reference(crds.values()),
        "docs/reference/values.md": chart.values_reference(schema),
    }


class _Dumper(yaml.SafeDumper):
    """Repeats equal values in full: readers and some tools do not follow aliases."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002  (PyYAML's signature)
        return True


def as_yaml(value: Any) -> str:
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=150, allow_unicode=True)


def generate(prog: str, description: str, make: Callable[[Path], Mapping[str, str]]) -> int:
    """The command line of a generator: writes the files that `make` gives for a root, or fails when one is not so."""
    parser = argparse.ArgumentParser(prog=prog, description=description)
    parser.add_argument("--root", type=Path, default=Path(), help="root of the repository (default: here)")
    parser.add_argument("--check", action="store_true", help="change nothing; fail when a file is out of date")
    options = parser.parse_args()
    stale = []
    for name, content in make(options.root).items():
        file = options.root / name
        if file.exists() and file.read_text() == content:
            continue
        stale.append(name)
        if not options.check:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content)
    for name in stale:
        sys.stdout.write(f"{'out of date' if options.check else 'written'}: {name}\n")
    return 1 if options.check and stale else 0


if __name__ == "__main__":
    sys.exit(generate("python -m steelyard.api.generate", __doc__ or "", generated))
