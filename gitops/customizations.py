"""`python -m gitops.customizations`: the Lua scripts as data of the ConfigMap argocd-cm.

The scripts lie as Argo CD's own tree of resource_customizations has them, so that a copy is all a contribution takes.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

from steelyard.api.generate import generate

ARGOCD = Path(__file__).parent / "argocd"
CUSTOMIZATIONS = ARGOCD / "resource_customizations"
_HEADER = "# Generated from resource_customizations by `make generate`; do not edit.\n"


class _Dumper(yaml.SafeDumper):
    """Writes text of several lines as it is, so that scripts can be read."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def _yaml(value: Any) -> str:
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=1000)


def entries() -> dict[str, str]:
    """What argocd-cm needs to know: keys and values of its data."""
    found: dict[str, str] = {}
    for health in sorted(CUSTOMIZATIONS.glob("*/*/health.lua")):
        kind = health.parent
        name = f"{kind.parent.name}_{kind.name}"
        found[f"resource.customizations.health.{name}"] = health.read_text()
        if (discovery := kind / "actions" / "discovery.lua").exists():
            found[f"resource.customizations.actions.{name}"] = _yaml(
                {
                    "discovery.lua": discovery.read_text(),
                    "definitions": [
                        {"name": script.parent.name, "action.lua": script.read_text()}
                        for script in sorted(discovery.parent.glob("*/action.lua"))
                    ],
                }
            )
    return found


def generated() -> dict[str, str]:
    """Path below the repository's root -> content."""
    metadata = {"name": "argocd-cm", "namespace": "argocd"}
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": entries()}
    return {
        "gitops/argocd/argocd-cm.yaml": _HEADER + _yaml(config_map),
        "gitops/argocd/values.yaml": _HEADER + _yaml({"configs": {"cm": entries()}}),
    }


if __name__ == "__main__":
    sys.exit(generate("python -m gitops.customizations", __doc__ or "", lambda _: generated()))
