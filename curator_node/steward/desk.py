"""The steward's work beside the process that serves: to read a curator's status, act on its ledger, and export it."""

import http.client
import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from curator_node.admission import undecided_proposals
from curator_node.budgets import standing_of
from curator_node.daemon.health import LOOPBACK
from curator_node.daemon.settings import DAEMON, inside, ledger_of, read_settings
from curator_node.identities import Receipts
from curator_node.ledger import Account, Ledger, StudyKey
from curator_node.ledger.chain import marked_at_end
from curator_node.ledger.checks import check_evidence, load
from curator_node.ledger.exports import export_ledger
from curator_node.ledger.marks import MemoryMark, read_mark
from curator_node.ledger.places import NEVER_ANEW, Place, ledger_place, open_mark, place_text, read_evidence, read_store
from curator_node.ledger.sealing import Sealer
from curator_node.ledger.store import DatabaseStore, LedgerStore, sqlite_url
from curator_node.plug_ins import kinds_of
from curator_node.policy import Policy
from curator_node.site import now, policy_of
from curator_node.steward.enrolment import read_policy_of
from curator_node.steward.keyring import LEDGER, read_keys
from expril.files import new_file, write_new
from protocol.envelopes import LABEL, NOT_PRIVATE_LABEL, SigningKey, open_receipt
from protocol.errors import ConfigurationError, RemoteProtocolError
from protocol.ledger.entries import Entry
from protocol.messages import NO_STUDY, Receipt


def write_export(where: Place, out: Path) -> int:
    """Write a ledger's export; returns its number of entries.

    Raises:
        ConfigurationError: there is no ledger, it is not in order, or the file exists or cannot be written.
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
    account, _ = _checked_ledger(where, key)
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
    """The study identity that a person typed; zero for a learner as a whole. Raises ConfigurationError."""
    if not text and not learner:
        raise ConfigurationError("name a study, a learner, or both: --study ID, --learner KEY")
    try:
        identity = bytes.fromhex(text) if text else NO_STUDY
    except ValueError:
        identity = b""
    if len(identity) != len(NO_STUDY):
        raise ConfigurationError("--study takes the identity of a study, of 32 hexadecimal digits")
    return identity


def join_ledger(
    where: Place, key: SigningKey, mark: Path, *, beside: Path | None, first: SigningKey | None = None
) -> str:
    """Make the mark of a further process that will serve from a ledger; it starts at the newest entry.

    If another process's mark is given, the ledger must hold the entry that it names. Without one the steward must know
    that the ledger was not rolled back, since this function cannot.

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
    account, entries = _checked_ledger(where, key)
    if account.halted:
        raise ConfigurationError(f"{place_text(where)} is halted; see what was lost, then: expril ledger resume")
    if beside is not None:
        marked = read_mark(beside, (first or key).derive("ledger mark"))
        if marked is None:
            raise ConfigurationError(f"{beside} is no mark under this key, or damaged; it proves nothing")
        if not all(account.knows(branch) for branch in marked.branches(b"", account.hashes)):
            raise ConfigurationError(
                f"{place_text(where)} lacks entry {marked.position.index}, which {beside} names: it was rolled back; "
                "restore the newest copy, or let the process of that mark start, halt, and resume it"
            )
    with new_file(mark, rule=NEVER_ANEW) as draft:
        open_mark_file = open_mark(draft, first or key)
        try:
            open_mark_file.write(marked_at_end(account), account.hashes)
        finally:
            open_mark_file.close()
    return entry_text(entries[-1], account)


def entry_text(entry: Entry, account: Account) -> str:
    """A ledger's newest entry, for people."""
    when = datetime.fromtimestamp(entry.at, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return f"entry {entry.index} ({entry.kind}, {when} UTC), head {account.head.hex()[:16]}"


def newest_entry(where: Place, key: SigningKey) -> str:
    """The newest entry of a checked ledger, for people; raises the errors of `join_ledger`."""
    account, entries = _checked_ledger(where, key)
    return entry_text(entries[-1], account)


def _checked_ledger(where: Place, key: SigningKey) -> tuple[Account, tuple[Entry, ...]]:
    with read_evidence(where) as ledger:
        checked = check_evidence(ledger)
    if checked.account.curator != key.public:
        raise ConfigurationError(f"{place_text(where)} belongs to another curator's key")
    if checked.findings:
        raise ConfigurationError(f"{place_text(where)} is not in order; see: expril ledger verify")
    return checked.account, checked.entries


def _subject(account: Account, study: bytes, learner: bytes) -> StudyKey:
    if study == NO_STUDY:
        if learner not in account.bound and not account.studies_of(learner) and not account.spent_by(learner):
            raise ConfigurationError("this ledger knows no study of this learner")
        return StudyKey(learner, NO_STUDY)
    matches = [key for key in account.studies if key.study == study and learner in (b"", key.learner)]
    if not matches:
        raise ConfigurationError("this ledger knows no such study; expril ledger show --json has their identities")
    if len(matches) > 1:
        raise ConfigurationError("several learners have a study of this identity; add --learner")
    return matches[0]


SECONDS = 30.0


@dataclass(frozen=True)
class _ReadLedger:
    """See `curator_node.admission.ReadableLedger`."""

    account: Account
    store: LedgerStore


def read_status(folder: Path) -> dict[str, Any]:
    """The content of the daemon's health page. If no daemon runs, it is made from policy and ledger alone.

    Raises:
        ConfigurationError: no daemon runs, and the folder cannot be read.
    """
    settings = read_settings(folder)
    status = page_of(settings.health_port, "/status")
    if status is not None:
        healthy = page_of(settings.health_port, "/health")
        return {"running": True, "healthy": bool(healthy and healthy.get("healthy")), **status}
    url, policy = ledger_of(settings), policy_of(folder)
    with read_store(url or folder / LEDGER) as store:
        account = load(store)
        waiting = len(undecided_proposals(_ReadLedger(account, store), now()))
    return {
        "running": False,
        "healthy": False,
        "curator": account.curator.hex(),
        "name": policy.name,
        "superlink": settings.superlink,
        "waiting": waiting,
        "budget": msgspec.to_builtins(standing_of(account, policy, kinds_of(policy))),
    }


def page_of(port: int, page: str) -> dict[str, Any] | None:
    """A page of the daemon on this machine; None if no daemon answers.

    Raises:
        ConfigurationError: something else answers there.
    """
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=SECONDS)
    try:
        connection.request("GET", page)
        answer = connection.getresponse()
        page_content = json.loads(answer.read())
    except OSError:
        return None
    except (http.client.HTTPException, ValueError):
        page_content = None
    finally:
        connection.close()
    if not isinstance(page_content, dict):
        raise ConfigurationError(f"what listens on {LOOPBACK}:{port} is no curator; choose another health_port")
    return page_content


@dataclass(frozen=True)
class Desk:
    """A site's policy and ledger, opened for its steward."""

    folder: Path  # the site's
    policy: Policy  # with the enrolled learners
    ledger: Ledger  # it may be appended to, whoever else serves from it


def places_of(folder: Path, ledger: str = "", mark: Path | None = None) -> tuple[Path | str, Path | None]:
    """The places of a site's ledger and mark: as given, else as in its daemon file, else in its folder.

    Args:
        folder: the site's.
        ledger: a file or a database's URL; "" if it is not given.
        mark: a file; None if it is not given.
    """
    place = ledger_place(ledger) if ledger else None
    if (folder / DAEMON).is_file():
        settings = read_settings(folder)
        return place or ledger_of(settings) or folder / LEDGER, mark or inside(folder, settings.mark)
    return place or folder / LEDGER, mark


@contextmanager
def open_desk(folder: Path, ledger: str = "") -> Iterator[Desk]:
    """Open a folder for its steward. No mark is held, so a serving process is not disturbed.

    Args:
        folder: the site's.
        ledger: a file or a database's URL; "" takes the site's own.

    Raises:
        ConfigurationError: a file is absent or wrong, or the ledger is another curator's.
        LedgerCorruptError, LedgerUnavailableError: the ledger cannot be read.
    """
    policy, keys = read_policy_of(folder, kinds=None), read_keys(folder)
    where, _ = places_of(folder, ledger)
    store = DatabaseStore(sqlite_url(where) if isinstance(where, Path) else where)
    try:
        yield Desk(folder, policy, Ledger(store, key=keys.current, mark=MemoryMark()))
    finally:
        store.close()
