"""What a steward takes out of a ledger, or makes beside it: an export, a receipt of where it stands, a further mark."""

import json
import secrets
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from curator_node.ledger import Account, StudyKey
from curator_node.ledger.chain import marked_at_end
from curator_node.ledger.checks import check_evidence
from curator_node.ledger.exports import export_ledger
from curator_node.ledger.marks import read_mark
from curator_node.ledger.places import NEVER_ANEW, Place, open_mark, read_evidence, read_store, told_place
from curator_node.ledger.sealing import Sealer
from curator_node.receipts import Receipts
from expril.files import new_file, write_new
from protocol.envelopes import LABEL, NOT_PRIVATE_LABEL, SigningKey, open_receipt
from protocol.errors import ConfigurationError, RemoteProtocolError
from protocol.ledger.entries import Entry
from protocol.messages import NO_STUDY, Receipt


def write_export(where: Place, out: Path) -> int:
    """Write a ledger's export; how many entries it has.

    Raises:
        ConfigurationError: no ledger there, it is not in order, or the file exists or cannot be written.
        LedgerCorruptError, LedgerUnavailableError: the ledger cannot be read.
    """
    with read_store(where) as store:
        content, entries = export_ledger(store), len(store.rows(0))
    write_new(out, content, rule="an export is never overwritten")
    return entries


def write_receipt(where: Place, key: SigningKey, out: Path, *, study: bytes, learner: bytes, now: int) -> Receipt:
    """Write a signed receipt of where a ledger stands, for a study, or a learner as a whole.

    Args:
        where: the ledger.
        key: the curator's.
        out: the file to make.
        study: its identity; zero for all of a learner's.
        learner: public key; empty where the study's identity is only one learner's.
        now: the time.

    Raises:
        ConfigurationError: the ledger is not in order, another curator's, or knows no such study or learner; or the
            file cannot be written.
    """
    account, _ = _in_order(where, key)
    label = NOT_PRIVATE_LABEL if account.terms.endswith(f"signatures: {json.dumps(NOT_PRIVATE_LABEL)}") else LABEL
    about = _subject(account, study, learner)
    sealed = Receipts(key, Sealer(key, secrets.token_bytes), label).standing(account, about, now)
    write_new(out, sealed, rule="a receipt is never overwritten")
    return open_receipt(sealed, key.public, label=label)


def read_receipt(path: Path, account: Account) -> Receipt:
    """A receipt in a file; ConfigurationError where none of the keys that a ledger had signed it."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"cannot read the receipt {path}: {error.strerror}") from None
    for _, curator in account.curators:
        for label in (LABEL, NOT_PRIVATE_LABEL):
            with suppress(RemoteProtocolError):
                return open_receipt(content, curator, label=label)
    raise ConfigurationError(f"{path} is no receipt that this curator signed")


def study_identity(text: str, learner: bytes) -> bytes:
    """What a person typed for a study; zero where a learner as a whole is meant."""
    if not text and not learner:
        raise ConfigurationError("name a study, a learner, or both: --study ID, --learner KEY")
    try:
        identity = bytes.fromhex(text) if text else NO_STUDY
    except ValueError:
        identity = b""
    if len(identity) != len(NO_STUDY):
        raise ConfigurationError("--study takes the identity of a study, of 32 hexadecimal digits")
    return identity


def join(where: Place, key: SigningKey, mark: Path, *, beside: Path | None, first: SigningKey | None = None) -> str:
    """Make the mark of a further process that will serve from a ledger; it starts at the newest entry.

    Where another process's mark is at hand, the ledger must hold what that one names. Without it nothing here can know
    whether the ledger was rolled back before, which is what the steward's word is for.

    Args:
        where: the ledger.
        key: the curator's.
        mark: the file to make.
        beside: another process's mark.
        first: the curator's first key, where it has had others; the marks' own key is derived from it.

    Returns:
        Where the mark starts, for people.

    Raises:
        ConfigurationError: the ledger is halted, not in order, another curator's, or lacks what the other mark names;
            or the file exists or cannot be made.
    """
    account, entries = _in_order(where, key)
    if account.halted:
        raise ConfigurationError(f"{told_place(where)} is halted; see what was lost, then: expril ledger resume")
    if beside is not None:
        known = read_mark(beside, (first or key).derive("ledger mark"))
        if known is None:
            raise ConfigurationError(f"{beside} is no mark under this key, or damaged; it proves nothing")
        if not all(account.knows(lost) for lost in known.branches(b"", account.hashes)):
            raise ConfigurationError(
                f"{told_place(where)} lacks entry {known.position.index}, which {beside} names: it was rolled back; "
                "restore the newest copy, or let the process of that mark start, halt, and resume it"
            )
    with new_file(mark, rule=NEVER_ANEW) as draft:
        held = open_mark(draft, first or key)
        try:
            held.write(marked_at_end(account), account.hashes)
        finally:
            held.close()
    return place_of(entries[-1], account)


def place_of(entry: Entry, account: Account) -> str:
    """A ledger's newest entry, for people."""
    when = datetime.fromtimestamp(entry.at, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return f"entry {entry.index} ({entry.kind}, {when} UTC), head {account.head.hex()[:16]}"


def newest_of(where: Place, key: SigningKey) -> str:
    """The newest entry of a ledger in order, for people; raises as `join`."""
    account, entries = _in_order(where, key)
    return place_of(entries[-1], account)


def _in_order(where: Place, key: SigningKey) -> tuple[Account, tuple[Entry, ...]]:
    with read_evidence(where) as ledger:
        checked = check_evidence(ledger)
    if checked.account.curator != key.public:
        raise ConfigurationError(f"{told_place(where)} belongs to another curator's key")
    if checked.findings:
        raise ConfigurationError(f"{told_place(where)} is not in order; see: expril ledger verify")
    return checked.account, checked.entries


def _subject(account: Account, study: bytes, learner: bytes) -> StudyKey:
    if study == NO_STUDY:
        if learner not in account.bound and not account.studies_of(learner) and not account.spent_by(learner):
            raise ConfigurationError("this ledger knows no study of this learner")
        return StudyKey(learner, NO_STUDY)
    found = [key for key in account.studies if key.study == study and learner in (b"", key.learner)]
    if not found:
        raise ConfigurationError("this ledger knows no such study; expril ledger show --json has their identities")
    if len(found) > 1:
        raise ConfigurationError("several learners have a study of this identity; add --learner")
    return found[0]
