"""vLLM calls `register` in each of its processes (entry point group vllm.general_plugins)."""

BACKEND = "steelyard"


def register() -> None:
    """Make our weight transfer known; it is loaded only where --weight-transfer-config asks for it."""
    from vllm.distributed.weight_transfer import WeightTransferEngineFactory

    if BACKEND not in WeightTransferEngineFactory._registry:  # plug-ins may be loaded twice in one process
        WeightTransferEngineFactory.register_engine(
            BACKEND, "steelyard_workers.sampler.weight_engine", "SharedFolderEngine"
        )
