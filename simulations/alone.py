"""One process at a time on a file: the system lets go of it however the process ends."""

from typing import IO, Any

try:
    import fcntl
except ImportError:  # Windows: nothing keeps two processes apart there
    fcntl = None  # type: ignore[assignment]


def take_alone(file: IO[Any]) -> bool:
    """Lock an open file until it is closed; False where another process has it."""
    if fcntl is not None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
    return True
