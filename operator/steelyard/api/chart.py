"""What is generated in `charts/steelyard`: the CRDs as templates, and values.yaml and its reference from the schema."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from typing import Any

import yaml

Schema = dict[str, Any]

_WIDTH = 118
_VALUES_HEAD = "# Generated from values.schema.json by `make generate`; do not edit.\n"
_REFERENCE_HEAD = """# Values of the chart

Generated from `charts/steelyard/values.schema.json` by `make generate`; do not edit. Helm refuses any other value.

| value | default | meaning |
|---|---|---|
"""
_LABELS = '{{- include "steelyard.labels" (list . "crds") | nindent 4 }}'


def crd_template(text: str) -> str:
    """A CRD's manifest as a template: installed when asked for, and kept when the release goes, for jobs hang on it."""
    comment, body = text.split("\n", 1)
    metadata = f"metadata:\n  annotations:\n    helm.sh/resource-policy: keep\n  labels: {_LABELS}\n"
    guarded = body.replace("{{", '{{ "{{" }}').replace("metadata:\n", metadata, 1)
    return f"{comment}\n{{{{- if .Values.crds.install }}}}\n{guarded}{{{{- end }}}}\n"


def values(schema: Schema) -> str:
    """values.yaml: every property with its description as a comment and its default."""
    return _VALUES_HEAD + "\n".join(_entries(schema, 0)) + "\n"


def values_reference(schema: Schema) -> str:
    """The same as a table in Markdown."""
    return _REFERENCE_HEAD + "\n".join(_rows(schema, "")) + "\n"


def _entries(schema: Schema, depth: int) -> Iterator[str]:
    indent = "  " * depth
    for name, node in schema["properties"].items():
        if depth == 0:
            yield ""
        comment = f"{indent}# "
        yield textwrap.fill(node["description"], _WIDTH, initial_indent=comment, subsequent_indent=comment)
        if "properties" in node:
            yield f"{indent}{name}:"
            yield from _entries(node, depth + 1)
        else:
            yield textwrap.indent(_leaf(name, node["default"]), indent)


def _leaf(name: str, value: Any) -> str:
    """One value; lists and flat maps on one line, as people write them."""
    nested = isinstance(value, dict) and any(isinstance(each, dict | list) for each in value.values())
    if nested or not isinstance(value, dict | list):
        style = None if nested else False
        body = yaml.dump(value, sort_keys=False, width=_WIDTH, default_flow_style=style).removesuffix("\n...\n")
        return f"{name}:\n{textwrap.indent(body.rstrip(), '  ')}" if nested else f"{name}: {body.rstrip()}"
    return f"{name}: {yaml.dump(value, default_flow_style=True, sort_keys=False, width=_WIDTH).rstrip()}"


def _rows(schema: Schema, path: str) -> Iterator[str]:
    for name, node in schema["properties"].items():
        words = node["description"].replace("|", "\\|")
        default = "" if "properties" in node else f"`{json.dumps(node['default'])}`"
        yield f"| `{path}{name}` | {default} | {words} |"
        if "properties" in node:
            yield from _rows(node, f"{path}{name}.")
