"""Settings of the operator, from environment variables STEELYARD_*. They are the cluster owner's, never a job's."""

from __future__ import annotations

import os
import socket
import ssl
import textwrap
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Literal

from pydantic import DirectoryPath, Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from steelyard.api import Stage
from steelyard.children.common import NATS, Images
from steelyard.metrics.connect import AUTHORITY, trusted

PREFIX = "STEELYARD_"
REGISTRY = "ghcr.io/steelyard"


def _image(name: str) -> str:
    return f"{REGISTRY}/{name}:{version('steelyard')}"


def _identity() -> str:
    """A pod keeps its name, and with it the Lease, over restarts of its container; a process elsewhere is another."""
    return os.environ.get("POD_NAME") or f"{socket.gethostname()}-{os.getpid()}"


class Settings(BaseSettings):
    """See `charts/steelyard` for how they are set in a cluster."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, use_attribute_docstrings=True)

    prometheus_url: str = "http://prometheus.monitoring:9090"
    """Where the workers' metrics are read."""
    prometheus_timeout_seconds: Annotated[float, Field(gt=0)] = 5.0
    """After which a query counts as unanswered."""
    prometheus_secret: DirectoryPath | None = None
    """Folder with what Prometheus asks for: authorization, the header of that name, and ca.crt, whom to trust."""
    namespaces: Annotated[tuple[str, ...], NoDecode] = ()
    """Namespaces to serve, comma separated; all when empty."""
    pod_monitors: bool = True
    """Whether each job gets a PodMonitor where a Prometheus Operator is; not where another one selects all pods."""
    kubeconfig: Path | None = None
    """For an operator that runs outside the cluster; in a pod the service account is used."""
    lease_namespace: str = Field(default_factory=lambda: os.environ.get("POD_NAMESPACE", "steelyard-system"))
    """Namespace of the Lease: $POD_NAMESPACE, else steelyard-system."""
    lease_name: str = "steelyard-operator"
    """The Lease that one operator at a time holds."""
    identity: Annotated[str, Field(min_length=1)] = Field(default_factory=_identity)
    """Who holds the Lease: $POD_NAME, else host name and process. No two running operators may share it."""
    http_port: Annotated[int, Field(ge=0, le=65535)] = 8080
    """Where /metrics and /healthz are served."""
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    """How much is logged: DEBUG, INFO, WARNING or ERROR."""
    image_sampler: str = _image("sampler")
    """What samplers run, unless a job says otherwise."""
    image_environment: str = _image("worker")
    """What environments run, unless a job says otherwise."""
    image_reward_server: str = _image("worker")
    """What reward servers run, unless a job says otherwise."""
    image_trainer: str = _image("trainer")
    """What trainers run, unless a job says otherwise."""
    image_nats: str = _image("nats")
    """What each job's bus runs."""

    @field_validator("namespaces", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value

    @field_validator("prometheus_secret")
    @classmethod
    def _certificate(cls, value: Path | None) -> Path | None:
        try:
            trusted(value)
        except ssl.SSLError as error:
            raise ValueError(f"its file {AUTHORITY} holds no certificate: {error}") from error
        return value

    @property
    def images(self) -> Images:
        """Default images of the workers."""
        by_stage = {stage.value: str(getattr(self, f"image_{stage.attribute}")) for stage in Stage}
        return Images({**by_stage, NATS: self.image_nats})


def reference() -> str:
    """Every variable with its meaning and default, for people."""
    entries = []
    for name, field in Settings.model_fields.items():
        default = f" Default: {field.default}" if isinstance(field.default, str | int | float) else ""
        about = textwrap.fill(f"{field.description}{default}", 100, initial_indent=" " * 6, subsequent_indent=" " * 6)
        entries.append(f"  {_variable(name)}\n{about}")
    return "\n".join(entries)


def explained(error: ValidationError) -> str:
    """Which variable is wrong, and why."""
    found = error.errors(include_url=False)
    return "; ".join(f"{_variable(str(each['loc'][0]))}: {each['input']!r}: {each['msg']}" for each in found)


def _variable(field: str) -> str:
    return f"{PREFIX}{field.upper()}"
