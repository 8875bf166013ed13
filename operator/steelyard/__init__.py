"""Steelyard: a Kubernetes operator that keeps agentic-RL post-training pipelines in balance."""
