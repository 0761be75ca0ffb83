"""Questions a second that one curator sustains from 8 learners in its process, with a real ledger on disk.

Each learner, a thread, has studies of its own one after the other: card, plan, 40 questions, close. All of them go to
the same `handle`, with signatures, OpenDP's noise and a SQLite ledger that is synced for each answer. What the learners
themselves compute in this process, seals and checks of signatures, is part of what is measured.
"""

import tempfile
import threading
import time
from fractions import Fraction
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.common import Result, at_least, bins_of, median, schema_of, spread, steward_of
from curator_node.ledger.places import create_ledger_file, open_ledger_file
from curator_node.policy import LearnerPolicy, Policy
from curator_node.site import Site, assemble_site, hold_records, now
from learner_node.study.study import Study
from protocol.envelopes import SigningKey
from protocol.hypotheses import Constant
from protocol.kinds.counts import CountsBody, PlannedCounts
from protocol.plans import Plan
from protocol.rationals import Rational
from simulations.carriers.direct import direct_federation

LEARNERS, ATTRIBUTES, BINS, QUESTIONS = 8, 22, 10, 40
SIZES = (10_000, 100_000)
SECONDS = 15.0


def open_disk_site(folder: Path, records: int, learners: list[SigningKey]) -> Site:
    """A site with drawn records, and its ledger in a folder."""
    rng = np.random.default_rng(0)
    columns = {f"a{i}": rng.random(records) for i in range(ATTRIBUTES)}
    frame = pl.DataFrame({**columns, "label": np.where(np.arange(records) % 2, "yes", "no")})
    named = [LearnerPolicy(name=f"learner{i}", key=key.public.hex(), cap="100000") for i, key in enumerate(learners)]
    policy = Policy(name="site", cap="1000000", learners=tuple(named))
    key = SigningKey.generate()
    create_ledger_file(folder / "curator.ledger", key, now=now())
    dataset = hold_records(frame, steward_of(schema_of(ATTRIBUTES), records), policy, key)
    ledger = open_ledger_file(folder / "curator.ledger", key)
    return assemble_site(dataset, policy, key=key, ledger=ledger)


def ask_until(site: Site, key: SigningKey, end: float, taken: list[float]) -> None:
    """One learner's studies; what each question took."""
    planned = PlannedCounts(release="signed_error", partitions=ATTRIBUTES, scale=Rational.of(Fraction(10)))
    body = CountsBody(partitions=bins_of(ATTRIBUTES, BINS), hypothesis=Constant(predicted=1))
    while time.perf_counter() < end:
        study = Study(direct_federation({"site": site}, key))
        study.propose(Plan.of([planned] * QUESTIONS), "benchmark", list(study.read_cards()))
        for _ in range(QUESTIONS):
            start = time.perf_counter()
            if start >= end:
                break
            study.ask({"site": body})
            taken.append(time.perf_counter() - start)
        study.close()


def measured(records: int) -> tuple[float, list[float]]:
    """Questions a second, and seconds of each."""
    keys = [SigningKey.generate() for _ in range(LEARNERS)]
    with tempfile.TemporaryDirectory() as folder, open_disk_site(Path(folder), records, keys) as site:
        ask_until(site, keys[0], time.perf_counter() + 1, [])  # workloads are encoded
        taken: list[list[float]] = [[] for _ in keys]
        start = time.perf_counter()
        threads = [
            threading.Thread(target=ask_until, args=(site, key, start + SECONDS, mine))
            for key, mine in zip(keys, taken, strict=True)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        all_of_them = [each for mine in taken for each in mine]
        return len(all_of_them) / (time.perf_counter() - start), all_of_them


def run() -> list[Result]:
    """See the module."""
    found = []
    for records in SIZES:
        rate, taken = measured(records)
        size = f"{records} records x {ATTRIBUTES} attributes x {BINS} bins"
        note = f"{len(taken)} questions of {LEARNERS} learners, SQLite ledger"
        if records == SIZES[0]:
            found.append(at_least(f"questions a second, {size}", rate, 50, "1/s", note=note))
        else:
            found.append(Result(f"questions a second, {size}", rate, "1/s", note=note))
        found.append(
            Result(
                f"a question, {size}",
                median(taken) * 1e3,
                "ms",
                spread=spread(taken, 1e3),
                note="waits for the other learners",
            )
        )
    return found
