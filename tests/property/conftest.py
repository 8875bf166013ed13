"""How many cases: the profile `unit` (300) by default, `thorough` (10,000) with --hypothesis-profile=thorough."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("unit", max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("thorough", settings.get_profile("unit"), max_examples=10_000)
settings.load_profile("unit")
