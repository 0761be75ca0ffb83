"""Learners of a site: its policy file, and in the folder `learners` a file for each learner enrolled by its card.

    policy.toml          the steward writes it
    learners/ann.toml    expril curator enrol writes it: name, cap, and every key that the learner ever had

If a file is removed, its learner may not ask, and no budget is refilled: the ledger has the learner's keys and
spending.
"""

import json
import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import msgspec

from curator_node.policy import EnrolledKey, EnrolledLearner, Policy, Written, instant, read_policy, written_instant
from curator_node.records.schema_file import read_schema_of
from expril.files import read_text_file, replace_text
from protocol.errors import ConfigurationError
from protocol.identity import IdentityCard
from protocol.kinds import QUERY_KINDS
from protocol.query_kind import Kinds
from protocol.rationals import parse_rational
from protocol.strict_toml import read_toml

POLICY, LEARNERS = "policy.toml", "learners"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z")
"""Names of enrolled learners; the learner's file has the same name."""


def read_policy_of(folder: Path, *, kinds: Kinds | None = QUERY_KINDS) -> Policy:
    """The policy of a site's folder, with the learners that are enrolled in it.

    Args:
        folder: the site's.
        kinds: the query kinds that it may allow; None leaves what it says of them unread.

    Raises:
        ConfigurationError: a file is absent or wrong, or two of them name one learner or one key.
    """
    path = folder / POLICY
    text = read_text_file(path, "policy file", remedy="its steward writes it, as docs/steward/policy.md says")
    policy = read_policy(text, where=str(path), kinds=kinds)
    enrolled = tuple(_read_learner(path) for path in _learner_files(folder))
    if not enrolled:
        return policy
    try:
        return msgspec.structs.replace(policy, enrolled=(*policy.enrolled, *enrolled))
    except ValueError as error:
        where = f"{path} and {folder / LEARNERS}" if policy.learners or policy.enrolled else folder / LEARNERS
        raise ConfigurationError(f"{where}: {error}") from None


def check_written(folder: Path) -> None:
    """Raise ConfigurationError if a site's policy or schema file is absent or wrong, before slow imports."""
    read_policy_of(folder, kinds=None)
    read_schema_of(folder)


@dataclass(frozen=True)
class Enrolment:
    """The change that enrolling a card would make. Nothing is written yet."""

    folder: Path  # the site's
    learner: EnrolledLearner  # as its file will say
    before: EnrolledLearner | None  # as its file says; None for a new one
    ends: EnrolledKey | None  # the key that gives way, and until when it may sign; None where none does

    def write(self) -> Path:
        """Write the learner's file. An OSError names the file."""
        return _write_learner(self.folder, self.learner)


def plan_enrolment(
    folder: Path,
    card: IdentityCard,
    *,
    now: int,
    name: str = "",
    cap: Written = "",
    overlap: int = 0,
    add: bool = False,
) -> Enrolment:
    """The change that enrolling a learner's card would make.

    A card whose key takes the place of an enrolled one belongs to the same learner: it keeps name and cap, and the old
    key may sign until the overlap ends.

    Args:
        folder: the site's.
        card: checked by `read_identity`.
        now: the time.
        name: under which it is enrolled; "" takes the name on the card, or of the key that gives way.
        cap: most epsilon that it may ever spend; "" keeps what an enrolled learner has.
        overlap: seconds for which the key that gives way may still sign.
        add: add the key to the learner that is enrolled under this name, although no key of it gave its word.

    Raises:
        ConfigurationError: the card is not a learner's, not valid now, known, or does not fit what is enrolled.
    """
    check_card(card, "learner", now)
    policy = read_policy_of(folder, kinds=None)
    enrolled = policy.learner(card.key)
    if enrolled is not None:
        raise ConfigurationError(f"this key is enrolled already, as {enrolled.name!r}; a key that was revoked stays so")
    before, ends = _predecessor(policy, card, now, add=add)
    chosen = name or (before.name if before else card.name)
    if before is not None and chosen != before.name:
        raise ConfigurationError(f"the card's key takes the place of one of {before.name!r}; it keeps that name")
    if not NAME.match(chosen):
        raise ConfigurationError(
            f"a learner is enrolled under a name of letters, digits, '.', '_' and '-', not {chosen!r}; say: --name"
        )
    if before is None:
        before = _namesake(policy, chosen, add=add)
    if before is not None and before.name not in {path.stem for path in _learner_files(folder)}:
        raise ConfigurationError(
            f"{before.name!r} is in {POLICY}; move its entry to {LEARNERS}/{before.name}.toml first"
        )
    if before is None and cap == "":
        raise ConfigurationError("say how much it may ever spend here: --cap")
    parse_rational(cap or 1)
    last = instant(now + overlap)
    keys = [_ending(key, ends, last) for key in before.keys] if before else []
    until = instant(card.until) if card.until else None
    learner = EnrolledLearner(
        name=chosen,
        cap=before.cap if cap == "" and before else cap,
        keys=(*keys, EnrolledKey(card.key.hex(), instant(now), until)),
        organisation=card.organisation or (before.organisation if before else ""),
        contact=card.contact or (before.contact if before else ""),
    )
    return Enrolment(folder, learner, before, _ending(ends, ends, last) if ends else None)


def revoke(folder: Path, name: str, *, now: int, key: str = "") -> list[str]:
    """Revoke an enrolled learner's keys: they may sign no more. Its budget stays as it is.

    Args:
        folder: the site's.
        name: of the learner.
        now: the time.
        key: the first digits of one public key, or "" for all of them.

    Returns:
        The keys that were valid and are no more.

    Raises:
        ConfigurationError: there is no such learner or key.
    """
    learner = next((entry for entry in map(_read_learner, _learner_files(folder)) if entry.name == name), None)
    if learner is None:
        raise ConfigurationError(
            f"nobody is enrolled as {name!r} in {folder / LEARNERS}; a learner of {POLICY} is taken out there"
        )
    chosen = [entry.key for entry in learner.keys if entry.key.startswith(key.lower())]
    if not chosen or (key and len(chosen) > 1):
        raise ConfigurationError(f"{len(chosen)} keys of {name!r} begin with {key!r}; say more digits of one")
    ended = [entry.key for entry in learner.keys if entry.key in chosen and entry.revoked is None]
    keys = tuple(
        msgspec.structs.replace(entry, revoked=instant(now)) if entry.key in ended else entry for entry in learner.keys
    )
    _write_learner(folder, msgspec.structs.replace(learner, keys=keys))
    return ended


def check_card(card: IdentityCard, role: str, now: int) -> None:
    """Raise ConfigurationError for a card of another role, or one that is not valid at a time."""
    if card.role != role:
        raise ConfigurationError(f"this is the card of a {card.role}; ask for the {role}'s")
    if card.expired(now):
        raise ConfigurationError(f"the card was valid until {written_instant(instant(card.until))}; ask for a new one")
    if card.premature(now):
        issued = written_instant(instant(card.issued))
        raise ConfigurationError(f"the card was issued at {issued}, which is to come; check the clock on both sides")


def _predecessor(
    policy: Policy, card: IdentityCard, now: int, *, add: bool
) -> tuple[EnrolledLearner | None, EnrolledKey | None]:
    """The learner one of whose valid keys signed for the card's key, and that key; (None, None) if there is none."""
    former = [entry.previous for entry in card.successions if policy.learner(entry.previous) is not None]
    if not former:
        return None, None
    learner = policy.learner(former[-1])
    if not isinstance(learner, EnrolledLearner):
        raise ConfigurationError(
            f"the card's key takes the place of one in {POLICY}; take that entry out, and enrol the card under the "
            "same name: its budget stays with the name"
        )
    key = next(entry for entry in learner.keys if entry.key == former[-1].hex())
    if not key.valid(now):
        if add:
            return None, None
        raise ConfigurationError(
            f"the key that gave this card its word is not valid any more; if it is {learner.name!r} who asks, say "
            f"--name {learner.name} --add"
        )
    return learner, key


def _namesake(policy: Policy, name: str, *, add: bool) -> EnrolledLearner | None:
    """The enrolled learner of this name; raises ConfigurationError unless the steward said `add`."""
    for learner in policy.keys.values():
        if learner.name.lower() != name.lower():
            continue
        if learner.name != name:
            raise ConfigurationError(
                f"{learner.name!r} is enrolled; a name that differs in its case alone would confuse"
            )
        if not isinstance(learner, EnrolledLearner):
            raise ConfigurationError(
                f"{name!r} stands in {POLICY}; take that entry out, its budget stays with the name"
            )
        if not add:
            raise ConfigurationError(
                f"{name!r} is enrolled with another key, which did not give this card its word; if it is the same "
                "learner, with the same budget, say --add; another learner takes another --name"
            )
        return learner
    return None


def _ending(key: EnrolledKey, ends: EnrolledKey | None, last: datetime) -> EnrolledKey:
    if ends is None or key.key != ends.key:
        return key
    return msgspec.structs.replace(key, until=last if key.until is None else min(key.until, last))


def _learner_files(folder: Path) -> list[Path]:
    """The learners' files; a name that begins with a dot is a draft."""
    return sorted(path for path in (folder / LEARNERS).glob("*.toml") if not path.name.startswith("."))


def _read_learner(path: Path) -> EnrolledLearner:
    learner = read_toml(read_text_file(path, "learner's file"), EnrolledLearner, where=str(path))
    if learner.name != path.stem:
        raise ConfigurationError(f"{path} is of {learner.name!r}; a learner's file is named after it, for ever")
    return learner


def _write_learner(folder: Path, learner: EnrolledLearner) -> Path:
    lines = [
        "# Made by expril curator enrol; see docs/steward/enrolment.md.",
        f"name = {quoted(learner.name)}",
        f"cap = {quoted(learner.cap)}",
    ]
    lines += [f"{name} = {quoted(text)}" for name in ("organisation", "contact") if (text := getattr(learner, name))]
    for key in learner.keys:
        lines += ["", "[[keys]]", f"key = {quoted(key.key)}"]
        times = {"from": key.start, "until": key.until, "revoked": key.revoked}
        lines += [f"{name} = {written_instant(at)}" for name, at in times.items() if at is not None]
    path = folder / LEARNERS / f"{learner.name}.toml"
    path.parent.mkdir(mode=0o700, exist_ok=True)
    replace_text(path, "\n".join(lines) + "\n")
    return path


def quoted(value: Written) -> str:
    """A value as TOML text; TOML takes JSON's escapes and wants DEL escaped as well."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
