"""Curators that sum together, and a learner that relays for them and may lie at every turn."""

import secrets
from fractions import Fraction

import msgspec
import numpy as np

from curator_fakes import MARKS, NOW, ZeroNoise, dataset, key, ledger_over, policy
from curator_node.ledger.marks import MemoryMark
from curator_node.ledger.places import create_ledger_file, open_ledger_file
from curator_node.ledger.store import MemoryStore
from curator_node.site import assemble_site
from learner_node.study.session import Session
from protocol.codec import decode, encode
from protocol.envelopes import LABEL, open_envelope, seal
from protocol.hypotheses import Constant
from protocol.kinds.counts import COUNTS, CountsBody, CountsLimits
from protocol.kinds.secure_counts import (
    NONCE,
    RELEASES,
    AskKeys,
    OpenSum,
    PlannedSecureCounts,
    ProposeSurvivors,
    RelayCards,
    RelayShares,
    question_digest,
)
from protocol.limits import Limits
from protocol.messages import Refusal, Release
from protocol.partitions import FeatureBins
from protocol.plans import Plan
from protocol.query_kind import KindTerms, Question, Turn
from protocol.rationals import Rational
from protocol.secure_sum.aggregator import Aggregator, as_words

KIND = "secure_counts"
SCALE = Rational.of(Fraction(30))
ROWS = (
    ("p1", 20.0, -1.5, "f", "no"),
    ("p2", 44.0, 0.0, "m", "yes"),
    ("p3", 71.5, None, "m", "yes"),
    ("p4", None, 4.9, None, "no"),
)


def body_of(*edges):
    """An encoded body of counts by age."""
    return encode(CountsBody(partitions=(FeatureBins(attribute="age", edges=edges),), hypothesis=None))


BODY = body_of(30.0, 60.0)
ERRORS = encode(CountsBody((FeatureBins(attribute="age", edges=(30.0, 50.0)),), Constant(predicted=1)))


def names(n):
    """Of n curators, by rising identity key: the index of a name is that of the participant."""
    return sorted((f"site {number}" for number in range(n)), key=lambda name: key(name).public)


def rules_of(n, *, least_colluders=1, members=None, cap=10, **options):
    """A policy that pools with all n."""
    members = tuple(key(name).public.hex() for name in names(n)) if members is None else members
    kinds = {"counts": {}, KIND: {"members": members, "least_colluders": least_colluders}}
    return policy(cap=cap, limits=Limits(kinds=kinds), **options)


def planned_of(n, colluders=1, dropouts=0, *, participants=None, release="mass", scale=SCALE, m=1):
    """One planned secure sum."""
    keys = tuple(key(name).public for name in names(n)) if participants is None else tuple(participants)
    return PlannedSecureCounts(
        release=release, partitions=m, scale=scale, turns=5, participants=keys, colluders=colluders, dropouts=dropouts
    )


def site_of(name, store, rules, *, noise=None, rows=ROWS, clock=lambda: NOW, ledger=None, entropy=secrets.token_bytes):
    """A curator over a store; calling it again with the same store is a restart."""
    return assemble_site(
        dataset(rows),
        rules,
        key=key(name),
        ledger=ledger or ledger_over(store, name),
        clock=clock,
        noise=ZeroNoise() if noise is None else noise,
        entropy=entropy,
    ).curator


class Pool:
    """n curators in memory and one learner. Curators and answers are told by index.

    Args:
        n: curators.
        colluders: t.
        dropouts: u.
        queries: planned, one after another; None: one.
        rules: policy of all; None: one that pools with all.
        propose: whether the study is proposed at once.
        noise: of each curator; None: none.
        rows: index -> its records.
        stores: of the curators; None: new ones.
        study: its identity.
    """

    def __init__(
        self,
        n,
        colluders=1,
        dropouts=0,
        *,
        queries=None,
        rules=None,
        propose=True,
        noise=None,
        rows=lambda index: ROWS,
        stores=None,
        study=b"pooled",
    ):
        self.names = names(n)
        self.rules = rules or rules_of(n)
        self.planned = (queries or (planned_of(n, colluders, dropouts),))[0]
        self.plan = Plan.of(queries or (self.planned,))
        self.stores = stores or [MemoryStore() for _ in self.names]
        self.noises = [noise() if noise else ZeroNoise() for _ in self.names]
        self.rows = rows
        self.curators = [None] * n
        for index in range(n):
            self.restart(index)
        self.handle = [self._handler(index) for index in range(n)]
        self.sessions = [
            Session(curator=key(name).public, key=key("ann"), study=study.ljust(16, b"-"), lifetime=3000)
            for name in self.names
        ]
        self.nonce = bytes(NONCE)
        if propose:
            self.accepted = [self.propose(index) for index in range(n)]

    def _handler(self, index):
        def handle(data):  # a restart puts another curator there
            return self.curators[index].handle(data)

        return handle

    def restart(self, index, rules=None):
        """Another process over the same store, with the same mark."""
        self.curators[index] = site_of(
            self.names[index],
            self.stores[index],
            rules or self.rules,
            noise=self.noises[index],
            rows=self.rows(index),
        )
        return self.curators[index]

    def propose(self, index):
        session = self.sessions[index]
        session.request_card(NOW)
        self.card = session.receive(self.handle[index](session.pending))
        session.propose(self.plan, "a test", NOW)
        return session.receive(self.handle[index](session.pending))

    def ask(self, index, body):
        """The reply to a body, a struct or bytes: what is released, or the refusal."""
        session = self.sessions[index]
        session.query(KIND, body if isinstance(body, bytes) else encode(body), NOW)
        return self.send(index)

    def asked_body(self, index):
        """Of the last request of a curator that was answered."""
        return open_envelope(self.sessions[index].transcript.envelopes[-2])[1].body

    def send(self, index):
        session = self.sessions[index]
        number = (session.sequence - 1) % 5
        reply = session.receive(self.handle[index](session.pending))
        return decode(reply.body, RELEASES[number]) if isinstance(reply, Release) else reply

    def turn(self, bodies):
        """Ask each of (index -> body); index -> release of those that answered."""
        replies = {index: self.ask(index, body) for index, body in bodies.items()}
        refused = {index: reply for index, reply in replies.items() if isinstance(reply, Refusal)}
        assert not refused, refused
        return replies

    # a lawful round, step by step; each step may be given fewer curators than the one before

    def aggregator(self, body=BODY, query=0):
        sent = AskKeys(body, self.nonce)
        turn = Turn(self.planned, query, 0)
        return Aggregator(
            self.planned.group(LABEL),
            question_digest(key("ann").public, turn, sent),
            COUNTS.length(Question(turn, self.checked(body), self.card.schema)),
        )

    def checked(self, body):
        return COUNTS.read_body(body, Turn(self.planned), KindTerms(self.card.schema, CountsLimits()))

    def keys(self, who=None, body=BODY, query=0):
        """Turn 0; afterwards `cards` and the machine that relays."""
        self.body, self.machine = body, self.aggregator(body, query)
        cards = self.turn(dict.fromkeys(self._all(who), AskKeys(body, self.nonce)))
        self.cards = self.machine.take_cards(cards)
        return self.cards

    def shares(self, who=None):
        """Turn 1; index -> what it is relayed in turn 2."""
        who = [index for index, _ in self.cards] if who is None else who
        dealt = self.turn({index: RelayCards(self.cards) for index in who})
        self.dealt = self.machine.take_shares({index: release.shares for index, release in dealt.items()})
        return self.dealt

    def relay(self, index):
        """The body of turn 2 for a curator."""
        return RelayShares(self.dealt[index].dealers, self.dealt[index].shares, self.body, self.nonce)

    def masked(self, who=None):
        """Turn 2; the survivor list."""
        came = self.turn({index: self.relay(index) for index in (self.dealt if who is None else who)})
        self.survivors = self.machine.take_masked({index: as_words(each.words) for index, each in came.items()})
        return self.survivors

    def agreed(self, who=None):
        """Turn 3; the signatures to relay."""
        told = self.turn(dict.fromkeys(self.survivors if who is None else who, ProposeSurvivors(self.survivors)))
        self.agreements = self.machine.take_agreements({index: each.signature for index, each in told.items()})
        return self.agreements

    def opened(self, who=None):
        """Turn 4; the sum."""
        body = OpenSum(self.survivors, self.agreements)
        told = self.turn(dict.fromkeys(self.survivors if who is None else who, body))
        return self.machine.take_revealed({index: each.shares for index, each in told.items()})

    def run(self, body=BODY, query=0):
        """A whole round of all curators."""
        self.keys(body=body, query=query)
        self.shares()
        self.masked()
        self.agreed()
        return self.opened()

    def run_without_vector(self, silent):
        """A whole round in which one curator deals, and then falls silent."""
        self.keys()
        self.shares()
        self.masked([index for index in self.dealt if index != silent])
        self.agreed()
        return self.opened()

    def step(self, turn):
        """All curators are asked a turn; what the learner's machine makes of it."""
        return (self.keys, self.shares, self.masked, self.agreed, self.opened)[turn]()

    def until(self, turn):
        """A lawful round up to a turn, which is not asked."""
        for number in range(turn):
            self.step(number)
        return self

    def next_body(self, index, turn):
        """What a lawful learner asks a curator in a turn, after `until`."""
        return (
            lambda: AskKeys(BODY, self.nonce),
            lambda: RelayCards(self.cards),
            lambda: self.relay(index),
            lambda: ProposeSurvivors(self.survivors),
            lambda: OpenSum(self.survivors, self.agreements),
        )[turn]()

    def exact(self, body=BODY, who=None):
        """The sum without noise."""
        checked = self.checked(body)
        return np.sum([dataset(self.rows(index)).exact(checked, self.planned).ravel() for index in self._all(who)], 0)

    def _all(self, who):
        return range(len(self.names)) if who is None else who


def new_mark(store):
    """A mark of a further process over the same store, at the newest entry."""
    mark = MemoryMark()
    mark.write(MARKS[store].read())
    return mark


def request_like(body, sent):
    """Another request of the same sequence as one that was sent, signed by the same learner."""
    _, message = open_envelope(sent)
    return seal(msgspec.structs.replace(message, body=encode(body)), key("ann"))


def pool_with_file(file, *sizes):
    """A pool whose first curator keeps its ledger in a file; and that ledger."""
    pool = Pool(*sizes, propose=False)
    create_ledger_file(file, key(pool.names[0]), now=NOW)
    ledger = open_ledger_file(file, key(pool.names[0]))
    pool.curators[0] = site_of(pool.names[0], None, pool.rules, ledger=ledger)
    pool.accepted = [pool.propose(index) for index in range(len(pool.names))]
    return pool, ledger
