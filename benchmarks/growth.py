"""How time and memory grow with records, attributes, sites, learners, questions and participants of a secure sum.

Each point is measured in a process of its own, `python -m benchmarks.growth WHAT SIZE`, so that its peak of memory is
its own. Times are seconds of processor. What the machine itself can do is measured before. A curve is v(n) = v(n_1) +
c (n - n_1)^e; its exponent e is the slope of the logarithms by least squares.
"""

import json
import os
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.common import (
    NOW,
    Result,
    bins_of,
    federation_of,
    handles_of,
    median,
    open_bench,
    paper_bodies,
    paper_plan,
    peak_memory,
    schema_of,
    seconds,
    steward_of,
)
from benchmarks.secure_rounds import Curators, group_of, run_round
from benchmarks.timing import Asker
from curator_node.curator import Curator
from curator_node.ledger.places import create_ledger_file, open_ledger_file
from curator_node.policy import LearnerPolicy, Policy
from curator_node.site import Site, assemble_site, hold_records, temporary_site
from learner_node.study.study import Study
from protocol.envelopes import SigningKey, is_signed
from protocol.hypotheses import Constant
from protocol.kinds.counts import COUNTS, CountsBody, PlannedCounts
from protocol.limits import Limits
from protocol.query_kind import Question, Turn
from protocol.rationals import Rational
from simulations.carriers import Handle
from simulations.carriers.direct import DirectCarrier
from simulations.carriers.superlink import CA, CERTIFICATE, KEY, LOOPBACK, make_certificates

ATTRIBUTES, BINS = 22, 10
FEW, MANY = 3, 500
"""Repeats of a short time, of which the smallest counts; and of a very short one."""
FEWEST = 2
"""Points above the first that have a slope."""
RISEN = 1.1
LAST = 50
"""Answers at the end of a ledger."""
STUDY = 500
"""Questions of a study."""
Curve = Callable[[int], dict[str, float]]

START, FIRST, NEXT = "at the start", "first answer", "next answer"
CURATORS, LEARNER, PARTICIPANT = (
    "all curators' part of a study",
    "the learner's part of a study",
    "a participant's round",
)
MEMORY, DISK, WORK = "memory", "disk", "work by the policy's rule"
UNITS = {MEMORY: "MiB", DISK: "MiB", WORK: "x 10^9"}
"""Of all that is not seconds of processor."""
MOST_WORK = 10**12
"""The policy's limit, out of the way."""


def records(size: int) -> dict[str, float]:
    """22 attributes in ten bins: taking the records in, the first answer about them; the next one finds its cells."""
    frame = _frame(size, ATTRIBUTES)
    began = time.process_time()
    curator, key = _curator(frame, ATTRIBUTES)
    taken = time.process_time() - began
    turn = Turn(PlannedCounts(release="signed_error", partitions=ATTRIBUTES, scale=Rational.of(10)))
    work = COUNTS.work(Question(turn, _body(ATTRIBUTES), schema_of(ATTRIBUTES)), size)
    return {START: taken, **_answers(curator, key, ATTRIBUTES), WORK: work / 1e9}


def attributes(size: int) -> dict[str, float]:
    """Answers about 100,000 records, in ten bins of each attribute."""
    return _answers(*_curator(_frame(100_000, size), size), size)


def sites(size: int) -> dict[str, float]:
    """A study of three rounds in simulation, 100 records of five attributes each; sites are made before."""
    key, rng = SigningKey.generate(), np.random.default_rng(0)
    held = [open_bench(f"site{place}", 100, 5, key.public, rng).site for place in range(size)]
    spent = [0.0]

    def timed(handle: Handle) -> Handle:
        def answer(data: bytes) -> bytes:
            start = time.process_time()
            reply = handle(data)
            spent[0] += time.process_time() - start
            return reply

        return answer

    handles = {identity: timed(handle) for identity, handle in handles_of(held).items()}
    began = time.process_time()
    study = Study(federation_of(held, key, DirectCarrier(handles)))
    study.propose(paper_plan(5), "benchmark", list(study.read_cards()))
    for body in paper_bodies(5, BINS):
        study.ask(dict.fromkeys(study.survivors, body))
    study.close()
    return {CURATORS: spent[0], LEARNER: time.process_time() - began - spent[0]}


def learners(size: int) -> dict[str, float]:
    """Each of them enters the policy and has a study open; the time of a question when all have one."""
    keys = [SigningKey.generate() for _ in range(size)]
    curator = _open(_frame(1_000, 1), 1, keys).curator
    askers = [Asker(curator, key, 10, _body(1), queries=1) for key in keys]
    return {NEXT: _question(askers[-LAST:])}


def questions(size: int) -> dict[str, float]:
    """A ledger on disk with so many answers: an answer at its end, opening it, and its bytes."""
    key, learner = SigningKey.generate(), SigningKey.generate()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ward.ledger"
        create_ledger_file(path, key, now=NOW)
        dataset = hold_records(_frame(1_000, 1), steward_of(schema_of(1), 1_000), _policy([learner]), key)
        with assemble_site(
            dataset, _policy([learner]), key=key, ledger=open_ledger_file(path, key), clock=lambda: NOW
        ) as site:
            times: list[float] = []
            for first in range(0, size, STUDY):
                asker = Asker(site.curator, learner, 10 + first // STUDY, _body(1))
                times += (_question([asker]) for _ in range(min(STUDY, size - first)))
        stored = path.stat().st_size
        began = time.process_time()
        open_ledger_file(path, key).close()
        opened = time.process_time() - began
    return {START: opened, NEXT: median(times[-LAST:]), DISK: stored / 2**20}


def participants(size: int) -> dict[str, float]:
    """A secure sum of 1,000 values with a tenth colluding and a tenth silent: both sides, over the participants."""
    group, seeds = group_of(size, size // 10, size // 10)
    began = time.process_time()
    run_round(group, Curators(group, seeds, 1_000), 1_000)
    return {PARTICIPANT: (time.process_time() - began) / size}


CURVES: dict[str, tuple[Curve, tuple[int, ...]]] = {
    "records": (records, (10_000, 100_000, 1_000_000, 4_000_000)),
    "attributes": (attributes, (5, 20, 80, 320)),
    "sites": (sites, (20, 200, 2_000)),
    "learners": (learners, (10, 100, 1_000)),
    "questions": (questions, (100, 1_000, 5_000)),
    "participants": (participants, (10, 30, 100, 200)),
}


def run() -> list[Result]:
    """See the module."""
    return [*_machine(), *(result for name, (_, sizes) in CURVES.items() for result in _curve(name, sizes))]


def exponent_of(points: Sequence[tuple[float, float]]) -> float:
    """The exponent of a curve by its points (n, v), at least two, of those that have risen by a tenth since the first.

    Less may be chance. Of a single such point it is 1, and of none 0.

    >>> exponent_of([(10, 5), (20, 7), (40, 11)])
    1.0
    """
    (start, least), *rest = points
    risen = [(n - start, value - least) for n, value in rest if value > RISEN * least]
    if len(risen) < FEWEST:
        return float(len(risen))
    across, up = np.log(np.transpose(risen))
    return round(float(np.polyfit(across, up, 1)[0]), 3)


def _machine() -> list[Result]:
    """What the machine can do at most."""
    key, text = SigningKey.generate(), bytes(1_000)
    signature = key.sign(text)
    signing = min(seconds(lambda: [key.sign(text) for _ in range(MANY)]) for _ in range(FEW)) / MANY
    checking = min(seconds(lambda: [is_signed(key.public, signature, text) for _ in range(MANY)]) for _ in range(FEW))
    block = np.ones(2**26, np.uint8)
    copying = min(seconds(block.copy) for _ in range(FEW))
    return [
        Result("machine: memory copied by one core", 2 * len(block) / copying / 1e9, "GB/s", note="read and written"),
        Result("machine: signatures of one core", 1 / signing, "1/s", note="Ed25519, of a kilobyte"),
        Result("machine: checks of a signature of one core", MANY / checking, "1/s"),
        Result("machine: appends made durable", 1 / _appending(), "1/s", note="700 bytes and fsync, one at a time"),
        Result("machine: an echo over TLS on loopback", _echoing() * 1e3, "ms", note="4096 bytes each way, one socket"),
    ]


def _appending() -> float:
    with tempfile.NamedTemporaryFile() as file:
        times = []
        for _ in range(MANY):
            file.write(bytes(700))
            file.flush()
            times.append(seconds(lambda: os.fsync(file.fileno())))
    return median(times)


def _echoing() -> float:
    """Seconds of an echo over one TLS connection, by a thread of this process."""
    with tempfile.TemporaryDirectory() as folder, socket.create_server((LOOPBACK, 0)) as door:
        make_certificates(Path(folder))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(Path(folder) / CERTIFICATE, Path(folder) / KEY)

        def serve() -> None:
            with context.wrap_socket(door.accept()[0], server_side=True) as line, suppress(OSError):
                while data := line.recv(2**16):
                    line.sendall(data)

        threading.Thread(target=serve, daemon=True).start()
        trust = ssl.create_default_context(cafile=Path(folder) / CA)
        with socket.create_connection(door.getsockname()) as bare:
            bare.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with trust.wrap_socket(bare, server_hostname=LOOPBACK) as line:

                def echo() -> None:
                    line.sendall(bytes(4096))
                    left = 4096
                    while left:
                        left -= len(line.recv(left))

                return median([seconds(echo) for _ in range(MANY)])


def _curve(name: str, sizes: Sequence[int]) -> list[Result]:
    points = [_point(name, size) for size in sizes]
    results = []
    for what in points[0]:
        values = [point[what] for point in points]
        unit = UNITS.get(what, "s")
        results += [Result(f"{size:,} {name}: {what}", value, unit) for size, value in zip(sizes, values, strict=True)]
        exponent = exponent_of(list(zip(sizes, values, strict=True)))
        results.append(Result(f"{name}: {what}, exponent", exponent, "", note="of what exceeds the smallest size's"))
    return results


def _point(name: str, size: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.growth", name, str(size)]
    done = subprocess.run(command, capture_output=True, check=True, text=True, cwd=Path(__file__).parents[1])
    measured: dict[str, float] = json.loads(done.stdout)
    return measured


def _answers(curator: Curator, key: SigningKey, wide: int) -> dict[str, float]:
    asker = Asker(curator, key, 10, _body(wide))
    first = _question([asker])
    return {FIRST: first, NEXT: min(_question([asker]) for _ in range(FEW))}


def _question(askers: Sequence[Asker]) -> float:
    """The median time of a question by each."""
    times = []
    for asker in askers:
        task = asker.prepare()
        began = time.process_time()
        task()
        times.append(time.process_time() - began)
        asker.settle()
    return median(times)


def _curator(frame: pl.DataFrame, wide: int) -> tuple[Curator, SigningKey]:
    key = SigningKey.generate()
    return _open(frame, wide, [key]).curator, key


def _open(frame: pl.DataFrame, wide: int, keys: Sequence[SigningKey]) -> Site:
    return temporary_site(frame, steward_of(schema_of(wide), len(frame)), _policy(keys), clock=lambda: NOW)


def _policy(keys: Sequence[SigningKey]) -> Policy:
    entries = tuple(
        LearnerPolicy(name=f"learner {n}", key=key.public.hex(), cap="1000000000") for n, key in enumerate(keys)
    )
    return Policy(
        name="site",
        cap="1000000000",
        learners=entries,
        open_studies=2_000,
        cache_bytes=2**30,
        limits=Limits(multiply_adds=MOST_WORK),
    )


def _body(wide: int) -> CountsBody:
    return CountsBody(partitions=bins_of(wide, BINS), hypothesis=Constant(predicted=1))


def _frame(size: int, wide: int) -> pl.DataFrame:
    rng = np.random.default_rng(size)
    columns = {f"a{place}": rng.random(size) for place in range(wide)}
    return pl.DataFrame({**columns, "label": np.where(np.arange(size) % 2, "yes", "no")})


if __name__ == "__main__":
    chosen, _ = CURVES[sys.argv[1]]
    points = chosen(int(sys.argv[2]))
    points[MEMORY] = peak_memory()
    sys.stdout.write(json.dumps(points))
