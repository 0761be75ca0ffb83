"""A checkpoint of a stored ledger, for witnesses; never of one that was rolled back, as far as its curator can know."""

from pathlib import Path

from curator_node.ledger.account import Account
from curator_node.ledger.chain import UNFINISHED
from curator_node.ledger.checks import load
from curator_node.ledger.files import mark_path
from curator_node.ledger.marks import Marked, read_mark
from curator_node.ledger.places import Place, read_store, told_place
from curator_node.ledger.storing import LedgerStore
from expril.files import read_text_file, write_new
from protocol.envelopes import SigningKey
from protocol.errors import ConfigurationError
from protocol.ledger.checkpoints import CheckpointError, Submission, make_checkpoint, read_checkpoint, sign_checkpoint
from protocol.ledger.merkle import Tree


def write_checkpoint(
    where: Place,
    key: SigningKey,
    out: Path,
    *,
    since: str = "",
    mark: Path | None = None,
    first: SigningKey | None = None,
) -> tuple[Submission, bool]:
    """Sign how many entries a ledger has and the root over them, and write that to a file that a witness reads.

    The ledger's curator may be serving. The ledger is held against the mark, as a process that serves does at its
    start: a mark that the ledger contradicts, or that is damaged, ends it.

    Args:
        where: the ledger.
        key: the curator's present one.
        out: the file to make.
        since: a file with an older checkpoint, or its number of entries; the new one proves to go on from there. Empty
            for a witness that knows none yet.
        mark: of a process that serves; None takes the one beside a SQLite ledger, where there is one.
        first: the curator's first key, where it has had others; the mark's own key is derived from it.

    Returns:
        What was written, and whether there was a mark.

    Raises:
        ConfigurationError: no ledger there, another curator's, or a file is wrong, exists or cannot be written.
        CheckpointError: the ledger is halted, or lacks what the mark or the older checkpoint names.
        LedgerCorruptError, LedgerUnavailableError: the ledger cannot be read.
    """
    beside = mark_path(where) if isinstance(where, Path) else None
    path = mark or (beside if beside is not None and beside.exists() else None)
    # The mark is read before the ledger, which may grow meanwhile.
    known = None if path is None else read_mark(path, (first or key).derive("ledger mark"))
    with read_store(where) as store:
        account = load(store)
        _check(account, key, told_place(where))
        if path is not None:
            _hold_against(account, known, path, told_place(where))
        tree = Tree(account.hashes)
        old = _older(since, tree, account)
        rows = [_row(store, start - 1) for start, _ in account.curators[1:]]
    checkpoint = make_checkpoint(tree, account.head, account.curators[0][1], rows)
    made = Submission(old, tree.consistency_proof(old), sign_checkpoint(checkpoint, key))
    write_new(out, str(made).encode(), rule="a checkpoint is never overwritten", public=True)
    return made, path is not None


def _check(account: Account, key: SigningKey, place: str) -> None:
    if account.curator != key.public:
        raise ConfigurationError(f"{place} belongs to another curator's key")
    if not account.taken_over:
        raise ConfigurationError(f"{place}: {UNFINISHED}; end it by: expril curator rotate")
    if account.halted:
        raise CheckpointError(f"{place} is halted; see what was lost, then: expril ledger resume")


def _hold_against(account: Account, known: Marked | None, mark: Path, place: str) -> None:
    if known is None:
        raise CheckpointError(
            f"{mark} is no mark under this key, or damaged: the ledger may have been replaced by an older one, and is "
            "not signed for; let its process start, halt, and resume it"
        )
    if not all(account.knows(lost) for lost in known.branches(b"", account.hashes)):
        raise CheckpointError(
            f"{place} lacks entry {known.position.index}, which its mark names: it was rolled back, and is not signed "
            "for; restore the newest copy, or let its process start, halt, and resume it"
        )


def _older(since: str, tree: Tree, account: Account) -> int:
    """The older checkpoint's size; the ledger holds it."""
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
