"""Questions a second of one curator and eight learners, each in a process of its own, over bare commits of its disk.

A learner has studies one after the other: plan, 40 questions of 22 attributes in ten bins, close. It signs, sends its
envelope over a socket, and verifies and reads the reply before it asks again. The curator counts 10,000 records, draws
OpenDP's noise and keeps its ledger on disk. Before and after, one connection commits rows of the same length with the
same settings of SQLite, one at a time: so many commits a second this disk makes durable. With PostgreSQL, two curators
share a ledger and four learners ask each.

    python -m benchmarks.throughput curator FOLDER LEDGER MARK    # a curator: see `serve`
    python -m benchmarks.throughput learner SOCKET CURATOR SEED SECONDS    # a learner: see `ask`

Set EXPRIL_BENCHMARK_FOLDER to measure another disk than that of the temporary folder, and EXPRIL_BENCHMARK_POSTGRESQL
to the URL of an empty database, which gets a ledger.
"""

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any, Self

import numpy as np
import polars as pl

from benchmarks.common import Result, at_least, bins_of, machine, median, schema_of, spread, steward_of
from curator_node.ledger.places import create_ledger_file, open_ledger_file
from curator_node.ledger.store import DatabaseStore
from curator_node.policy import LearnerPolicy, Policy
from curator_node.site import Site, assemble_site, hold_records, now
from curator_node.steward.desk import join_ledger
from learner_node.kinds import READERS
from learner_node.study.session import Session
from protocol.codec import encode
from protocol.envelopes import SigningKey, digest
from protocol.hypotheses import Constant
from protocol.kinds.counts import CountsBody, PlannedCounts
from protocol.messages import Release
from protocol.plans import Plan
from protocol.query_kind import Question, Turn
from protocol.rationals import Rational

LEARNERS, RECORDS, ATTRIBUTES, BINS, QUESTIONS = 8, 10_000, 22, 10, 40
SECONDS, BARE_SECONDS = 15.0, 2.0
TARGET = 600
ROW = 700
"""Bytes of a charge's entry with its signature."""
KEY = SigningKey.from_seed(digest(b"a curator of a benchmark"))


def learner_key(number: int) -> SigningKey:
    """The key of a learner."""
    return SigningKey.from_seed(digest(b"learner %d of a benchmark" % number))


# --- The curator's process


def open_site(ledger: Path | str, mark: Path) -> Site:
    """A site with drawn records."""
    rng = np.random.default_rng(0)
    columns = {f"a{i}": rng.random(RECORDS) for i in range(ATTRIBUTES)}
    frame = pl.DataFrame({**columns, "label": np.where(np.arange(RECORDS) % 2, "yes", "no")})
    named = [LearnerPolicy(name=f"learner{i}", key=learner_key(i).public.hex(), cap="100000") for i in range(LEARNERS)]
    policy = Policy(name="site", cap="1000000", requests_per_day=10**6, learners=tuple(named))
    dataset = hold_records(frame, steward_of(schema_of(ATTRIBUTES), RECORDS), policy, KEY)
    return assemble_site(dataset, policy, key=KEY, ledger=open_ledger_file(ledger, KEY, mark=mark))


class CountedCommits:
    """The commits of a store, and the entries in them."""

    def __init__(self, store: Any) -> None:
        self._append, self.commits, self.entries = store.append, 0, 0
        store.append = self._counted

    def _counted(self, *rows: Any, **more: Any) -> None:
        self._append(*rows, **more)
        self.commits, self.entries = self.commits + 1, self.entries + len(rows)


def serve(folder: Path, ledger: Path | str, mark: Path) -> None:
    """Serve at FOLDER/socket; for each line that is read, print what was done since the start."""
    with open_site(ledger, mark) as site, Listener(str(folder / "socket"), "AF_UNIX", backlog=64) as door:
        counted = CountedCommits(site.ledger.store)
        threading.Thread(target=_admit, args=(door, site), daemon=True).start()
        _tell(identity=site.identity.hex())
        for _ in sys.stdin:
            _tell(processor=time.process_time(), commits=counted.commits, entries=counted.entries)
        os._exit(0)  # threads that wait for a question are left


def _admit(door: Listener, site: Site) -> None:
    while True:
        threading.Thread(target=_answer, args=(door.accept(), site), daemon=True).start()


def _answer(line: Connection, site: Site) -> None:
    while True:
        try:
            line.send_bytes(site.handle(line.recv_bytes()))
        except EOFError:
            return


# --- A learner's process


def ask(place: str, curator: bytes, number: int, lasting: float) -> None:
    """Say that it is ready, wait for a line, ask for some seconds, and print how long each question took."""
    key, schema = learner_key(number), schema_of(ATTRIBUTES)
    planned = PlannedCounts(release="signed_error", partitions=ATTRIBUTES, scale=Rational.of(10))
    body = CountsBody(partitions=bins_of(ATTRIBUTES, BINS), hypothesis=Constant(predicted=1))
    question = Question(Turn(planned), body, schema)
    taken: list[float] = []
    with Client(place, "AF_UNIX") as line:
        _tell(ready=True)
        sys.stdin.readline()
        end, processor = time.perf_counter() + lasting, time.process_time()
        while time.perf_counter() < end:
            session = Session(curator=curator, key=key, study=os.urandom(16))

            def send(data: bytes, session: Session = session) -> object:
                line.send_bytes(data)
                return session.receive(line.recv_bytes())

            send(session.propose(Plan.of([planned] * QUESTIONS), "benchmark", now()))
            for _ in range(QUESTIONS):
                if (start := time.perf_counter()) >= end:
                    break
                reply = send(session.query("counts", encode(body), now()))
                assert isinstance(reply, Release), reply
                READERS["counts"].read(reply.body, question)
                taken.append(time.perf_counter() - start)
            send(session.close(now()))
        _tell(taken=taken, processor=time.process_time() - processor)


def _tell(**line: object) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


# --- The measurement


@dataclass(frozen=True)
class Load:
    """What the learners got of the curators."""

    taken: list[float]  # seconds of each question
    lasted: float  # seconds in all
    curators: float  # of it, seconds of the curators' processors
    learners: float  # seconds of the learners' processors
    commits: int
    entries: int

    @property
    def rate(self) -> float:
        """Questions a second."""
        return len(self.taken) / self.lasted


class Program:
    """A process of this module, told lines and telling JSON."""

    def __init__(self, *arguments: object) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.throughput", *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def go(self) -> None:
        """Tell it a line."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def told(self) -> dict[str, Any]:
        """The next thing that it tells."""
        assert self._process.stdout is not None
        return dict(json.loads(self._process.stdout.readline()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()


def loaded(folder: Path, ledger: Path | str, marks: list[Path]) -> Load:
    """Eight learners ask the curators of one ledger, one for each mark, for some seconds."""
    with ExitStack() as running:
        curators = []
        for number, mark in enumerate(marks):
            place = folder / str(number)
            place.mkdir()
            curators.append(running.enter_context(Program("curator", place, ledger, mark)))
        identity = next(iter({curator.told()["identity"] for curator in curators}))
        learners = [
            running.enter_context(Program("learner", folder / str(n % len(marks)) / "socket", identity, n, SECONDS))
            for n in range(LEARNERS)
        ]
        for learner in learners:
            learner.told()
        before = _counted(curators)
        start = time.perf_counter()
        for learner in learners:
            learner.go()
        done = [learner.told() for learner in learners]
        lasted = time.perf_counter() - start
        after = _counted(curators)
    used = {name: after[name] - before[name] for name in after}
    taken = [seconds for each in done for seconds in each["taken"]]
    spent = sum(each["processor"] for each in done)
    return Load(taken, lasted, used["processor"], spent, int(used["commits"]), int(used["entries"]))


def _counted(curators: list[Program]) -> dict[str, float]:
    for curator in curators:
        curator.go()
    told = [curator.told() for curator in curators]
    return {name: sum(each[name] for each in told) for name in told[0]}


def bare_commits(folder: Path) -> float:
    """Commits a second of one row each, with the settings of a ledger."""
    path = folder / f"bare-{time.monotonic_ns()}"
    with closing(sqlite3.connect(path)) as bare:
        for setting in ("journal_mode=WAL", "synchronous=FULL", "secure_delete=ON"):
            bare.execute(f"PRAGMA {setting}")
        bare.execute("CREATE TABLE entries (entry_index BIGINT PRIMARY KEY NOT NULL, body BLOB NOT NULL)")
        bare.commit()
        count, start = 0, time.perf_counter()
        while time.perf_counter() < start + BARE_SECONDS:
            bare.execute("INSERT INTO entries VALUES (?, ?)", (count, bytes(ROW)))
            bare.commit()
            count += 1
        return count / (time.perf_counter() - start)


@contextmanager
def _new_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=os.environ.get("EXPRIL_BENCHMARK_FOLDER")) as folder:
        yield Path(folder)


def run() -> list[Result]:
    """See the module."""
    with _new_folder() as folder:
        ledger, mark = folder / "curator.ledger", folder / "curator.mark"
        create_ledger_file(ledger, KEY, now=now(), mark=mark)
        commits = [bare_commits(folder)]
        load = loaded(folder, ledger, [mark])
        commits.append(bare_commits(folder))
    bare = sum(commits) / len(commits)
    results = [
        at_least("SQLite: questions a second", load.rate, TARGET, "1/s", note=_note(load)),
        Result("SQLite: bare commits a second", bare, "1/s", spread=spread(commits), note="before and after"),
        Result(
            "SQLite: questions over bare commits",
            load.rate / bare,
            "",
            note="a question is two commits and a mark, each durable before the next",
        ),
        *_details("SQLite", load),
    ]
    if url := os.environ.get("EXPRIL_BENCHMARK_POSTGRESQL"):
        with _new_folder() as folder:
            marks = [folder / "first.mark", folder / "second.mark"]
            DatabaseStore(url, create=True).close()
            create_ledger_file(url, KEY, now=now(), mark=marks[0])
            join_ledger(url, KEY, marks[1], beside=marks[0])
            load = loaded(folder, url, marks)
        results += [
            Result("PostgreSQL, two curators: questions a second", load.rate, "1/s", note=_note(load)),
            *_details("PostgreSQL", load),
        ]
    return results


def _note(load: Load) -> str:
    return f"{len(load.taken)} questions of {LEARNERS} learners in processes of their own, {RECORDS} records"


def _details(name: str, load: Load) -> list[Result]:
    number = len(load.taken)
    most = number * machine()["cores"] / (load.curators + load.learners)
    return [
        Result(f"{name}: questions a second if no core ever waits", most, "1/s", note="at the processor times below"),
        Result(f"{name}: a question", median(load.taken) * 1e3, "ms", spread=spread(load.taken, 1e3)),
        Result(f"{name}: entries a commit", load.entries / load.commits, "", note=f"{load.commits} commits"),
        Result(f"{name}: processor of the curators, a question", load.curators / number * 1e3, "ms"),
        Result(f"{name}: processor of the learners, a question", load.learners / number * 1e3, "ms"),
    ]


if __name__ == "__main__":
    if sys.argv[1] == "curator":
        ledger = sys.argv[3]
        serve(Path(sys.argv[2]), ledger if "://" in ledger else Path(ledger), Path(sys.argv[4]))
    else:
        ask(sys.argv[2], bytes.fromhex(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5]))
