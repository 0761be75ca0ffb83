"""A charge in a ledger on disk, against a bare commit of SQLite with the same durability on the same disk.

Both append one row of the same length to a write-ahead log with full synchronisation (one fsync), in turn. Set
EXPRIL_BENCHMARK_FOLDER to measure another disk than that of the temporary folder.
"""

import os
import sqlite3
import tempfile
from fractions import Fraction
from pathlib import Path

from benchmarks.common import NOW, Result, at_most, interleaved, median, spread
from curator_node.ledger import Caps, Ledger, Reservation
from curator_node.ledger.store import DatabaseStore, sqlite_url
from protocol.plans import Plan, PlannedQuery
from protocol.queries import query_cost
from protocol.rationals import Rational

CHARGES = 500


def run() -> list[Result]:
    """See the module."""
    planned = PlannedQuery(kind="counts", release="mass", partitions=22, scale=Rational.of(10))
    cost = query_cost(planned, 1)
    with tempfile.TemporaryDirectory(dir=os.environ.get("EXPRIL_BENCHMARK_FOLDER")) as folder:
        store = DatabaseStore(sqlite_url(Path(folder) / "ledger.sqlite"))
        ledger = Ledger(store)
        bare = sqlite3.connect(Path(folder) / "bare.sqlite")
        bare.execute("PRAGMA journal_mode=WAL")
        bare.execute("PRAGMA synchronous=FULL")
        bare.execute("CREATE TABLE entries (entry_index BIGINT PRIMARY KEY NOT NULL, body BLOB NOT NULL)")
        bare.commit()
        plan = Plan(queries=(planned,) * CHARGES)
        study, learner = bytes(16), bytes(32)
        caps = Caps(learner=Fraction(10**6), total=Fraction(10**6))
        ledger.reserve(Reservation(study, learner, plan, cost * CHARGES, bytes(32), NOW + 10), caps, NOW)
        charged = committed = 0

        def charge() -> None:
            nonlocal charged
            charged += 1
            ledger.charge(study, charged, cost, charged.to_bytes(32, "big"), NOW)

        charge()
        body = store.entries(1)[0][1]

        def commit() -> None:
            nonlocal committed
            committed += 1
            bare.execute("INSERT INTO entries VALUES (?, ?)", (committed, body))
            bare.commit()

        ours, theirs = interleaved([charge, commit], CHARGES - 20, warm_up=10)
        bare.close()
        store.close()
    above = sorted(a - b for a, b in zip(ours, theirs, strict=True))
    quarter = len(above) // 4
    return [
        at_most(
            "charge above a bare commit",
            median(above) * 1e3,
            1,
            "ms",
            spread=(above[quarter] * 1e3, above[-quarter] * 1e3),
            note="median and middle half of paired differences",
        ),
        Result("charge on disk", median(ours) * 1e3, "ms", spread=spread(ours, 1e3)),
        Result("bare commit", median(theirs) * 1e3, "ms", spread=spread(theirs, 1e3)),
    ]
