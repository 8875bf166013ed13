"""The five images of Steelyard and the CPU packages for tests: `python -m e2e.images --help`."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
PYTHON = "3.11"
"""The Python of the test images and of the development environment: CPU wheels are made for one version."""
