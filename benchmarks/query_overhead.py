"""What a query costs beyond counting and noise, over what its six signature operations take.

A whole query: learner signs, curator verifies, charges, counts, adds noise and signs, learner verifies and reads. Its
counting and noise are timed where they happen; the rest is our layers. It is measured by direct calls, and once more
over Flower's messages in process. In the same run the six signature operations of a query are timed alone: request,
receipt and release, each signed once and verified once. All times are of the processor, in turn; a value is the
smallest of the medians of batches, and the spread is the range of these medians.
"""

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
    median,
    open_bench,
    paper_bodies,
    schema_of,
    spread,
)
from learner_node.carriers.flower import FlowerCarrier
from learner_node.kinds import READERS
from learner_node.study.federation import Carrier
from learner_node.study.session import Session
from protocol.codec import encode
from protocol.envelopes import SigningKey, digest, encode_parts, is_signed, open_envelope
from protocol.kinds.counts import PlannedCounts
from protocol.ledger.entries import sign_head
from protocol.messages import Release
from protocol.plans import Plan
from protocol.query_kind import Question, Turn
from protocol.rationals import Rational
from simulations.carriers.direct import DirectCarrier
from simulations.carriers.in_process import InProcessGrid, flower_nodes

RECORDS, ATTRIBUTES, BINS = 700, 22, 10
QUERIES, WARM_UP, BATCHES = 600, 20, 20
SCALE = Fraction(10)


class Asker:
    """A learner of a study at a curator of its own; counting and noise are timed apart."""

    def __init__(self, name: str) -> None:
        self._key = SigningKey.generate()
        bench = open_bench(name, RECORDS, ATTRIBUTES, self._key.public, np.random.default_rng(0))
        self._apart = 0.0
        bench.dataset.count = self._timed(bench.dataset.count)  # type: ignore[method-assign, assignment]
        bench.noise.discrete_laplace = self._timed(bench.noise.discrete_laplace)  # type: ignore[method-assign, assignment]
        self.site, self.schema = bench.site, schema_of(ATTRIBUTES)
        self.body = paper_bodies(ATTRIBUTES, BINS)[1]
        self.planned = PlannedCounts(release="signed_error", partitions=ATTRIBUTES, scale=Rational.of(SCALE))
        self.session = Session(curator=self.site.identity, key=self._key, study=digest(name.encode())[:16])

    def propose(self, carrier: Carrier) -> None:
        """Open the study by this carrier."""
        self._carrier = carrier
        self._send(self.session.request_card(NOW))
        self._send(self.session.propose(Plan.of((self.planned,) * QUERIES), "benchmark", NOW))

    def ask(self) -> float:
        """Processor seconds of a query beyond counting and noise, of all threads."""
        self._apart, start = 0.0, time.process_time()
        reply = self._send(self.session.query("counts", encode(self.body), NOW))
        assert isinstance(reply, Release)
        READERS["counts"].read(reply.body, Question(Turn(self.planned), self.body, self.schema))
        return time.process_time() - start - self._apart

    def signatures(self) -> Callable[[], float]:
        """A function that signs and verifies what a query does; it returns processor seconds."""
        request, reply = (open_envelope(data)[0] for data in self.session.transcript.envelopes[-2:])
        receipt, key = bytes(550), self._key
        texts = [encode_parts(part.label.encode(), part.type.encode(), part.payload) for part in (request, reply)]

        def signed() -> float:
            start = time.process_time()
            for text in (*texts, receipt):
                is_signed(key.public, key.sign(text), text)
            return time.process_time() - start

        return signed

    def heads(self) -> float:
        """Processor seconds of the signatures of the two heads that a query adds to the ledger."""
        start = time.process_time()
        for index in range(2):
            sign_head(self._key, index, bytes(32))
        return time.process_time() - start

    def _send(self, data: bytes) -> object:
        return self.session.receive(self._carrier.exchange({self.session.curator: data})[self.session.curator])

    def _timed(self, function: Callable[..., object]) -> Callable[..., object]:
        def timed(*args: object) -> object:
            start = time.thread_time()
            result = function(*args)
            self._apart += time.thread_time() - start
            return result

        return timed


def run() -> list[Result]:
    """See the module."""
    TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1
    direct, flower = Asker("direct"), Asker("flower")
    direct.propose(DirectCarrier(handles_of([direct.site])))
    nodes, addresses = flower_nodes(handles_of([flower.site]))
    with InProcessGrid(nodes) as grid:
        flower.propose(FlowerCarrier(grid, addresses))
        for asker in (direct, flower):
            asker.ask()
        # Two by two: Flower's code would leave the caches cold for the direct calls
        batches = [_batches(asker.ask, direct.signatures(), direct.heads) for asker in (direct, flower)]
    (layers, six, two), (flower_layers, flower_six, _) = batches
    return [
        at_most(
            "a query's layers over its six signature operations",
            min(layers) / min(six),
            2.2,
            "",
            spread=_ratios(layers, six),
            note="three signed, three verified; the ledger's two signatures of heads are among the layers",
        ),
        Result(
            "eight signature operations over six",
            1 + min(two) / min(six),
            "",
            spread=_ratios([a + b for a, b in zip(six, two, strict=True)], six),
            note="with the ledger's two: what no layers take less than",
        ),
        Result(
            "the same with Flower's messages in process",
            min(flower_layers) / min(flower_six),
            "",
            spread=_ratios(flower_layers, flower_six),
        ),
        Result("a query's layers, direct", min(layers) * 1e3, "ms", spread=spread(layers, 1e3)),
        Result("a query's layers, Flower", min(flower_layers) * 1e3, "ms", spread=spread(flower_layers, 1e3)),
        Result("six signature operations", min(six) * 1e3, "ms", spread=spread(six, 1e3)),
    ]


def _batches(*tasks: Callable[[], float]) -> list[list[float]]:
    """Medians of batches of tasks that are done in turn, in seconds."""
    turns = [[task() for task in tasks] for _ in range(QUERIES - 1)][WARM_UP:]
    size = len(turns) // BATCHES
    starts = range(0, BATCHES * size, size)
    return [[median([turn[i] for turn in turns[start : start + size]]) for start in starts] for i in range(len(tasks))]


def _ratios(layers: list[float], six: list[float]) -> tuple[float, float]:
    return spread([a / b for a, b in zip(layers, six, strict=True)])
