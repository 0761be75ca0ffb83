"""What a command says when it cannot do what was asked: one sentence, a kind for machines, and an exit status."""

import errno
from importlib.util import find_spec
from typing import NamedTuple

from protocol.errors import ExprilError

FAILED, WRONG, LATER, INTERRUPTED, NOBODY_READS = 1, 2, 3, 130, 141
"""Exit statuses. `FAILED`: what was looked at is not in order. `LATER`: something is awaited, and the same command goes
on with it. The last two are those of a process that SIGINT or SIGPIPE ended."""
UNFINISHED = frozenset({"unfinished", "network"})
"""Kinds of what is no mistake, but a matter of waiting."""
PARTS = {
    "learner": frozenset({"jinja2", "scipy", "sklearn", "torch"}),
    "simulations": frozenset({"fastexcel", "pooch", "tomli_w", "uvloop"}),
}
"""Extra of the package -> the modules that come with it; each extra has all of those before it."""
FASTER = frozenset({"uvloop"})
"""Of these, what no command needs, and what is not to be had everywhere."""
APART = {"ray": "ray", "dp_accounting": "audit", "jsonschema": "audit", "yaml": "audit"}
"""Module -> an extra beside these."""
_FULL = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "a file would be larger than is allowed here",
}
_LOCKED = {
    errno.EROFS: "it is on a read-only disk",
    errno.EACCES: "you may not read or write there",
    errno.EPERM: "you may not read or write there",
}


class Fault(NamedTuple):
    """What went wrong.

    Attributes:
        kind: one word for machines; docs/errors.md lists them.
        text: one sentence for people: what is wrong, where, what to do.
    """

    kind: str
    text: str


def fault_of(error: Exception, *, part: str = "") -> Fault | None:
    """What to say of an error; None where it is a fault of ours, which deserves its traceback.

    Args:
        error: that ended a command.
        part: the extra that the command needs, a key of `PARTS`.
    """
    if isinstance(error, ExprilError):
        return Fault(error.kind, str(error))
    if isinstance(error, BrokenPipeError):
        return None
    if isinstance(error, OSError):
        return _of_the_system(error)
    if isinstance(error, MemoryError):
        return Fault("memory", "there is not enough memory; ask for less at a time, or use a larger machine")
    if isinstance(error, ModuleNotFoundError):
        return _missing_part(error, part)
    return None


def require(part: str) -> None:
    """Raise ModuleNotFoundError where a module of an extra is missing: at once, and not after the work of an hour."""
    for name, modules in PARTS.items():
        for module in sorted(modules - FASTER):
            if find_spec(module) is None:
                raise ModuleNotFoundError(f"No module named {module!r}", name=module)
        if name == part:
            return


def _of_the_system(error: OSError) -> Fault | None:
    where = f"{error.filename}: " if error.filename else ""
    if error.errno in _FULL:
        return Fault("disk", f"{where}{_FULL[error.errno]}; free some space, or write to another folder")
    if error.errno in _LOCKED:
        return Fault("disk", f"{where}{_LOCKED[error.errno]}; choose another folder, or copy it to one of your own")
    if error.errno is None:
        return None
    return Fault("disk", f"{where}{error.strerror}")


def _missing_part(error: ModuleNotFoundError, part: str) -> Fault | None:
    missing = (error.name or "").partition(".")[0]
    parts = [name for name, modules in PARTS.items() if missing in modules]
    if not part or not (parts or missing in APART):
        return None
    extra = f"{part},{APART[missing]}" if missing in APART else max(part, *parts, key=list(PARTS).index)
    return Fault(
        "installation", f'this command needs a part that is not installed ({missing}): pip install "expril[{extra}]"'
    )
