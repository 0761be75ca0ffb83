"""A curator's ledger in memory, what happens to it, and somebody who holds its key and wants it to say other things."""

from collections.abc import Callable, Sequence
from fractions import Fraction

import msgspec

from curator_fakes import NOW, key
from curator_node.ledger import (
    Caps,
    HaltedError,
    Ledger,
    NotApprovedError,
    Reservation,
    StoreFullError,
    StudyKey,
    create_ledger,
)
from curator_node.ledger.branches import BranchTrace
from curator_node.ledger.errors import BoundElsewhereError
from curator_node.ledger.ledger import hand_over
from curator_node.ledger.marks import MemoryMark
from curator_node.ledger.store import MemoryStore
from protocol.envelopes import LABEL, SigningKey, digest
from protocol.errors import ConfigurationError, LocalProtocolError
from protocol.kinds import QUERY_KINDS
from protocol.kinds.counts import PlannedCounts
from protocol.ledger.entries import Entry, Suspect, decode_entry, encode_entry, entry_hash, ledger_terms, sign_head
from protocol.ledger.exports import Pair, encode_export
from protocol.plans import Plan
from protocol.rationals import Rational

TERMS = ledger_terms(None, LABEL)
CAPS = Caps(Fraction(10**6), Fraction(10**6))
MANUAL = Caps(Fraction(10**6), Fraction(10**6), approval=True)
LEARNERS = [key(name).public for name in ("ann", "bob", "cai")]
SCALES = [(30,), (30, 60), (7, 30, 12)]


class History:
    """A ledger that grows, act by act; each takes a number that chooses among what there is.

    Args:
        bound: c, the most records of a privacy unit.
    """

    def __init__(self, bound: int = 1) -> None:
        self.bound = bound
        self.key, self.next_key = key("basel"), 0
        self.store, self.mark, self.now = MemoryStore(), MemoryMark(), NOW
        self.serial = 0
        self.approved: list[Reservation] = []
        self.saved: tuple[list, dict] | None = None
        self.keys: dict[int, SigningKey] = {0: self.key}
        create_ledger(self.store, self.key, self.mark, now=self.now)
        self.ledger = Ledger(self.store, key=self.key, mark=self.mark)
        self.ledger.begin(TERMS, self.now)
        self.save(0)

    def do(self, act: str, number: int) -> None:
        """One act; what the ledger refuses is not done."""
        self.now += 1
        try:
            getattr(self, act)(number)
        except (HaltedError, LocalProtocolError, StoreFullError, BoundElsewhereError, ConfigurationError):
            return
        self.ledger.settle()

    def reserve(self, number: int) -> None:
        """A proposal is accepted."""
        self.ledger.reserve(self.proposal(number), CAPS, self.now)

    def proposal(self, number: int) -> Reservation:
        """A plan of one to three queries."""
        scales = SCALES[number % len(SCALES)]
        plan = Plan.of(
            PlannedCounts(release="mass", partitions=1 + number % 2, scale=Rational.of(scale)) for scale in scales
        )
        study = StudyKey(LEARNERS[number % len(LEARNERS)], self.digest()[:16])
        costs = QUERY_KINDS.costs(plan, self.bound)
        return Reservation(study, plan, costs, self.digest(), self.now + 5 + number % 50)

    def charge(self, number: int) -> None:
        """The next query of an open study."""
        study = self.study(number)
        cost = study.costs[study.places[study.sequence][0]] if study.sequence < len(study.places) else Fraction(0)
        self.ledger.charge(study.key, study.sequence + 1, cost, self.digest(), self.now)

    def answer(self, number: int) -> None:
        """A reply to what waits for one."""
        owed = list(self.ledger.account.owed)
        if owed:
            self.ledger.answer(owed[number % len(owed)], lambda _: self.digest() * 3, self.now)

    def close(self, number: int) -> None:
        """A study, early or not."""
        study = self.study(number)
        self.ledger.close_study(study.key, study.sequence + 1, self.digest(), self.now)

    def expire(self, number: int) -> None:
        """Time passes."""
        self.now += number % 60
        self.ledger.expire(self.now)

    def enrol(self, number: int) -> None:
        """A key gets a name; two of the three are one learner's."""
        self.ledger.enrol(LEARNERS[number % 3], "ann and bob" if number % 3 < 2 else "cai", self.now)

    def evict(self, number: int) -> None:
        """There is no room for one byte more."""
        self.ledger.make_room(1 + number * 0, self.ledger.account.kept_bytes, self.now)

    def data(self, number: int) -> None:
        """Another snapshot of the records."""
        self.ledger.serve_data(f"{number % 5:032x}", self.now)

    def halt(self, number: int) -> None:
        """A person halts it."""
        self.ledger.halt(self.now, f"halt {number}")

    def resume(self, number: int) -> None:
        """The steward goes on, and may know of more that was spent."""
        whose = LEARNERS[number % 3] if number % 2 else bytes(32)
        self.ledger.resume(self.now, learner=whose, restored=Fraction(number % 4, 7), note="on we go")

    def restart(self, number: int) -> None:
        """Another process serves."""
        self.now += number * 0
        self.ledger = Ledger(self.store, key=self.key, mark=self.mark)
        self.ledger.begin(TERMS, self.now)

    def decide(self, number: int) -> None:
        """The steward's word on a proposal that never comes."""
        study = StudyKey(LEARNERS[number % 3], self.digest()[:16])
        self.ledger.decide_on(
            study, self.digest(), self.now, approve=bool(number % 2), cost=Fraction(1, 3), until=self.now + 9
        )

    def approve(self, number: int) -> None:
        """The steward's yes to a proposal that may come."""
        wanted = self.proposal(number)
        self.say_yes(wanted, 5 + number % 50)
        self.approved.append(wanted)

    def come(self, number: int) -> None:
        """A proposal with a yes comes. Where that holds no more, it gets another, or does not."""
        if not self.approved:
            return
        wanted = self.approved[number % len(self.approved)]
        try:
            self.ledger.reserve(wanted, MANUAL, self.now)
        except NotApprovedError:
            if number % 3:
                self.say_yes(wanted, 5 + number % 50)

    def say_yes(self, wanted: Reservation, seconds: int) -> None:
        """The steward's, on a proposal at its price of now."""
        cost, until = sum(wanted.costs, Fraction(0)), self.now + seconds
        self.ledger.decide_on(wanted.key, wanted.request, self.now, approve=True, cost=cost, until=until)

    def rotate(self, number: int) -> None:
        """The curator's key changes, twice at most."""
        if self.next_key > 1 or self.ledger.account.halted:
            return
        self.next_key += 1
        self.saved = None  # a copy under the older key would be another matter
        new = key(f"basel {self.next_key + number * 0}")
        hand_over(self.store, self.key, new, self.now)
        self.key = new
        self.ledger = Ledger(self.store, key=new, mark=self.mark)

    def save(self, number: int) -> None:
        """Somebody makes a copy."""
        self.saved = list(self.store._rows[: len(self.store._rows) + number * 0]), dict(self.store._replies)

    def roll_back(self, number: int) -> None:
        """The copy takes the ledger's place; the mark finds it, and a learner's receipt."""
        if self.saved is None:
            return
        before = self.ledger.account
        learner = LEARNERS[number % 3]
        newest = before.position(before.next_index - 1)
        spent = str(before.spent_at(learner, before.next_index - 1))
        self.store._rows, self.store._replies = list(self.saved[0]), dict(self.saved[1])
        self.restart(number)
        if number % 2:
            suspect = Suspect(newest, learner, spent, self.digest())
            self.ledger.halt(self.now, "a receipt", trace=BranchTrace(suspect, receipt=self.digest()))

    def study(self, number: int):
        """One of those that have not ended."""
        found = [each for each in self.ledger.account.studies.values() if not each.ended]
        if not found:
            raise LocalProtocolError("there is none")
        return found[number % len(found)]

    def digest(self) -> bytes:
        """Bytes that were never there before."""
        self.serial += 1
        return digest(self.serial.to_bytes(8, "big"))

    def pairs(self) -> list[Pair]:
        """All entries with their signatures."""
        return [(row.body, row.signature) for row in self.store.rows(0)]

    def replies(self) -> list[tuple[bytes, bytes]]:
        """Digests of stored replies."""
        return [(request, digest(self.store.reply(request))) for request in self.store.replied()]

    def export(self, pairs: Sequence[Pair] | None = None) -> bytes:
        """The bytes of an export, of other entries where some are given."""
        return encode_export(self.pairs() if pairs is None else pairs, self.replies())


ACTS = (
    *("reserve", "charge", "answer") * 4,
    *("close", "close", "expire", "enrol", "evict", "data", "halt", "resume", "resume", "restart", "decide"),
    *("approve", "approve", "come", "come", "come", "data"),
    *("rotate", "save", "roll_back"),
)


def a_study(history: History, number: int = 2, *, queries: int = 3) -> None:
    """A whole study, answered and closed."""
    history.do("reserve", number)
    history.do("answer", 0)
    for _ in range(queries):
        history.do("charge", 0)
        history.do("answer", 0)
    history.do("close", 0)
    history.do("answer", 0)


def resigned(pairs: Sequence[Pair], edit: Callable[[Entry], Entry], signer: SigningKey) -> list[Pair]:
    """The whole ledger with its entries changed, chained and signed anew, as only the curator can."""
    made: list[Pair] = []
    head = decode_entry(pairs[0][0]).previous
    for index, (body, _) in enumerate(pairs):
        entry = msgspec.structs.replace(edit(decode_entry(body)), index=index, previous=head)
        encoded = encode_entry(entry)
        head = entry_hash(encoded)
        made.append((encoded, sign_head(signer, index, head)))
    return made
