"""The generated CRDs obey what every API server demands of a structural schema, and say what readers need."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from steelyard.api.generate import generated
from steelyard.api.schema import all_crds

ROOT = Path(__file__).parents[3]
LARGEST_BYTES = 200 * 1024
"""A client-side apply keeps the whole object in an annotation of at most 256 KiB (ray-project/kuberay#271)."""

CRDS = sorted(all_crds().items())
SUPPORTED = {
    "additionalProperties",
    "anyOf",
    "default",
    "description",
    "enum",
    "format",
    "items",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "pattern",
    "properties",
    "required",
    "type",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
}


def nodes(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema node with the path of the field it describes."""
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    if "items" in schema:
        yield from nodes(schema["items"], f"{path}[]")
    if "additionalProperties" in schema:
        yield from nodes(schema["additionalProperties"], f"{path}.*")


def root(crd: dict[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


@pytest.mark.parametrize(("name", "crd"), CRDS, ids=[name for name, _ in CRDS])
class TestEveryCrd:
    def test_is_smaller_than_what_a_client_side_apply_can_carry(self, name: str, crd: dict[str, Any]) -> None:
        assert len(json.dumps(crd)) < LARGEST_BYTES

    def test_uses_only_keywords_of_structural_schemas(self, name: str, crd: dict[str, Any]) -> None:
        assert {path: set(node) - SUPPORTED for path, node in nodes(root(crd)) if set(node) - SUPPORTED} == {}

    def test_gives_every_node_one_type(self, name: str, crd: dict[str, Any]) -> None:
        untyped = [
            path
            for path, node in nodes(root(crd))
            if not isinstance(node.get("type"), str) and not node.get("x-kubernetes-int-or-string")
        ]
        assert untyped == []

    def test_never_mixes_named_fields_with_a_map(self, name: str, crd: dict[str, Any]) -> None:
        assert [
            path for path, node in nodes(root(crd)) if "properties" in node and "additionalProperties" in node
        ] == []

    def test_is_opaque_in_pod_templates_only(self, name: str, crd: dict[str, Any]) -> None:
        opaque = [path for path, node in nodes(root(crd)) if "x-kubernetes-preserve-unknown-fields" in node]
        assert all(path.endswith(".template") for path in opaque)

    def test_has_no_floats(self, name: str, crd: dict[str, Any]) -> None:
        assert [path for path, node in nodes(root(crd)) if node.get("type") == "number"] == []

    def test_bounds_every_list_map_and_text_of_the_spec(self, name: str, crd: dict[str, Any]) -> None:
        """Else the API server refuses rules over them: it estimates their cost from these bounds."""
        spec = root(crd)["properties"]["spec"]
        unbounded = [
            path
            for path, node in nodes(spec)
            if (node.get("type") == "array" and "maxItems" not in node)
            or ("additionalProperties" in node and "maxProperties" not in node)
            or (node.get("type") == "string" and not {"maxLength", "enum", "format"} & set(node))
        ]
        assert unbounded == []

    def test_describes_every_field(self, name: str, crd: dict[str, Any]) -> None:
        named = [
            (f"{path}.{field}", node)
            for path, parent in nodes(root(crd))
            for field, node in parent.get("properties", {}).items()
        ]
        standard = {".apiVersion", ".kind", ".metadata"}
        assert [path for path, node in named if not node.get("description") and path not in standard] == []

    def test_leaves_the_status_to_the_operator(self, name: str, crd: dict[str, Any]) -> None:
        status = root(crd)["properties"]["status"]
        filled_in = {path: node["default"] for path, node in nodes(status, ".status") if "default" in node}
        unseen = {".status": {"observedGeneration": -1}} if "observedGeneration" in status["properties"] else {}
        assert filled_in == unseen
        assert crd["spec"]["versions"][0]["subresources"] == {"status": {}}


@pytest.fixture(scope="module")
def files() -> dict[str, str]:
    return generated(ROOT)


def test_what_is_checked_in_is_what_the_types_generate(files: dict[str, str]) -> None:
    assert [name for name, text in files.items() if (ROOT / name).read_text() != text] == [], "run `make generate`"


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        (
            "steelyard.dev_agenticrljobs.yaml",
            "Phase Step Reward Throughput Bottleneck GPUs (Revision) (Reason) Age",
        ),
        ("steelyard.dev_rlpools.yaml", "GPUs Used Jobs Waiting Age"),
        ("steelyard.dev_allocationrevisions.yaml", "Number Phase Verdict Reason Before After Age"),
    ],
)
def test_the_printer_columns_are(name: str, columns: str) -> None:
    found = all_crds()[name]["spec"]["versions"][0]["additionalPrinterColumns"]

    assert " ".join(f"({c['name']})" if c.get("priority") else c["name"] for c in found) == columns


def test_the_yaml_reads_back_as_what_was_generated(files: dict[str, str]) -> None:
    for name, crd in CRDS:
        assert yaml.load(files[f"crds/{name}"], yaml.CSafeLoader) == crd
