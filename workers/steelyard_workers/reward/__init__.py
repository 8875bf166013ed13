"""The reward stage: scores trajectories, from the bus and over HTTP."""
