"""What `steelyard trace` makes of the spans of trajectories."""
