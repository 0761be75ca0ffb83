"""Attacks on what a ledger remembers of lost branches: failing stores and disks, and receipts in any order.

Failure conditions: a store that fails once, a disk that is full, or a crash within a write makes a later restore forget
what was spent; the order in which receipts are shown decides what is restored; what was lost once is restored twice.
"""

from fractions import Fraction

import pytest
from test_ledger import spend

from curator_node.ledger.storing import LedgerUnavailableError
from restores import World


class FailingStore:
    """A store of which one append fails.

    Args:
        store: the store.
        nth: which append it is, from 1.
    """

    def __init__(self, store, nth):
        self._append, self._left = store.append, nth
        store.append = self.append

    def append(self, row, **more):
        self._left -= 1
        if not self._left:
            raise LedgerUnavailableError("the ledger's database failed")
        self._append(row, **more)


@pytest.mark.parametrize("nth", [1, 2], ids=["at its START", "at its HALT"])
def test_a_store_that_fails_as_a_restore_is_found_makes_nothing_forgotten(nth):
    """The process stays up. With the next request it knows what it knew before."""
    world = World(cap=1000)
    world.ledger(0)
    world.copy()
    spend(world.ledger(0), 1, costs=(Fraction(9, 10),))
    world.ledger(0).settle()
    world.restore()
    FailingStore(world.store, nth)
    with pytest.raises(LedgerUnavailableError):
        world.ledger(0)
    world.ledger(0).settle()
    assert world.ledger(0).account.halted
    world.resume()
    assert world.ledger(0).account.total_spent == Fraction(9, 10)
