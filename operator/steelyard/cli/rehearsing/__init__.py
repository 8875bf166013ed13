"""What `steelyard rehearse` runs, and what it records of it."""
