"""A ledger that is put back at any time, any number of times, and what really left it.

Several processes serve from one store. Each has a mark of its own. Copies of the store are made and put in its place,
under running processes, too. What is released is kept here as a tree, whatever the ledger comes to know of it: so the
loss that it must have entered is known without it.
"""

import random
from dataclasses import dataclass, field
from fractions import Fraction

from curator_fakes import key
from curator_node.ledger import Caps, HaltedError, Ledger, Reservation, StudyKey, create_ledger
from curator_node.ledger.branches import BranchTrace, holds
from curator_node.ledger.errors import AnswerGoneError, InsufficientBudgetError, StateGoneError
from curator_node.ledger.marks import MemoryMark
from curator_node.ledger.store import MemoryStore
from protocol.envelopes import LABEL, digest
from protocol.errors import LocalProtocolError
from protocol.kinds import QUERY_KINDS
from protocol.kinds.counts import PlannedCounts
from protocol.kinds.holdout import HOLDOUT, PlannedHoldout
from protocol.ledger.entries import STATE_SEAL_BYTES, Suspect, ledger_terms
from protocol.plans import Plan
from protocol.rationals import Rational, amount

TERMS = ledger_terms(None, LABEL)
LEARNERS = [key(name).public for name in ("ann", "bob")]
QUESTION = PlannedCounts(release="mass", partitions=1, scale=Rational(30, 1))
INSTANCE = PlannedHoldout(
    turns=4,
    answers=2,
    resolution=1,
    threshold=5,
    threshold_scale=Rational(40, 1),
    comparison_scale=Rational(80, 1),
    count_scale=Rational(20, 1),
)
PLANS = (Plan.of([QUESTION]), Plan.of([QUESTION, QUESTION]), Plan.of([INSTANCE]), Plan.of([INSTANCE, QUESTION]))


@dataclass
class Released:
    """What left under one charge: answers, each with the one that it goes on from."""

    learner: bytes
    amount: Fraction
    parents: dict[bytes, bytes] = field(default_factory=dict)

    @property
    def times(self) -> int:
        """In how many ways it went on."""
        return len(set(self.parents) - set(self.parents.values()))


@dataclass(frozen=True)
class Receipt:
    """What a learner holds of an answer."""

    position: object
    learner: bytes
    spent: Fraction
    request: bytes
    reply: bytes


class World:
    """A store, copies of it, processes and their marks, and learners who keep all receipts.

    Args:
        cap: over all.
        learner_cap: of each learner.
        seed: of what is chosen.
        processes: how many there are.
        marks_too: whether a copy holds the marks, too, and puts them back.
    """

    def __init__(self, *, cap=1, learner_cap=None, seed=0, processes=1, marks_too=False):
        self.choose = random.Random(seed)
        self.caps = Caps(Fraction(learner_cap or cap), Fraction(cap))
        self.key, self.now, self.serial = key("basel"), 1000, 0
        self.store = MemoryStore()
        self.marks = [MemoryMark() for _ in range(processes)]
        self.marks_too = marks_too
        create_ledger(self.store, self.key, self.marks[0], now=self.now)
        for mark in self.marks[1:]:
            mark.write(self.marks[0].read())
        self.running = [None] * processes
        self.copies = []
        self.released = {}
        self.receipts = []
        self.steps = dict.fromkeys(("copy", "restore", "stop", "resume", "show", "released", "refused"), 0)
        self.copy()

    # what happens

    def step(self):
        """One thing that happens, chosen at random."""
        self.now += 1
        what = self.choose.choices(
            (
                self.propose,
                self.ask,
                self.deliver_old,
                self.close,
                self.copy,
                self.restore,
                self.stop,
                self.resume,
                self.show,
            ),
            (14, 40, 4, 3, 3, 4, 4, 8, 6),
        )[0]
        try:
            what()
        except (HaltedError, LocalProtocolError, InsufficientBudgetError, AnswerGoneError, StateGoneError):
            self.steps["refused"] += 1

    def copy(self):
        """A copy is made; five are kept."""
        self.steps["copy"] += 1
        kept = list(self.store._rows), dict(self.store._replies), [(mark._kept, mark._log) for mark in self.marks]
        self.copies = [*self.copies[-4:], kept]

    def restore(self):
        """Any copy takes the store's place."""
        self.steps["restore"] += 1
        rows, replies, marks = self.choose.choice(self.copies)
        self.store._rows, self.store._replies = list(rows), dict(replies)
        if self.marks_too:
            self.running = [None] * len(self.marks)
            for mark, (kept, log) in zip(self.marks, marks, strict=True):
                mark._kept, mark._log = kept, log

    def stop(self):
        """A process is killed; it starts anew with the next request."""
        self.steps["stop"] += 1
        self.running[self.choose.randrange(len(self.running))] = None

    def ledger(self, which=None):
        """A process's ledger, as it is when a request comes."""
        which = self.choose.randrange(len(self.running)) if which is None else which
        if self.running[which] is None:
            self.running[which] = Ledger(self.store, key=self.key, mark=self.marks[which])
            self.running[which].begin(TERMS, self.now)
        self.running[which].refresh(self.now)
        return self.running[which]

    def resume(self):
        """The steward's command: a ledger of its own, with no mark."""
        ledger = Ledger(self.store, key=self.key, mark=MemoryMark())
        if ledger.account.halted:
            self.steps["resume"] += 1
            ledger.resume(self.now, note="on we go")

    def propose(self):
        """A study of one of the plans."""
        ledger, plan = self.ledger(), self.choose.choice(PLANS)
        name = StudyKey(self.choose.choice(LEARNERS), self.digest()[:16])
        costs, request = QUERY_KINDS.costs(plan, 1), self.digest()
        ledger.reserve(Reservation(name, plan, costs, request, self.now + 10**6), self.caps, self.now)
        ledger.answer(request, lambda _: self.digest(), self.now)
        ledger.settle()

    def ask(self):
        """The next turn of a study, or the answer to what was charged and not answered; it may stop at any point."""
        ledger = self.ledger()
        owed = [request for request, each in ledger.account.owed.items() if each.charged]
        if not owed or self.choose.random() < 0.5:
            open_studies = [each for each in ledger.account.studies.values() if not each.ended]
            study = self.choose.choice(open_studies or [None])
            if study is None or study.sequence >= len(study.places):
                return
            request, query = self.digest(), study.places[study.sequence][0]
            cost = study.costs[query]
            if study.kind_of(study.sequence + 1) == "holdout":
                if query in study.spent_on and self.keeps(ledger, study):
                    ledger.state(study.key, "holdout")
                    cost = Fraction(0)
                elif study.left_for(study.sequence + 1):
                    cost /= INSTANCE.answers
                else:
                    return  # no instance is left
            ledger.charge(study.key, study.sequence + 1, cost, request, self.now, self.caps)
            if self.choose.random() < 0.15:
                return
        else:
            request = self.choose.choice(owed)
        self.answer(ledger, request)

    def answer(self, ledger, request):
        """Draw, store, settle, send; it may stop before what is stored is sent."""
        account = ledger.account
        owed = account.owed[request]
        study = account.studies[owed.key]
        query = study.places[owed.sequence - 1][0]
        state, note = None, ""
        if study.kind_of(owed.sequence) == "holdout":
            if owed.amount == 0:
                ledger.state(study.key, "holdout")
            ends = self.choose.random() < 0.3
            state = ("holdout", bytes(STATE_SEAL_BYTES) if ends else self.digest() + bytes(64))
            earlier = (each.owed for each in account.answers.values())
            begun = [each for each in (owed, *earlier) if each.key == owed.key and each.charged and each.amount]
            number = sum(study.places[each.sequence - 1][0] == query for each in begun)
            note = HOLDOUT.end_note(INSTANCE, number) if ends else ""
        ledger.answer(request, lambda _: self.digest(), self.now, state=state, note=note)
        ledger.settle()
        if self.choose.random() < 0.8:
            self.deliver(ledger, request, query)

    def deliver_old(self):
        """A request is sent again, and its stored answer leaves."""
        ledger = self.ledger()
        answered = [request for request, each in ledger.account.answers.items() if each.owed.charged]
        if answered:
            request = self.choose.choice(answered)
            each = ledger.account.answers[request]
            ledger.settle()
            self.deliver(ledger, request, ledger.account.studies[each.owed.key].places[each.owed.sequence - 1][0])

    def deliver(self, ledger, request, query):
        """What is stored leaves; what it goes on from is read off the chain."""
        account, reply = ledger.account, ledger.reply(request)
        each = account.answers[request]
        study = account.studies[each.owed.key]
        turns = sorted(
            (
                other
                for other in account.answers.values()
                if other.owed.key == study.key
                and other.owed.charged
                and study.places[other.owed.sequence - 1][0] == query
                and other.owed.sequence <= each.owed.sequence
            ),
            key=lambda other: other.owed.sequence,
        )
        begun = max(place for place, other in enumerate(turns) if other.owed.amount)
        charge = account.hashes[turns[begun].owed.index]
        unit = self.released.setdefault(charge, Released(study.key.learner, turns[begun].owed.amount))
        parent = b""
        for other in turns[begun:]:
            unit.parents.setdefault(other.reply, parent)
            parent = other.reply
        self.steps["released"] += 1
        learner = study.key.learner
        spent = account.spent_at(learner, each.owed.index)
        self.receipts.append(Receipt(account.position(each.owed.index), learner, spent, request, reply))

    def close(self):
        """A study is closed."""
        ledger = self.ledger()
        open_studies = [each for each in ledger.account.studies.values() if not each.ended]
        if open_studies:
            study = self.choose.choice(open_studies)
            ledger.close_study(study.key, study.sequence + 1, self.digest(), self.now)
            ledger.settle()

    def show(self, receipt=None):
        """A learner shows one of its receipts, as `Receipts.check` reads it."""
        if receipt is None and not self.receipts:
            return
        self.steps["show"] += 1
        receipt = receipt or self.choose.choice(self.receipts)
        ledger = self.ledger()
        account = ledger.account
        kept = receipt.request in account.answers and ledger.reply(receipt.request) == receipt.reply
        if holds(receipt.position, account.hashes) and kept:
            return
        suspect = Suspect(receipt.position, receipt.learner, amount(receipt.spent), receipt.request)
        lost = BranchTrace(suspect, receipt=digest(receipt.reply))
        if not account.knows(lost):
            ledger.halt(self.now, "a receipt", trace=lost)
        ledger.settle()

    # what is known of it

    def keeps(self, ledger, study):
        """Whether an instance of the study runs, as its answerer sees it."""
        kept = ledger.account.states.get((study.key, "holdout"))
        return kept is not None and kept.size > STATE_SEAL_BYTES

    def digest(self):
        self.serial += 1
        return digest(self.serial.to_bytes(8, "big"))

    def lost(self, learner=None):
        """Epsilon of all that left, once for each way in which it went on; of one learner, or of all."""
        of = (unit for unit in self.released.values() if learner in (None, unit.learner))
        return sum((unit.amount * unit.times for unit in of), Fraction(0))

    def shortfall(self):
        """How much of what left the newest chain does not hold as spent, at most over all and each learner."""
        account = self.ledger(0).account
        short = [self.lost() - account.total_spent]
        short += [self.lost(learner) - account.spent.get(learner, Fraction(0)) for learner in LEARNERS]
        return max(short)
