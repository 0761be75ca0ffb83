"""A ledger as its steward sees it, and a steward's commands: make one, check, resume, sign a checkpoint."""

import math
import time
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from curator_node.ledger.account import Account
from curator_node.ledger.chain import UNFINISHED
from curator_node.ledger.checks import Finding, check_evidence, load
from curator_node.ledger.engines import require_sqlite
from curator_node.ledger.ledger import Ledger
from curator_node.ledger.marks import Marked, MemoryMark, read_mark
from curator_node.ledger.places import Place, create_ledger_file, mark_path, place_text, read_evidence, read_store
from curator_node.ledger.store import DatabaseStore, LedgerStore, sqlite_url
from curator_node.ledger.studies import LostSpending, StudyKey
from curator_node.policy import Policy, read_policy
from curator_node.steward.enrolment import LEARNERS, POLICY, read_policy_of
from expril.files import read_text_file, write_new
from protocol.envelopes import SigningKey
from protocol.errors import ConfigurationError
from protocol.kinds import QUERY_KINDS
from protocol.ledger.checkpoints import CheckpointError, Submission, make_checkpoint, read_checkpoint, sign_checkpoint
from protocol.ledger.entries import Entry, EntryKind
from protocol.ledger.merkle import Tree
from protocol.messages import NOBODY
from protocol.rationals import parse_rational, shorten, written_exactly

LOWER_BOUND = (
    "this is a lower bound: what was charged after the newest position seen is not in it; ask every learner for its "
    "newest receipt"
)


_ZERO = Fraction(0)


@dataclass(frozen=True)
class LedgerView:
    """A checked ledger, with its curator's policy if that is known."""

    account: Account  # the sum of all entries, or of those before the first that does not fit
    entries: tuple[Entry, ...]  # the same ones
    findings: tuple[Finding, ...]  # what is wrong with the ledger
    policy: Policy | None

    def as_object(self) -> dict[str, Any]:
        """The budgets for programs, key by key.

        `cap` and `left` are sums over all keys of a learner, and null without a policy.

        `name` is the name to which the ledger has bound the key, or else the policy's; null if neither has one.
        """
        return {
            "curator": self.account.curator.hex(),
            "terms": self.account.terms,
            "head": self.account.head.hex(),
            "findings": [{"entry": finding.index, "text": finding.text} for finding in self.findings],
            "halted": self.account.halted,
            "data": [{"entry": index, "version": version} for index, version in self.account.data],
            "plug_ins": [{"entry": index, "packages": note.splitlines()} for index, note in self.account.plug_ins],
            "spent": _written(self.account.total_spent),
            "reserved": _written(self.account.total_reserved),
            "cap": None if self.policy is None else str(self.policy.total_cap),
            "learners": {
                key.hex(): {
                    "name": self.name_of(key),
                    "spent": _written(self.account.spent.get(key, _ZERO)),
                    "reserved": _written(self.account.reserved.get(key, _ZERO)),
                    "cap": cap,
                    "left": remaining,
                }
                for keys, cap, remaining in self.learners()
                for key in keys
            },
            "entries": [
                {
                    "index": entry.index,
                    "at": entry.at,
                    "kind": entry.kind,
                    "learner": entry.learner.hex(),
                    "study": entry.study.hex(),
                    "sequence": entry.sequence,
                    "epsilon": entry.amount,
                    "note": entry.note,
                }
                for entry in self.entries
            ],
        }

    def note_of(self, entry: Entry) -> str:
        """An entry's note in words. The query kind words the note of a charge."""
        study = self.account.studies.get(StudyKey(entry.learner, entry.study))
        if entry.kind is not EntryKind.CHARGE or not entry.note or study is None:
            return entry.note
        kind = QUERY_KINDS.get(study.kind_of(entry.sequence))
        return entry.note if kind is None else kind.note_words(entry.note)

    def name_of(self, key: bytes) -> str | None:
        """The name to which the ledger has bound a key, or else its name in the policy."""
        enrolled = None if self.policy is None else self.policy.learner(key)
        return self.account.name_of(key) or (None if enrolled is None else enrolled.name)

    def learners(self) -> list[tuple[tuple[bytes, ...], str | None, str | None]]:
        """(keys, cap, left) of every learner in the ledger or the policy."""
        allowed = [] if self.policy is None else list(self.policy.keys)
        known_keys = dict.fromkeys([*self.account.bound, *allowed, *self.account.reserved, *self.account.spent])
        groups: dict[str | bytes, list[bytes]] = {}
        for key in known_keys:
            if key != NOBODY:
                groups.setdefault(self.name_of(key) or key, []).append(key)
        rows = []
        for keys in groups.values():
            cap = remaining = None
            if self.policy is not None:
                # A key that was taken out of the policy leaves its learner's cap with the others
                own_cap, total = max(map(self.policy.cap_of, keys)), self.policy.total_cap
                name = self.name_of(keys[0]) or ""
                cap, remaining = (
                    str(own_cap),
                    str(shorten(self.account.remaining(keys[0], own_cap, total, name), math.floor)),
                )
            rows.append((tuple(keys), cap, remaining))
        return rows


def read(where: Place, policy: Path | None = None, *, curator: bytes | None = None) -> LedgerView:
    """Check a ledger entry by entry: places, contents, signatures, and stored replies. Nothing is written.

    `policy`: the curator's policy file; None looks for `NAME.policy.toml` beside `NAME.ledger`. `curator`: public key
    under which it must be signed; None takes the one that the ledger itself names.

    Raises:
        ConfigurationError: there is no ledger, or the policy file is wrong.
        LedgerCorruptError, LedgerUnavailableError: the file cannot be read as a database.
    """
    chosen = policy or _policy_beside(where)
    rules = None
    if chosen is not None:
        rules = _rules(chosen)
    with read_evidence(where) as ledger:
        checked = check_evidence(ledger, curator)
    return LedgerView(checked.account, checked.entries, checked.findings, rules)


def _policy_beside(where: Place) -> Path | None:
    if not isinstance(where, Path) or not where.name:
        return None
    beside = where.with_name(where.name.removesuffix(".ledger") + ".policy.toml")
    return beside if beside.is_file() else None


def create(where: Place, key: SigningKey, *, mark: Path | None, note: str) -> None:
    """Make a new ledger and its mark.

    Raises:
        ConfigurationError: one of them exists, or cannot be made.
    """
    create_ledger_file(where, key, now=int(time.time()), mark=mark, note=note)


def resume(where: Place, key: SigningKey, *, note: str, learner: str, restored: str) -> list[str]:
    """Enter the steward's decision to go on, and what the ledger is known to have lost.

    Returns:
        The spending that was entered, line by line.

    Raises:
        ConfigurationError: there is no ledger, it is another curator's or not halted, or a key or amount is wrong.
    """
    if bool(learner) != bool(restored):
        raise ConfigurationError("--learner and --restored go together")
    amount = parse_rational(restored) if restored else Fraction(0)
    with closing(_open(where)) as store:
        ledger = Ledger(store, key=key, mark=MemoryMark())  # the serving process moves its own mark
        if not ledger.account.halted:
            raise ConfigurationError(f"{place_text(where)} is not halted")
        owner = public_key(learner, "--learner") if learner else NOBODY
        spendings = ledger.resume(int(time.time()), learner=owner, restored=amount, note=note)
    lines = [_restored(item) for item in spendings]
    if restored:
        lines.append(f"entered as spent by {learner[:16]}: {amount}")
    return [*lines, LOWER_BOUND]


def public_key(text: str, option: str) -> bytes:
    """A public key of 64 hexadecimal digits; ConfigurationError names `option` takes it."""
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != len(NOBODY):
        raise ConfigurationError(f"{option} takes a public key of 64 hexadecimal digits")
    return key


def _restored(item: LostSpending) -> str:
    suspect = item.suspect
    if suspect.position is None:
        return "a mark was missing: what was lost with it, if anything, is not known"
    how = "this curator's own mark" if suspect.learner == NOBODY else f"a receipt of {suspect.learner.hex()[:16]}"
    text = f"entered as spent over all learners: {written_exactly(item.total)}, by {how}"
    shares = {learner: spent for learner, spent in item.by_learner.items() if spent and learner != NOBODY}
    if item.running:
        text += f"; {written_exactly(item.running)} of it once more, for what was running where the ledger was put back"
    return text + "".join(
        f"; of it by {learner.hex()[:16]}: {written_exactly(spent)}" for learner, spent in shares.items()
    )


def _written(total: Fraction) -> str:
    return str(shorten(total, math.ceil))


def _rules(path: Path) -> Policy:
    """The policy in a file. If the file is a site's, the learners that are enrolled there are in it."""
    if path.name == POLICY and (path.parent / LEARNERS).is_dir():
        return read_policy_of(path.parent, kinds=None)
    return read_policy(read_text_file(path, "policy file"), where=f"policy file {path.name}", kinds=None)


def _open(where: Place) -> DatabaseStore:
    if not isinstance(where, Path):
        return DatabaseStore(where)
    require_sqlite(where)
    return DatabaseStore(sqlite_url(where))


def write_checkpoint(
    where: Place,
    key: SigningKey,
    out: Path,
    *,
    since: str = "",
    mark: Path | None = None,
    first: SigningKey | None = None,
) -> tuple[Submission, bool]:
    """Sign a ledger's number of entries and the root over them, and write both to a file for a witness.

    The curator may be serving. The ledger is compared with the mark, as at a curator's start. Nothing is signed if the
    mark is damaged or names an entry that the ledger lacks.

    `key`: the curator's present one; `out`: the file to make; `since`: a file with an older checkpoint, or its number
    of entries, from which the new one proves to go on; empty for a witness that has none. `mark`: of a serving process;
    None takes the one beside a SQLite ledger, if any. `first`: the curator's first key, if it has had others; the
    mark's own key is derived from it.

    Returns:
        The checkpoint that was written, and whether there was a mark.

    Raises:
        ConfigurationError: there is no ledger, it is another curator's, or a file is wrong, exists or cannot be
            written.
        CheckpointError: the ledger is halted, or lacks what the mark or the older checkpoint names.
        LedgerCorruptError, LedgerUnavailableError: the ledger cannot be read.
    """
    beside = mark_path(where) if isinstance(where, Path) else None
    path = mark or (beside if beside is not None and beside.exists() else None)
    # The mark is read before the ledger, which may grow meanwhile
    marked = None if path is None else read_mark(path, (first or key).derive("ledger mark"))
    with read_store(where) as store:
        account = load(store)
        _check(account, key, place_text(where))
        if path is not None:
            _hold_against(account, marked, path, place_text(where))
        tree = Tree(account.hashes)
        old = _older(since, tree, account)
        rows = [_row(store, start - 1) for start, _ in account.curators[1:]]
    checkpoint = make_checkpoint(tree, account.head, account.curators[0][1], rows)
    submission = Submission(old, tree.consistency_proof(old), sign_checkpoint(checkpoint, key))
    write_new(out, str(submission).encode(), rule="a checkpoint is never overwritten", public=True)
    return submission, path is not None


def _check(account: Account, key: SigningKey, place: str) -> None:
    if account.curator != key.public:
        raise ConfigurationError(f"{place} belongs to another curator's key")
    if not account.taken_over:
        raise ConfigurationError(f"{place}: {UNFINISHED}; end it by: expril curator rotate")
    if account.halted:
        raise CheckpointError(f"{place} is halted; see what was lost, then: expril ledger resume")


def _hold_against(account: Account, marked: Marked | None, mark: Path, place: str) -> None:
    if marked is None:
        raise CheckpointError(
            f"{mark} is no mark under this key, or damaged: the ledger may have been replaced by an older one, and is "
            "not signed for; let its process start, halt, and resume it"
        )
    if not all(account.knows(trace) for trace in marked.branches(b"", account.hashes)):
        raise CheckpointError(
            f"{place} lacks entry {marked.position.index}, which its mark names: it was rolled back, and is not signed "
            "for; restore the newest copy, or let its process start, halt, and resume it"
        )


def _older(since: str, tree: Tree, account: Account) -> int:
    """The older checkpoint's size, after checking that the ledger goes on from it."""
    if not since or (since.isascii() and since.isdigit()):
        old = int(since or 0)
        if old > tree.size:
            raise CheckpointError(f"the ledger has {tree.size} entries, fewer than the {old} of --since")
        return old
    older = read_checkpoint(read_text_file(Path(since), "checkpoint"), where=since).checkpoint
    if older.first != account.curators[0][1]:
        raise ConfigurationError(f"{since} is of another curator's ledger")
    if older.size > tree.size or tree.root(older.size) != older.root:
        raise CheckpointError(
            f"the ledger does not hold what {since} names, {older.size} entries: it was rolled back or edited; "
            "restore the newest copy"
        )
    return older.size


def _row(store: LedgerStore, index: int) -> tuple[int, bytes, bytes]:
    row = store.rows(index)[0]
    return row.index, row.body, row.signature
