"""Fakes for the curator's tests: a clock that is told, zero noise that remembers, stores that fail on order, a learner.

No mocks: every fake obeys the contract of what it stands in for.
"""

import copy
import secrets
import weakref
from fractions import Fraction
from warnings import catch_warnings, simplefilter

import msgspec
import numpy as np
import polars as pl

from curator_node.answering import CuratorQuestion, Seat
from curator_node.curator import Curator
from curator_node.kinds import ANSWERERS
from curator_node.ledger import Ledger, create_ledger
from curator_node.ledger.marks import MemoryMark
from curator_node.ledger.store import LedgerUnavailableError, MemoryStore
from curator_node.mechanisms import ExactNoise
from curator_node.policy import LearnerPolicy, Policy
from curator_node.records.dataset import PrivateDataset, StewardWarning
from curator_node.records.schema_file import SchemaFile
from curator_node.site import assemble_site
from learner_node.study.session import Session
from protocol.codec import decode, encode
from protocol.envelopes import LABEL, SigningKey, open_envelope
from protocol.hypotheses import Constant
from protocol.kinds import QUERY_KINDS
from protocol.kinds.counts import CountsBody, CountsRelease, PlannedCounts
from protocol.messages import Refusal
from protocol.partitions import FeatureBins
from protocol.plans import Plan
from protocol.query_kind import Turn
from protocol.rationals import Rational
from protocol.schema import CategoricalAttribute, NumericAttribute

NOW = 1_800_000_000
UNIT_KEY = b"a secret of the steward's"

ATTRIBUTES = (
    NumericAttribute(name="age", lower=0, upper=120),
    NumericAttribute(name="dose", lower=-5, upper=5),
    CategoricalAttribute(name="sex", levels=("f", "m")),
)


def altered(kind, **methods):
    """The same query kind, or auditor's half of one, with other methods: functions without `self`."""
    changed = copy.copy(kind)
    vars(changed).update(methods)
    return changed


def key(name: str) -> SigningKey:
    """A fixed key for a name."""
    return SigningKey.from_seed(name.encode().ljust(32, b"."))


def toml(value):
    """The text of a TOML file; a key whose value is None is left out."""
    fields = msgspec.to_builtins(value)
    return msgspec.toml.encode({name: field for name, field in fields.items() if field is not None}).decode()


class Clock:
    """Says what it was told."""

    def __init__(self, now=NOW):
        self.now = now

    def __call__(self):
        return self.now

    def advance(self, seconds):
        self.now += seconds


class ZeroNoise:
    """A noise source that adds nothing and keeps what it was given."""

    seeded = False

    def __init__(self):
        self.calls = []

    def discrete_laplace(self, exact, l1, law, stamp):
        self.calls.append((exact.copy(), l1, law, stamp))
        return exact

    def laplace_shares(self, size, law, parts, stamp):
        self.calls.append((size, parts, law, stamp))
        return np.zeros(size, np.int64)

    def laplace(self, size, scale, stamp):
        self.calls.append((size, None, scale, stamp))
        return np.zeros(size)

    def choose(self, scores, moved, law, stamp):
        return int(scores.argmax())

    def randomness(self, stamp):
        return np.random.default_rng(0).bytes


class CountingNoise(ExactNoise):
    """A curator's own noise, and how often it was drawn."""

    def __init__(self):
        self.draws = 0

    def discrete_laplace(self, exact, l1, law, stamp):
        self.draws += 1
        return super().discrete_laplace(exact, l1, law, stamp)

    def laplace_shares(self, size, law, parts, stamp):
        self.draws += 1
        return super().laplace_shares(size, law, parts, stamp)


class FlakyStore:
    """A store that fails before or after writing, at chosen writes; reads always work.

    `failures` is consumed from the left by each append: "" works, "before" raises and writes nothing, "after" writes
    and raises nevertheless (a lost acknowledgement). `full` fails every write.
    """

    def __init__(self, inner=None):
        self.inner = inner or MemoryStore()
        self.failures = []
        self.full = False

    def _write(self, write):
        how = "before" if self.full else self.failures.pop(0) if self.failures else ""
        if how == "before":
            raise LedgerUnavailableError("no space left")
        written = write()
        if how == "after":
            raise LedgerUnavailableError("the acknowledgement was lost")
        return written

    def append(self, *rows, **more):
        return self._write(lambda: self.inner.append(*rows, **more))

    def remember(self, *refusal):
        if self.full:
            raise LedgerUnavailableError("no space left")
        self.inner.remember(*refusal)

    def __getattr__(self, name):
        return getattr(self.inner, name)


MARKS = weakref.WeakKeyDictionary()
"""The mark of the one process that the tests play, by store."""


class CountingEntropy:
    """Nonces that never repeat, without randomness: the same for every curator that does the same."""

    def __init__(self):
        self.drawn = 0

    def __call__(self, size):
        self.drawn += 1
        return self.drawn.to_bytes(size, "big")


def ledger_over(store=None, name="basel", entropy=secrets.token_bytes) -> Ledger:
    """The ledger of a store; a new one where it is empty. Calling it again is a restart with the same mark."""
    store = MemoryStore() if store is None else store
    if not store.rows(0):
        MARKS[store] = MemoryMark()
        create_ledger(store, key(name), MARKS[store], now=NOW, entropy=entropy)
    return Ledger(store, key=key(name), mark=MARKS.setdefault(store, MemoryMark()), entropy=entropy)


def steward_file(*, most=1, unit=False, round_size=100) -> SchemaFile:
    """Two numbers, a category, the label "sick"; optionally patients of at most `most` records."""
    return SchemaFile(
        label="sick",
        classes=("no", "yes"),
        attributes=ATTRIBUTES,
        unit="patient" if unit or most > 1 else None,
        most_records_per_unit=most,
        round_size=round_size,
    )


ROWS = (
    ("p1", 20.0, -1.5, "f", "no"),
    ("p1", 44.0, 0.0, "m", "yes"),
    ("p2", 71.5, None, "m", "yes"),
    ("p3", None, 4.9, None, "no"),
    ("p4", 118.0, 2.0, "x", "yes"),
)


def frame_of(rows) -> pl.DataFrame:
    """(patient, age, dose, sex, sick) tuples as a data frame."""
    schema = {"patient": pl.String, "age": pl.Float64, "dose": pl.Float64, "sex": pl.String, "sick": pl.String}
    return pl.DataFrame(list(rows), schema=schema, orient="row")


def hold(frame, steward, cache_bytes=10**6) -> PrivateDataset:
    """Records as a curator holds them, with the tests' key of units; what only the steward is told is left unsaid."""
    with catch_warnings():
        simplefilter("ignore", StewardWarning)
        return PrivateDataset(frame, steward, unit_key=UNIT_KEY, cache_bytes=cache_bytes)


def dataset(rows=ROWS, *, most=1, unit=False, cache_bytes=10**6) -> PrivateDataset:
    """The rows as a curator holds them; in five records one undeclared level is more than a tenth."""
    return hold(frame_of(rows), steward_file(most=most, unit=unit), cache_bytes)


def policy(learners=("ann", "bob"), *, cap=1, learner_cap=None, **options) -> Policy:
    """A policy for learners by name, each with the whole cap unless told."""
    entries = tuple(LearnerPolicy(name=n, key=key(n).public.hex(), cap=learner_cap or cap) for n in learners)
    return Policy(name="basel", cap=cap, learners=entries, **options)


def open_curator(
    store=None,
    *,
    rules=None,
    clock=None,
    noise=None,
    records=None,
    name="basel",
    entropy=secrets.token_bytes,
    answerers=ANSWERERS,
) -> Curator:
    """A curator over any store; calling it again with the same store is a restart."""
    return assemble_site(
        records or dataset(),
        rules or policy(),
        key=key(name),
        ledger=ledger_over(store, name, entropy),
        clock=clock or Clock(),
        noise=noise,
        entropy=entropy,
        answerers=answerers,
    ).curator


def planned(scale=30, *, m=1, release="mass", kind="counts"):
    """One planned query; it costs m / scale where the unit is a record. Of another kind: a mapping with its parts."""
    parts = {"release": release, "partitions": m, "scale": Rational.of(Fraction(scale))}
    return PlannedCounts(**parts) if kind == "counts" else {"kind": kind, **parts}


def plan_of(*scales, **options) -> Plan:
    """A plan of one query for each scale."""
    return Plan.of(planned(scale, **options) for scale in scales)


def mass_body(*edges, m=1) -> bytes:
    """The encoded body of `m` equal partitions by age."""
    bins = FeatureBins(attribute="age", edges=tuple(edges) or (30.0, 60.0))
    return encode(CountsBody(partitions=(bins,) * m, hypothesis=None))


def error_body(hypothesis=Constant(predicted=1), m=1) -> bytes:  # noqa: B008 - frozen
    """The encoded body of an error count."""
    bins = FeatureBins(attribute="age", edges=(30.0,))
    return encode(CountsBody(partitions=(bins,) * m, hypothesis=hypothesis))


def release_of(body, planned, dataset, noise, stamp) -> bytes:
    """What the answerer of a planned query's kind releases on its first turn; it keeps nothing."""
    seat = Seat.of(key("basel"), LABEL, key("ann").public, CountingEntropy())
    answerer = ANSWERERS[planned.kind]
    question = CuratorQuestion(Turn(planned), body, dataset.schema, (), b"", stamp, seat)
    told = answerer.answer(question, dataset, noise)
    assert told.state is None
    return told.release


def numbers(release) -> list[int]:
    """The counts of a Release."""
    return np.frombuffer(decode(release.body, CountsRelease).counts, "<i8").tolist()


def message_of(reply: bytes):
    """The message inside an envelope, unverified."""
    return open_envelope(reply)[1]


class Learner:
    """A learner's sessions with one curator; `ask` sends the pending request and takes the reply in."""

    def __init__(
        self, curator, name="ann", *, clock=None, study=b"", receipt=b"", allow_not_private=False, kinds=QUERY_KINDS
    ):
        self.curator = curator
        self.clock = clock or Clock()
        self.session = Session(
            curator=curator.identity,
            key=key(name),
            study=(study or name.encode()).ljust(16, b"-"),
            newest_receipt=receipt,
            allow_not_private=allow_not_private,
            kinds=kinds,
        )

    def ask(self):
        """Send what is pending (again), and receive."""
        return self.session.receive(self.curator.handle(self.session.pending))

    def card(self):
        self.session.request_card(self.clock())
        return self.ask()

    def propose(self, plan=None):
        self.session.propose(plan or plan_of(30, 30), "a test", self.clock())
        return self.ask()

    def query(self, body=None, kind="counts"):
        self.session.query(kind, body or mass_body(), self.clock())
        return self.ask()

    def close(self):
        self.session.close(self.clock())
        return self.ask()


def opened(curator, name="ann", *, plan=None, **options) -> Learner:
    """A learner whose study is open."""
    learner = Learner(curator, name, **options)
    reply = learner.propose(plan)
    assert not isinstance(reply, Refusal), reply
    return learner


def primes_from(start: int, count: int) -> list[int]:
    """`count` numbers not below `start` that pass Fermat's test: as good as coprime."""
    found: list[int] = []
    while len(found) < count:
        if start % 2 and pow(2, start - 1, start) == 1:
            found.append(start)
        start += 1
    return found
