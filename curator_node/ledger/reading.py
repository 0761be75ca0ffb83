"""A SQLite ledger as evidence: it is read, and nothing is written beside it, on whatever medium it lies."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from curator_node.ledger.engines import require_sqlite
from curator_node.ledger.store import DatabaseStore, read_only_url
from protocol.errors import ConfigurationError


@contextmanager
def read_ledger_file(path: Path, *, log: bool = True) -> Iterator[DatabaseStore]:
    """Open a ledger that is only read.

    One that a process serves is read with its write-ahead log, in place. A log that nobody serves any more, as in a
    copy of a folder, could only be read by writing beside it, so file and log are copied first.

    Args:
        path: of the ledger.
        log: whether what stands in the log belongs to the ledger.

    Raises:
        ConfigurationError: not a ledger, or it cannot be copied.
    """
    require_sqlite(path)
    wal, shared = (path.with_name(path.name + suffix) for suffix in ("-wal", "-shm"))
    if not log or not wal.is_file() or not wal.stat().st_size:
        yield from _opened(path, log=False)
    elif shared.is_file():
        yield from _opened(path, log=True)
    else:
        with tempfile.TemporaryDirectory() as place:
            copy = Path(place) / "copy"
            shutil.copyfile(path, copy)
            shutil.copyfile(wal, copy.with_name("copy-wal"))
            yield from _opened(copy, log=True)


def _opened(path: Path, *, log: bool) -> Iterator[DatabaseStore]:
    try:
        store = DatabaseStore(read_only_url(path, log=log))
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: {error}") from None
    try:
        yield store
    finally:
        store.close()
