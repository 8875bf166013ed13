"""What a stage's pod template refers to. The API leaves templates free: here is the first look at their form."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from steelyard.cluster import kinds
from steelyard.cluster.kinds import Kind

T = TypeVar("T")
SECRET = Kind("Secret", "v1", "secrets")
CONFIG_MAP = kinds.BY_NAME["ConfigMap"]
CLAIM = kinds.BY_NAME["PersistentVolumeClaim"]
Listed = Annotated[list[T], BeforeValidator(lambda value: [] if value is None else value)]
Named = tuple[Kind, str, str]
"""Kind and name of an object, and its place in the pod's spec."""


class _Part(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="ignore", strict=True)


class _Reference(_Part):
    name: str
    optional: bool | None = False


class _SecretVolume(_Part):
    secret_name: str
    optional: bool | None = False


class _ClaimVolume(_Part):
    claim_name: str


class _Volume(_Part):
    secret: _SecretVolume | None = None
    config_map: _Reference | None = None
    persistent_volume_claim: _ClaimVolume | None = None


class _Source(_Part):
    """`valueFrom` of a variable, or an entry of `envFrom`."""

    secret_key_ref: _Reference | None = None
    config_map_key_ref: _Reference | None = None
    secret_ref: _Reference | None = None
    config_map_ref: _Reference | None = None

    @property
    def named(self) -> Iterator[tuple[Kind, str]]:
        for kind, one in (
            (SECRET, self.secret_key_ref), (CONFIG_MAP, self.config_map_key_ref),
            (SECRET, self.secret_ref), (CONFIG_MAP, self.config_map_ref),
        ):  # fmt: skip
            if one is not None and not one.optional:
                yield kind, one.name


class _Variable(_Part):
    value_from: _Source | None = None


class _Container(_Part):
    name: str = "container"
    env: Listed[_Variable] = Field(default_factory=list)
    env_from: Listed[_Source] = Field(default_factory=list)

    @property
    def named(self) -> Iterator[Named]:
        sources = [one.value_from for one in self.env if one.value_from] + self.env_from
        return ((kind, name, f"{self.name}.env") for source in sources for kind, name in source.named)


class _Pod(_Part):
    image_pull_secrets: Listed[_Reference] = Field(default_factory=list)
    volumes: Listed[_Volume] = Field(default_factory=list)
    init_containers: Listed[_Container] = Field(default_factory=list)
    containers: Listed[_Container] = Field(default_factory=list)

    @property
    def named(self) -> Iterator[Named]:
        yield from ((SECRET, one.name, "imagePullSecrets") for one in self.image_pull_secrets)
        for volume in self.volumes:
            if volume.secret and not volume.secret.optional:
                yield SECRET, volume.secret.secret_name, "volumes"
            if volume.config_map and not volume.config_map.optional:
                yield CONFIG_MAP, volume.config_map.name, "volumes"
            if volume.persistent_volume_claim:
                yield CLAIM, volume.persistent_volume_claim.claim_name, "volumes"
        for container in (*self.init_containers, *self.containers):
            yield from container.named


class _Template(_Part):
    spec: _Pod | None = None


def named(template: dict[str, Any] | None) -> list[Named]:
    """Whatever is not marked as optional. ValidationError where the template is none."""
    pod = _Template.model_validate(template or {}).spec
    return list(pod.named) if pod else []
