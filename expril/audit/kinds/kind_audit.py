"""What an auditor knows of a query kind beyond the protocol: questions to attack it with, laws, and words for people.

The code of an audit names no kind. It takes these questions, invents records under their schemas, and plays the
distinguishing game on what is released.
"""

import struct
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from protocol.envelopes import SigningKey
from protocol.noise import Moved
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
        self.audits: Mapping[str, KindAudit] = {audit.kind.name: audit for audit in audits}


def unpacked(data: bytes, letter: str) -> list[str]:
    """Return little-endian numbers of a `struct` format as text. Bytes left over at the end are ignored."""
    size = struct.calcsize(letter)
    return [str(number) for (number,) in struct.iter_unpack(f"<{letter}", data[: len(data) // size * size])]
