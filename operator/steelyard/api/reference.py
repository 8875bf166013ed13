"""The CRDs as a page for readers (docs/reference/crd.md)."""

from collections.abc import Iterable, Iterator
from typing import Any

_HEAD = """# Resources

Generated from `operator/steelyard/api` by `make generate`; do not edit. `kubectl explain arj.spec` says the same.
"""


def reference(crds: Iterable[dict[str, Any]]) -> str:
    """Markdown: per resource a table of fields, and the rules that join them."""
    return "\n".join([_HEAD, *(line for crd in crds for line in _resource(crd))])


def _resource(crd: dict[str, Any]) -> Iterator[str]:
    names, version = crd["spec"]["names"], crd["spec"]["versions"][0]
    schema = version["schema"]["openAPIV3Schema"]
    yield f"## {names['kind']} (`{names['shortNames'][0]}`)\n"
    yield f"{schema['description']}\n"
    for part in ("spec", "status"):
        yield f"### {part}\n"
        yield "| field | type | default | meaning |"
        yield "|---|---|---|---|"
        yield from _fields(schema["properties"][part], part)
        yield ""
    yield "### rules\n"
    yield "| field | rule |"
    yield "|---|---|"
    yield from _rules(schema, "")
    yield ""


def _fields(schema: dict[str, Any], path: str) -> Iterator[str]:
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        default = _default(field) or ("required" if name in required else "")
        meaning = field.get("description", "").replace("|", "\\|")
        yield f"| `{path}.{name}` | {_type(field)} | {default} | {meaning} |"
        yield from _fields(field, f"{path}.{name}")
        if "items" in field:
            yield from _fields(field["items"], f"{path}.{name}[]")
        if isinstance(field.get("additionalProperties"), dict):
            yield from _fields(field["additionalProperties"], f"{path}.{name}.*")


def _rules(schema: dict[str, Any], path: str) -> Iterator[str]:
    for rule in schema.get("x-kubernetes-validations", ()):
        words = rule.get("message") or rule["messageExpression"].split(".format(")[0].strip("'")
        field = f"{path}{rule.get('fieldPath', '')}".lstrip(".") or "metadata.name"
        yield f"| `{field}` | {words.replace('%s', '…').replace(chr(92), '')} |"
    for name, field in schema.get("properties", {}).items():
        yield from _rules(field, f"{path}.{name}")
    if "items" in schema:
        yield from _rules(schema["items"], f"{path}[]")


def _default(field: dict[str, Any]) -> str:
    default = field.get("default")
    if default is None or isinstance(default, dict | list):
        return ""  # the fields of an object have their own
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def _type(field: dict[str, Any]) -> str:
    if "enum" in field:
        return ", ".join(field["enum"])
    if field.get("x-kubernetes-int-or-string"):
        return "quantity"
    if field["type"] == "integer" and "maximum" in field:
        return f"integer {field['minimum']}–{field['maximum']}"
    if field["type"] == "integer" and "minimum" in field:
        return f"integer ≥ {field['minimum']}"
    if field["type"] == "array":
        return f"list of {_type(field['items'])}"
    if isinstance(field.get("additionalProperties"), dict):
        return f"map of {_type(field['additionalProperties'])}"
    return str(field.get("format", field["type"]))
