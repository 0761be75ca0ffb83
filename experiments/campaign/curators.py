"""Policies with room for whatever an experiment asks, and what it spent."""

from fractions import Fraction

from curator_node.policy import LearnerPolicy, Policy
from curator_node.site import Site
from protocol.envelopes import SigningKey
from protocol.queries.limits import Limits
from protocol.rationals import MOST
from protocol.release_kinds import RELEASE_KINDS


def roomy_policy(learner: SigningKey, *, name: str, simulation: bool = False, printed: bool = False) -> Policy:
    """A policy that lets one learner ask whatever it likes.

    Args:
        learner: who may ask.
        name: of the curator.
        simulation: it signs as not private.
        printed: it also answers by the paper's mechanism, whose claim is wrong.
    """
    kinds = tuple(key for key, kind in RELEASE_KINDS.items() if kind.private or printed)
    return Policy(
        name=name,
        cap=MOST,
        learners=(LearnerPolicy(name="learner", key=learner.public.hex(), cap=MOST),),
        limits=Limits(release_kinds=kinds),
        simulation=simulation,
    )


def spent(site: Site, learner: SigningKey) -> Fraction:
    """Exact epsilon that a learner spent at a site, by the ledger that it exports."""
    return site.export().account.spent.get(learner.public, Fraction(0))
