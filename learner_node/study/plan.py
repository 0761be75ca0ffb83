"""Drafts a study's plan and first questions, decides which curators to ask, and gets their agreement.

All of this uses cards and the learner's source only. So a curator that is left out here costs nothing.
"""

from collections.abc import Callable, Mapping, Sequence
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
from learner_node.study.decisions import Decide, as_found, wire_type
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
"""Most plans that a study proposes. Each counts as a study if a policy limits how many a learner may propose."""


REMEDY = "the strategy's options, epsilon or pooling"


class Proposable(Protocol):
    """What is to be asked, and of whom."""

    @property
    def plan(self) -> Plan:
        """The plan that all asked curators receive."""

    @property
    def names(self) -> list[str]:
        """Names of the curators that are asked."""

    @property
    def left_out(self) -> dict[str, str]:
        """Curators that are not asked -> why."""


P = TypeVar("P", bound=Proposable)


def agree(
    study: Study,
    draft: P,
    purpose: Purpose,
    redraft: Callable[[Mapping[str, Card]], P] | None,
    cards: Mapping[str, Card],
) -> P:
    """Propose a plan to its curators and return the plan that is carried out.

    A secure sum splits its noise among the curators that the plan names. A curator that refuses or does not answer has
    thus dropped out before anything was asked. Nothing is charged yet, so the plan is withdrawn and refunded, and
    drafted again in new sessions for those that accepted (`Study.withdraw`). This saves the tolerated dropouts for
    later failures. Each attempt has fewer curators than the one before. If no new draft is possible, or after
    `ATTEMPTS`, the study goes on with the plan as it is and those that accepted.

    Args:
        study: in which nothing was asked yet.
        draft: what is proposed first.
        purpose: for the stewards to read.
        redraft: drafts for the remaining curators' cards, or raises ConfigurationError. With None, the plan stands for
            any curators that accept it.
        cards: cards of the named curators, and perhaps of others.

    Raises:
        NoCuratorError: no curator accepted, one refused a study for all or none, or no plan can be drafted for the
            curators whose cards are unchanged.
    """
    for attempts_left in reversed(range(ATTEMPTS)):
        accepted = study.propose(draft.plan, purpose, draft.names)
        if redraft is None or not attempts_left or len(accepted) == len(draft.names):
            break
        try:
            following = redraft({name: cards[name] for name in accepted})
        except ConfigurationError:
            break
        same = study.withdraw()
        if same != accepted:
            try:
                following = redraft({name: cards[name] for name in same})
            except ConfigurationError as error:
                raise study.nobody(f"the plan was withdrawn, for not all accepted it; now {error}") from None
        for name, reason in following.left_out.items():
            study.leave_out(name, reason)
        draft = following
    return draft


@dataclass
class Group:
    """Curators whose answers are summed for one model."""

    key: str  # of the model, see `Pooling.groups`
    names: frozenset[str]
    plan: Plan
    conversation: Conversation

    def hear(self, study: Study) -> None:
        """Feed the strategy the sums, round by round, over the curators that answered every round, if any did."""
        members = [name for name in study.survivors if name in self.names]
        if members:
            self.conversation.hear(study.pooled(members))


@dataclass(frozen=True)
class Setting:
    """The parts of a study that do not depend on who is asked."""

    strategy: str  # key of `STRATEGIES`
    options: Mapping[str, object]  # of the strategy
    pooling: Pooling
    problem: Problem  # with the source, epsilon, seed and trainer; the rest of it is filled in from the cards
    kinds: Kinds
    readers: Mapping[str, Reader] = field(default_factory=lambda: READERS)
    decided: Decide = as_found


@dataclass(frozen=True)
class Draft:
    """The first questions and the curators they go to."""

    groups: list[Group]  # their first questions made
    plan: Plan  # for all of them
    names: list[str]  # of the curators that are asked
    left_out: dict[str, str]  # the curators that are not asked -> why
    most_records_per_unit: int  # the largest contribution bound among those that are


class _WrittenGroup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A `Group` as the journal stores it: the members and the first question."""

    key: str
    names: tuple[str, ...]
    body: bytes


class _WrittenDraft(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A `Draft` as the journal stores it."""

    groups: tuple[_WrittenGroup, ...]
    plan: Plan
    names: tuple[str, ...]
    left_out: dict[str, str]
    most_records_per_unit: int


def settle(setting: Setting, cards: Mapping[str, Card], left_out: Mapping[str, str]) -> Draft:
    """Draft the study for all cards, leaving out curators whose cards rule it out.

    A curator is left out if its card shows that it would refuse. With pooled answers it is also left out if its limits
    would force a coarser question on all others.

    Args:
        setting: the study's setting.
        cards: cards of the curators that may be asked.
        left_out: the others -> why.

    Raises:
        ConfigurationError: nobody is left.
    """
    draft = _settled(setting, cards, left_out)
    return setting.decided(draft, _write, partial(_read, setting, cards))


def why_not_chosen(setting: Setting, cards: Mapping[str, Card]) -> str:
    """Text of `selected.why_not_chosen`; "" if the user set the strategy or the number of attributes."""
    if setting.strategy != DEFAULT_STRATEGY or "chosen" in setting.options or not cards:
        return ""
    most = max(card.most_records_per_unit for card in cards.values())
    return selected.why_not_chosen(_for_cards(setting, cards, most).problem)


def _settled(setting: Setting, cards: Mapping[str, Card], left_out: Mapping[str, str]) -> Draft:
    remaining, left_out = dict(cards), dict(left_out)
    if not remaining:
        raise nobody_left(left_out, REMEDY)
    while True:
        draft, reasons, error = _drafted(setting, remaining)
        if draft is not None and not reasons:
            return replace(draft, left_out=left_out)
        if not remaining.keys() - reasons.keys():
            raise error or nobody_left({**reasons, **left_out}, REMEDY)
        left_out |= reasons
        remaining = {name: card for name, card in remaining.items() if name not in reasons}


def _drafted(
    setting: Setting, cards: Mapping[str, Card]
) -> tuple[Draft | None, dict[str, str], ConfigurationError | None]:
    """A draft for exactly these curators, whom to leave out and why, and the strategy's own objection."""
    if apart := strangers(setting.pooling, cards):
        return None, apart, None
    most = max(card.most_records_per_unit for card in cards.values())
    setting = _for_cards(setting, cards, most)
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
        body = group.conversation.body
        reasons |= foreseen_refusals(group.plan, [body], part, setting.kinds, setting.readers) or _cramped(
            setting, part, body
        )
    if not groups:
        return None, reasons, failed
    plan = groups[0].plan
    names = [name for group in groups for name in cards if name in group.names]
    fit = {name: cards[name] for name in names if name not in reasons}
    return Draft(groups, plan, names, {}, most), reasons | over_caps(plan, fit, setting.kinds), None


def _for_cards(setting: Setting, cards: Mapping[str, Card], most_records_per_unit: int) -> Setting:
    """The setting with the values that all cards decide jointly, since groups share one plan."""
    sizes = weights(cards, len(setting.problem.source)).values()
    willing = selected.willing(
        [(card.limits, card.round_size) for card in cards.values()], sum(sizes) / len(sizes), setting.kinds
    )
    problem = replace(setting.problem, most_records_per_unit=most_records_per_unit, willing=willing)
    return replace(setting, problem=problem)


def _group(setting: Setting, members: Mapping[str, Card], limiting: Mapping[str, Card], key: str = POOLED) -> Group:
    """The plan and first question for `members`, within the limits of the `limiting` cards."""
    problem = replace(
        setting.problem,
        sites=len(members),
        target_size=assumed_size([card.round_size for card in members.values()], len(setting.problem.source)),
        limits=tightest([counts_limits(setting.pooling, card, setting.kinds) for card in limiting.values()]),
        pool=secure_pool(setting.pooling, members),
    )
    strategy = make_strategy(setting.strategy, setting.options)
    return Group(key, frozenset(members), strategy.plan(problem), Conversation(strategy, problem, setting.decided))


def _write(draft: Draft) -> bytes:
    groups = tuple(
        _WrittenGroup(group.key, tuple(sorted(group.names)), encode(group.conversation.body)) for group in draft.groups
    )
    return encode(_WrittenDraft(groups, draft.plan, tuple(draft.names), draft.left_out, draft.most_records_per_unit))


def _read(setting: Setting, cards: Mapping[str, Card], data: bytes) -> Draft:
    """Decode a stored draft; its groups' strategies start from the stored questions."""
    draft = decode(data, _WrittenDraft, limit=len(data))
    if not cards.keys() >= {name for group in draft.groups for name in group.names}:
        raise RemoteProtocolError(RefusalCode.MALFORMED, "names", "curators that were admitted")
    setting = _for_cards(setting, {name: cards[name] for name in draft.names}, draft.most_records_per_unit)
    groups = []
    for written in draft.groups:
        members = {name: cards[name] for name in written.names}
        group = _group(setting, members, members, written.key)
        group.conversation.body = decode(written.body, wire_type(group.conversation.body), limit=len(written.body))
        groups.append(replace(group, plan=draft.plan))
    return Draft(groups, draft.plan, list(draft.names), draft.left_out, draft.most_records_per_unit)


def _unfit(setting: Setting, members: Mapping[str, Card], error: ConfigurationError) -> dict[str, str]:
    """Curators -> why no question fits their own limits; all curators if only the joint limits are too low."""
    reasons = {}
    for name, card in members.items():
        try:
            _group(setting, members, {name: card})
        except ConfigurationError as misfit:
            reasons[name] = f"no question of this study fits its card: {misfit}"
    return reasons or dict.fromkeys(members, str(error))


def _cramped(setting: Setting, members: Mapping[str, Card], body: Any) -> dict[str, str]:
    """Curators whose limit on cells makes the first question too coarse for everybody -> why.

    Among the groups "all that allow at least b cells", the largest is kept whose own question has enough cells (see
    `worth_keeping`). So a site with most of the records may have tight limits: without it the question is coarse, too.
    """
    cells = {name: counts_limits(setting.pooling, card, setting.kinds).cells for name, card in members.items()}
    if len(set(cells.values())) == 1 or not isinstance(body, CountsBody):
        return {}
    sizes = weights(members, len(setting.problem.source))
    plausible = {name: msgspec.structs.replace(card, round_size=sizes[name]) for name, card in members.items()}
    groups = []
    for least in sorted(set(cells.values())):
        group = {name: card for name, card in plausible.items() if cells[name] >= least}
        body = _group(setting, group, group).conversation.body
        groups.append((list(group), float(body.cells(setting.problem.source.schema))))
    keep = worth_keeping(groups)
    of_all, of_rest = groups[0][1], next(count for group, count in groups if group == keep)
    return {
        name: f"with its limit of {limit} cells a question would have {of_all:g} cells, without {of_rest:g}"
        for name, limit in cells.items()
        if name not in keep
    }


def foreseen_refusals(
    plan: Plan, bodies: Sequence[Any], cards: Mapping[str, Card], kinds: Kinds, readers: Mapping[str, Reader]
) -> dict[str, str]:
    """Curators whose cards show that they would refuse the plan or one of its first questions -> why.

    `bodies` are those of the plan's first queries, in order: as many as are known by now.
    """
    refusals = {}
    firsts = [place for place in plan.places if not place[1]]
    for name, card in cards.items():
        reason = complaint_about_plan(plan, card, kinds)
        for place, body in zip(firsts, bodies, strict=False):
            if not reason:
                turn = kinds.turn(plan, place)
                opening = readers[turn.planned.kind].opening(body, turn)
                reason = complaint_about_question(opening, turn, card, kinds)
        if reason:
            refusals[name] = f"it would refuse this study: {reason}"
    return refusals


def over_caps(plan: Plan, cards: Mapping[str, Card], kinds: Kinds) -> dict[str, str]:
    """Curators whose caps the plan exceeds -> why; empty if all caps are exceeded.

    In that case the plan is proposed all the same: the refusals say how much is left, and by how much to scale.
    """
    reasons = {name: reason for name, card in cards.items() if (reason := complaint_about_cap(plan, card, kinds))}
    return reasons if len(reasons) < len(cards) else {}


def nobody_left(reasons: Mapping[str, str], remedy: str) -> ConfigurationError:
    """An error that says why each of the first few curators is left out."""
    listed = "; ".join(f"{name}: {reason}" for name, reason in list(reasons.items())[:5])
    return ConfigurationError(f"no curator is left to ask. {listed}; nothing was asked yet: change {remedy}")


def counts_limits(pooling: Pooling, card: Card, kinds: Kinds) -> CountsLimits:
    """A curator's limits on counts, or the default limits if it allows none."""
    return limits_of(card, SECURE_COUNTS.name if pooling.secure else COUNTS.name, kinds)


def secure_pool(pooling: Pooling, cards: Mapping[str, Card]) -> SecurePool | None:
    """The pool of a secure sum, with at least the colluders that each policy requires; None for other pooling."""
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
    """A curator's limits on secure sums; None if it allows none."""
    limits = allowed_by(card, SECURE_COUNTS.name)
    return limits if isinstance(limits, SecureCountsLimits) else None


def strangers(pooling: Pooling, cards: Mapping[str, Card]) -> dict[str, str]:
    """Curators that cannot be pooled with the others, by their cards -> why not.

    In a secure sum, every curator's policy must list all members. While some pair is not mutually listed, the curator
    in most such pairs is left out (the last one in a tie). Then a curator is left out if its policy assumes more
    colluders than the number of curators allows, so that it does not stop the others from summing.
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
        worst = [name for name, partners in broken.items() if len(partners) == most][-1]
        partners = ", ".join(broken[worst][:5])
        reasons[worst] = f"it and {partners} do not list each other as members of a secure sum"
        del listed[worst]
    while wary := [name for name in listed if least[name] > max(len(listed) - 1 - 2 * dropouts, 1)]:
        worst = max(wary, key=least.__getitem__)
        reasons[worst] = f"its policy asks to assume {least[worst]} colluders, too many among {len(listed)} curators"
        del listed[worst]
    return reasons
