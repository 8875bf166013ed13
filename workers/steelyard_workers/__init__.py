"""The four stages of the pipeline: sampler, environment, reward server, trainer, and the bus between them."""
