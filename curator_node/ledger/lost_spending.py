"""The spending of lost branches, and the charged units that were running when they began.

For each proven lost branch, the ledger enters as spent what it does not show. That is the branch's total less the total
at the last entry in common, and the whole charge of every unit that was running there. The sum may exceed the true
loss: the last entry in common may lie before the fork, and a unit may have ended without another answer.

Two traces are taken for one branch only if a hash in one proves that its branch holds the other's position.

A charged *unit* is all the noise that is drawn under one charge. A question of one turn is a unit from its charge to
its answer. If a kind keeps a state between turns, as in an instance of a holdout or a secure sum, the unit lasts until
it keeps none. A ledger that goes on twice from an entry at which a unit is running draws under that charge twice.
"""

from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import inf

from curator_node.ledger.branches import BranchTrace, holds
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
        """A query of a study was charged: the units of earlier queries in its plan have ended."""
        self._end(study, index, before=query)
        if amount:
            unit = Unit(study, query, amount, index)
            self.all.append(unit)
            self.running.setdefault(study, []).append(unit)

    def answer(self, study: StudyKey, query: int, index: int, *, goes_on: bool) -> None:
        """A query was answered. Its unit goes on if the answerer keeps something and the study may still ask."""
        if not goes_on:
            self._end(study, index, before=query + 1)

    def end(self, study: StudyKey, index: int, *, owed: int | None) -> None:
        """A study has ended, and all its units but that of the charged query that is still owed its answer."""
        self._end(study, index, but=owed)

    def halt(self, index: int) -> None:
        """The ledger has halted: nothing that was charged is answered any more, and no kept state is used again."""
        for study in list(self.running):
            self._end(study, index)

    def running_at(self, index: int) -> list[Unit]:
        """The units that were charged at this entry or before, and had not ended with it."""
        return [unit for unit in self.all if unit.begun <= index and (unit.ended is None or unit.ended > index)]

    def _end(self, study: StudyKey, index: int, *, before: float = float("inf"), but: int | None = None) -> None:
        still_running = []
        for unit in self.running.pop(study, ()):
            if unit.query < before and unit.query != but:
                unit.ended = index
            else:
                still_running.append(unit)
        if still_running:
            self.running[study] = still_running


@dataclass
class Branch:
    """A known lost branch, with the spending that was entered for it."""

    traces: list[BranchTrace]  # what is proven to be of it, in order of position
    common: int = -1  # index of the newest entry that it is proven to share with the chain; -1 where none is
    total: Fraction = ZERO  # entered as spent for it, over all learners
    by_key: dict[bytes, Fraction] = field(default_factory=dict)  # of it, by learner's key


@dataclass
class Trail(Learners):
    """The facts on a chain that traces of lost branches are compared with; `Learners` has the sums by learner."""

    hashes: list[bytes] = field(default_factory=list)  # of every entry, by index
    totals: list[Fraction] = field(default_factory=list)  # spent over all learners up to every entry
    answers: dict[bytes, Answer] = field(default_factory=dict)  # request digest -> its reply
    units: Units = field(default_factory=Units)  # what is drawn under each charge
    suspects: list[BranchTrace] = field(
        default_factory=list
    )  # why entries may be lost, as far as the steward has not seen it
    acknowledged: list[BranchTrace] = field(default_factory=list)  # the same, after which the steward resumed
    branches: list[Branch] = field(default_factory=list)  # the same, by branch, with what was entered for each


def lost_spending(trail: Trail) -> tuple[list[LostSpending], list[Branch]]:
    """For each suspected branch, the spending that neither the chain nor an earlier suspect shows; and all branches."""
    branches = [
        replace(entered, traces=list(entered.traces), by_key=dict(entered.by_key)) for entered in trail.branches
    ]
    return [_enter(trail, trace, branches) for trace in sorted(trail.suspects, key=_place)], branches


def is_known(trail: Trail, trace: BranchTrace) -> bool:
    """Whether a trace proves nothing new.

    A mark's trace is known if the chain holds its position. Any trace is known if the same mark or receipt was entered
    before, or if a mark that the steward has seen is proven to hold its position and names no less spending of each
    learner there. A receipt of an entry that the chain holds is new, since the chain lacks its answer. A receipt is
    also new if its branch is known from receipts alone: otherwise a second answer to its request would not be detected.
    """
    if any(trace.is_same(other) for other in (*trail.suspects, *trail.acknowledged)):
        return True
    if trace.position is None or any(trace.contradicts(other) for other in trail.acknowledged):
        return False
    if holds(trace.position, trail.hashes):
        return trace.suspect.learner == NOBODY
    marks = (other for other in trail.acknowledged if other.suspect.learner == NOBODY)
    marks_of_branch = [other for other in marks if other.holds(trace.position)]
    learners = trace.learners(trail.keys_of) if marks_of_branch else []
    return bool(marks_of_branch) and all(
        trace.spent_by(keys) <= max(other.spent_by(keys) for other in marks_of_branch) for keys in learners
    )


def _enter(trail: Trail, trace: BranchTrace, branches: list[Branch]) -> LostSpending:
    """The spending that a trace proves beyond what its branch has entered.

    The trace is added to its branch or a new one.
    """
    if trace.position is None:
        return LostSpending(trace.suspect, ZERO, {})
    branch = next((candidate for candidate in branches if _is_of(trail, trace, candidate)), None)
    new = branch is None
    if branch is None:
        branch = Branch([])
        branches.append(branch)
    branch.traces = sorted([*branch.traces, trace], key=_place)
    common = branch.common = max(branch.common, _common(trail, trace))
    again: dict[bytes, Fraction] = {}
    for unit in trail.units.running_at(common):
        again[unit.study.learner] = again.get(unit.study.learner, ZERO) + unit.amount
    running = total_of(again.values())
    total = max(parse_amount(other.position.total) for other in branch.traces if other.position)
    beyond = max(ZERO, total - (trail.totals[common] if common >= 0 else ZERO)) + running - branch.total
    shares = {}
    for keys in dict.fromkeys([*trace.learners(trail.keys_of), *map(trail.keys_of, again)]):
        spent = max(other.spent_by(keys) for other in branch.traces) - trail.spent_at(keys[0], common)
        ran, before = (total_of(sums.get(key, ZERO) for key in keys) for sums in (again, branch.by_key))
        shares[keys[0]] = _up(max(ZERO, max(ZERO, spent) + ran - before))
        branch.by_key[keys[0]] = branch.by_key.get(keys[0], ZERO) + shares[keys[0]]
    entered = _up(max(ZERO, beyond))
    branch.total += entered
    return LostSpending(trace.suspect, entered, shares, _up(running) if new else ZERO)


def _is_of(trail: Trail, trace: BranchTrace, branch: Branch) -> bool:
    """Whether a trace is proven to be of a branch: its position lies after the branch's newest trace, or before it.

    A receipt is of another branch if the chain and this branch share a different answer to its request.
    """
    newest, position = branch.traces[-1], trace.position
    if position is None or newest.position is None or any(trace.contradicts(other) for other in branch.traces):
        return False
    here = _common(trail, trace)
    common = max(branch.common, here)
    if any(_answered(trail, other) <= common for other in (*branch.traces, trace)):
        return False
    before = holds(position, trail.hashes) and position.index <= branch.common
    after = holds(newest.position, trail.hashes) and newest.position.index <= here
    return before or after or trace.holds(newest.position) or any(other.holds(position) for other in branch.traces)


def _common(trail: Trail, trace: BranchTrace) -> int:
    index = trace.last_common(trail.hashes)
    return -1 if index is None else index


def _answered(trail: Trail, trace: BranchTrace) -> float:
    """Index of the chain's own answer to a receipt's request if the chain holds the request's entry; else infinity."""
    answer = trail.answers.get(trace.suspect.request) if trace.receipt != NO_DIGEST else None
    here = answer is not None and trace.position is not None and holds(trace.position, trail.hashes)
    return answer.index if answer is not None and here else inf


def _up(amount: Fraction) -> Fraction:
    """The amount, rounded up if it is long, so that it can always be entered."""
    return shorten(amount, longest=GRID)


def _place(trace: BranchTrace) -> int:
    return trace.position.index if trace.position else -1
