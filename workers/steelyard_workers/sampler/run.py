"""The sampler's process: vLLM's server with our middleware and plug-in.

It starts with the job's base model and is not ready before it has pulled the newest weights: a version named now would
be swept away by the trainer before a large engine gets around to reading it.
"""

import os
import sys
from pathlib import Path

from steelyard.api import Sampler
from steelyard_workers.config import JobConfig, Place
from steelyard_workers.sampler.plugin import BACKEND
from steelyard_workers.sampler_protocol import MODEL_NAME
from steelyard_workers.termination import UserError
from steelyard_workers.worker import log_to_stderr

MEMORY_UTILIZATION = 0.9
"""vLLM's own share of a device that it has to itself."""
ENVIRONMENT = {
    "VLLM_SERVER_DEV_MODE": "1",  # the routes for people inside the pod; the middleware keeps everybody else out
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
    "SAGEMAKER_CONTAINER_LOG_LEVEL": "INFO",  # a package of vLLM's sets everybody's level to this, by default to ERROR
}


def flags(job: JobConfig, place: Place, profile: str) -> list[str]:
    """vLLM's command line: what image and GPU profile mean, what the job says, then ours, which therefore holds."""
    return [
        *("--gdn-prefill-backend", "triton"),  # FlashInfer's needs a CUDA compiler, which the image has not
        *profile_flags(job.spec.stages.sampler, profile),
        *job.spec.stages.sampler.engine.args,
        *("--model", str(place.model)),
        *("--served-model-name", MODEL_NAME),
        *("--host", "0.0.0.0"),  # noqa: S104 - the middleware says who may ask what
        *("--port", str(place.port)),
        *("--api-server-count", "1"),
        "--disable-uvicorn-access-log",  # probes and scrapes, every second
        *("--middleware", "steelyard_workers.sampler.middleware.Middleware"),
        *("--weight-transfer-config", f'{{"backend": "{BACKEND}"}}'),
        *("--scheduling-policy", "priority"),  # only the canary has one: it must not wait behind a long queue
        *("--shutdown-timeout", str(job.spec.stages.sampler.drain_seconds)),
    ]


def profile_flags(sampler: Sampler, name: str) -> list[str]:
    """As many shards as the profile has GPUs, and its share of the memory of a device that is shared."""
    profile = next((profile for profile in sampler.gpu_profiles if profile.name == name), None)
    if profile is None:
        return []
    shards = ["--tensor-parallel-size", str(profile.gpus)] if profile.gpus > 1 else []
    if profile.memory_percent == 100:
        return shards
    return [*shards, "--gpu-memory-utilization", f"{MEMORY_UTILIZATION * profile.memory_percent / 100:.3f}"]


def check_model(model: Path, on_cpu: bool) -> None:
    """Raise UserError for a model that is not there, or whose updates would silently not arrive."""
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(model).get_text_config()
    except (OSError, ValueError) as error:
        raise UserError(f"model {model}: {error}") from error
    if on_cpu and config.tie_word_embeddings:
        raise UserError(
            f"model {model}: tie_word_embeddings is true; vLLM on CPUs keeps a stale copy of a tied output layer, so "
            "weight updates would not arrive: use a checkpoint with untied embeddings"
        )


def run() -> None:
    """Become vLLM's server."""
    log_to_stderr()
    job, place = JobConfig.load(), Place.from_environment()
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    from vllm.platforms import current_platform

    on_cpu = bool(current_platform.is_cpu())
    check_model(place.model, on_cpu)
    if on_cpu:  # a request for log-probabilities would call a C++ compiler, and die without one
        os.environ.setdefault("TORCH_COMPILE_DISABLE", "1")
    sys.argv[1:] = flags(job, place, os.environ.get("STEELYARD_PROFILE", ""))
    from vllm.entrypoints.launchers.api_server.entry import main as serve

    _serve(serve, job)


def _serve(serve: object, job: JobConfig) -> None:
    given = f"stages.sampler.engine.args {job.spec.stages.sampler.engine.args}"
    try:
        serve()  # type: ignore[operator]
    except SystemExit as error:
        if error.code == 2:  # argparse; its log line names the flag
            raise UserError(f"{given}: vLLM does not take these flags") from error
        raise
    except ValueError as error:  # how vLLM refuses a configuration before it serves
        raise UserError(f"{given}: {error}") from error
