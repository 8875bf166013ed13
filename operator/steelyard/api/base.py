"""What all types of the API share: frozen models in camelCase, bounded scalars, and rules in two languages."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    PlainSerializer,
    SerializerFunctionWrapHandler,
    ValidationError,
    WithJsonSchema,
    model_serializer,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, ErrorDetails, PydanticCustomError

from steelyard.api.names import MAX_PROFILE_NAME


class InvalidResource(ValueError):
    """A resource from the cluster breaks a rule; the text names every field, value and rule."""


@dataclass(frozen=True)
class Rule:
    """One cross-field rule in two languages, with the same words in both.

    `says` is the message, with a `%s` for each value. `check` returns the values when the rule is broken, else None;
    `cel` is true when it holds, and `values` are the CEL expressions of the same values.
    `field` is the field to blame, as a path below the model that holds the rule (`.min`).
    """

    says: str
    check: Callable[[Any], tuple[object, ...] | None]
    cel: str
    values: tuple[str, ...]
    field: str = ""

    def problem(self, model: object) -> str | None:
        """What is wrong with `model`, or None."""
        broken = self.check(model)
        return None if broken is None else self.says % tuple(map(_written, broken))

    @property
    def schema(self) -> dict[str, str]:
        """The rule as an entry of `x-kubernetes-validations`."""
        # format() is the one way to put values into a message that the API server's cost estimate admits.
        schema = {"rule": self.cel, "messageExpression": f"{_literal(self.says)}.format([{', '.join(self.values)}])"}
        return {**schema, "fieldPath": self.field} if self.field else schema


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _written(value: object) -> str:
    """As CEL's format() writes it."""
    if isinstance(value, list):
        return json.dumps(value)
    return f"{float(value):g}" if isinstance(value, Fraction) else str(value)


class Model(BaseModel):
    """A frozen value in camelCase that refuses fields it does not know."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
        use_attribute_docstrings=True,
    )

    rules: ClassVar[tuple[Rule, ...]] = ()

    @model_validator(mode="after")
    def _obey_rules(self) -> Self:
        broken = [(rule.field, problem) for rule in self.rules if (problem := rule.problem(self)) is not None]
        if broken:
            said = "; ".join(problem for _, problem in broken)
            raise PydanticCustomError("rule", "{said}", {"said": said, "broken": broken})
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler(core_schema)
        if cls.rules:
            handler.resolve_ref_schema(schema)["x-kubernetes-validations"] = [rule.schema for rule in cls.rules]
        return schema

    @classmethod
    def from_cluster(cls, resource: Mapping[str, Any]) -> Self:
        """Read what an API server returned: unknown fields are ignored, a newer CRD must not stop an older operator.

        Raises InvalidResource, in words for the user, when a rule is broken.
        """
        try:
            return cls.model_validate(resource, extra="ignore")
        except ValidationError as error:
            raise InvalidResource(explain(error)) from error

    def to_dict(self) -> dict[str, Any]:
        """The resource as JSON values, unset options left out: the same value gives the same bytes."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


def explain(error: ValidationError) -> str:
    """Every broken rule as `field: what is wrong`, for conditions and messages to users."""
    return "; ".join(line for found in error.errors(include_url=False) for line in _lines(found))


def _lines(found: ErrorDetails) -> list[str]:
    path = _path(found["loc"])
    where = f"{path}: " if path else ""
    context = found.get("ctx", {})
    if found["type"] == "rule":
        return [f"{(path + field).lstrip('.') or 'resource'}: {problem}" for field, problem in context["broken"]]
    if found["type"] == "value_error":
        return [f"{where}{context['error']}"]
    value = found["input"]
    given = "" if isinstance(value, dict | list) or not path else f"{json.dumps(value, default=str)}: "
    return [f"{where}{given}{found['msg']}"]


def _path(location: tuple[int | str, ...]) -> str:
    path = ""
    for step in location:
        path += f"[{step}]" if isinstance(step, int) else f".{step}"
    return path.lstrip(".")


def bounded(schema_type: str, **limits: Any) -> WithJsonSchema:
    """A schema written by hand where pydantic's own would not be structural."""
    return WithJsonSchema({"type": schema_type, **limits})


def immutable(why: str) -> dict[str, Any]:
    """Schema of a field that may not change after creation. Only the API server sees old and new."""
    return {"x-kubernetes-validations": [{"rule": "self == oldSelf", "message": f"is immutable: {why}"}]}


def _rfc3339(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


Time = Annotated[
    AwareDatetime,
    PlainSerializer(_rfc3339, return_type=str, when_used="json"),
    bounded("string", format="date-time"),
]
"""A moment, in whole seconds of UTC in JSON."""

ProfileName = Annotated[
    str, Field(min_length=1, max_length=MAX_PROFILE_NAME, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
]
ObjectName = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]
Text = Annotated[str, Field(max_length=1024)]
Decimal = Annotated[str, Field(max_length=32, pattern=r"^-?\d+(\.\d+)?(e[+-]?\d+)?$")]
"""A measured number at the precision it deserves, as text: floats do not survive every JSON reader."""
Arguments = Annotated[dict[str, Text], Field(max_length=32)]
PodTemplate = Annotated[
    dict[str, Any], WithJsonSchema({"type": "object", "x-kubernetes-preserve-unknown-fields": True})
]


class ObjectMeta(Model):
    """The part of Kubernetes' own metadata that Steelyard reads."""

    model_config = ConfigDict(extra="ignore")

    name: str = ""
    namespace: str = ""
    uid: str = ""
    generation: int = 0
    resource_version: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None

    @model_serializer(mode="wrap")
    def _leave_out_what_is_empty(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in serialize(self).items() if value}
