"""The way of an answer: the registered answerer on invented records, with the noise that a curator draws.

An answer may take several turns; all their numbers together are what the game is played on. No query kind is named.
"""

import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from curator_node.answering import Answerer, Question, Seat
from curator_node.dataset import PrivateDataset
from curator_node.mechanisms import NoiseSource, OpenDPNoise, Stamp
from protocol.envelopes import LABEL, SigningKey
from protocol.errors import ConfigurationError
from protocol.examples import Example
from protocol.kinds import Kinds, Past, Turn
from protocol.noise import DiscreteLaplace
from protocol.noise_shares import LaplaceShares
from simulations.audit.kinds.invented import Neighbours, Unit, held

Numbers = NDArray[np.number[Any]]
Hold = Callable[[tuple[Unit, ...], Example], PrivateDataset]
"""Makes a curator's records of invented ones."""

FAILED = np.iinfo(np.int32).min
"""Stands in every place of an answer that failed, or came in another length: whoever asks sees that."""


@dataclass
class NoNoise:
    """A noise source that adds nothing and remembers what would have been added: for exact numbers of invented records.

    Attributes:
        drawn: (exact numbers, law of the noise in each) in order of the calls; no law where the noise is continuous.
            Shares of noise are drawn before there is an exact number: zeros stand there.
    """

    drawn: list[tuple[NDArray[np.int64], DiscreteLaplace | LaplaceShares | None]] = field(default_factory=list)
    seeded = False

    def discrete_laplace(
        self,
        exact: NDArray[np.int64],
        l1: int,  # noqa: ARG002
        law: DiscreteLaplace,
        stamp: Stamp,  # noqa: ARG002
    ) -> NDArray[np.int64]:
        """See `NoiseSource`."""
        self.drawn.append((exact.copy(), law))
        return exact

    def laplace_shares(self, size: int, law: DiscreteLaplace, parts: int, stamp: Stamp) -> NDArray[np.int64]:  # noqa: ARG002
        """See `NoiseSource`."""
        self.drawn.append((np.zeros(size, np.int64), LaplaceShares(law.scale, Fraction(1, parts))))
        return np.zeros(size, np.int64)

    def laplace(self, size: int, scale: Fraction, stamp: Stamp) -> NDArray[np.float64]:  # noqa: ARG002
        """See `NoiseSource`."""
        self.drawn.append((np.zeros(size, np.int64), None))
        return np.zeros(size)


@dataclass(frozen=True)
class Path:
    """A question and the answerer that takes it.

    Attributes:
        answerer: the registered one; in a control, a broken one.
        example: the question.
        copies: how often one call asks it.
        noise: what makes its noise, for each call; a curator's own unless a control says otherwise.
        hold: what holds its records.
    """

    answerer: Answerer
    example: Example
    copies: int = 1
    noise: Callable[[], NoiseSource] = OpenDPNoise
    hold: Hold = held

    @cached_property
    def turns(self) -> tuple[tuple[Turn, object], ...]:
        """Each turn of the question, with its checked body.

        Raises:
            RemoteProtocolError: a curator would not take the question.
        """
        kind, asked = self.answerer.kind, self.example.ask(self.copies)
        kind.check_planned(asked.planned)
        limits = kind.limits()
        turns = [Turn(asked.planned, 0, number) for number in range(len(asked.bodies))]
        return tuple(
            (turn, kind.read_body(body, turn, self.example.schema, limits))
            for turn, body in zip(turns, asked.bodies, strict=True)
        )

    @property
    def claimed(self) -> Fraction:
        """Exact epsilon of one of the copies: what the whole query costs, shared among them."""
        return self.kinds.cost(self.turns[0][0].planned, self.example.most_records_per_unit) / self.copies

    @cached_property
    def seat(self) -> Seat:
        """As whom the answerer answers: a curator with a key of its own."""
        return Seat.of(SigningKey.generate(), LABEL, bytes(32), secrets.token_bytes)

    @cached_property
    def kinds(self) -> Kinds:
        """The answerer's kind alone."""
        return Kinds(self.answerer.kind)

    def answer(self, dataset: PrivateDataset, noise: NoiseSource) -> Numbers:
        """All numbers that one call releases, over all turns: (copies, k)."""
        return self.charged_answer(dataset, noise)[0]

    def charged_answer(self, dataset: PrivateDataset, noise: NoiseSource) -> tuple[Numbers, Fraction]:
        """The same, and what its turns are charged together, which may depend on what they release."""
        kind = self.answerer.kind
        bound, charged = self.example.most_records_per_unit, Fraction(0)
        if kind.numbers is None:
            raise ConfigurationError(f"query kind {kind.name!r} does not say which numbers it releases")
        past: list[Past] = []
        state = b""
        parts = []
        for turn, body in self.turns:
            charged += self.kinds.charge(turn, past, bound)
            seen = tuple(past) if kind.looks_back else ()
            stamp = Stamp("auditor", 0, turn.number + 1)
            question = Question(body, turn, seen, state, stamp, self.seat)
            answered = self.answerer.answer(question, dataset, noise)
            numbers = kind.numbers(answered.release, body, turn, self.example.schema)
            parts.append(numbers.reshape(self.copies, -1))
            past.append(Past(turn, answered.release))
            state = state if answered.state is None else answered.state
        return np.hstack(parts), charged

    def exact(self, units: tuple[Unit, ...]) -> tuple[Numbers, NoNoise]:
        """What would be released without noise, (copies, k), and where noise would have come in."""
        noise = NoNoise()
        return self.answer(self.hold(units, self.example), noise), noise

    def draws(self, units: tuple[Unit, ...], number: int, width: int) -> Numbers:
        """`number` draws of one copy's numbers, (number, width), with real noise.

        An answer that fails, or that has another length, is a draw like any other: `FAILED` throughout.
        """
        return self.charged_draws(units, number, width)[0]

    def charged_draws(self, units: tuple[Unit, ...], number: int, width: int) -> tuple[Numbers, NDArray[np.object_]]:
        """The same, and the exact charge of each, (number,)."""
        dataset, noise = self.hold(units, self.example), self.noise()
        lost = np.full((self.copies, width), FAILED, np.int64), self.claimed * self.copies
        drawn, charges = [], []
        for _ in range(-(-number // self.copies)):
            try:
                numbers, charged = self.charged_answer(dataset, noise)
            except Exception:  # noqa: BLE001 - an answerer that fails for one of the two sets of records tells them apart
                numbers, charged = lost
            drawn.append(numbers if numbers.shape == lost[0].shape else lost[0])
            charges += [charged / self.copies] * self.copies
        return np.concatenate(drawn)[:number], np.array(charges[:number], object)

    def width(self, pair: Neighbours) -> int:
        """How many numbers one copy releases; 1 where it never releases any."""
        for units in pair.both:
            with suppress(Exception):
                return int(self.exact(units)[0].shape[1])
        return 1
