"""What was imported and collected lives as long as the run: Python's collector need not walk it again and again."""

from __future__ import annotations

import gc


def pytest_collection() -> None:
    gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()
