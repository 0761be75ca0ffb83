"""Waits for a condition, never longer than is said."""

import time


def wait_until(condition, seconds):
    """What the condition gave once it was true; AssertionError where that takes longer."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, f"still not true after {seconds} seconds"
        time.sleep(0.05)
    return found
