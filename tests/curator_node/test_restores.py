"""Ledgers that are put back, any number of times: nothing that left is forgotten, and no cap is passed.

Failure conditions: a ledger that was put back, and whose steward has gone on, says less than what left it; a cap is
passed though the process's mark was never put back.
"""

from fractions import Fraction

import pytest
from restores import LEARNERS, World

from curator_fakes import key
from curator_node.ledger import Ledger
from curator_node.ledger.chain import Chain
from curator_node.ledger.marks import MemoryMark
from protocol.ledger.exports import encode_export
from simulations.audit.recompute.bounds import Bounds
from simulations.audit.recompute.replay import Replayed


def look(world):
    """Every process serves a request; where copies hold the marks, learners show all receipts; the steward goes on."""
    for which in range(len(world.running)):
        world.ledger(which)
    for receipt in world.receipts if world.marks_too else ():
        world.show(receipt)
        world.resume()
    world.resume()


def walk(seed, steps, **options):
    world = World(seed=seed, **options)
    for _ in range(steps):
        world.step()
        if world.choose.random() < 0.05:
            look(world)
            assert world.shortfall() <= 0, (seed, world.steps)
    look(world)
    assert world.shortfall() <= 0, (seed, world.steps)
    return world
