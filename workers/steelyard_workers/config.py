"""What a worker knows about its job: the ConfigMap's job.json and the paths and names in its environment."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from steelyard.api import Algorithm, explain
from steelyard.api.job import Buffer, Checkpoints, Tracing
from steelyard.api.stages import Stages
from steelyard_workers.termination import UserError


class WorkerSpec(BaseModel):
    """The part of a job's spec that workers obey; what only the operator reads is left out."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)

    algorithm: Algorithm
    checkpoints: Checkpoints
    stages: Stages
    buffer: Buffer
    tracing: Tracing


class JobConfig(BaseModel):
    """The content of job.json: who the job is and its spec with all defaults filled in."""

    model_config = ConfigDict(frozen=True)

    name: str
    namespace: str
    uid: str
    spec: WorkerSpec

    @classmethod
    def load(cls, path: Path | None = None) -> Self:
        """Read job.json; UserError when it is missing or not a job."""
        path = path or Path(os.environ.get("STEELYARD_CONFIG", "/etc/steelyard/job.json"))
        try:
            return cls.model_validate_json(path.read_bytes(), extra="ignore")
        except OSError as error:
            raise UserError(f"job configuration {path}: {error.strerror}") from error
        except ValidationError as error:
            raise UserError(f"job configuration {path}: {explain(error)}") from error

    @property
    def batch(self) -> int:
        """Trajectories in one training step."""
        return self.spec.algorithm.batch

    @property
    def open_limit(self) -> int:
        """How many trajectories may be open: admitted, but neither trained nor given up."""
        return (self.spec.algorithm.max_staleness + 1) * self.batch


@dataclass(frozen=True)
class Place:
    """Where this worker runs and what it finds there; read once from the environment."""

    nats_url: str
    pod: str
    pod_uid: str
    port: int
    model: Path
    tasks: Path
    weights: Path
    checkpoints: Path

    @classmethod
    def from_environment(cls) -> Self:
        """The process contract's variables, with its defaults."""
        env = os.environ
        return cls(
            nats_url=env["NATS_URL"],
            pod=env.get("POD_NAME", "local"),
            pod_uid=env.get("POD_UID", f"process-{os.getpid()}"),
            port=int(env.get("PORT", "8000")),
            model=Path(env.get("STEELYARD_MODEL", "/model")),
            tasks=Path(env.get("STEELYARD_TASKS", "/tasks")),
            weights=Path(env.get("STEELYARD_WEIGHTS", "/weights")),
            checkpoints=Path(env.get("STEELYARD_CHECKPOINTS", "/checkpoints")),
        )
