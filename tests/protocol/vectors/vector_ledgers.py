"""Vectors of ledgers with entries of every kind, also of one that was put back, and of ledgers that break one rule."""

from dataclasses import replace
from fractions import Fraction

from msgspec import structs

from curator_node.ledger import Caps, Ledger, Reservation, StudyKey, create_ledger
from curator_node.ledger.branches import BranchTrace
from curator_node.ledger.checks import check
from curator_node.ledger.exports import export_ledger
from curator_node.ledger.marks import MemoryMark
from curator_node.ledger.store import MemoryStore
from protocol.envelopes import LABEL, SigningKey, digest
from protocol.kinds import QUERY_KINDS
from protocol.kinds.holdout import PlannedHoldout
from protocol.ledger.entries import (
    STATE_SEAL_BYTES,
    Entry,
    EntryKind,
    StatefulEntry,
    Suspect,
    decode_entry,
    encode_entry,
    entry_hash,
    ledger_terms,
    sign_head,
)
from protocol.ledger.exports import decode_export, encode_export, read_block
from protocol.messages import NOBODY
from protocol.plans import Plan
from protocol.rationals import Rational, amount
from vector_evidence import NOW, SITE, Stream, exported
from vector_parts import LEARNER, PLAN, SUCCESSOR, bad

NEXT, OTHER = (SigningKey.from_seed(seed * 32) for seed in (b"\x05", b"\x06"))
"""The curator's next key, and a second key of a learner."""
ANN, ANN_AGAIN, BOB = LEARNER.public, OTHER.public, SUCCESSOR.public
INSTANCE = Plan.of(
    [
        PlannedHoldout(
            turns=4,
            answers=2,
            resolution=1,
            threshold=5,
            threshold_scale=Rational(40, 1),
            comparison_scale=Rational(80, 1),
            count_scale=Rational(20, 1),
        )
    ]
)
NO_CAP = Caps(Fraction(1), Fraction(2))
MONDAY = "00112233445566778899aabbccddeeff"
PACKAGES = f"kinds-of-others 1.2 sha256:{'5a' * 32}\nmore-kinds 0.1 sha256:{'0f' * 32}"


def named(text):
    """A digest that stands for a request or a reply."""
    return digest(text.encode())


def study_of(learner, name):
    return StudyKey(learner, name.encode().ljust(16, b"."))


class Book:
    """A curator's ledger that grows, step by step; `finish` reads it."""

    def __init__(self, seed, *names):
        self.store, self.mark, self.entropy, self.now = MemoryStore(), MemoryMark(), Stream(seed), NOW
        create_ledger(self.store, SITE, self.mark, now=NOW, entropy=self.entropy)
        self.serve()
        for key, name in names:
            self.ledger.enrol(key, name, NOW)

    def serve(self, key=SITE):
        """A process starts to serve."""
        self.ledger = Ledger(self.store, key=key, mark=self.mark, entropy=self.entropy)
        self.ledger.begin(ledger_terms(None, LABEL), self.now)

    def reserve(self, study, name, plan=PLAN, caps=NO_CAP, *, until=NOW + 86_400):
        costs = QUERY_KINDS.costs(plan, 1)
        self.ledger.reserve(Reservation(study, plan, costs, named(name), until, name), caps, self.now)
        self.answer(name)

    def charge(self, study, sequence, name, cost=None):
        cost = self.ledger.account.studies[study].costs[sequence - 1] if cost is None else cost
        self.ledger.charge(study, sequence, Fraction(cost), named(name), self.now)

    def answer(self, name, state=None):
        kept = None if state is None else ("holdout", state)
        self.ledger.answer(named(name), lambda _: named(f"reply to {name}"), self.now, state=kept)

    def ask(self, study, sequence, name, cost=None, state=None):
        self.charge(study, sequence, name, cost)
        self.answer(name, state)

    def close(self, study, sequence, name):
        self.ledger.close_study(study, sequence, named(name), self.now)
        self.answer(name)

    def finish(self):
        self.export, self.account = export_ledger(self.store), check(self.store, SITE.public).account
        export = decode_export(self.export)
        self.entries = [decode_entry(body) for body, _ in read_block(export.blocks[0]).pairs]
        self.replies = list(export.replies)
        return self

    def linked(self, entries, *, signer=NEXT, replies=None):
        """An export of these entries, chained and signed anew; by `signer` after a handover."""
        key, pairs, previous = SITE, [], entries[0].previous
        for index, entry in enumerate(entries):
            body = encode_entry(structs.replace(entry, index=index, previous=previous))
            previous = entry_hash(body)
            pairs.append((body, sign_head(key, index, previous)))
            key = signer if entry.kind is EntryKind.HANDOVER else key
        return encode_export(pairs, self.replies if replies is None else replies)

    def with_more(self, kind, *, form=Entry, **fields):
        """The ledger with one entry more."""
        last = {"index": 0, "previous": bytes(32), "nonce": bytes(16), "at": self.now}
        return self.linked([*self.entries, form(**last, kind=kind, **fields)])

    def with_other(self, kind, /, number=-1, **fields):
        """The ledger with other fields in one of the entries of a kind."""
        place = [index for index, entry in enumerate(self.entries) if entry.kind is kind][number]
        changed = structs.replace(self.entries[place], **fields)
        return self.linked([*self.entries[:place], changed, *self.entries[place + 1 :]])


def decided():
    """A steward decides on proposals, a learner has two keys, and the curator's key is changed."""
    book = Book(b"decided", (ANN, "ann"), (ANN_AGAIN, "ann"), (BOB, "bob"))
    book.ledger.serve_data(MONDAY, NOW)
    book.ledger.use_plug_ins(PACKAGES, NOW)
    cost = sum(QUERY_KINDS.costs(PLAN, 1))
    first, again, left, waiting = (
        study_of(*each) for each in ((ANN, "approved"), (ANN_AGAIN, "again"), (BOB, "left"), (BOB, "waiting"))
    )
    word = {"cost": cost, "until": NOW + 1000}
    book.ledger.decide_on(first, named("approved"), NOW, approve=True, note="read", **word)
    book.ledger.decide_on(waiting, named("declined"), NOW, approve=False, note="no", **word)
    book.ledger.decide_on(waiting, named("waiting"), NOW, approve=True, **word)
    book.reserve(first, "approved", caps=replace(NO_CAP, approval=True))
    book.ask(first, 1, "first question")
    book.ask(first, 2, "second question")
    book.close(first, 3, "closed")
    book.reserve(again, "with another key", until=NOW + 10)
    book.charge(again, 1, "question before the end")
    book.now += 10
    book.ledger.expire(book.now)
    book.answer("question before the end")
    book.reserve(left, "left")
    book.charge(left, 1, "not answered yet")
    book.ledger.append(lambda _: book.ledger.entry(EntryKind.HANDOVER, book.now, learner=NEXT.public), book.now)
    book.ledger = Ledger(book.store, key=NEXT, mark=book.mark, entropy=book.entropy)
    terms = ledger_terms(None, LABEL)
    book.ledger.append(lambda _: book.ledger.entry(EntryKind.START, book.now, note=terms), book.now)
    return book.finish()


def halted():
    """Replies of an ended study are dropped; a person halts the ledger, enters what is known, and halts it again."""
    book = Book(b"halted", (ANN, "ann"))
    ended, going_on = study_of(ANN, "ended"), study_of(ANN, "going on")
    book.reserve(ended, "ended")
    book.ask(ended, 1, "asked")
    book.close(ended, 2, "closed")
    book.reserve(going_on, "going on")
    book.ledger.make_room(1, book.ledger.account.kept_bytes, NOW)
    book.ledger.halt(NOW, "a disk fails")
    book.ledger.resume(NOW, learner=ANN, restored=Fraction(1, 7), note="known from a letter")
    book.ask(going_on, 1, "asked after that")
    book.ledger.halt(NOW, "a look at the disk")
    book.ledger.resume(NOW, restored=Fraction(1, 11), note="of nobody in particular")
    book.ledger.halt(NOW, "another look")
    return book.finish()


def put_back():
    """A copy takes a ledger's place. A receipt proves a part of what was lost, and the mark of a process the rest."""
    book = Book(b"put back", (ANN, "ann"), (ANN_AGAIN, "ann"), (BOB, "bob"))
    ann, again, bob = study_of(ANN, "ann's"), study_of(ANN_AGAIN, "ann's second"), study_of(BOB, "bob's")
    cost = QUERY_KINDS.costs(INSTANCE, 1)[0] / 2
    book.reserve(ann, "ann's")
    book.reserve(again, "ann's second")
    book.reserve(bob, "bob's", INSTANCE)
    book.ask(bob, 1, "an instance", cost, named("a state") * 2)
    book.charge(ann, 1, "charged, not answered")
    copied = list(book.store._rows), dict(book.store._replies)
    book.ask(again, 1, "lost")
    account, request = book.ledger.account, named("lost")
    spent = amount(account.spent_by(ANN_AGAIN))
    shown = Suspect(account.position(account.next_index - 2), ANN_AGAIN, spent, request)
    book.ask(bob, 2, "lost, too", 0, bytes(STATE_SEAL_BYTES))
    book.ask(bob, 3, "a lost instance", cost, bytes(STATE_SEAL_BYTES))
    book.ledger.settle()
    book.store._rows, book.store._replies = copied
    steward = Ledger(book.store, key=SITE, mark=MemoryMark(), entropy=book.entropy)
    steward.halt(NOW, "a receipt", trace=BranchTrace(shown, receipt=named("the receipt")))
    steward.resume(NOW, note="Monday's copy")
    book.serve()
    steward.resume(NOW, note="what the mark knows")
    book.ask(again, 1, "asked anew")
    return book.finish()


def ledgers():
    """Exports with every kind of entry; and each rule of the ledger broken once, signed by the curator itself."""
    books = {"decided": decided(), "halted": halted(), "put back": put_back()}
    assert {entry.kind for book in books.values() for entry in book.entries} == set(EntryKind)
    taken = [exported(name, book) for name, book in books.items()]
    refused = [
        bad(f"{name}: {fault}", "export", {"bytes": data, "curator": SITE.public}, rule, name, f"made anew: {fault}")
        for name, cases in (
            ("decided", of_decided(books["decided"])),
            ("halted", of_halted(books["halted"])),
            ("put back", of_put_back(books["put back"])),
        )
        for fault, (data, rule) in cases.items()
    ]
    return taken, refused


def of_decided(book):
    more, other, kind, state = book.with_more, book.with_other, EntryKind, "state"
    left = {"learner": BOB, "study": study_of(BOB, "left").study}
    waiting = {"learner": BOB, "study": study_of(BOB, "waiting").study}
    ended = {"learner": ANN, "study": study_of(ANN, "approved").study}
    expired = {"learner": ANN_AGAIN, "study": study_of(ANN_AGAIN, "again").study}
    second = {"sequence": 2, "amount": "3/1000", "request": named("new")}
    of_approval = {"amount": "209/3000", "expires_at": NOW + 1000}
    reserve = next(each for each in book.entries if each.kind is kind.RESERVE)
    costs = {"plan": reserve.plan, "costs": reserve.costs, "amount": reserve.amount, "request": named("new")}
    answer = {"request": named("not answered yet"), "reply": named("a reply"), "size": 1}
    with_state = [
        stateful(each) if each.kind is kind.ANSWERED and each.request == named("left") else each
        for each in book.entries
    ]
    whole = {**left, "sequence": 1, **answer}
    return {
        "a ledger is opened twice": (more(kind.OPEN, learner=SITE.public), state),
        "a start under other terms": (
            other(kind.START, note='privacy unit: column "p"; signatures: "expril/2"'),
            state,
        ),
        "data of no form": (other(kind.DATA, note="monday"), state),
        "plug-ins of no form": (other(kind.PLUG_INS, note="kinds-of-others 1.2"), state),
        "plug-ins out of order": (other(kind.PLUG_INS, note="\n".join(reversed(PACKAGES.split("\n")))), state),
        "zeros are enrolled": (more(kind.ENROL, learner=NOBODY, note="eve"), state),
        "a bound key is enrolled": (more(kind.ENROL, learner=BOB, note="eve"), state),
        "a name is empty": (other(kind.ENROL, note=""), state),
        "a name of 201 characters": (other(kind.ENROL, note="e" * 201), state),
        "a study of zeros": (more(kind.RESERVE, learner=BOB, **costs), state),
        "a study of nobody": (more(kind.RESERVE, study=waiting["study"], **costs), state),
        "a reservation with too few costs": (
            more(kind.RESERVE, **waiting, **(costs | {"costs": (reserve.amount,)})),
            state,
        ),
        "a reservation without a plan": (more(kind.RESERVE, **waiting, **(costs | {"plan": None})), state),
        "a charge of an unknown study": (more(kind.CHARGE, **waiting, sequence=1, request=named("new")), state),
        "a charge of an ended study": (more(kind.CHARGE, **expired, **second), state),
        "a charge before an answer": (more(kind.CHARGE, **left, **second), state),
        "an answer to nothing": (more(kind.ANSWERED, **(whole | {"request": named("new")})), state),
        "an answer of another learner": (more(kind.ANSWERED, **(whole | {"learner": ANN})), state),
        "an answer of another sequence": (more(kind.ANSWERED, **(whole | {"sequence": 2})), state),
        "a state where no query is answered": (book.linked(with_state), state),
        "an ended study is closed": (more(kind.CLOSE, **ended, sequence=4, request=named("new")), state),
        "an ended study expires": (more(kind.EXPIRE, **ended), state),
        "replies of an open study are dropped": (more(kind.EVICT, **left), state),
        "an approval comes twice": (more(kind.APPROVE, **waiting, **of_approval, request=named("waiting")), state),
        "an accepted proposal is declined": (more(kind.DECLINE, **left, request=named("left")), state),
        "a declined proposal is approved": (
            more(kind.APPROVE, **waiting, **of_approval, request=named("declined")),
            state,
        ),
        "a decision on no proposal": (more(kind.DECLINE, **waiting), state),
        "a resume without a halt": (more(kind.RESUME, amount="1/7"), state),
        "a handover to an earlier key": (more(kind.HANDOVER, learner=SITE.public), state),
        "a handover to zeros": (more(kind.HANDOVER), state),
        "the former key signs after a handover": (book.linked(book.entries, signer=SITE), "signature"),
    }


def stateful(entry):
    """An answer with a state."""
    return StatefulEntry(**structs.asdict(entry), state=named("a state"), state_size=100)


def of_halted(book):
    more, other, kind, state = book.with_more, book.with_other, EntryKind, "state"
    going_on = {"learner": ANN, "study": study_of(ANN, "going on").study}
    reserve = next(each for each in book.entries if each.kind is kind.RESERVE)
    new = {"learner": ANN, "study": b"a new study.....", "plan": reserve.plan, "costs": reserve.costs}
    return {
        "a reservation while it is halted": (
            more(kind.RESERVE, **new, amount=reserve.amount, request=named("new")),
            state,
        ),
        "a charge while it is halted": (
            more(kind.CHARGE, **going_on, sequence=2, amount="3/1000", request=named("new")),
            state,
        ),
        "dropped replies are dropped again": (
            more(kind.EVICT, learner=ANN, study=study_of(ANN, "ended").study),
            state,
        ),
        "a resume of less than is a learner's": (other(kind.RESUME, 0, amount="1/8"), "budget"),
    }


def of_put_back(book):
    more, other, kind, state = book.with_more, book.with_other, EntryKind, "state"
    ann = {"learner": ANN, "study": study_of(ANN, "ann's").study, "sequence": 1}
    again = {"learner": ANN_AGAIN, "study": study_of(ANN_AGAIN, "ann's second").study}
    lost = named("charged, not answered")
    first = Fraction(next(each.amount for each in book.entries if each.kind is kind.RESUME))
    kept_state = digest(named("a state") * 2)
    return {
        "what a receipt proves is not entered": (
            other(kind.RESUME, 0, amount=amount(first - Fraction(1, 999))),
            "budget",
        ),
        "what a mark proves is not entered": (other(kind.RESUME, 1, amount="0"), "budget"),
        "a charge that may have been answered is answered": (
            more(kind.ANSWERED, **ann, request=lost, reply=named("a reply"), size=1),
            state,
        ),
        "a request that may have been answered is charged": (
            more(kind.CHARGE, **again, sequence=2, amount="3/1000", request=lost),
            state,
        ),
        "a kept state is missing": (
            book.linked(book.entries, replies=[pair for pair in book.replies if pair[1] != kept_state]),
            state,
        ),
        "a reply belongs to no entry": (
            book.linked(book.entries, replies=sorted([*book.replies, (named("stray"), named("a reply"))])),
            state,
        ),
    }
