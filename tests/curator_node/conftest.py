"""Fixtures of the curator's tests."""

import pytest

from curator_fakes import Clock
from curator_node.ledger.store import DatabaseStore, MemoryStore, sqlite_url


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(params=["memory", "sqlite"])
def store(request, tmp_path):
    """Where a ledger is kept, of either kind."""
    opened = MemoryStore()
    if request.param == "sqlite":
        opened = DatabaseStore(sqlite_url(tmp_path / "ward.ledger"), create=True)
    yield opened
    opened.close()
