"""Curators that sum securely: their policies list each other."""

import numpy as np

from learner_fakes import key, open_curator, ring
from protocol.kinds.secure_counts import TURNS, PlannedSecureCounts
from protocol.limits import Limits
from protocol.plans import Plan
from protocol.rationals import Rational


class ScriptedNoise:
    """Adds what it was given: one whole number for all counts of a query, or nothing."""

    seeded = False

    def __init__(self, share=0):
        self.share = share

    def discrete_laplace(self, exact, l1, law, stamp):
        return exact

    def laplace_shares(self, size, law, parts, stamp):
        return np.full(size, self.share, np.int64)

    def laplace(self, size, scale, stamp):
        return np.zeros(size)

    def choose(self, scores, moved, law, stamp):
        return int(scores.argmax())

    def randomness(self, stamp):
        return np.random.default_rng(0).bytes


def names_of(count):
    return [f"site {number:02d}" for number in range(count)]


def limits_with(members, **limits):
    """Limits that allow counts, and secure sums with the members of these names."""
    listed = [key(name).public.hex() for name in members]
    return Limits(kinds={"counts": {}, "secure_counts": {"members": listed, **limits}})


def members(count, *, size=60, noise=None, **options):
    """Curators by name, of `size` records each, whose policies list all of them."""
    names = names_of(count)
    limits = options.pop("limits", None) or limits_with(names)
    return {
        name: open_curator(
            name, ring(size, seed=number), noise=noise or ScriptedNoise(), limits=limits, round_size=500, **options
        )
        for number, name in enumerate(names)
    }


def secure_plan(curators, *scales, colluders=1, dropouts=0, release="mass", partitions=1):
    """A plan of secure sums over these curators."""
    return Plan.of(
        PlannedSecureCounts(
            release=release,
            partitions=partitions,
            scale=Rational(scale, 1),
            turns=TURNS,
            participants=tuple(sorted(curator.identity for curator in curators.values())),
            colluders=colluders,
            dropouts=dropouts,
        )
        for scale in scales
    )
