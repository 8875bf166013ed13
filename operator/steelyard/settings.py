"""Settings of the operator, from environment variables STEELYARD_*. They are the cluster owner's, never a job's."""

from __future__ import annotations

import os
import socket
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from steelyard.api import Stage
from steelyard.children.common import NATS, Images

REGISTRY = "ghcr.io/steelyard"


def _image(name: str) -> str:
    return f"{REGISTRY}/{name}:{version('steelyard')}"


def _identity() -> str:
    """A pod keeps its name, and with it the Lease, over restarts of its container; a process elsewhere is another."""
    return os.environ.get("POD_NAME") or f"{socket.gethostname()}-{os.getpid()}"


class Settings(BaseSettings):
    """See `manifests/base` for how they are set in a cluster."""

    model_config = SettingsConfigDict(env_prefix="STEELYARD_", frozen=True)

    prometheus_url: str = "http://prometheus.monitoring:9090"
    """Where the workers' metrics are read."""
    prometheus_timeout_seconds: Annotated[float, Field(gt=0)] = 5.0
    namespaces: Annotated[tuple[str, ...], NoDecode] = ()
    """Namespaces to serve, comma separated; all when empty."""
    kubeconfig: Path | None = None
    """For an operator that runs outside the cluster; in a pod the service account is used."""
    lease_namespace: str = Field(default_factory=lambda: os.environ.get("POD_NAMESPACE", "steelyard-system"))
    lease_name: str = "steelyard-operator"
    identity: Annotated[str, Field(min_length=1)] = Field(default_factory=_identity)
    """Who holds the Lease; no two running operators may share it."""
    http_port: Annotated[int, Field(ge=0, le=65535)] = 8080
    """/metrics and /healthz."""
    log_level: str = "INFO"
    image_sampler: str = _image("sampler")
    image_environment: str = _image("worker")
    image_reward_server: str = _image("worker")
    image_trainer: str = _image("trainer")
    image_nats: str = _image("nats")

    @field_validator("namespaces", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value

    @property
    def images(self) -> Images:
        """Default images of the workers."""
        by_stage = {stage.value: str(getattr(self, f"image_{stage.attribute}")) for stage in Stage}
        return Images({**by_stage, NATS: self.image_nats})
