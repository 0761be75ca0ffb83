"""A real SuperLink for tests: importing the fixture `superlink` gives a module one of its own, on a free port.

A SuperLink takes seconds to start, so tests of one file share one; nodes and runs of one test are nobody else's.
"""

import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest

from simulations.superlink import SuperLink

T = TypeVar("T")


@pytest.fixture(scope="module")
def superlink(tmp_path_factory) -> Iterator[SuperLink]:
    """In memory; for one that is stopped and started again, make a `SuperLink` of the test's own."""
    with SuperLink(tmp_path_factory.mktemp("superlink")) as running:
        yield running


def wait_for(condition: Callable[[], T], seconds: float = 120.0, what: str = "the condition") -> T:
    """The first true value of a condition; AssertionError where it never comes. Fails slowly, passes at once."""
    end = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < end, f"{what} did not come true within {seconds:.0f} s"
        time.sleep(0.02)
