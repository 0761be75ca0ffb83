"""A curator that a test serves: its store, clock, restarts and faults, and learners that sign whatever they like.

Built from the protocol alone, without the learner's own code: an adversary would not use that either. All that goes in
and comes out is kept, in order.
"""

import logging
import sqlite3
from fractions import Fraction

import msgspec

from curator_fakes import NOW, Clock, CountingEntropy, FlakyStore, hold, key
from curator_node.kinds import ANSWERERS
from curator_node.ledger import Ledger, create_ledger
from curator_node.ledger.marks import MemoryMark
from curator_node.ledger.store import DatabaseStore, MemoryStore, sqlite_url
from curator_node.policy import LearnerPolicy, Policy
from curator_node.site import assemble_site
from generators import QUERIES
from limits_told import limits_with
from protocol.envelopes import digest, open_envelope, seal
from protocol.kinds import QUERY_KINDS
from protocol.ledger.entries import decode_entry
from protocol.messages import (
    NO_DIGEST,
    CardRequest,
    Query,
    Refusal,
    Release,
    StudyAccepted,
    StudyClose,
    StudyClosed,
    StudyProposal,
)
from protocol.plans import Plan
from protocol.release_kinds import RELEASE_KINDS

PRIVATE_KINDS = tuple(name for name in QUERIES if QUERY_KINDS[name].private(QUERY_KINDS[name].limits()))
PRIVATE = tuple(RELEASE_KINDS)


def rules(*, cap=12, learners=(("ann", 8), ("bob", "17/2")), **options) -> Policy:
    """A policy that allows every private kind, with limits that a short script reaches."""
    entries = tuple(LearnerPolicy(name=name, key=key(name).public.hex(), cap=most) for name, most in learners)
    return Policy(name="basel", cap=cap, learners=entries, **options)


TIGHT = {
    "limits": limits_with(
        query_kinds=PRIVATE_KINDS,
        release_kinds=PRIVATE,
        cells=200,
        partitions=3,
        parameters=200,
        multiply_adds=2 * 10**9,
    ),
    "open_studies": 2,
    "studies": 4,
    "refusals_per_study": 3,
    "refusals_per_day": 12,
    "requests_per_day": 40,
    "reply_bytes": 2**20,
    "reservation_seconds": 300,
}


class Told(logging.Handler):
    """Every log record, with the text of its error."""

    def __init__(self):
        super().__init__(logging.DEBUG)
        self.lines = []

    def emit(self, record):
        self.lines.append((record.name, record.levelname, record.getMessage(), repr(record.exc_info)))


class Served:
    """A curator over a memory store, or over SQLite where a path is given.

    Attributes:
        sent, got: every request and its reply.
        faults: the store; see `FlakyStore`.
        studies: number -> `Asker`.
    """

    def __init__(self, frame, steward, noise, policy, *, path=None, answerers=ANSWERERS):
        self.frame, self.steward, self.noise, self.policy = frame, steward, noise, policy
        self.answerers = answerers
        self.path = path
        self.clock, self.entropy, self.mark = Clock(), CountingEntropy(), MemoryMark()
        self.faults = FlakyStore(MemoryStore() if path is None else DatabaseStore(sqlite_url(path), create=True))
        create_ledger(self.faults, key("basel"), self.mark, now=NOW, entropy=self.entropy)
        self.sent, self.got, self.askers = [], [], []
        self.start()

    def start(self):
        """Begin to serve, or begin again: all that is in memory is lost."""
        self.faults.failures.clear()
        if self.path is not None:
            self.faults.inner.close()
            self.faults.inner = DatabaseStore(sqlite_url(self.path))
        self.ledger = Ledger(self.faults, key=key("basel"), mark=self.mark, entropy=self.entropy)
        self.curator = assemble_site(
            hold(self.frame, self.steward, 10**5),
            self.policy,
            key=key("basel"),
            ledger=self.ledger,
            clock=self.clock,
            noise=self.noise,
            entropy=self.entropy,
            answerers=self.answerers,
        ).curator

    def send(self, data):
        """One request; the reply."""
        self.sent.append(data)
        self.got.append(self.curator.handle(data))
        return self.got[-1]

    def asker(self, name) -> "Asker":
        """A new study of a learner, not proposed yet."""
        self.askers.append(Asker(self, name, len(self.askers) + 1))
        return self.askers[-1]

    def kept(self):
        """All that is kept: entries with signatures, replies, remembered refusals, the mark."""
        replies = {request: self.faults.reply(request) for request in self.faults.replied()}
        return self.faults.rows(0), replies, self._refusals(), self.mark.read()

    def _refusals(self):
        if self.path is None:
            return sorted((request, *kept) for request, kept in self.faults.inner._refusals.items())
        with sqlite3.connect(self.path) as database:
            columns = "request, learner, refusal, expires_at"
            found = sorted(database.execute(f"SELECT {columns} FROM refusals"))
        database.close()
        return found

    def entries(self):
        """Decoded."""
        return [decode_entry(row.body) for row in self.faults.rows(0)]

    def charges(self):
        """What was charged, by learner's name."""
        names = {key(entry.name).public: entry.name for entry in self.policy.learners}
        found = dict.fromkeys(names.values(), Fraction(0))
        for entry in self.entries():
            if entry.kind == "charge":
                found[names[entry.learner]] += Fraction(entry.amount)
        return found

    def close(self):
        self.faults.close()


class Asker:
    """One study of one learner, as far as a test wants to keep the rules.

    Attributes:
        plan: [(planned query, body)], as proposed.
        sequence: of the last request that the curator accepted.
        pending: a request that may still be answered.
        open: whether it was accepted and not closed.
    """

    def __init__(self, served, name, number):
        self.served, self.name, self.number = served, name, number
        self.plan, self.sequence, self.last_reply = [], 0, NO_DIGEST
        self.pending, self.open, self.receipt = b"", False, b""

    def header(self, **changes):
        fields = {
            "study": self.number.to_bytes(16, "big"),
            "sender": key(self.name).public,
            "recipient": self.served.curator.identity,
            "sequence": self.sequence + 1,
            "answers": self.last_reply,
            "expires_at": self.served.clock() + 600,
        }
        return {**fields, **changes}

    def card(self):
        return self.served.send(seal(CardRequest(**self.header(sequence=0)), key(self.name)))

    def propose(self, plan, *, receipt=b"", **changes):
        self.plan = list(plan)
        planned = Plan.of(planned for planned, _ in plan)
        head = self.header(**{"sequence": 0, **changes})
        return self.send(StudyProposal(**head, plan=planned, purpose="", newest_receipt=receipt))

    def ask(self, *, body=None, kind=None, **changes):
        """The plan's next query, or what is pending; with changes where told."""
        if self.pending:
            return self.resend()
        planned, planned_body = self.plan[min(self.sequence, len(self.plan) - 1)]
        body = planned_body if body is None else body
        return self.send(Query(**self.header(**changes), kind=kind or planned.kind, body=body))

    def finish(self):
        return self.send(StudyClose(**self.header()))

    def send(self, message):
        self.pending = seal(message, key(self.name))
        return self.resend()

    def resend(self):
        """Send what is pending (again) and take the reply in."""
        reply = self.served.send(self.pending)
        message = open_envelope(reply)[1]
        if isinstance(message, Refusal):
            if message.final:
                self.pending = b""
            return message
        self.pending, self.receipt, self.last_reply = b"", message.receipt, digest(reply)
        self.sequence = message.sequence
        if isinstance(message, StudyAccepted | StudyClosed):
            self.open = isinstance(message, StudyAccepted)
        return message


def releases_of(served):
    """Each answer that left, once: {(learner's key, study, sequence, body)}, and the amount of its receipt."""
    found = {}
    for reply in served.got:
        message = open_envelope(reply)[1]
        if isinstance(message, Release):
            receipt = msgspec.msgpack.decode(msgspec.msgpack.decode(message.receipt)["payload"])
            found[message.recipient, message.study, message.sequence, message.body] = Fraction(receipt["charged"])
    return found
