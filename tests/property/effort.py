"""How many cases a property is worth: 10,000 in a thorough run where a case is cheap, fewer where it is not."""

from __future__ import annotations

from hypothesis import settings

LEAST = 300
THOROUGH = (settings.default or settings()).max_examples > LEAST

costly = settings(max_examples=LEAST)
"""For cases that take milliseconds."""

dear = settings(max_examples=100)
"""For cases that take tens of milliseconds."""

closed_loops = settings(max_examples=24 if THOROUGH else 12)
"""For whole loops against the simulated pipeline, a third of a second each."""
