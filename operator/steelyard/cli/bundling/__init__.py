"""What `steelyard bundle` collects, and what it withholds."""
