"""What the requests of a ledger did, in columns: a long ledger has too many of them for an object each.

An `Effect` or a `Charge` is made when it is asked for. It says what is known by then.
"""

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple, overload

from expril.audit.recompute.entries import Study
from protocol.ledger.entries import EntryKind
from protocol.messages import NO_DIGEST

_BYTES = len(NO_DIGEST)
_KINDS = (EntryKind.RESERVE, EntryKind.CHARGE, EntryKind.CLOSE)
_CHARGE = _KINDS.index(EntryKind.CHARGE)
_LOST, _EVICTED, _STORED, _CHANGED = 1, 2, 4, 8


class Hashes(Sequence[bytes]):
    """Hashes of equal length, one after the other in one piece of memory."""

    def __init__(self) -> None:
        self._content = bytearray()

    def append(self, heads: bytes) -> None:
        """Add one at the end, or several."""
        self._content += heads

    def __len__(self) -> int:
        return len(self._content) // _BYTES

    @overload
    def __getitem__(self, place: int) -> bytes: ...
    @overload
    def __getitem__(self, place: slice) -> list[bytes]: ...
    def __getitem__(self, place: int | slice) -> bytes | list[bytes]:
        places = range(len(self))[place]  # IndexError as in a list
        if isinstance(places, range):
            return [self[at] for at in places]
        return bytes(self._content[places * _BYTES : (places + 1) * _BYTES])

    def __iter__(self) -> Iterator[bytes]:
        content = memoryview(self._content)
        return (bytes(content[place : place + _BYTES]) for place in range(0, len(content), _BYTES))


@dataclass(frozen=True, slots=True, eq=False)
class Effect:
    """A request that took effect."""

    index: int
    kind: EntryKind  # of its entry: RESERVE, CHARGE or CLOSE
    study: Study  # whose it is
    sequence: int
    amount: Fraction  # reserved, charged or refunded
    by_study: Fraction  # what the study had spent after it
    answered: int  # index of its ANSWERED entry; -1 where there is none
    reply: bytes  # digest of the signed reply; zero where there is none
    # bytes of what its answerer keeps of the study from then on; None where it changes nothing of that
    state_size: int | None
    lost: bool  # whether it may have been answered on a lost branch: then it is never answered again
    evicted: bool  # whether its reply is kept no more


class Charge(NamedTuple):
    """A charge, as an event in the use of the budget over time."""

    entry: int  # index of its entry
    study: Study
    sequence: int
    amount: Fraction
    due: Fraction  # what it should have been; the amount itself where that is not known


class Effects(Mapping[bytes, Effect]):
    """The requests that took effect, by their digests, in order; each has a number from 0."""

    def __init__(self) -> None:
        self.numbers: dict[bytes, int] = {}  # by digest
        self.studies: list[Study] = []  # studies, kinds, sequences: of each number
        self.kinds = bytearray()
        self.sequences = array("q")
        self._indices, self._answered = array("q"), array("q")
        self._amounts: list[Fraction] = []
        self._by_study: list[Fraction] = []
        self._replies, self._marks = bytearray(), bytearray()
        self._state_sizes: dict[int, int] = {}  # of the answers that tell one
        self._due: dict[int, Fraction] = {}  # of the charges that were not charged so

    def add(self, request: bytes, entry: int, kind: EntryKind, study: Study, sequence: int, amount: Fraction) -> int:
        """Add a request with the index of its entry, after its study took it; return its number."""
        number = len(self.studies)
        self.numbers[request] = number
        self.studies.append(study)
        self.kinds.append(_KINDS.index(kind))
        self.sequences.append(sequence)
        self._indices.append(entry)
        self._answered.append(-1)
        self._amounts.append(amount)
        self._by_study.append(study.spent)
        self._replies += NO_DIGEST
        self._marks.append(0)
        return number

    def add_answered(
        self, request: bytes, entry: int, study: Study, sequence: int, amount: Fraction, reply: bytes
    ) -> int:
        """Add a charge whose answer is the next entry; the rest is as in `add` and `answer`."""
        number = len(self.studies)
        self.numbers[request] = number
        self.studies.append(study)
        self.kinds.append(_CHARGE)
        self.sequences.append(sequence)
        self._indices.append(entry)
        self._answered.append(entry + 1)
        self._amounts.append(amount)
        self._by_study.append(study.price.sums[study.charged_count])
        self._replies += reply
        self._marks.append(0)
        return number

    def is_due(self, number: int, due: Fraction) -> None:
        """Note what a charge should have been."""
        self._due[number] = due

    def answer(self, number: int, entry: int, reply: bytes, state_size: int | None) -> None:
        """Note the answer that an entry tells of."""
        self._answered[number] = entry
        self._replies[number * _BYTES : (number + 1) * _BYTES] = reply
        if state_size is not None:
            self._state_sizes[number] = state_size

    def lose(self, number: int) -> None:
        """Note that it may have been answered on a lost branch."""
        self._marks[number] |= _LOST

    def evict(self, number: int) -> None:
        """Note that its reply is kept no more."""
        self._marks[number] |= _EVICTED

    def is_charge(self, number: int) -> bool:
        """Whether it is a query."""
        return self.kinds[number] == _CHARGE

    def find(self, request: bytes, reply: bytes) -> bool:
        """Take a stored reply. Return whether its request was answered, and its reply is still kept."""
        number = self.numbers.get(request, -1)
        if number < 0 or self._answered[number] < 0 or self._marks[number] & _EVICTED:
            return False
        same = self._replies[number * _BYTES : (number + 1) * _BYTES] == reply
        self._marks[number] = self._marks[number] & ~_CHANGED | _STORED | (0 if same else _CHANGED)
        return True

    def not_found(self) -> Iterator[tuple[int, bool]]:
        """Yield (index of the answer, whether one is stored) where the stored reply is not the one of the answer."""
        for number, entry in enumerate(self._answered):
            mark = self._marks[number] & (_EVICTED | _STORED | _CHANGED)
            if entry >= 0 and mark not in (_STORED, _EVICTED):
                yield entry, bool(mark & _STORED)

    @property
    def charges(self) -> "Charges":
        """Its charges."""
        return Charges(self)

    def charges_from(self, first: int) -> Iterator[Charge]:
        """The charges among the requests from a number on, in order."""
        return (self.charge(number) for number in range(first, len(self.studies)) if self.is_charge(number))

    def charge(self, number: int) -> Charge:
        """The charge of a query."""
        amount = self._amounts[number]
        due = self._due.get(number, amount)
        return Charge(self._indices[number], self.studies[number], self.sequences[number], amount, due)

    def __len__(self) -> int:
        return len(self.numbers)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.numbers)

    def __contains__(self, request: object) -> bool:
        return request in self.numbers

    def __getitem__(self, request: bytes) -> Effect:
        number = self.numbers[request]
        mark = self._marks[number]
        return Effect(
            self._indices[number],
            _KINDS[self.kinds[number]],
            self.studies[number],
            self.sequences[number],
            self._amounts[number],
            self._by_study[number],
            self._answered[number],
            bytes(self._replies[number * _BYTES : (number + 1) * _BYTES]),
            self._state_sizes.get(number),
            bool(mark & _LOST),
            bool(mark & _EVICTED),
        )


class Charges:
    """The charges of a ledger, in order."""

    def __init__(self, effects: Effects) -> None:
        self._effects = effects

    def __len__(self) -> int:
        return self._effects.kinds.count(_CHARGE)

    def __iter__(self) -> Iterator[Charge]:
        return self._effects.charges_from(0)
