"""The seam to the metrics source. The operator reads through `Prometheus`; `history` is what pages read of the past."""

from steelyard.metrics.prometheus import Metrics, Prometheus

__all__ = ["Metrics", "Prometheus"]
