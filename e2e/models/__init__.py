"""The tiny policy that learns to use a calculator: its tasks, its warm start and the checked-in result."""
