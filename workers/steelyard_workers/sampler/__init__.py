"""The sampler stage: vLLM's own server, extended through vLLM's own flags so that it follows the trainer's weights."""
