"""A charge and its answer in a ledger on disk, against a bare commit of SQLite with the same durability there.

The bare commit appends one row of the same length as a charge's to a write-ahead log with full synchronisation (one
sync). The ledger commits the charge, commits the answer's digest together with the reply, and moves its mark: two syncs
more, two signatures, and the chain. All in turn. Set EXPRIL_BENCHMARK_FOLDER to measure another disk than that of the
temporary folder.
"""

import os
import sqlite3
import tempfile
from fractions import Fraction
from pathlib import Path

from benchmarks.common import NOW, Result, at_most, interleaved, median, spread
from curator_node.ledger import Caps, Reservation, StudyKey
from curator_node.ledger.places import create_ledger_file, open_ledger_file
from protocol.envelopes import SigningKey
from protocol.kinds import QUERY_KINDS
from protocol.kinds.counts import PlannedCounts
from protocol.plans import Plan
from protocol.rationals import Rational

CHARGES = 500
REPLY = 2000
"""Bytes of a stored reply: an envelope with a receipt and few numbers."""


def run() -> list[Result]:
    """See the module."""
    planned = PlannedCounts(release="mass", partitions=22, scale=Rational.of(10))
    cost = QUERY_KINDS.cost(planned, 1)
    with tempfile.TemporaryDirectory(dir=os.environ.get("EXPRIL_BENCHMARK_FOLDER")) as folder:
        path, key = Path(folder) / "site.ledger", SigningKey.generate()
        create_ledger_file(path, key, now=NOW)
        ledger = open_ledger_file(path, key)
        ledger.begin("a benchmark", NOW)
        bare = sqlite3.connect(Path(folder) / "bare.sqlite")
        bare.execute("PRAGMA journal_mode=WAL")
        bare.execute("PRAGMA synchronous=FULL")
        bare.execute("CREATE TABLE entries (entry_index BIGINT PRIMARY KEY NOT NULL, body BLOB NOT NULL)")
        bare.commit()
        plan = Plan.of((planned,) * CHARGES)
        study = StudyKey(bytes(31) + b"l", bytes(15) + b"s")
        caps = Caps(learner=Fraction(10**6), total=Fraction(10**6))
        ledger.reserve(Reservation(study, plan, (cost,) * CHARGES, b"r" * 32, NOW + 10), caps, NOW)
        ledger.answer(b"r" * 32, lambda _: bytes(REPLY), NOW)
        charged = committed = 0

        def charge() -> None:
            nonlocal charged
            charged += 1
            request = charged.to_bytes(32, "big")
            ledger.charge(study, charged, cost, request, NOW)
            ledger.answer(request, lambda _: bytes(REPLY), NOW)
            ledger.settle()

        charge()
        body = ledger.store.rows(ledger.account.next_index - 2)[0].body

        def commit() -> None:
            nonlocal committed
            committed += 1
            bare.execute("INSERT INTO entries VALUES (?, ?)", (committed, body))
            bare.commit()

        ours, theirs = interleaved([charge, commit], CHARGES - 20, warm_up=10)
        bare.close()
        ledger.close()
    above = sorted(a - b for a, b in zip(ours, theirs, strict=True))
    quarter = len(above) // 4
    return [
        at_most(
            "charge and answer above a bare commit",
            median(above) * 1e3,
            2,
            "ms",
            spread=(above[quarter] * 1e3, above[-quarter] * 1e3),
            note="median and middle half of paired differences; two more syncs",
        ),
        Result("charge and answer on disk", median(ours) * 1e3, "ms", spread=spread(ours, 1e3)),
        Result("bare commit", median(theirs) * 1e3, "ms", spread=spread(theirs, 1e3)),
    ]
