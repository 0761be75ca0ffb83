"""How curators come to agree on a plan: one that names all of them is drafted again where not all accept it."""

from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

from learner_node.study.budget import Purpose
from learner_node.study.study import Study
from protocol.errors import ConfigurationError
from protocol.messages import Card
from protocol.plans import Plan

ATTEMPTS = 5
"""Plans that a study proposes at most: each counts as a study where a policy limits how many a learner may propose."""


class Drafted(Protocol):
    """What is to be asked, and of whom."""

    @property
    def plan(self) -> Plan:
        """For all of them."""

    @property
    def names(self) -> list[str]:
        """Of the curators that are asked."""

    @property
    def left_out(self) -> dict[str, str]:
        """The curators that are not asked -> why."""


D = TypeVar("D", bound=Drafted)


def agree(
    study: Study,
    drafted: D,
    purpose: Purpose,
    again: Callable[[Mapping[str, Card]], D] | None,
    cards: Mapping[str, Card],
) -> D:
    """Propose a plan; the one that is carried out.

    A secure sum shares its noise among the curators that the plan names, so one that refuses, or does not answer, is a
    dropout before anything was asked. Nothing is charged by then: the plan is withdrawn, which refunds it, and drafted
    again for those that accepted, in sessions of their own (`Study.withdraw`). So tolerated dropouts are kept for those
    that fall silent later. Every attempt has fewer curators than the one before. Where no plan can be drafted for those
    that accepted, or after `ATTEMPTS`, the study goes on with them and the plan as it is.

    Args:
        study: in which nothing was asked yet.
        drafted: what is proposed first.
        purpose: for the stewards to read.
        again: cards of the curators that are left -> a draft for them, ConfigurationError where there is none; None:
            the plan holds whoever accepts it.
        cards: of the curators that are named, and maybe of others.

    Raises:
        NoCuratorError: nobody accepted, or not all did of a study for all or none; or no plan can be drafted for those
            whose cards are still the same.
    """
    for left in reversed(range(ATTEMPTS)):
        accepted = study.propose(drafted.plan, purpose, drafted.names)
        if again is None or not left or len(accepted) == len(drafted.names):
            break
        try:
            following = again({name: cards[name] for name in accepted})
        except ConfigurationError:
            break
        same = study.withdraw()
        if same != accepted:
            try:
                following = again({name: cards[name] for name in same})
            except ConfigurationError as error:
                raise study.nobody(f"the plan was withdrawn, for not all accepted it; now {error}") from None
        for name, reason in following.left_out.items():
            study.leave_out(name, reason)
        drafted = following
    return drafted
