"""The plan and the first questions of a study, whom they are for, and how curators come to agree on it.

All of it comes before anything is asked: from cards and the learner's own source. So what is left out costs nothing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol, TypeVar

import msgspec

from learner_node.kinds import READERS
from learner_node.kinds.counts import allowed_by, limits_of, tightest
from learner_node.strategies import DEFAULT_STRATEGY, make_strategy, selected
from learner_node.strategies.base import Conversation, Problem, assumed_size
from learner_node.study.budget import Purpose
from learner_node.study.cards import (
    complaint_about_cap,
    complaint_about_plan,
    complaint_about_question,
    weights,
    worth_keeping,
)
from learner_node.study.decisions import Decide, as_found
from learner_node.study.pooling import POOLED, Pooling, SecurePool
from learner_node.study.reading import Reader
from learner_node.study.study import Study
from protocol.codec import decode, encode
from protocol.errors import ConfigurationError, RemoteProtocolError
from protocol.kinds.counts import COUNTS, CountsBody, CountsLimits
from protocol.kinds.secure_counts import SECURE_COUNTS, SecureCountsLimits
from protocol.messages import Card
from protocol.plans import Plan
from protocol.query_kind import Kinds
from protocol.refusals import RefusalCode

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


@dataclass
class Group:
    """Curators whose answers are summed for one model.

    Attributes:
        key: of the model, see `Pooling.groups`.
        names: of the curators.
        plan: of the strategy.
        conversation: with them.
    """

    key: str
    names: frozenset[str]
    plan: Plan
    conversation: Conversation

    def hear(self, study: Study) -> None:
        """Go on with the answers of all rounds, summed over the curators that gave them all; nothing if none did."""
        together = [name for name in study.survivors if name in self.names]
        if together:
            self.conversation.hear(study.pooled(together))


@dataclass(frozen=True)
class Setting:
    """What does not depend on who is asked.

    Attributes:
        strategy: key of `STRATEGIES`.
        options: of the strategy.
        pooling: how answers become models.
        problem: with the source, epsilon, seed and trainer; the rest of it is filled in from the cards.
        kinds, readers: of the query kinds that may be asked.
        decided: of the federation.
    """

    strategy: str
    options: Mapping[str, object]
    pooling: Pooling
    problem: Problem
    kinds: Kinds
    readers: Mapping[str, Reader] = field(default_factory=lambda: READERS)
    decided: Decide = as_found


@dataclass(frozen=True)
class Draft:
    """What will be asked first, and of whom.

    Attributes:
        groups: whose answers are summed for one model, their first question made.
        plan: for all of them.
        names: of the curators that are asked.
        left_out: the curators that are not asked -> why.
        most_records_per_unit: the largest contribution bound among those that are.
    """

    groups: list[Group]
    plan: Plan
    names: list[str]
    left_out: dict[str, str]
    most_records_per_unit: int


class _KeptGroup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A group, and its first question."""

    key: str
    names: tuple[str, ...]
    body: bytes


class _Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A draft, for a process that goes on with the study."""

    groups: tuple[_KeptGroup, ...]
    plan: Plan
    names: tuple[str, ...]
    left_out: dict[str, str]
    most_records_per_unit: int


def settle(setting: Setting, cards: Mapping[str, Card], left_out: Mapping[str, str]) -> Draft:
    """Draft the study for all of the cards; leave out those that rule it out, and draft it again without them.

    Left out is whoever would refuse the plan or the first question, which is a refusal foreseen, and of curators that
    are pooled whose limits alone make everybody's question too coarse. Without pooling a curator's limits concern its
    own question only.

    Args:
        setting: of the study.
        cards: of the curators that may be asked.
        left_out: the others -> why.

    Raises:
        ConfigurationError: nobody is left.
    """
    found = _settled(setting, cards, left_out)
    return setting.decided(found, _write, partial(_read, setting, cards))


def why_not_chosen(setting: Setting, cards: Mapping[str, Card]) -> str:
    """See `selected.why_not_chosen`; empty, too, where the user chose the strategy or how many are chosen."""
    if setting.strategy != DEFAULT_STRATEGY or "chosen" in setting.options or not cards:
        return ""
    most = max(card.most_records_per_unit for card in cards.values())
    return selected.why_not_chosen(_told(setting, cards, most).problem)


def _settled(setting: Setting, cards: Mapping[str, Card], left_out: Mapping[str, str]) -> Draft:
    asked, left_out = list(cards), dict(left_out)
    if not asked:
        raise _nobody(left_out)
    while True:
        draft, reasons, error = _drafted(setting, {name: cards[name] for name in asked})
        if draft is not None and not reasons:
            return replace(draft, left_out=left_out)
        if not set(asked) - reasons.keys():
            raise error or _nobody({**reasons, **left_out})
        left_out |= reasons
        asked = [name for name in asked if name not in reasons]


def _drafted(
    setting: Setting, cards: Mapping[str, Card]
) -> tuple[Draft | None, dict[str, str], ConfigurationError | None]:
    """A draft for exactly these curators, who is to be left out of it and why, and the strategy's own objection."""
    if apart := strangers(setting.pooling, cards):
        return None, apart, None
    most = max(card.most_records_per_unit for card in cards.values())
    setting = _told(setting, cards, most)
    reasons: dict[str, str] = {}
    groups: list[Group] = []
    failed: ConfigurationError | None = None
    for key, names in setting.pooling.groups(cards).items():
        part = {name: cards[name] for name in names}
        try:
            group = _group(setting, part, part, key)
        except ConfigurationError as error:
            failed = failed or error
            reasons |= _unfit(setting, part, error)
            continue
        groups.append(group)
        found = {
            name: f"it would refuse this study: {reason}"
            for name, card in part.items()
            if (reason := _complaint_about(group, card, setting))
        }
        reasons |= found or _cramped(setting, part, group.conversation.body)
    if not groups:
        return None, reasons, failed
    plan = groups[0].plan
    names = [name for group in groups for name in cards if name in group.names]
    fit = [name for name in names if name not in reasons]
    capped = {name: reason for name in fit if (reason := complaint_about_cap(plan, cards[name], setting.kinds))}
    # Where all caps are too low the plan is proposed: a refusal tells what is left, and by how much to scale.
    if len(capped) < len(fit):
        reasons |= capped
    return Draft(groups, plan, names, {}, most), reasons, None


def _told(setting: Setting, cards: Mapping[str, Card], most_records_per_unit: int) -> Setting:
    """With what all curators of the study say together: groups share a plan, so it must not differ between them."""
    sizes = weights(cards, len(setting.problem.source)).values()
    willing = selected.willing(
        [(card.limits, card.round_size) for card in cards.values()], sum(sizes) / len(sizes), setting.kinds
    )
    problem = replace(setting.problem, most_records_per_unit=most_records_per_unit, willing=willing)
    return replace(setting, problem=problem)


def _group(setting: Setting, members: Mapping[str, Card], limiting: Mapping[str, Card], key: str = POOLED) -> Group:
    """The plan and first question for some curators, within the limits of some."""
    problem = replace(
        setting.problem,
        sites=len(members),
        target_size=assumed_size([card.round_size for card in members.values()], len(setting.problem.source)),
        limits=tightest([counts_limits(setting.pooling, card) for card in limiting.values()]),
        pool=secure_pool(setting.pooling, members),
    )
    strategy = make_strategy(setting.strategy, setting.options)
    return Group(key, frozenset(members), strategy.plan(problem), Conversation(strategy, problem, setting.decided))


def _write(draft: Draft) -> bytes:
    groups = tuple(
        _KeptGroup(group.key, tuple(sorted(group.names)), encode(group.conversation.body)) for group in draft.groups
    )
    return encode(_Kept(groups, draft.plan, tuple(draft.names), draft.left_out, draft.most_records_per_unit))


def _read(setting: Setting, cards: Mapping[str, Card], data: bytes) -> Draft:
    """The draft that was written, with conversations of its own groups that begin with its questions."""
    kept = decode(data, _Kept, limit=len(data))
    if not cards.keys() >= {name for each in kept.groups for name in each.names}:
        raise RemoteProtocolError(RefusalCode.MALFORMED, "names", "curators that were admitted")
    setting = _told(setting, {name: cards[name] for name in kept.names}, kept.most_records_per_unit)
    groups = []
    for each in kept.groups:
        members = {name: cards[name] for name in each.names}
        group = _group(setting, members, members, each.key)
        group.conversation.body = decode(each.body, type(group.conversation.body), limit=len(each.body))
        groups.append(replace(group, plan=kept.plan))
    return Draft(groups, kept.plan, list(kept.names), kept.left_out, kept.most_records_per_unit)


def _unfit(setting: Setting, members: Mapping[str, Card], error: ConfigurationError) -> dict[str, str]:
    """Where no question fits all limits together: whose limits alone no question fits. All, where that tells nobody."""
    reasons = {}
    for name, card in members.items():
        try:
            _group(setting, members, {name: card})
        except ConfigurationError as own:
            reasons[name] = f"no question of this study fits its card: {own}"
    return reasons or dict.fromkeys(members, str(error))


def _cramped(setting: Setting, members: Mapping[str, Card], body: Any) -> dict[str, str]:
    """Whose limit of cells alone makes the first question too coarse for everybody -> why; nobody if it has none.

    Of the groups "all that allow at least b cells" the largest is kept whose own question has enough cells, see
    `worth_keeping`. So a site that brings most of the records may have tight limits: without it the others' question
    is coarse, too.
    """
    cells = {name: counts_limits(setting.pooling, card).cells for name, card in members.items()}
    if len(set(cells.values())) == 1 or not isinstance(body, CountsBody):
        return {}
    sizes = weights(members, len(setting.problem.source))
    plausible = {name: msgspec.structs.replace(card, round_size=sizes[name]) for name, card in members.items()}
    groups = []
    for least in sorted(set(cells.values())):
        group = {name: card for name, card in plausible.items() if cells[name] >= least}
        body = _group(setting, group, group).conversation.body
        groups.append((list(group), float(body.cells(setting.problem.source.schema))))
    kept = worth_keeping(groups)
    of_all, of_kept = groups[0][1], next(found for group, found in groups if group == kept)
    return {
        name: f"with its limit of {limit} cells a question would have {of_all:g} cells, without {of_kept:g}"
        for name, limit in cells.items()
        if name not in kept
    }


def _complaint_about(group: Group, card: Card, setting: Setting) -> str:
    """Why a curator would refuse, read off its card; empty where it would not."""
    kinds = setting.kinds
    turn = kinds.turn(group.plan, group.plan.places[0])
    body = setting.readers[turn.planned.kind].opening(group.conversation.body, turn)
    return complaint_about_plan(group.plan, card, kinds) or complaint_about_question(body, turn, card, kinds)


def _nobody(reasons: Mapping[str, str]) -> ConfigurationError:
    listed = "; ".join(f"{name}: {reason}" for name, reason in list(reasons.items())[:5])
    return ConfigurationError(
        f"no curator is left to ask. {listed}; nothing was asked yet: change the strategy's options, epsilon or pooling"
    )


def counts_limits(pooling: Pooling, card: Card) -> CountsLimits:
    """What a curator limits of the counts that are asked; the defaults where it allows none."""
    return limits_of(card, SECURE_COUNTS.name if pooling.secure else COUNTS.name)


def secure_pool(pooling: Pooling, cards: Mapping[str, Card]) -> SecurePool | None:
    """The curators with these cards, where they sum securely; each policy's fewest colluders are kept to.

    Raises:
        ConfigurationError: they are too few.
    """
    if not pooling.secure:
        return None
    allowed = [limits for card in cards.values() if (limits := _secure_limits(card)) is not None]
    return SecurePool.of(
        (card.sender for card in cards.values()),
        colluders=pooling.colluders,
        dropouts=pooling.dropouts,
        least_colluders=max((limits.least_colluders for limits in allowed), default=1),
    )


def _secure_limits(card: Card) -> SecureCountsLimits | None:
    """What a curator limits of secure sums; None where it allows none."""
    limits = allowed_by(card, SECURE_COUNTS.name)
    return limits if isinstance(limits, SecureCountsLimits) else None


def strangers(pooling: Pooling, cards: Mapping[str, Card]) -> dict[str, str]:
    """Which curators cannot be pooled with the others, by their cards -> why not.

    For a secure sum every curator's policy lists the members it sums with. As long as there is a pair of whom one does
    not list the other, the curator in most such pairs is left out; of equals the last. Then a curator is left out whose
    policy asks for more colluders than so many curators can assume: it must not keep the others from summing.
    """
    if not pooling.secure:
        return {}
    reasons, dropouts = {}, pooling.dropouts or 0
    keys, listed, least = {}, {}, {}
    for name, card in cards.items():
        limits = _secure_limits(card)
        if limits is None:
            reasons[name] = "its policy allows no secure sums"
        else:
            keys[name], listed[name] = card.sender.hex(), set(limits.members)
            least[name] = limits.least_colluders
    while True:
        broken = {
            name: [
                other
                for other in listed
                if other != name and (keys[other] not in listed[name] or keys[name] not in listed[other])
            ]
            for name in listed
        }
        most = max(map(len, broken.values()), default=0)
        if not most:
            break
        worst = [name for name, others in broken.items() if len(others) == most][-1]
        others = ", ".join(broken[worst][:5])
        reasons[worst] = f"it and {others} do not list each other as members of a secure sum"
        del listed[worst]
    while wary := [name for name in listed if least[name] > max(len(listed) - 1 - 2 * dropouts, 1)]:
        worst = max(wary, key=least.__getitem__)
        reasons[worst] = f"its policy asks to assume {least[worst]} colluders, too many among {len(listed)} curators"
        del listed[worst]
    return reasons
