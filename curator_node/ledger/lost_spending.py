"""What lost branches spent, by the sum of a chain.

For each lost branch that is proven, a chain enters once more what it does not show: the branch's total less that at the
last entry in common, and the whole charge of every unit that was running there (`units`). That may be more than was
lost: the last entry in common may lie before the fork, and a unit may have ended without another answer.

Two positions are taken for one branch only where a hash in what is known of one proves that it holds the other.
"""

from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import inf

from curator_node.ledger.branches import LostPosition, holds
from curator_node.ledger.studies import ZERO, Answer, Learners, LostSpending, StudyKey
from protocol.messages import NO_DIGEST, NOBODY
from protocol.rationals import GRID, parse_amount, shorten, total_of


@dataclass(slots=True)
class Unit:
    """A charged unit."""

    study: StudyKey
    query: int  # its place in the plan, from 0
    amount: Fraction  # what was charged; more than 0
    begun: int  # index of the CHARGE entry
    ended: int | None = None  # index of the entry with which it ended; None while it runs


@dataclass
class Units:
    """The charged units of a ledger."""

    all: list[Unit] = field(default_factory=list)  # in the order in which they began
    running: dict[StudyKey, list[Unit]] = field(default_factory=dict)  # of each study, those that have not ended

    def charge(self, study: StudyKey, query: int, amount: Fraction, index: int) -> None:
        """A query of a study was charged: those before it in the plan are over."""
        self._end(study, index, before=query)
        if amount:
            unit = Unit(study, query, amount, index)
            self.all.append(unit)
            self.running.setdefault(study, []).append(unit)

    def answer(self, study: StudyKey, query: int, index: int, *, goes_on: bool) -> None:
        """A query of a study was answered; whether its answerer keeps something, and the study may still ask."""
        if not goes_on:
            self._end(study, index, before=query + 1)

    def end(self, study: StudyKey, index: int, *, owed: int | None) -> None:
        """A study has ended; but a charged request to one of its queries may still be answered."""
        self._end(study, index, but=owed)

    def halt(self, index: int) -> None:
        """Nothing that was charged so far is answered any more, and no kept state is used."""
        for study in list(self.running):
            self._end(study, index)

    def running_at(self, index: int) -> list[Unit]:
        """Those that were charged by an entry, and had not ended with it."""
        return [unit for unit in self.all if unit.begun <= index and (unit.ended is None or unit.ended > index)]

    def _end(self, study: StudyKey, index: int, *, before: float = float("inf"), but: int | None = None) -> None:
        left = []
        for unit in self.running.pop(study, ()):
            if unit.query < before and unit.query != but:
                unit.ended = index
            else:
                left.append(unit)
        if left:
            self.running[study] = left


@dataclass
class Branch:
    """A lost branch, as far as it is known."""

    positions: list[LostPosition]  # what is proven to be of it, in order of position
    common: int = -1  # index of the newest entry that it is proven to share with the chain; -1 where none is
    total: Fraction = ZERO  # total, by_key: what was entered for it, over all learners and by key
    by_key: dict[bytes, Fraction] = field(default_factory=dict)


@dataclass
class Trail(Learners):
    """What a chain holds against lost branches; by learner, see `Learners`."""

    hashes: list[bytes] = field(default_factory=list)  # of every entry, by index
    totals: list[Fraction] = field(default_factory=list)  # spent over all learners up to every entry
    answers: dict[bytes, Answer] = field(default_factory=dict)  # request digest -> its reply
    units: Units = field(default_factory=Units)  # what is drawn under each charge
    suspects: list[LostPosition] = field(
        default_factory=list
    )  # why entries may be lost, as far as the steward has not seen it
    acknowledged: list[LostPosition] = field(default_factory=list)  # the same, after which the steward resumed
    branches: list[Branch] = field(default_factory=list)  # the same, by branch, with what was entered for each


def lost_spending(trail: Trail) -> tuple[list[LostSpending], list[Branch]]:
    """What each suspect's branch spent and this chain does not show, each beyond those before it; and all branches."""
    branches = [replace(each, positions=list(each.positions), by_key=dict(each.by_key)) for each in trail.branches]
    return [_enter(trail, lost, branches) for lost in sorted(trail.suspects, key=_place)], branches


def is_known(trail: Trail, lost: LostPosition) -> bool:
    """Whether a lost branch is no news.

    It is none where the chain holds what a mark names; where the same mark or receipt was entered; and where a mark
    that the steward has seen is proven to hold its position, and tells as much of what each learner had spent there. It
    is news where a receipt is of an entry that the chain holds: then the chain lacks its answer. So it is where
    receipts alone tell of its branch: were it not entered, a second answer to its request would not be found out.
    """
    if any(lost.is_same(each) for each in (*trail.suspects, *trail.acknowledged)):
        return True
    if lost.position is None or any(lost.contradicts(each) for each in trail.acknowledged):
        return False
    if holds(lost.position, trail.hashes):
        return lost.suspect.learner == NOBODY
    marks = (each for each in trail.acknowledged if each.suspect.learner == NOBODY)
    seen = [each for each in marks if each.holds(lost.position)]
    learners = lost.learners(trail.keys_of) if seen else []
    return bool(seen) and all(lost.spent_by(keys) <= max(each.spent_by(keys) for each in seen) for keys in learners)


def _enter(trail: Trail, lost: LostPosition, branches: list[Branch]) -> LostSpending:
    """What a suspect proves beyond what was entered for its branch; it is put among the branches."""
    if lost.position is None:
        return LostSpending(lost.suspect, ZERO, {})
    branch = next((each for each in branches if _is_of(trail, lost, each)), None)
    new = branch is None
    if branch is None:
        branch = Branch([])
        branches.append(branch)
    branch.positions = sorted([*branch.positions, lost], key=_place)
    common = branch.common = max(branch.common, _common(trail, lost))
    again: dict[bytes, Fraction] = {}
    for unit in trail.units.running_at(common):
        again[unit.study.learner] = again.get(unit.study.learner, ZERO) + unit.amount
    running = total_of(again.values())
    total = max(parse_amount(each.position.total) for each in branch.positions if each.position)
    beyond = max(ZERO, total - (trail.totals[common] if common >= 0 else ZERO)) + running - branch.total
    shares = {}
    for keys in dict.fromkeys([*lost.learners(trail.keys_of), *map(trail.keys_of, again)]):
        own = max(each.spent_by(keys) for each in branch.positions) - trail.spent_at(keys[0], common)
        ran, before = (total_of(each.get(key, ZERO) for key in keys) for each in (again, branch.by_key))
        shares[keys[0]] = _up(max(ZERO, max(ZERO, own) + ran - before))
        branch.by_key[keys[0]] = branch.by_key.get(keys[0], ZERO) + shares[keys[0]]
    entered = _up(max(ZERO, beyond))
    branch.total += entered
    return LostSpending(lost.suspect, entered, shares, _up(running) if new else ZERO)


def _is_of(trail: Trail, lost: LostPosition, branch: Branch) -> bool:
    """Whether a proof puts this on a branch: it goes on from the newest that is known of it, or lies before that.

    It does not where the chain has another answer to its request than the receipt, and shares that with the branch.
    """
    newest, position = branch.positions[-1], lost.position
    if position is None or newest.position is None or any(lost.contradicts(each) for each in branch.positions):
        return False
    here = _common(trail, lost)
    common = max(branch.common, here)
    if any(_answered(trail, each) <= common for each in (*branch.positions, lost)):
        return False
    before = holds(position, trail.hashes) and position.index <= branch.common
    after = holds(newest.position, trail.hashes) and newest.position.index <= here
    return before or after or lost.holds(newest.position) or any(each.holds(position) for each in branch.positions)


def _common(trail: Trail, lost: LostPosition) -> int:
    found = lost.last_common(trail.hashes)
    return -1 if found is None else found


def _answered(trail: Trail, lost: LostPosition) -> float:
    """Index of the chain's own answer to a receipt's request, where it holds the request's entry; else infinity."""
    answer = trail.answers.get(lost.suspect.request) if lost.receipt != NO_DIGEST else None
    here = answer is not None and lost.position is not None and holds(lost.position, trail.hashes)
    return answer.index if answer is not None and here else inf


def _up(amount: Fraction) -> Fraction:
    """Rounded up where it is long: nobody's scales make an amount that cannot be entered."""
    return shorten(amount, longest=GRID)


def _place(lost: LostPosition) -> int:
    return lost.position.index if lost.position else -1
