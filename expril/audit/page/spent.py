"""What was recomputed from transcripts, receipts and ledgers, as the page shows it."""

from typing import NamedTuple

from expril.audit.recompute import Recomputed
from expril.report.numbers import count
from protocol.rationals import written


class SpentRow(NamedTuple):
    """One curator, or one learner at it.

    Attributes:
        who: of whom.
        unit: privacy unit.
        claimed: cost of all accepted plans, exact.
        recomputed: what was spent at most, from the entries alone, exact.
        verdict: one sentence.
        wrong: whether something contradicts.
    """

    who: str
    unit: str
    claimed: str
    recomputed: str
    verdict: str
    wrong: bool


def rows_of(result: Recomputed) -> list[SpentRow]:
    """A row for each curator; repeats that spent alike share one. What contradicts has rows of its own."""
    alike: dict[tuple[str, str, str, str], int] = {}
    for one in result.sums:
        if not one.learner and not one.version:
            name = one.curator.rpartition(", repeat ")[0] or one.curator
            told = (name, one.unit, written(one.claimed), written(one.at_most))
            alike[told] = alike.get(told, 0) + 1
    wrong = [*result.wrong, *result.unread]
    rows = [SpentRow(text.partition(": ")[0], "–", "–", "–", text, True) for text in wrong]
    for (name, unit, claimed, spent), repeats in alike.items():
        times = f" In each of {count(repeats, 'repeat')}." if repeats > 1 else ""
        fits = "See above." if wrong else "Every signed message and every entry adds up to this."
        rows.append(SpentRow(name, unit, claimed, spent, f"{fits}{times}", bool(wrong)))
    return rows
