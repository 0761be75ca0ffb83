"""One scenario at several epsilons: `expril simulate SCENARIO --epsilon 0.1,0.3,1,3`.

Each epsilon is a run of its own, with its own curators, ledgers and noise, in a folder of its own that can be verified
by itself; records are split alike in all of them. The folder around them has a list of the epsilons and one page, which
is made of the runs' reports alone.
"""

from pathlib import Path

import msgspec

from protocol.run_index import PAGE, REPORT
from simulations.epsilon_runs import EPSILONS, epsilon_folder
from simulations.run_folder import claim_folder, stamped

FORMAT = 1


class EpsilonList(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a folder of epsilons holds.

    Attributes:
        format: `FORMAT`.
        command: that made it; the same command goes on with a folder whose page is missing.
        order: digest of the scenario as it was run, without its epsilons.
        epsilons: each has a run.
    """

    format: int
    command: str
    order: str
    epsilons: tuple[str, ...]


def find_or_make_folder(out: Path, title: str, wanted: EpsilonList, *, fresh: bool) -> Path:
    """The folder of an interrupted command of the same order, to go on in, or a new one.

    Raises:
        ConfigurationError: it cannot be made.
    """
    for found in sorted(out.glob(f"*/{EPSILONS}")):
        if not fresh and not (found.parent / PAGE).exists() and _read(found) == wanted:
            return found.parent
    folder = claim_folder(out, "{}", stamped(f"{title}-epsilons"))
    (folder / EPSILONS).write_bytes(msgspec.json.format(msgspec.json.encode(wanted)) + b"\n")
    return folder


def done(folder: Path, epsilon: str) -> bool:
    """Whether the run at this epsilon is complete."""
    return (folder / epsilon_folder(epsilon) / REPORT).is_file()


def settle(made: Path, folder: Path, epsilon: str) -> Path:
    """Give a run that was made in the folder its name there."""
    return made.rename(folder / epsilon_folder(epsilon))


def _read(path: Path) -> EpsilonList | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=EpsilonList)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None
