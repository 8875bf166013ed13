"""The local page of `steelyard dashboard`: what it reads, how it looks, and who may see it."""
