"""The run's list held against itself, against the files that lie there, and against keys known from elsewhere."""

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import get_args

import msgspec

from expril.audit.recompute.files import digest_of, listed_files
from expril.audit.recompute.verdicts import Exchange
from protocol.errors import ConfigurationError, printable
from protocol.run_index import (
    AGAIN,
    COST,
    LEDGERS,
    LOCAL,
    METRICS,
    POLICY_SUFFIX,
    PREDICTIONS,
    REPORT,
    SCENARIO,
    STUDY,
    TRANSCRIPTS,
    Index,
    Role,
)
from protocol.strict_toml import decode_text, read_toml

Keys = str | list[str]
"""Hexadecimal. The pattern is not in the type: msgspec 0.22 frees a union of a text with a pattern and a list in the
wrong order, and the process may die when it ends."""
_KEY = re.compile(r"[0-9a-f]{64}")
NOT_PINNED = "keys not pinned: they are the run's own, and say nothing of who held them (--keys FILE)"


class Pins(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Public keys known from elsewhere: name -> key, or keys where a curator has one a repeat."""

    curators: dict[str, Keys] = {}
    learners: dict[str, Keys] = {}

    def __post_init__(self) -> None:
        named = {key for role in get_args(Role) for keys in self.of(role).values() for key in keys}
        for key in sorted(named):
            if not _KEY.fullmatch(key):
                raise ValueError(f"{printable(key, 80)!r} is no public key: write its 64 hexadecimal digits")

    def of(self, role: Role) -> dict[str, set[str]]:
        """Name -> keys of a role."""
        named = self.curators if role == "curator" else self.learners
        return {name: {keys} if isinstance(keys, str) else set(keys) for name, keys in named.items()}


def read_pins(path: Path) -> Pins:
    """A file of public keys.

    Raises:
        ConfigurationError: it cannot be read, or names no key.
    """
    if path.is_dir():
        raise ConfigurationError(f"{path} is a folder, not a keys file; name the file in it")
    if not path.is_file():
        raise ConfigurationError(f"no keys file {path}; check its name")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"cannot read the keys file {path}: {error.strerror}") from None
    text = decode_text(content, where=f"keys file {path}")
    pins = read_toml(text, Pins, where=f"keys file {path.name}")
    if not pins.curators and not pins.learners:
        raise ConfigurationError(f"the keys file {path} names no key: write [curators] and [learners], name = key")
    return pins


def read_witnesses(keys: Iterable[str]) -> set[bytes]:
    """Public keys of witnesses, as people write them.

    Raises:
        ConfigurationError: one is none.
    """
    found = set()
    for key in keys:
        if not _KEY.fullmatch(key):
            raise ConfigurationError(f"--witness {printable(key)} is no public key: write its 64 hexadecimal digits")
        found.add(bytes.fromhex(key))
    return found


def pin(index: Index, pins: Pins | None) -> tuple[list[str], list[str]]:
    """What of the run's keys is not as pinned, and which names were not pinned."""
    if pins is None:
        return [], [NOT_PINNED]
    complaints, free = [], []
    roles: tuple[Role, ...] = ("curator", "learner")
    for role in roles:
        known = pins.of(role)
        strangers = known.keys() - set(index.names(role))
        complaints += [f"the run lists no {role} {printable(name)}, whose key is pinned" for name in sorted(strangers)]
        free += [f"{role} {printable(name)}" for name in index.names(role) if name not in known]
        for one in index.participants:
            if one.role == role and one.name in known and one.key not in known[one.name]:
                complaints.append(
                    f"the key of {role} {printable(one.name)} in repeat {one.repeat} is not the pinned one: {one.key}"
                )
    return complaints, [f"not pinned: the keys of {', '.join(free)}"] if free else []


def pin_ledger(first: bytes, pins: Pins | None) -> tuple[str, str]:
    """What is wrong with the first key of a ledger that was given by itself, and what is not known of it."""
    known = {} if pins is None else pins.of("curator")
    if not known:
        return (
            "",
            f"nobody checked whose key {first.hex()} is, which opened it: anybody can make a ledger (--keys FILE)",
        )
    if any(first.hex() in keys for keys in known.values()):
        return "", ""
    return f"it was opened by key {first.hex()}, which is none of the curators' that are pinned", ""


def misplaced(folder: Path, index: Index) -> tuple[list[str], list[str]]:
    """Files that are missing, changed, or not in the list; those outside transcripts and ledgers are only a remark."""
    complaints, remarks = [], []
    there = listed_files(folder)
    for name, digest in index.files.items():
        path = there.pop(name, None)
        if path is None:
            complaints.append(f"{printable(name)} is missing")
        elif path.is_symlink() or not path.is_file():
            complaints.append(f"{printable(name)} is no plain file")
        elif digest_of(path) != digest:
            complaints.append(f"{printable(name)} was changed: its digest is not the one in the run's list")
    for name in there:
        if PurePosixPath(name).parts[0] in (TRANSCRIPTS, LEDGERS):
            complaints.append(f"{printable(name)} is not in the run's list")
        else:
            remarks.append(f"{printable(name)} is not in the run's list, and was not looked at")
    return complaints, remarks


def kept_apart(folder: Path, index: Index) -> list[str]:
    """What is said of the files that no list has, because they are about single records or this machine."""
    if (folder / LOCAL / PREDICTIONS).is_dir():
        what = f"{LOCAL}/{PREDICTIONS} tells of single records"
        return [f"{what}: it is in no list, and was not looked at; hand it on to nobody"]
    if AGAIN in index.files:
        return [f"{LOCAL}/{PREDICTIONS} was removed, or not kept: it is in no list, and nothing else needs it"]
    return []


def is_deployed(index: Index) -> bool:
    """Whether a learner's own folder is listed, of a study with deployed curators, and no simulation's run."""
    return STUDY in index.files and SCENARIO not in index.files


def unlisted(index: Index) -> list[str]:
    """What a run's list must hold by its nature and does not, or holds twice."""
    complaints = []
    own = [STUDY, COST] if is_deployed(index) else [SCENARIO, METRICS, REPORT]
    wanted = [*own, *(f"{TRANSCRIPTS}/{entry.file}" for entry in index.transcripts)]
    wanted += [f"{LEDGERS}/{entry.file}" for entry in index.ledgers]
    wanted += [f"{LEDGERS}/{entry.curator}{POLICY_SUFFIX}" for entry in index.ledgers]
    complaints += [f"the run's list has no digest of {printable(name)}" for name in wanted if name not in index.files]
    if not index.transcripts:
        complaints.append("the run's list names no transcript: it proves nothing")
    complaints += [
        f"the run's list names {printable(name)} twice"
        for name in (
            *_twice(f"transcript {entry.file}" for entry in index.transcripts),
            *_twice(f"{one.role} {one.name} of repeat {one.repeat}" for one in index.participants),
            *_twice(
                f"study {one.study} of {one.learner} with {one.curator} in repeat {one.repeat}"
                for one in index.transcripts
            ),
            *_twice(f"ledger {entry.file}" for entry in index.ledgers),
            *_twice(f"a ledger of {entry.curator} in repeat {entry.repeat}" for entry in index.ledgers),
        )
    ]
    keys = index.keys()
    roles: tuple[Role, ...] = ("learner", "curator")
    complaints += [
        f"the run's list has no {role} {printable(name)} in repeat {repeat}"
        for role in roles
        for name in index.names(role)
        for repeat in range(index.repeats)
        if (role, name, repeat) not in keys
    ]
    for entry in index.ledgers:
        key = keys.get(("curator", entry.curator, entry.repeat))
        if key is None or key.hex() != entry.key:
            complaints.append(
                f"the run's list names another key for ledger {printable(entry.file)} than for its curator"
            )
    return complaints


def told_twice(exchanges: Iterable[Exchange]) -> list[str]:
    """Studies that two transcripts tell: one of them would be counted twice."""
    met: dict[tuple[bytes, bytes, bytes], str] = {}
    complaints = []
    for exchange in exchanges:
        if not exchange.study:
            continue
        file = exchange.verdict.entry.file
        before = met.setdefault((exchange.curator, exchange.learner, exchange.study), file)
        if before != file:
            complaints.append(f"{before} and {file} tell one and the same study")
    return complaints


def _twice(names: Iterable[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]
