"""What an auditor knows of a query kind beyond the protocol: questions to attack it with, laws, and words for people.

The code of an audit names no kind. It takes these questions, invents records under their schemas, and plays the
distinguishing game on what is released.
"""

import math
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from curator_node.records.dataset import PrivateDataset
from protocol.envelopes import SigningKey
from protocol.noise import DiscreteLaplace, Moved, NoisyMax
from protocol.noise_shares import LaplaceShares
from protocol.query_kind import Kinds, QueryKind, Turn
from protocol.schema import Schema

Value = float | str | None
"""The content of a cell in a table of records."""


@dataclass(frozen=True)
class AuditQuery:
    """A planned query and the encoded bodies of its turns, in order. There are none if a company must lead it."""

    planned: Any
    bodies: tuple[bytes, ...]


class Observation(NamedTuple):
    """All that the learner, and curators that collude with it, saw of one query."""

    numbers: NDArray[np.number[Any]]
    """(n, k) numbers, the same for the same records but for noise."""
    hidden: NDArray[np.int64]
    """(n, j) whole numbers under masks that are drawn anew each time, and that nobody among them can take off."""


@dataclass(frozen=True)
class Asking:
    """Who asks a query, and how."""

    copies: int  # how many times it asks its question
    query: int  # its index in the plan
    learner: bytes  # public key of the learner
    entropy: Callable[[int], bytes]  # n -> n random bytes


Lead = Generator[Mapping[int, bytes], Mapping[int, bytes], Observation]
"""A query being led: it yields the bodies of each turn, by place in `Company.curators`, and is sent their releases."""


@dataclass(frozen=True)
class Company:
    """The curators that answer a query together, if its turns depend on earlier ones and on others' answers."""

    curators: tuple[SigningKey, ...]
    """Keys of those who answer as they should, by the registered answerer; the first has the records that are attacked.

    The keys are nobody's: everybody can read them here.
    """
    lead: Callable[[Asking], Lead]
    """How the query is led by a learner that colludes with all others whom the plan names."""


@dataclass(frozen=True)
class Example:
    """A question that is hard to answer privately."""

    about: str  # what makes it hard, in words
    schema: Schema  # of the records
    ask: Callable[[int], AuditQuery]
    """n, from 1 to `copies` -> the question, asked n times over within one query.

    All numbers released in it are n parts of equal length, one after the other, each with noise of its own, each at an
    n-th of the query's cost.
    """
    copies: int = 1  # 1 where a query cannot ask the same several times over
    most_records_per_unit: int = 1  # contribution bound c under which it is attacked; units are named above 1
    values: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    """Of an attribute or the label -> values worth trying beside bounds and levels: edges, ties."""
    limits: Mapping[str, Any] = field(default_factory=dict)
    """Of the kind, for a curator that is asked; what is not said is the kind's default."""
    pairs: int | None = None
    """Sets of neighbours that are drawn to find one that matters; None: as many as an audit tries."""
    company: Company | None = None
    """Who else answers, and who leads; None where a curator answers alone and `ask` has all bodies."""
    draws: int | None = None
    """Most draws from either set, where each takes many calls of exact noise; None: as many as an audit draws."""


AGREEMENT = 1e-9
"""Two computations of an exact loss may differ by no more than this."""
ROUNDING = 1e-12
"""Relative excess of an exact loss over the claim that is allowed, since it is computed in floats."""
Ways = tuple[float, float]
"""The largest ln of P(output | first) / P(output | second) over all outputs, and the largest the other way round."""


@dataclass(frozen=True)
class Enumerated:
    """The worst-case loss of two given sets of records, computed in two ways; None where it cannot be."""

    defined: Ways | None  # from the definition of the law, in decimals
    tabled: Ways | None  # the same from tables of the product's own law, in floats
    beyond: float = 0.0  # chance of an output that the tables do not hold, at most
    why_not: str = ""  # why there is none, in words; "" where there is one

    @classmethod
    def alike(cls, defined: float, tabled: float, beyond: float = 0.0) -> "Enumerated":
        """Return a loss that is the same either way."""
        return cls((defined, defined), (tabled, tabled), beyond)

    @classmethod
    def unknown(cls, why_not: str) -> "Enumerated":
        """Return that no loss can be enumerated, and why."""
        return cls(None, None, why_not=why_not)

    @property
    def loss(self) -> float | None:
        """The loss in pure epsilon, from the definition."""
        return None if self.defined is None else max(self.defined)

    @property
    def by_table(self) -> float | None:
        """The loss in pure epsilon, from tables."""
        return None if self.tabled is None else max(self.tabled)

    def passes(self, claimed: Fraction) -> bool:
        """Whether the loss exceeds a claim by more than rounding, or the two computations disagree."""
        if self.loss is None or self.by_table is None:
            return False
        if self.loss == math.inf:
            return True
        above = Fraction(self.loss) > claimed * (1 + Fraction(ROUNDING))
        return above or not abs(self.loss - self.by_table) <= AGREEMENT * max(1.0, self.loss)

    def plus(self, other: "Enumerated") -> "Enumerated":
        """Return the loss of two independent releases together."""
        if self.defined is None or other.defined is None or self.tabled is None or other.tabled is None:
            return self if self.defined is None or self.tabled is None else other
        (a, b), (c, d) = self.defined, other.defined
        (p, q), (r, t) = self.tabled, other.tabled
        return Enumerated((a + c, b + d), (p + r, q + t), self.beyond + other.beyond)


class Cells(NamedTuple):
    """Draws in cells, and the chances that a law gives these cells."""

    about: str  # what falls into cells, in words
    places: NDArray[np.intp]  # (n,) the cell of each draw
    chances: NDArray[np.float64]  # (m,) of each cell; together 1


NoiseLaw = DiscreteLaplace | LaplaceShares | NoisyMax
Handed = tuple[NDArray[np.int64], NoiseLaw | None]
"""What is handed to a source of noise in one call: exact numbers or scores, and the law; None of continuous noise."""


class Law(ABC):
    """The law that a kind claims of all numbers that one question releases, on one set of records."""

    charges: tuple[Fraction, ...] = ()
    """Of a kind whose charges depend on its releases: all that can occur."""

    @abstractmethod
    def loss(self, other: Any, charge: Fraction | None = None) -> Enumerated:
        """Return the worst-case loss against the same question's law on another set of records.

        `charge`: of outputs that are charged this alone; None: of all outputs.
        """

    def cells(self, rows: NDArray[np.number[Any]]) -> Iterator[Cells]:
        """Yield ways to sort draws, rows (n, k) of all released numbers, into cells whose chances the law gives.

        An audit compares the draws of the registered answerer with them. Few cells of large chances tell most. A law
        that yields nothing is not compared.
        """
        return iter(())

    @property
    def calls(self) -> tuple[Handed, ...] | None:
        """All calls for noise by which a curator draws it, in order; None if it samples by itself."""
        return None


class Trace(NamedTuple):
    """What a curator's code does where no noise is added."""

    numbers: NDArray[np.number[Any]]  # (k,) all that it releases
    handed: tuple[NDArray[np.int64], ...]  # exact numbers or scores that it hands to its source of noise, in order


@dataclass(frozen=True)
class Case:
    """A question put to one invented set of records: all that the law of its release may depend on.

    Exact quantities, such as counts, sums, scores and fitted parameters, may come from a curator's own code, so that
    neighbours show whether one unit moves them further than the noise is for. The laws of noise never do: a kind's
    auditor's half takes them from the plan. Where noise depends on records, it works that out by itself.
    """

    planned: Any
    bodies: tuple[Any, ...]  # checked bodies of all turns, in order; none if only a company knows them
    schema: Schema
    most_records_per_unit: int
    frame: pl.DataFrame  # the records as a steward's table, which names their units
    dataset: PrivateDataset  # the same as the curator holds them
    trace: Callable[[Sequence[NDArray[np.int64]]], Trace]
    """Runs the curator's code. What is given is what comes back of its first calls for noise, in order; of later ones
    the exact numbers come back, and of a choice the place of the largest score."""


class KindAudit:
    """The auditor's half of a query kind, as a subclass with one instance. Only `kind` must be defined."""

    kind: ClassVar[QueryKind]
    condition: ClassVar[str] = ""
    """The condition under which the costs of all its queries hold, in words; "" if there is none."""

    def examples(self) -> Mapping[str, Sequence[Example]]:
        """Return questions to attack for each thing that the kind releases as private, by name ("" for a single thing).

        Names without questions, and kinds without names, are not audited, which an audit says.
        """
        return {}

    def claimed_law(self, case: Case) -> Law | None:
        """Return the law that the kind claims of a question's release on one set of records; None: it claims none.

        A kind without one is not audited exactly, which is a violation. `expril.audit.kinds.exact` has laws of numbers
        with noise, of noisy choices, and of few outcomes with known chances.
        """
        return None

    generator: ClassVar[str] = ""
    """"module:function" of what draws lawful questions for its contract (`expril.audit.contract`).

    The function takes a schema, and returns a Hypothesis strategy of (planned query, encoded body of its one turn, or
    tuple of the encoded bodies of all turns). It is loaded for a contract alone. "" if there is none.
    """
    excuses: ClassVar[Mapping[str, str]] = {}
    """Duty of the contract that a kind of this sort cannot have -> why, in words."""

    def oracle(self, case: Case) -> Sequence[int] | None:
        """Return all whole numbers that the curator hands to its source of noise, in order, by a slow second way.

        It uses nothing of the curator's code, so it never calls `case.trace`. None: there is none, which is in order
        where `claimed_law` works all numbers out by itself.
        """
        return None

    def hostile(self, planned: Any, bodies: Sequence[bytes], schema: Schema) -> Mapping[str, bytes]:
        """Return bodies that must be refused in the first turn of a lawful question, by what is wrong with each."""
        return {}

    def laws(self, planned: Any, most_records_per_unit: int) -> tuple[Moved, ...] | None:
        """Return the laws of all of a query's releases that a unit can move; None if only the cost is known.

        The losses of these releases compose to at most the query's cost.
        """
        return None

    def check_note(self, note: str, turn: Turn, keys: Collection[bytes]) -> str:
        """Say what is wrong with a charge's note in the ledger of a curator with these keys; "" if nothing is."""
        return ""

    @property
    def checks_notes(self) -> bool:
        """Whether the kind writes notes that a plan can contradict; otherwise its notes are empty."""
        return type(self).check_note is not KindAudit.check_note

    def shares(self, planned: Any) -> Generator[Fraction, str, None]:
        """Yield the share of a query's cost that each of its turns is charged, by its ledger alone.

        Each is sent the note on the turn's answer, from which the next follows. Only for kinds that look back: charges
        of others follow from the plan. Raises ValueError: no answer has such a note; the text says why.
        """
        raise NotImplementedError

    @property
    def tells_shares(self) -> bool:
        """Whether the notes on answers tell what each turn is charged."""
        return type(self).shares is not KindAudit.shares

    def joint_action(self, notes: Sequence[str]) -> tuple[str, str] | None:
        """Read a joint action of curators from the notes of a query's turns, in order.

        Return the action, and what all of its curators must have noted, in words; None if the notes show no joint
        action.
        """
        return None

    def view_planned(self, planned: Any, most_records_per_unit: int) -> dict[str, Any]:
        """Show people the parts of a query's cost. A contribution bound of 0 stands for an unknown one."""
        return {"formula": "not told"}

    def view_question(self, data: bytes, schema: Schema | None) -> dict[str, Any]:
        """Show what is asked; RemoteProtocolError if the bytes are no body."""
        return {"body": f"{len(data)} bytes"}

    def view_release(self, data: bytes) -> list[str]:
        """Return the released numbers as text; RemoteProtocolError if the bytes are no release."""
        return []


class AuditedKinds(Kinds):
    """The query kinds that an auditor knows, by name, each with its auditor's half."""

    def __init__(self, *audits: KindAudit) -> None:
        super().__init__(*(audit.kind for audit in audits))
        self.audits: dict[str, KindAudit] = {audit.kind.name: audit for audit in audits}

    def include(self, audits: Iterable[KindAudit], partitions: Sequence[type[Any]] = ()) -> None:
        """Know these kinds, and in all kinds these partitions, from now on.

        It is called before anything is read, for the packages that an auditor names.
        """
        for audit in audits:
            self.audits[audit.kind.name] = audit
            self._kinds[audit.kind.name] = audit.kind
        for name, audit in self.audits.items():
            wider = self.audits[name] = copy(audit)
            vars(wider)["kind"] = self._kinds[name] = self._kinds[name].with_partitions(partitions)
        self._read.cache_clear()
        for cache in (self._cost, self._costs, self._plan_cost):
            cache.cache_clear()
        self._settled.clear()


def unpacked(data: bytes, letter: str) -> list[str]:
    """Return little-endian numbers of a `struct` format as text. Bytes left over at the end are ignored."""
    size = struct.calcsize(letter)
    return [str(number) for (number,) in struct.iter_unpack(f"<{letter}", data[: len(data) // size * size])]
