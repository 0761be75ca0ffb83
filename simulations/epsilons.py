"""One scenario at several epsilons: `expril simulate SCENARIO --epsilon 0.1,0.3,1,3`.

Each epsilon is a run of its own, with its own curators, ledgers and noise, in a folder of its own that can be verified
by itself; records are split alike in all of them. The folder around them has a list of the epsilons and one page, which
is made of the runs' reports alone.
"""

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec

from learner_node.large_epsilon import is_large
from protocol.errors import ConfigurationError
from protocol.rationals import parse_rational, written_exactly
from simulations.run_folder import claim_folder, stamped
from simulations.run_index import EPSILONS, PAGE, REPORT, epsilon_folder
from simulations.scenario import CuratorScenario, Scenario

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


@dataclass(frozen=True)
class AtEpsilon:
    """A scenario at another epsilon, and what its user must know of it."""

    scenario: Scenario
    notes: tuple[str, ...]


def read_epsilons(written: str) -> tuple[str, ...]:
    """Epsilons of a list such as "0.1,0.3,1/2", from the smallest on.

    Raises:
        ConfigurationError: one is no positive rational, or is there twice.
    """
    values: dict[Fraction, str] = {}
    for text in (part.strip() for part in written.split(",")):
        try:
            value = parse_rational(text)
        except ConfigurationError as error:
            raise ConfigurationError(f"--epsilon {written}: {error}") from None
        if value in values:
            raise ConfigurationError(f"--epsilon {written}: {text} is there twice")
        values[value] = text
    return tuple(text for _, text in sorted(values.items()))


def at_epsilon(scenario: Scenario, epsilon: str) -> AtEpsilon:
    """The scenario where every learner has this epsilon.

    A cap that would refuse it is raised to what the learners may need: `epsilon` for each, and their sum for all. What
    was raised is in the notes, since a real curator's cap does not follow.
    """
    each = parse_rational(epsilon)
    total = each * len(scenario.learners)
    raised, curators = [], []
    written = list(scenario.curators)
    if not any(curator.name == "*" for curator in written):
        written.append(CuratorScenario(name="*"))
    for curator in written:
        changes: dict[str, Any] = {}
        if parse_rational(curator.cap) < total:
            changes["cap"] = str(total)
        if curator.learner_cap is not None and parse_rational(curator.learner_cap) < each:
            changes["learner_cap"] = str(each)
        low = {name: cap for name, cap in curator.learner_caps.items() if parse_rational(cap) < each}
        if low:
            changes["learner_caps"] = curator.learner_caps | dict.fromkeys(low, str(each))
        if changes:
            raised.append("any other site" if curator.name == "*" else curator.name)
        if changes or curator in scenario.curators:
            curators.append(msgspec.structs.replace(curator, **changes))
    # Whoever asked for a large one has confirmed it on the command line.
    large = {"large_epsilon": True} if is_large(each) else {}
    learners = tuple(msgspec.structs.replace(learner, epsilon=epsilon, **large) for learner in scenario.learners)
    changed = msgspec.structs.replace(scenario, learners=learners, curators=tuple(curators))
    note = (
        f"For epsilon {epsilon} caps were raised to what the learners may need, {written_exactly(total)} in all and "
        f"{written_exactly(each)} each, at "
        f"{', '.join(raised)}: a real curator's cap does not follow."
    )
    return AtEpsilon(changed, (note,) if raised else ())


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
