"""The environment stage: drives episodes by asking the samplers and running tools."""
