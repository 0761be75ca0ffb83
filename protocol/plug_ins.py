"""What a package of others may add, and how policy and ledger name it. `expril.packages` finds and loads it."""

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated

import msgspec


class Group(StrEnum):
    """Groups of entry points. The name of an entry point is that of the kind, the partition or the strategy."""

    KINDS = "expril.kinds"  # a `QueryKind`: what both sides agree on
    ANSWERERS = "expril.answerers"  # an `Answerer` of it, for curators
    READERS = "expril.readers"  # a `Reader` of it, for learners
    AUDITS = "expril.audits"  # a `KindAudit` of it, for auditors
    PARTITIONS = "expril.partitions"  # the type of a partition
    STRATEGIES = "expril.strategies"  # a function or class that makes a strategy from its options


WORDS = {
    Group.KINDS: "query kind",
    Group.ANSWERERS: "answerer",
    Group.READERS: "reader",
    Group.AUDITS: "auditor's half",
    Group.PARTITIONS: "partition",
    Group.STRATEGIES: "strategy",
}
"""Each group's things, in words."""
NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")
"""Names of what a package offers."""


class PlugIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A package that a policy names."""

    package: Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*\Z", max_length=100)]  # normalised name
    version: Annotated[str, msgspec.Meta(pattern=r"^[0-9A-Za-z.!+_-]{1,100}\Z")]
    record: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]  # SHA-256 of its RECORD file, in hexadecimal

    def __str__(self) -> str:
        return f"{self.package} {self.version} sha256:{self.record}"

    @property
    def lines(self) -> str:
        """The lines of a policy that name it."""
        return f'[[plug_ins]]\npackage = "{self.package}"\nversion = "{self.version}"\nrecord = "{self.record}"\n'


_WRITTEN = re.compile(r"[a-z0-9]+(-[a-z0-9]+)* [0-9A-Za-z.!+_-]{1,100} sha256:[0-9a-f]{64}")


def written_plug_ins(plug_ins: Iterable[PlugIn]) -> str:
    """The plug-ins in force as a ledger writes them: one a line, in the order of their names; "" for none."""
    return "\n".join(sorted(map(str, plug_ins)))


def are_plug_ins(note: str) -> bool:
    """Whether a text is one of `written_plug_ins`."""
    lines = note.split("\n") if note else []
    return lines == sorted(set(lines)) and all(_WRITTEN.fullmatch(line) for line in lines)
