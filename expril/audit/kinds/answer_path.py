"""A question, its registered answerer on invented records with a curator's noise, and all that comes back.

An answer may take several turns; the game is played on the numbers of all turns together. A question is led through its
turns, with one curator or several together. No query kind is named.
"""

import secrets
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from curator_node.answering import Answerer, CuratorQuestion, Seat
from curator_node.mechanisms import ExactNoise, NoiseSource, Stamp
from curator_node.records.dataset import PrivateDataset
from expril.audit.kinds.invented import Neighbours, Unit, dataset_of, plain_record, table_of
from expril.audit.kinds.kind_audit import Asking, AuditQuery, Case, Example, Handed, Lead, Observation, Trace
from protocol.envelopes import LABEL, SigningKey
from protocol.noise import DiscreteLaplace, NoisyMax
from protocol.noise_shares import LaplaceShares
from protocol.plans import Planned
from protocol.query_kind import Kinds, KindTerms, Past, QueryKind, Question, Turn

Answer = Callable[[int, int, bytes], bytes]
"""(number of the turn, place of the curator, body) -> what it releases."""
Body = Callable[[Turn, bytes], Any]
"""(turn, its encoded body) -> the checked body."""


def lead_of(kind: QueryKind, example: Example, asking: Asking, body: Body | None = None) -> Lead:
    """Return the lead of a question: that of the example's company, or one that asks its bodies in order.

    Args:
        kind: the question's kind.
        example: the question.
        asking: who asks it, and how many times.
        body: reads a turn's body, such as from a cache; None reads it anew.
    """
    if example.company is not None:
        return example.company.lead(asking)
    terms = KindTerms(example.schema, kind.limits())
    read = body or (lambda turn, data: kind.read_body(data, turn, terms))
    return _in_order(kind, example, asking, read)


def collect(lead: Lead, answer: Answer) -> Observation:
    """Go through all turns, and return what was seen of them."""
    number, bodies = 0, next(lead)
    while True:
        replies = {place: answer(number, place, body) for place, body in bodies.items()}
        try:
            number, bodies = number + 1, lead.send(replies)
        except StopIteration as end:
            observation: Observation = end.value
            return observation


@lru_cache(maxsize=4)
def _query_of(ask: Callable[[int], AuditQuery], copies: int) -> AuditQuery:
    """Make a question; a long one is not made again for every draw."""
    return ask(copies)


def _in_order(kind: QueryKind, example: Example, asking: Asking, read: Body) -> Lead:
    query = _query_of(example.ask, asking.copies)
    parts = []
    for number, data in enumerate(query.bodies):
        releases = yield {0: data}
        turn = Turn(query.planned, asking.query, number)
        question = Question(turn, read(turn, data), example.schema)
        parts.append(kind.read_release(releases[0], question).reshape(asking.copies, -1))
    return Observation(np.hstack(parts), np.empty((asking.copies, 0), np.int64))


Numbers = NDArray[np.number[Any]]
Hold = Callable[[tuple[Unit, ...], Example], PrivateDataset]
"""(units of invented records, question) -> a curator's data set of them."""

MOST_HELD = 4
"""Number of data sets that are kept: those of a pair of neighbours are asked for again and again."""
_HELD: deque[tuple[Hold, Example, tuple[Unit, ...], PrivateDataset]] = deque(maxlen=MOST_HELD)

LEARNER = bytes(32)
"""The learner's public key in questions of an audit; nobody has it."""
MOST_READ = 8
"""Number of checked bodies that are cached."""
FAILED = np.iinfo(np.int32).min
"""Stands in every place of an answer that failed or has another length, since a learner sees that."""


@dataclass
class NoNoise:
    """A noise source that adds nothing and remembers what it would have added."""

    # in order of the calls; of shares of noise, which are drawn before there is an exact number, zeros
    handed: list[Handed] = field(default_factory=list)
    own_sampler: bool = False  # whether random bytes were taken for a law that the kind samples itself
    # what comes back of the calls for noise, in order, instead of the exact numbers: what is drawn later may
    # look at it
    released: Sequence[NDArray[np.int64]] = ()
    seeded = False

    @property
    def calls(self) -> list[Handed]:
        """The calls for noise in numbers."""
        return [call for call in self.handed if not isinstance(call[1], NoisyMax)]

    @property
    def chosen(self) -> list[tuple[NDArray[np.int64], NoisyMax]]:
        """The calls for noisy choices."""
        return [(scores, law) for scores, law in self.handed if isinstance(law, NoisyMax)]

    def discrete_laplace(
        self,
        exact: NDArray[np.int64],
        l1: int,
        law: DiscreteLaplace,
        stamp: Stamp,
    ) -> NDArray[np.int64]:
        """Return the exact numbers, or those to be released instead, and record the call."""
        self.handed.append((exact.copy(), law))
        count = len(self.calls)
        return self.released[count - 1] if count <= len(self.released) else exact

    def laplace_shares(self, size: int, law: DiscreteLaplace, parts: int, stamp: Stamp) -> NDArray[np.int64]:
        """Return zeros, and record the call."""
        self.handed.append((np.zeros(size, np.int64), LaplaceShares(law.scale, Fraction(1, parts))))
        return np.zeros(size, np.int64)

    def laplace(self, size: int, scale: Fraction, stamp: Stamp) -> NDArray[np.float64]:
        """Return zeros, and record the call."""
        self.handed.append((np.zeros(size, np.int64), None))
        return np.zeros(size)

    def choose(self, scores: NDArray[np.int64], moved: int, law: NoisyMax, stamp: Stamp) -> int:
        """Return the index of the largest score, and record the call."""
        self.handed.append((scores.copy(), law))
        return int(scores.argmax())

    def randomness(self, stamp: Stamp) -> Callable[[int], bytes]:
        """Return the same bytes each time, so that two sets of records are compared with the same randomness."""
        self.own_sampler = True
        return np.random.default_rng(0).bytes


@dataclass(frozen=True)
class AnswerPath:
    """A question and the answerer that takes it."""

    answerer: Answerer  # the registered one; in a control, a broken one
    example: Example  # the question
    copies: int = 1  # how often one call asks it
    # what makes its noise, for each call; a curator's own unless a control says otherwise
    noise: Callable[[], NoiseSource] = ExactNoise
    hold: Hold = dataset_of  # what holds its records
    entropy: Callable[[int], bytes] = secrets.token_bytes  # where keys come from that curators make for one query

    @cached_property
    def planned(self) -> Planned:
        """The planned question.

        Raises:
            RemoteProtocolError: a curator would not accept the question.
        """
        planned: Planned = self.example.ask(self.copies).planned
        self.answerer.kind.check_planned(planned)
        return planned

    @property
    def claimed(self) -> Fraction:
        """The exact epsilon of each copy: the cost of the whole query, divided by their number."""
        return self.kinds.cost(self.planned, self.example.most_records_per_unit) / self.copies

    @cached_property
    def seats(self) -> tuple[Seat, ...]:
        """The curators as which the answerer answers: one with a key of its own, or all of the example's company."""
        company = self.example.company
        keys = (SigningKey.generate(),) if company is None else company.curators
        return tuple(Seat.of(key, LABEL, LEARNER, self.entropy) for key in keys)

    @cached_property
    def kinds(self) -> Kinds:
        """A table of kinds that holds only the answerer's."""
        return Kinds(self.answerer.kind)

    @cached_property
    def bystander(self) -> PrivateDataset:
        """The records of each other curator that answers: one plain record, which the adversary knows."""
        return dataset_of(((plain_record(self.example.schema),),), self.example)

    def dataset(self, units: tuple[Unit, ...]) -> PrivateDataset:
        """Return the records as a curator's data set: the very same units are held once, as by a curator that stays."""
        for hold, example, same_units, dataset in _HELD:
            if hold is self.hold and example is self.example and same_units is units:
                return dataset
        dataset = self.hold(units, self.example)
        _HELD.append((self.hold, self.example, units, dataset))
        return dataset

    def answer(self, dataset: PrivateDataset, noise: NoiseSource) -> Numbers:
        """Return all numbers that one call reveals, over all turns: (copies, k)."""
        return self.charged_answer(dataset, noise)[0]

    def charged_answer(self, dataset: PrivateDataset, noise: NoiseSource) -> tuple[Numbers, Fraction]:
        """Return the numbers of `answer`, and the charge of all turns, which may depend on their releases."""
        observation, charged = self.observe(dataset, noise)
        return np.hstack(observation) if observation.hidden.size else observation.numbers, charged

    def observe(self, dataset: PrivateDataset, noise: NoiseSource) -> tuple[Observation, Fraction]:
        """Return what one call reveals, with masked numbers apart, and the charge of all turns at the first curator."""
        kind, bound = self.answerer.kind, self.example.most_records_per_unit
        past: list[list[Past]] = [[] for _ in self.seats]
        states, charges = [b"" for _ in self.seats], []

        def answer(number: int, place: int, data: bytes) -> bytes:
            turn = Turn(self.planned, 0, number)
            before = past[place]
            if not place:
                charges.append(self.kinds.charge(turn, before, bound))
            releases, stamp = tuple(before) if kind.looks_back else (), Stamp("auditor", 0, number + 1)
            schema, seat = self.example.schema, self.seats[place]
            question = CuratorQuestion(turn, self._body(turn, data), schema, releases, states[place], stamp, seat)
            self.answerer.check(question)
            answered = self.answerer.answer(question, self.bystander if place else dataset, noise)
            before.append(Past(turn, answered.release))
            states[place] = states[place] if answered.state is None else answered.state
            return answered.release

        asking = Asking(self.copies, 0, LEARNER, self.entropy)
        observation = collect(lead_of(kind, self.example, asking, self._body), answer)
        return observation, sum(charges, Fraction(0))

    def exact(self, units: tuple[Unit, ...], released: Sequence[NDArray[np.int64]] = ()) -> tuple[Numbers, NoNoise]:
        """Return the numbers without noise, (copies, k), and the calls for noise that were made."""
        noise = NoNoise(released=released)
        return self.observe(self.dataset(units), noise)[0].numbers, noise

    def case(self, units: tuple[Unit, ...]) -> Case:
        """Return all that the claimed law of the release on these records may depend on."""
        dataset = self.dataset(units)

        def trace(released: Sequence[NDArray[np.int64]] = ()) -> Trace:
            noise = NoNoise(released=released)
            numbers = self.observe(dataset, noise)[0].numbers
            return Trace(numbers.ravel(), tuple(exact for exact, _ in noise.handed))

        bodies = tuple(
            self._body(Turn(self.planned, 0, number), data)
            for number, data in enumerate(_query_of(self.example.ask, self.copies).bodies)
        )
        schema, bound = self.example.schema, self.example.most_records_per_unit
        return Case(self.planned, bodies, schema, bound, table_of(units, schema), dataset, trace)

    def draws(self, units: tuple[Unit, ...], number: int, width: int) -> Numbers:
        """Draw the numbers of one copy several times with real noise: (number, width).

        An answer that fails, or that has another length, counts as a draw in which every number is `FAILED`.
        """
        return self.charged_draws(units, number, width)[0]

    def charged_draws(self, units: tuple[Unit, ...], number: int, width: int) -> tuple[Numbers, NDArray[np.object_]]:
        """Return the draws of `draws`, and the exact charge of each, (number,)."""
        dataset, noise = self.dataset(units), self.noise()
        failure = np.full((self.copies, width), FAILED, np.int64), self.claimed * self.copies
        rows, charges = [], []
        for _ in range(-(-number // self.copies)):
            try:
                numbers, charged = self.charged_answer(dataset, noise)
            except Exception:  # noqa: BLE001 - an answerer that fails for one of the two sets of records tells them apart
                numbers, charged = failure
            rows.append(numbers if numbers.shape == failure[0].shape else failure[0])
            charges += [charged / self.copies] * self.copies
        return np.concatenate(rows)[:number], np.array(charges[:number], object)

    def width(self, pair: Neighbours) -> int:
        """Return how many numbers one copy releases; 1 if it never releases any."""
        for units in pair.sets:
            with suppress(Exception):
                return int(self.answer(self.dataset(units), NoNoise()).shape[1])
        return 1

    @cached_property
    def _read(self) -> dict[tuple[int, bytes], Any]:
        return {}

    def _body(self, turn: Turn, data: bytes) -> Any:
        """Return the checked body of a turn. The bodies that were read last are cached."""
        if (turn.number, data) not in self._read:
            if len(self._read) >= MOST_READ:
                self._read.clear()
            kind = self.answerer.kind
            self._read[turn.number, data] = kind.read_body(data, turn, KindTerms(self.example.schema, kind.limits()))
        return self._read[turn.number, data]
