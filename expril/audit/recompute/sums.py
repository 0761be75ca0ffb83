"""What was spent, in exact rationals: by curator, learner, version of the records and privacy unit.

Spending is also summed under integral privacy, between any two sets of records (docs/explanation/integral-privacy.md).
There the first charge counts the whole query, at the cost that its kind gives. The cost is infinite if the kind gives
none. So is an amount that a steward entered after a halt, since nobody knows what it was charged for.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from typing import Any

from expril.audit.recompute.bounds import Bounds
from expril.audit.recompute.entries import ZERO, Study, as_text
from expril.audit.recompute.replay import Replayed
from protocol.envelopes import LABEL
from protocol.messages import NOBODY
from protocol.rationals import plus, total_of

UNNAMED = "records without a name"
"""The name of records that were served before the ledger named any."""
RESTORED = "entered after a halt"
NOBODYS = "nobody in particular"

NO_ZCDP = (
    "no zCDP total is given: across plans it holds only under a bound on rho that was fixed before the first plan, and "
    "none was"
)

SUMMED = "epsilons and deltas of several plans are summed: that holds where their number was bounded before the first"


@dataclass(frozen=True)
class Loss:
    """(epsilon, delta), summed over accepted plans."""

    epsilon: float  # summed
    delta: float  # summed: the stated delta times the number of plans that took it
    plans: int  # how many were summed
    pure: int = 0  # of them, those that count with their pure epsilon

    def as_object(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        numbers = {"epsilon": self.epsilon, "delta": self.delta, "plans": self.plans, "pure": self.pure}
        return {**numbers, "caveat": SUMMED if self.plans > 1 else None}


@dataclass
class Sum:
    """The spending of one learner, or of all together, at one curator."""

    curator: str  # its name, or its key's first digits
    world: str  # the run and repeat that the curator belongs to; "" where its ledger was given by itself
    unit: str  # privacy unit, in the ledger's words; "" where nothing tells it
    learner: str = ""  # its name, or its key's first digits; "" for all learners together
    keys: tuple[str, ...] = ()  # of the learner, in hexadecimal
    version: str = ""  # name of the records; "" for all versions together
    claimed: Fraction = ZERO  # cost of the accepted plans
    spent: Fraction = ZERO  # of it charged, recomputed; with what was entered as spent after a halt
    # `spent`, and all of which nothing here proves whether it was charged; None where nothing bounds that
    at_most: Fraction | None = ZERO
    beyond: Fraction = ZERO  # of `spent`, what belongs to no plan: it was entered after a halt
    integral: Fraction | None = ZERO  # what was charged costs under integral privacy; None for infinite
    plans: int = 0  # that were accepted
    # of `at_most`, what holds on a condition, by that condition; all else holds on none
    provisos: dict[str, Fraction] = field(default_factory=dict)
    loss: Loss | None = None  # (epsilon, delta) of these plans; None where it is not computed
    members: list[tuple[Study, int | None]] = field(default_factory=list, repr=False)

    def accept(self, study: Study, bound: int | None) -> None:
        """Add an accepted plan, with its bound c if it is known; its charges are added by `spend`."""
        self.claimed = plus(self.claimed, study.price.total)
        self.plans += 1
        self.members.append((study, bound))

    def spend(self, amount: Fraction, *, at_most: Fraction | None = ZERO, beyond: bool = False) -> None:
        """Add a charge, or what may have been charged if that is more; None: nothing bounds that.

        `beyond`: it was entered after a halt, for no plan.
        """
        self.spent = plus(self.spent, amount)
        self.at_most = add(self.at_most, None if at_most is None else max(amount, at_most))
        self.beyond = plus(self.beyond, amount if beyond else ZERO)
        self.integrate(None if beyond and amount else ZERO)

    def integrate(self, amount: Fraction | None) -> None:
        """Add a charged query's cost under integral privacy; None is infinite."""
        self.integral = add(self.integral, amount)

    def provide(self, proviso: str, amount: Fraction) -> None:
        """Add an amount that holds on a condition only."""
        self.provisos[proviso] = plus(self.provisos.get(proviso, ZERO), amount)

    def as_object(self) -> dict[str, Any]:
        """Return it as plain JSON values, with exact amounts as text."""
        return {
            "curator": self.curator,
            "world": self.world or None,
            "unit": self.unit,
            "learner": self.learner or None,
            "keys": list(self.keys),
            "version": self.version or None,
            "claimed": as_text(self.claimed),
            "spent": as_text(self.spent),
            "at_most": bound_text(self.at_most),
            "beyond_plans": as_text(self.beyond),
            "integral": as_words(self.integral),
            "provisos": {proviso: as_text(amount) for proviso, amount in self.provisos.items()},
            "plans": self.plans,
            "loss": None if self.loss is None else self.loss.as_object(),
        }


@dataclass(frozen=True)
class UnitSum:
    """The most that one privacy unit may have lost at several curators, over all learners."""

    unit: str  # in the ledgers' words
    world: str  # the run and repeat in which these curators are together; "" for ledgers that were given by themselves
    curators: tuple[str, ...]  # at which it is counted
    # None: nothing bounds what one of them charged
    apart: Fraction | None  # for units that are at one curator each: the largest sum
    shared: Fraction | None  # for a unit that is at all of them: the sum of the sums

    def as_object(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {
            "unit": self.unit,
            "world": self.world or None,
            "curators": list(self.curators),
            "apart": bound_text(self.apart),
            "shared": bound_text(self.shared),
        }


def ledger_sums(curator: str, world: str, replayed: Replayed, bounds: Bounds, names: Mapping[bytes, str]) -> list[Sum]:
    """Sum by learner and version of the records, then by learner, then over all learners.

    `replayed`: the curator's ledger; `bounds`: the contribution bounds of its studies; `names`: public key -> name, for
    learners whose names the ledger does not hold.
    """
    private = replayed.label == LABEL
    rows: dict[tuple[str, str], Sum] = {}

    unit = replayed.unit

    def of(who: str, version: str) -> Sum:
        return rows.setdefault((who, version), Sum(curator, world, unit, who, (), version))

    def name(key: bytes) -> str:
        return NOBODYS if key == NOBODY else replayed.learners.name_of(key) or names.get(key) or key.hex()[:16]

    for (learner, study_id), study in replayed.studies.items():
        bound = bounds.cards.get((learner, study_id), bounds.implied.get(study.index, bounds.bound))
        bound = bound if private and not study.shape.not_private else None
        of("", "").accept(study, bound)
        of(name(learner), "").accept(study, bound)
        for version in study.versions if replayed.data else ():
            of(name(learner), version or UNNAMED).accept(study, bound)
            of("", version or UNNAMED).accept(study, bound)
    charged = {cell: amounts.total or ZERO for cell, amounts in replayed.cells.items()}
    for amounts_by_cell in (charged, replayed.under):
        for (learner, version), amount in amounts_by_cell.items():
            for who in ("", name(learner)):
                of(who, "").spend(amount)
                if replayed.data:
                    of(who, version or UNNAMED).spend(amount)
    _integrate(replayed, name, of)
    _provide(replayed, name, of)
    owned = total_of(amount for key, amount in replayed.restored.items() if key != NOBODY)
    for learner, amount in replayed.restored.items():
        share = amount if learner != NOBODY else max(ZERO, amount - owned)
        if share:
            of(name(learner), RESTORED).spend(share, beyond=True)
            of(name(learner), "").spend(share, beyond=True)
    if replayed.restored:
        of("", RESTORED).spend(replayed.restored[NOBODY], beyond=True)
        of("", "").spend(replayed.restored[NOBODY], beyond=True)
    keys: dict[str, list[str]] = {}
    for key in dict.fromkeys([*replayed.learners.bound, *(learner for learner, _ in replayed.studies)]):
        keys.setdefault(name(key), []).append(key.hex())
    for (who, _), row in rows.items():
        row.keys = tuple(keys.get(who, ()))
    of("", "")
    return sorted(rows.values(), key=_order)


def _integrate(replayed: Replayed, name: Callable[[bytes], str], of: Callable[[str, str], Sum]) -> None:
    """Add to each row the cost of its queries under integral privacy."""
    for (learner, version), costs in replayed.integrals.items():
        for who in ("", name(learner)):
            of(who, "").integrate(costs.total)
            if replayed.data:
                of(who, version or UNNAMED).integrate(costs.total)


def _provide(replayed: Replayed, name: Callable[[bytes], str], of: Callable[[str, str], Sum]) -> None:
    """Add to each row the amounts that hold on a condition only."""
    for (learner, version), conditions in replayed.provisos.items():
        for who in ("", name(learner)):
            rows = [of(who, ""), *([of(who, version or UNNAMED)] if replayed.data else [])]
            for row, proviso in product(rows, conditions):
                row.provide(proviso, conditions[proviso])


def unit_sums(sums: Iterable[Sum]) -> list[UnitSum]:
    """Sum the rows that cover all learners and versions, by privacy unit."""
    by_unit: dict[tuple[str, str], list[Sum]] = {}
    for row in sums:
        if not row.learner and not row.version:
            by_unit.setdefault((row.unit, row.world), []).append(row)
    units = []
    for (unit, world), rows in by_unit.items():
        bounds = [row.at_most for row in rows if row.at_most is not None]
        bounded = len(bounds) == len(rows)
        apart, shared = (max(bounds), total_of(bounds)) if bounded else (None, None)
        units.append(UnitSum(unit, world, tuple(row.curator for row in rows), apart, shared))
    return units


def _order(row: Sum) -> tuple[bool, str, bool, str]:
    return (not row.learner, row.learner, not row.version, row.version)


INFINITE = "infinite"
UNKNOWN = "unknown"


def bound_text(amount: Fraction | None) -> str:
    """Return an amount as exact text, or "unknown"."""
    return UNKNOWN if amount is None else as_text(amount)


def add(amount: Fraction | None, other: Fraction | None) -> Fraction | None:
    """Return the sum of two amounts. None stands for infinite, or unknown."""
    return None if amount is None or other is None else plus(amount, other)


def as_words(amount: Fraction | None) -> str:
    """Return an amount as exact text, or "infinite"."""
    return INFINITE if amount is None else as_text(amount)
