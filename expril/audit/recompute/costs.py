"""A deployed study's `cost.json` against what its transcripts prove."""

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec

from expril.audit.recompute.files import read_plain
from expril.audit.recompute.findings import as_text
from expril.audit.recompute.verdicts import TranscriptVerdict
from protocol.errors import printable
from protocol.run_index import COST


class _Curator(msgspec.Struct, frozen=True):
    """What of a curator is checked; what else is told of it is for people."""

    spent: str
    at_most: str


class _Cost(msgspec.Struct, frozen=True):
    curators: dict[str, _Curator]


def check_cost(folder: Path, verdicts: Sequence[TranscriptVerdict]) -> list[str]:
    """Where the totals told are not those that the transcripts prove.

    Args:
        folder: of the study.
        verdicts: on its transcripts.
    """
    try:
        told = msgspec.json.decode(read_plain(folder / COST), type=_Cost).curators
        sums = {name: (Fraction(one.spent), Fraction(one.at_most)) for name, one in told.items()}
    except (OSError, msgspec.DecodeError, ValueError, ZeroDivisionError, RecursionError):
        return [f"{COST} cannot be read"]
    spent: Counter[str] = Counter()
    at_most: Counter[str] = Counter()
    for verdict in verdicts:
        if verdict.proof is not None:
            _add(spent, verdict.entry.curator, verdict.proof.epsilon_spent)
            _add(at_most, verdict.entry.curator, verdict.proof.epsilon_at_most)
    return [
        f"{COST} says that {printable(name)} charged {as_text(told_sums[0])}, at most {as_text(told_sums[1])}; the "
        f"transcripts prove {as_text(Fraction(spent[name]))}, at most {as_text(Fraction(at_most[name]))}"
        for name, told_sums in sums.items()
        if told_sums != (Fraction(spent[name]), Fraction(at_most[name]))
    ]


def _add(sums: Any, name: str, amount: Fraction) -> None:
    sums[name] += amount
