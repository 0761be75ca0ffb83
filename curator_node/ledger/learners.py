"""What entries add up to by learner. No storage here.

An enrolled learner has one name and any number of keys. What it spent, reserved, proposed and has open is summed over
all of them, whatever became of a key: a new key brings no new budget. A key that no entry binds to a name is a learner
of its own.
"""

from bisect import bisect_right
from dataclasses import dataclass, field
from fractions import Fraction
from operator import itemgetter

from curator_node.ledger.studies import ZERO, StudyKey
from protocol.messages import NOBODY

MOST_NAME = 200
"""Letters of an enrolled learner's name."""


@dataclass
class Learners:
    """Sums by learner.

    Attributes:
        bound: key -> (index of the entry that binds it, the learner's name); for ever.
        keys: name -> its keys, in the order in which they were bound.
        spent, reserved: epsilon by key.
        history: by key, (index, spent) after each change of what it has spent.
        open_by_learner: by key, studies that have not ended.
        ordinals: by key, number of studies ever.
    """

    bound: dict[bytes, tuple[int, str]] = field(default_factory=dict)
    keys: dict[str, list[bytes]] = field(default_factory=dict)
    spent: dict[bytes, Fraction] = field(default_factory=dict)
    reserved: dict[bytes, Fraction] = field(default_factory=dict)
    history: dict[bytes, list[tuple[int, Fraction]]] = field(default_factory=dict)
    open_by_learner: dict[bytes, set[StudyKey]] = field(default_factory=dict)
    ordinals: dict[bytes, int] = field(default_factory=dict)

    def name_of(self, key: bytes) -> str:
        """To whom a key is bound; "" for nobody."""
        return self.bound[key][1] if key in self.bound else ""

    def keys_of(self, key: bytes, name: str = "") -> tuple[bytes, ...]:
        """All keys of the learner with this key; of one that is not bound yet, as if it were bound to `name`."""
        others = self.keys.get(self.name_of(key) or name, [])
        return tuple(dict.fromkeys([*others, key]))

    def spent_by(self, key: bytes, name: str = "") -> Fraction:
        """Epsilon that a learner has spent, over all its keys; see `keys_of`."""
        return sum((self.spent.get(each, ZERO) for each in self.keys_of(key, name)), ZERO)

    def reserved_by(self, key: bytes, name: str = "") -> Fraction:
        """Epsilon that is set aside for a learner, over all its keys; see `keys_of`."""
        return sum((self.reserved.get(each, ZERO) for each in self.keys_of(key, name)), ZERO)

    def open_of(self, key: bytes, name: str = "") -> int:
        """How many studies a learner has open, over all its keys; see `keys_of`."""
        return sum(len(self.open_by_learner.get(each, ())) for each in self.keys_of(key, name))

    def studies_of(self, key: bytes, name: str = "") -> int:
        """How many studies a learner ever had, over all its keys; see `keys_of`."""
        return sum(self.ordinals.get(each, 0) for each in self.keys_of(key, name))

    def spent_at(self, key: bytes, index: int) -> Fraction:
        """What a learner had spent at an entry, over all keys that were bound to it by then."""
        at, name = self.bound.get(key, (index + 1, ""))
        there = self.keys[name] if at <= index else []
        keys = {key, *(other for other in there if self.bound[other][0] <= index)}
        return sum((self._spent_at(each, index) for each in keys), ZERO)

    def history_of(self, key: bytes) -> list[tuple[int, Fraction]]:
        """(index, spent) of a learner after each change, over all its keys."""
        keys = self.keys_of(key)
        changes = {index for each in keys for index, _ in self.history.get(each, ())}
        changes |= {self.bound[each][0] for each in keys if each in self.bound}
        return [(index, self.spent_at(key, index)) for index in sorted(changes)]

    def complaint_of_name(self, key: bytes, name: str) -> str:
        """What is wrong with binding a key to a name; "" where nothing is."""
        if key == NOBODY or not 0 < len(name) <= MOST_NAME:
            return "binds no key, or to no name"
        return "binds a key that is bound" if key in self.bound else ""

    def bind(self, key: bytes, index: int, name: str) -> None:
        """Bind a key, with what it has spent, to a learner's name."""
        self.bound[key] = (index, name)
        self.keys.setdefault(name, []).append(key)

    def _spent_at(self, key: bytes, index: int) -> Fraction:
        history = self.history.get(key, [])
        place = bisect_right(history, index, key=itemgetter(0))
        return history[place - 1][1] if place else ZERO
