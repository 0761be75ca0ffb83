"""A ledger that somebody writes entry by entry, with any key, whether or not it happened."""

from fractions import Fraction
from pathlib import Path

from protocol.envelopes import LABEL, SigningKey, digest, seal_receipt
from protocol.kinds.counts import PlannedCounts
from protocol.ledger.entries import GENESIS, Entry, EntryKind, encode_entry, entry_hash, ledger_terms, sign_head
from protocol.ledger.exports import encode_export
from protocol.messages import NO_DIGEST, SEALED_BYTES, Receipt
from protocol.plans import Plan
from protocol.rationals import Rational

HOSPITAL, MALLORY, ADA, BOB = (SigningKey.from_seed(name * 32) for name in (b"H", b"M", b"A", b"B"))
TERMS = ledger_terms(None, LABEL)


def counts(scale, partitions=1, release="mass"):
    """A planned query."""
    return PlannedCounts(release, partitions, Rational.of(Fraction(scale)))


class Forged:
    """Entries in order, each chained and signed by whoever holds `key`.

    Args:
        key: of who signs.
        terms: of its first START; None writes none.
    """

    def __init__(self, key=HOSPITAL, terms=TERMS):
        self.key, self.head, self.serial = key, GENESIS, 0
        self.pairs, self.heads, self.replies = [], [], []
        self.add(EntryKind.OPEN, learner=key.public)
        if terms is not None:
            self.add(EntryKind.START, note=terms)

    def add(self, kind, **more):
        """One entry; its index."""
        index = len(self.pairs)
        entry = Entry(index=index, previous=self.head, nonce=bytes(16), kind=kind, at=1000 + index, **more)
        body = encode_entry(entry)
        self.head = entry_hash(body)
        self.pairs.append((body, sign_head(self.key, index, self.head)))
        self.heads.append(self.head)
        return index

    def request(self):
        """A digest that was not there before."""
        self.serial += 1
        return digest(b"%d" % self.serial + self.key.public)

    def study(self, learner, queries, costs, *, charges=None, request=None, amount=None):
        """A plan that is accepted, charged and answered: its identity, and (request, head) of each charge."""
        name, request = digest(b"s%d" % self.serial)[:16], request or self.request()
        costs = [Fraction(cost) for cost in costs]
        whose = {"learner": learner.public, "study": name}
        self.add(
            EntryKind.RESERVE,
            **whose,
            request=request,
            plan=Plan.of(queries),
            costs=tuple(map(str, costs)),
            amount=amount or str(sum(costs)),
            expires_at=10**9,
        )
        self._answer(whose, 0, request)
        charged = []
        for sequence, cost in enumerate(costs if charges is None else charges, start=1):
            request = self.request()
            index = self.add(EntryKind.CHARGE, **whose, sequence=sequence, amount=str(cost), request=request)
            charged.append((request, self.heads[index]))
            self._answer(whose, sequence, request)
        return name, charged

    def receipt(self, path: Path, learner, study, request, head, *, charged=1, spent=1, sequence=1):
        """A receipt that this key signs, in a file."""
        made = Receipt(
            curator=self.key.public,
            learner=learner.public,
            study=study,
            sequence=sequence,
            request=request,
            release=NO_DIGEST,
            charged=str(charged),
            spent_by_study=str(spent),
            spent_by_learner=str(spent),
            ledger_head=head,
            position=bytes(SEALED_BYTES),
            issued_at=5,
        )
        path.write_bytes(seal_receipt(made, self.key, label=LABEL))
        return path

    def save(self, path: Path):
        """An export."""
        path.write_bytes(encode_export(self.pairs, self.replies))
        return path

    def _answer(self, whose, sequence, request):
        reply = digest(b"reply" + request)
        self.add(EntryKind.ANSWERED, **whose, sequence=sequence, request=request, reply=reply, size=10)
        self.replies.append((request, reply))
