"""What all tests share."""

import asyncio


def pytest_configure() -> None:
    """Say that no loop is wanted outside a test: pytest-asyncio's look for one would make it and leave it open."""
    asyncio.set_event_loop(None)
