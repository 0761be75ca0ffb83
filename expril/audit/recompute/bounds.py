"""A query's cost, computed anew from its plan; and the contribution bound c that a ledger's costs imply.

No entry of a ledger names c, the most records that one privacy unit contributes, but a curator's signed card does.
Without a card, c is taken to be the whole number with which every recomputed cost equals the reserved one. A curator
that reserved the same fraction of every cost is then not found: that needs a card.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

from expril.audit.kinds.kind_audit import AuditedKinds
from expril.audit.recompute.entries import ZERO, Price, Shape, Study, as_text
from protocol.errors import RemoteProtocolError
from protocol.plans import Plan
from protocol.query_kind import Kinds

MOST_BOUND = 2**20
"""The largest c that a card may state."""
_ANY, _NONE = -1, 0
"""_ANY: the query costs the same whatever c is. _NONE: no c gives this cost."""
Cards = dict[tuple[bytes, bytes], int]
"""(learner, study) -> bound c of the signed card."""


def not_private(plan: Plan, kinds: Kinds) -> tuple[int, ...]:
    """Return the numbers, from 1, of queries of installed kinds that are less private than their costs say."""
    return tuple(number for number in range(1, len(plan.queries) + 1) if not _is_private(plan, number - 1, kinds))


def _is_private(plan: Plan, query: int, kinds: Kinds) -> bool:
    if plan.head(query).kind not in kinds:
        return True
    try:
        return kinds.private_planned(kinds.query(plan, query))
    except RemoteProtocolError:
        return True  # it breaks a rule of its kind, and that is told


def _proviso(plan: Plan, query: int, kinds: Kinds) -> str:
    """The condition under which the cost of a planned query holds; "" if it needs none, or none is known."""
    if plan.head(query).kind not in kinds:
        return ""
    try:
        return kinds.kind(plan.head(query).kind).proviso(kinds.query(plan, query))
    except RemoteProtocolError:
        return ""


class Bounds:
    """The contribution bound c of each study, from cards or implied by costs.

    `kinds`: the installed kinds; nothing is computed for queries of others. `cards_of`: curator's public key ->
    (learner, study) -> c of its signed card, if a transcript has one.
    """

    def __init__(self, kinds: AuditedKinds, cards_of: Callable[[bytes], Cards] = lambda curator: {}) -> None:  # noqa: ARG005
        self.cards: Cards = {}  # of this ledger's curator
        self._cards_of = cards_of
        self.implied: dict[int, int] = {}  # index of a RESERVE entry -> what its costs imply, of studies without a card
        # studies whose reserved costs are not those of their plans, as far as one study alone shows it
        self.wrong: list[Study] = []
        self.kinds = self._kinds = kinds
        self._shapes: dict[tuple[bytes, ...], Shape] = {}
        self._of_query = lru_cache(maxsize=65_536)(self._bound)
        self._of_costs = lru_cache(maxsize=16_384)(self._read)

    def know(self, curator: bytes) -> None:
        """Take the cards of a key that signs this ledger from some entry on."""
        self.cards |= self._cards_of(curator)

    def shape(self, plan: Plan) -> Shape:
        """Return the shape of a plan; studies with the same plan share it."""
        queries = tuple(map(bytes, plan.queries))
        shape = self._shapes.get(queries)
        if shape is None:
            names = tuple(head.kind for head in plan.heads)
            kinds = [self._kinds.get(name) for name in names]
            shape = self._shapes[queries] = Shape(
                plan,
                names,
                plan.places,
                tuple(kind is not None and not kind.looks_back for kind in kinds),
                tuple(
                    kind is not None and kind.looks_back and self._kinds.audits[kind.name].tells_shares
                    for kind in kinds
                ),
                tuple(0 if kind is None else kind.charged_turn for kind in kinds),
                tuple(_proviso(plan, query, self._kinds) for query in range(len(names))),
                tuple(self._kinds.integral(plan, query) for query in range(len(names))),
                not_private(plan, self._kinds),
            )
        return shape

    def learn(self, study: Study) -> str:
        """Compare a study's reserved costs with those of its plan, and say what is wrong, or ""."""
        try:
            card = self.cards.get((study.learner, study.study))
            implied, complaint = self._of_costs(study.shape, study.price, card)
        except RemoteProtocolError as error:
            implied, complaint = _ANY, f"reserves for a plan that breaks a rule of its kind ({error})"
        if complaint:
            self.wrong.append(study)
        elif implied != _ANY:
            self.implied[study.index] = implied
        return complaint

    @cached_property
    def bound(self) -> int | None:
        """Return c after the replay: the cards' c, else most costs' c; None if cards differ or nothing implies it."""
        if self.cards:
            bounds = set(self.cards.values())
            return bounds.pop() if len(bounds) == 1 else None
        counted = Counter(self.implied.values())
        return counted.most_common(1)[0][0] if counted else None

    def contradictions(self, studies: Iterator[Study]) -> Iterator[tuple[Study, str]]:
        """Return the studies whose costs imply another whole number c than the rest of the ledger."""
        bounds = set(self.cards.values()) or set(filter(None, [self.bound]))
        elsewhere = " or ".join(str(bound) for bound in sorted(bounds))
        whose = "on cards" if self.cards else "elsewhere in this ledger"
        for study in studies:
            bound = self.implied.get(study.index)
            if bound is None or bound in bounds:
                continue
            self.wrong.append(study)
            text = (
                f"ledger entry {study.index} (reserve) counts with c = {bound}, and c is {elsewhere} {whose}: what one "
                "of them reserves is not its cost, unless the steward changed c; a transcript's card shows it"
            )
            yield study, text

    def shortfall(self, study: Study) -> Fraction:
        """Return by how much a study's charged queries cost more than was reserved for them; 0 if c is not known."""
        bound = self.cards.get((study.learner, study.study), self.bound)
        if bound is None:
            return ZERO
        missing = ZERO
        for query in study.charged_queries:
            try:
                missing += max(ZERO, self._due(study.shape, query, bound) - study.price.costs[query])
            except (RemoteProtocolError, KeyError):
                continue
        return missing

    def _due(self, shape: Shape, query: int, bound: int) -> Fraction:
        """Return a query's cost; KeyError if its kind is not installed."""
        if shape.kinds[query] not in self._kinds:
            raise KeyError
        return self._kinds.cost(self._kinds.query(shape.plan, query), bound)

    def _read(self, shape: Shape, price: Price, card: int | None) -> tuple[int, str]:
        """Return the implied bound, and what is wrong."""
        implied = _ANY
        for number, cost in enumerate(price.costs, start=1):
            if shape.kinds[number - 1] not in self._kinds:
                continue
            planned = self._kinds.query(shape.plan, number - 1)
            reserves = f"reserves {as_text(cost)} for query {number}"
            if card is not None:
                due = self._kinds.cost(planned, card)
                if due != cost:
                    return _ANY, f"{reserves}, which costs {as_text(due)}, with c = {card} by the card"
                continue
            bound = self._of_query(planned, cost)
            if bound == _NONE:
                unit_cost = self._kinds.cost(planned, 1)
                return _ANY, f"{reserves}, which costs {as_text(unit_cost)} times a whole number c"
            if _ANY not in (bound, implied) and bound != implied:
                return _ANY, f"{reserves}, as if c were {bound}, and before as if it were {implied}"
            implied = bound if implied == _ANY else implied
        return implied, ""

    def _bound(self, planned: Any, cost: Fraction) -> int:
        """Find the c at which a query has this cost. Costs never fall as c grows."""
        unit_cost = self._kinds.cost(planned, 1)
        if self._cost(planned, MOST_BOUND) == unit_cost:
            return _ANY if cost == unit_cost else _NONE
        guess = cost / unit_cost if unit_cost else ZERO
        if guess.denominator == 1 and 1 <= guess <= MOST_BOUND and self._cost(planned, int(guess)) == cost:
            return int(guess)
        place = bisect_left(range(1, MOST_BOUND + 1), cost, key=lambda bound: self._cost(planned, bound)) + 1
        return place if place <= MOST_BOUND and self._cost(planned, place) == cost else _NONE

    def _cost(self, planned: Any, bound: int) -> Fraction:
        """Return `Kinds.cost`. A cost too long to be written counts as larger than any other."""
        try:
            return self._kinds.cost(planned, bound)
        except RemoteProtocolError:
            return Fraction(2**64)
