"""How many cases a property is worth."""

from __future__ import annotations

from hypothesis import settings

LEAST = 300

a_tenth = settings(max_examples=max((settings.default or settings()).max_examples // 10, LEAST))
"""For properties whose cases take milliseconds each: a thorough run tries a tenth of the profile's cases."""

closed_loops = settings(max_examples=12 if a_tenth.max_examples == LEAST else 300)
"""For whole loops against the simulated pipeline, a second each: a dozen, hundreds in a thorough run."""
