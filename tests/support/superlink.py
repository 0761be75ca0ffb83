"""A real SuperLink for tests: importing the fixture `superlink` gives a module one of its own, on a free port.

A SuperLink takes seconds to start, so tests of one file share one; nodes and runs of one test are nobody else's.
"""

from collections.abc import Iterator

import pytest

from simulations.superlink import SuperLink


@pytest.fixture(scope="module")
def superlink(tmp_path_factory) -> Iterator[SuperLink]:
    """In memory; for one that is stopped and started again, make a `SuperLink` of the test's own."""
    with SuperLink(tmp_path_factory.mktemp("superlink")) as running:
        yield running
