"""From the types to CustomResourceDefinitions: structural schemas as the API server demands them."""

from collections.abc import Iterable, Sequence
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from steelyard.api.base import Model
from steelyard.api.job import AgenticRLJob
from steelyard.api.names import (
    GROUP,
    JOB_KIND,
    JOB_PLURAL,
    POOL_KIND,
    POOL_PLURAL,
    REVISION_KIND,
    REVISION_PLURAL,
    VERSION,
)
from steelyard.api.pool import RLPool
from steelyard.api.revision import AllocationRevision

Schema = dict[str, Any]
VALIDATIONS = "x-kubernetes-validations"
UNSEEN = {"observedGeneration": -1}
"""Status of an object that no operator has looked at: kstatus takes one without any status for finished."""


class _Structural(GenerateJsonSchema):
    """Leaves out what structural schemas cannot say: null, const, and what keys of a map look like."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def literal_schema(self, schema: core_schema.LiteralSchema) -> JsonSchemaValue:
        return {"type": "string", "enum": [str(value) for value in schema["expected"]]}

    def enum_schema(self, schema: core_schema.EnumSchema) -> JsonSchemaValue:
        return {"type": "string", "enum": [member.value for member in schema["members"]]}

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        values = self.generate_inner(schema["values_schema"])
        limits = {"minProperties": schema.get("min_length"), "maxProperties": schema.get("max_length")}
        bounds = {key: limit for key, limit in limits.items() if limit is not None}
        return {"type": "object", "additionalProperties": values, **bounds}

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        inner = super().default_schema(schema)
        default = schema.get("default")
        if isinstance(default, Model):
            inner["default"] = default.to_dict()  # rules are checked on defaults too, so they must be complete
        elif default is None:
            inner.pop("default", None)
        return inner


def structural(model: type[Model]) -> Schema:
    """The structural schema of `model`: no references, no nulls, every description kept."""
    raw = model.model_json_schema(schema_generator=_Structural)
    definitions = raw.pop("$defs", {})
    return _resolve(raw, definitions)


def _resolve(node: Schema, definitions: Schema) -> Schema:
    if reference := node.get("$ref"):
        target = definitions[reference.rsplit("/", 1)[1]]
        rules = [*target.get(VALIDATIONS, ()), *node.get(VALIDATIONS, ())]
        node = {**target, **{key: value for key, value in node.items() if key != "$ref"}}
        if rules:
            node[VALIDATIONS] = rules
    node = {key: value for key, value in node.items() if key != "title"}
    if node.get("additionalProperties") is False:
        del node["additionalProperties"]
    if "description" in node:
        node["description"] = " ".join(node["description"].split())
    if "properties" in node:
        node["properties"] = {name: _resolve(value, definitions) for name, value in node["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            node[key] = _resolve(node[key], definitions)
    return node


def _without_defaults(node: Schema) -> Schema:
    """A status says what was observed and nothing else: the API server must not fill it in, but for UNSEEN."""
    node = {key: value for key, value in node.items() if key != "default"}
    if "properties" in node:
        node["properties"] = {name: _without_defaults(value) for name, value in node["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            node[key] = _without_defaults(node[key])
    return node


def _crd(
    model: type[Model],
    kind: str,
    plural: str,
    short: str,
    columns: Iterable[tuple[str, str, str, int]],
    categories: Sequence[str] = (),
    scope: str = "Namespaced",
) -> Schema:
    schema = structural(model)
    schema["properties"]["apiVersion"] = {"type": "string"}
    schema["properties"]["kind"] = {"type": "string"}
    schema["properties"]["status"] = status = _without_defaults(schema["properties"]["status"])
    if "observedGeneration" in status["properties"]:
        status["default"] = UNSEEN
    schema["required"] = ["spec"]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": scope,
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
                "shortNames": [short],
                **({"categories": list(categories)} if categories else {}),
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [
                        {"name": name, "type": kind_, "jsonPath": path, **({"priority": wide} if wide else {})}
                        for name, kind_, path, wide in columns
                    ],
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


_AGE = ("Age", "date", ".metadata.creationTimestamp", 0)

_JOB_COLUMNS = (
    ("Phase", "string", ".status.phase", 0),
    ("Step", "integer", ".status.training.step", 0),
    ("Reward", "string", ".status.training.reward", 0),
    ("Throughput", "string", ".status.throughput", 0),
    ("Bottleneck", "string", ".status.bottleneck.stage", 0),
    ("GPUs", "string", ".status.gpus.used", 0),
    ("Revision", "string", ".status.activeRevision", 1),
    ("Reason", "string", ".status.lastDecisions[0].reason", 1),
    _AGE,
)

_REVISION_COLUMNS = (
    ("Number", "integer", ".spec.number", 0),
    ("Phase", "string", ".status.phase", 0),
    ("Verdict", "string", ".status.verdict", 0),
    ("Reason", "string", ".spec.reason", 0),
    ("Before", "string", ".status.measured.throughputBefore", 0),
    ("After", "string", ".status.measured.throughputAfter", 0),
    _AGE,
)

_POOL_COLUMNS = (
    ("GPUs", "string", ".spec.gpus", 0),
    ("Used", "string", ".status.used", 0),
    ("Jobs", "integer", ".status.jobs", 0),
    ("Waiting", "integer", ".status.waiting", 0),
    _AGE,
)


def job_crd() -> Schema:
    return _crd(AgenticRLJob, JOB_KIND, JOB_PLURAL, "arj", _JOB_COLUMNS, categories=["all"])


def revision_crd() -> Schema:
    return _crd(AllocationRevision, REVISION_KIND, REVISION_PLURAL, "arev", _REVISION_COLUMNS)


def pool_crd() -> Schema:
    return _crd(RLPool, POOL_KIND, POOL_PLURAL, "rlp", _POOL_COLUMNS, scope="Cluster")


def all_crds() -> dict[str, Schema]:
    """File name -> CustomResourceDefinition."""
    return {
        f"{GROUP}_{JOB_PLURAL}.yaml": job_crd(),
        f"{GROUP}_{REVISION_PLURAL}.yaml": revision_crd(),
        f"{GROUP}_{POOL_PLURAL}.yaml": pool_crd(),
    }
