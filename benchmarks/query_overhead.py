"""What a query costs beyond counting and noise: signatures, codec, state, ledger in memory, Flower in process.

A whole query: learner signs, Flower carries, curator verifies, charges, counts, adds noise (OpenDP) and signs, learner
verifies and reads. Its counting and noise are timed where they happen; what is left is the overhead. To keep a noisy
neighbour out, the value is the smallest of the medians of ten batches of queries, and the spread is their range. The
parts are measured on their own, warm, on the bytes of a real query.
"""

import os
import time
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from flwr.supercore.task_identity import TaskIdentity

from benchmarks.common import (
    NOW,
    Result,
    at_most,
    handles_of,
    interleaved,
    median,
    open_bench,
    paper_bodies,
    schema_of,
    seconds,
    spread,
)
from curator_node.client_app import make_client_app
from curator_node.ledger import Caps, Reservation, StudyKey, memory_ledger
from learner_node.kinds import READERS
from learner_node.server_app import FlowerCarrier
from learner_node.study.session import Session
from protocol.codec import encode
from protocol.envelopes import SigningKey, open_envelope, open_receipt, verify
from protocol.kinds import QUERY_KINDS, counts
from protocol.kinds.counts import CountsLimits, PlannedCounts
from protocol.messages import Release
from protocol.plans import Plan
from protocol.query_kind import Turn
from protocol.rationals import Rational
from simulations.carriers.in_process import InProcessGrid, flower_nodes

RECORDS, ATTRIBUTES, BINS = 700, 22, 10
QUERIES, WARM_UP, BATCHES = 620, 20, 10
SCALE = Fraction(10)


class Stopwatch:
    """A function that notes how long each of its calls took, on the wall (`times`) and of its thread's processor."""

    def __init__(self, function: Callable[..., object]) -> None:
        self._function = function
        self.times: list[float] = []
        self.processor: list[float] = []

    def __call__(self, *args: object) -> object:  # noqa: D102
        start, processor = time.perf_counter(), time.thread_time()
        result = self._function(*args)
        self.times.append(time.perf_counter() - start)
        self.processor.append(time.thread_time() - processor)
        return result


def run() -> list[Result]:
    """See the module."""
    TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1
    key = SigningKey.generate()
    bench = open_bench("site", RECORDS, ATTRIBUTES, key.public, np.random.default_rng(0))
    body = paper_bodies(ATTRIBUTES, BINS)[1]
    planned = PlannedCounts(release="signed_error", partitions=ATTRIBUTES, scale=Rational.of(SCALE))
    plan = Plan.of((planned,) * QUERIES)
    session = Session(curator=bench.site.identity, key=key, study=os.urandom(16))
    schema = schema_of(ATTRIBUTES)
    counting, noising = Stopwatch(bench.dataset.count), Stopwatch(bench.noise.discrete_laplace)
    bench.dataset.count, bench.noise.discrete_laplace = counting, noising  # type: ignore[method-assign, assignment]
    nodes, addresses = flower_nodes(handles_of([bench.site]))
    with InProcessGrid(nodes) as grid:
        carrier = FlowerCarrier(grid, addresses)

        def send(data: bytes) -> object:
            return session.receive(carrier.exchange({session.curator: data})[session.curator])

        processor: list[float] = []

        def query() -> None:
            start = time.process_time()
            ask()
            processor.append(time.process_time() - start)

        def ask() -> None:
            reply = send(session.query("counts", encode(body), NOW))
            assert isinstance(reply, Release)
            READERS["counts"].read(reply.body, body, Turn(planned), schema)

        send(session.request_card(NOW))
        send(session.propose(plan, "benchmark", NOW))
        (whole,) = interleaved([query], QUERIES - WARM_UP, warm_up=WARM_UP)
    least = [a + b for a, b in zip(counting.times[WARM_UP:], noising.times[WARM_UP:], strict=True)]
    overhead = [a - b for a, b in zip(whole, least, strict=True)]
    size = len(overhead) // BATCHES
    batches = [median(overhead[start : start + size]) for start in range(0, BATCHES * size, size)]
    request, reply = session.transcript.envelopes[-2:]
    parts = _parts(request, reply, encode(body), planned, key, session.curator, plan)
    rest = min(batches) - sum(part.value for part in parts) / 1e3
    return [
        at_most(
            "query, beyond counting and noise",
            min(batches) * 1e3,
            1.5,
            "ms",
            spread=spread(batches, 1e3),
            note="smallest median of ten batches",
        ),
        Result(
            "query, beyond counting and noise, processor time",
            median([a - b - c for a, b, c in zip(processor, counting.processor, noising.processor, strict=True)]) * 1e3,
            "ms",
            note="of all threads; waiting and the neighbours of a shared machine are not in it",
        ),
        Result("query, whole", median(whole) * 1e3, "ms", spread=spread(whole, 1e3)),
        Result("query, of that counting", median(counting.times) * 1e3, "ms"),
        Result("query, of that noise", median(noising.times) * 1e3, "ms"),
        *parts,
        Result("overhead: the rest", rest * 1e3, "ms", note="state machines, checks, digests, cold caches and threads"),
    ]


def _parts(
    request: bytes, reply: bytes, body: bytes, planned: PlannedCounts, key: SigningKey, curator: bytes, plan: Plan
) -> list[Result]:
    asked, question = open_envelope(request)
    answered, release = open_envelope(reply)
    assert isinstance(release, Release)
    schema, limits, turn = schema_of(ATTRIBUTES), CountsLimits(), Turn(planned)
    read = counts.read_body(body, turn, schema, limits)

    def signatures() -> None:
        for data in (asked.payload, answered.payload, release.receipt):
            key.sign(data)
        verify(asked, key.public)
        verify(answered, curator)
        open_receipt(release.receipt, curator)

    def codec() -> None:
        encode(read)
        encode(question)
        encode(asked)
        open_envelope(request)
        counts.read_body(body, turn, schema, limits)
        encode(release)
        encode(answered)
        open_envelope(reply)
        READERS["counts"].read(release.body, read, turn, schema)

    ledger = memory_ledger(SigningKey.generate())
    study = StudyKey(key.public, bytes(15) + b"s")
    cost = QUERY_KINDS.cost(planned, 1)
    caps = Caps(learner=Fraction(10**6), total=Fraction(10**6))
    ledger.reserve(Reservation(study, plan, (cost,) * len(plan.queries), b"r" * 32, NOW + 10), caps, NOW)
    done = 0

    def charge() -> None:
        nonlocal done
        done += 1
        identity = done.to_bytes(32, "big")
        ledger.store.refusal(identity)
        ledger.expire(NOW)
        ledger.charge(study, done, cost, identity, NOW)
        ledger.answer(identity, lambda _: reply, NOW)
        ledger.settle()

    with InProcessGrid({1: make_client_app(lambda _: reply)}) as grid:
        carrier = FlowerCarrier(grid, {curator: 1})
        return [
            _part("overhead: 3 signatures, 3 verifications", signatures),
            _part("overhead: codec and checks", codec),
            _part("overhead: ledger in memory", charge),
            _part("overhead: Flower's messages and thread", lambda: carrier.exchange({curator: request})),
        ]


def _part(name: str, task: Callable[[], object]) -> Result:
    task()
    times = [seconds(task) for _ in range(200)]
    low, high = np.quantile(times, (0.25, 0.75)) * 1e3
    return Result(name, median(times) * 1e3, "ms", spread=(float(low), float(high)))
