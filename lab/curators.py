"""Policies with room for whatever an experiment asks, and what it spent."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from curator_node.policy import LearnerPolicy, Policy
from curator_node.site import Site
from protocol.envelopes import SigningKey
from protocol.kinds.counts import COUNTS
from protocol.kinds.secure_counts import SECURE_COUNTS
from protocol.limits import Limits
from protocol.rationals import MOST
from protocol.release_kinds import RELEASE_KINDS


def roomy_policy(
    learner: SigningKey,
    *,
    name: str,
    simulation: bool = False,
    printed: bool = False,
    members: Sequence[bytes] = (),
    kinds: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
) -> Policy:
    """A policy that lets one learner ask whatever it likes.

    A curator of a `simulation` signs as not private; `printed` lets it also answer by the paper's mechanism, whose
    claim is wrong. `members` are identity keys of the curators that it sums with; `kinds`, further kinds -> limits.
    """
    allowed: dict[str, Any] = {
        COUNTS.name: {"release_kinds": [key for key, kind in RELEASE_KINDS.items() if kind.private or printed]}
    }
    if members:
        allowed[SECURE_COUNTS.name] = {"members": [member.hex() for member in members]}
    return Policy(
        name=name,
        cap=MOST,
        learners=(LearnerPolicy(name="learner", key=learner.public.hex(), cap=MOST),),
        limits=Limits(kinds={**allowed, **{name: dict(limits) for name, limits in kinds.items()}}),
        simulation=simulation,
    )


def spent(site: Site, learner: SigningKey) -> Fraction:
    """Exact epsilon that a learner spent at a site, by the ledger that it exports."""
    return site.export().account.spent.get(learner.public, Fraction(0))
