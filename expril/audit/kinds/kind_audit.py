"""What an auditor knows of a query kind beyond the protocol: questions to attack it with, laws, and words for people.

An audit names no kind. It takes these questions, invents records under their schemas, and plays on what is released.
"""

import struct
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from protocol.envelopes import SigningKey
from protocol.noise import Moved
from protocol.query_kind import Kinds, QueryKind, Turn
from protocol.schema import Schema

Value = float | str | None
"""What a cell of a table of records holds."""


@dataclass(frozen=True)
class AuditQuery:
    """A planned query and the encoded body of each of its turns, in order; none where somebody must lead it."""

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
    """One query as it is led."""

    copies: int  # how many times it asks its question
    query: int  # its index in the plan
    learner: bytes  # public key of the learner
    entropy: Callable[[int], bytes]  # n -> n random bytes


Lead = Generator[Mapping[int, bytes], Mapping[int, bytes], Observation]
"""Yields what is asked in each turn, by the curator's place in `Company.curators`, and is sent what these released."""


@dataclass(frozen=True)
class Company:
    """Those with whom a curator answers a query whose turns depend on each other, and on others' answers."""

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


class KindAudit:
    """The auditor's half of a query kind; a subclass for each, with one instance. Only `kind` must be given."""

    kind: ClassVar[QueryKind]
    condition: ClassVar[str] = ""
    """On what the costs of all its queries hold, in words; "" where on nothing."""

    def examples(self) -> Mapping[str, Sequence[Example]]:
        """Of each thing that it releases as private, by name ("" where there is but one): questions to attack.

        A name without questions is not audited, and an audit says so; so is a kind without names.
        """
        return {}

    def laws(self, planned: Any, most_records_per_unit: int) -> tuple[Moved, ...] | None:
        """What all turns of a query release, as far as a unit can move it; None where only the cost is known.

        The losses of these compose to at most the query's.
        """
        return None

    def check_note(self, note: str, turn: Turn, keys: Collection[bytes]) -> str:
        """What is wrong with the note of a charge in the ledger of a curator with these keys; "" where nothing is."""
        return ""

    @property
    def checks_notes(self) -> bool:
        """Whether its notes say something that the plan can contradict; a kind that does not has empty ones."""
        return type(self).check_note is not KindAudit.check_note

    def joint_action(self, notes: Sequence[str]) -> tuple[str, str] | None:
        """By the notes of a query's turns, in order: what several curators did, and what all of them must have noted.

        Both in words; None where the notes tell of nothing such.
        """
        return None

    def view_planned(self, planned: Any, most_records_per_unit: int) -> dict[str, Any]:
        """What a query's cost is made of, for a person's eyes; a contribution bound of 0 is one that is not known."""
        return {"formula": "not told"}

    def view_question(self, data: bytes, schema: Schema | None) -> dict[str, Any]:
        """What is asked; raises RemoteProtocolError where the bytes are no body."""
        return {"body": f"{len(data)} bytes"}

    def view_release(self, data: bytes) -> list[str]:
        """The released numbers as text; raises RemoteProtocolError where the bytes are no release."""
        return []


class AuditedKinds(Kinds):
    """The query kinds that an auditor knows, by name, each with its auditor's half."""

    def __init__(self, *audits: KindAudit) -> None:
        super().__init__(*(audit.kind for audit in audits))
        self.audits: Mapping[str, KindAudit] = {audit.kind.name: audit for audit in audits}


def unpacked(data: bytes, letter: str) -> list[str]:
    """Little-endian numbers of a `struct` format as text; bytes that make no whole number are left out."""
    size = struct.calcsize(letter)
    return [str(number) for (number,) in struct.iter_unpack(f"<{letter}", data[: len(data) // size * size])]
