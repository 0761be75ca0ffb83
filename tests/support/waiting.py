"""Waits for a condition, never longer than is said."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_for(condition: Callable[[], T], seconds: float = 120.0, what: str = "the condition") -> T:
    """The first true value of a condition; AssertionError where it never comes. Fails slowly, passes at once."""
    end = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < end, f"{what} did not come true within {seconds:.0f} s"
        time.sleep(0.02)
