"""What `steelyard check` looks at. A check is a function that yields findings; one that fails stops no other."""
