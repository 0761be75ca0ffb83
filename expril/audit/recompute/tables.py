"""What an audit found, as tables for the terminal."""

from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction

from expril.audit.recompute.integral import INFINITE
from expril.audit.recompute.outcome import Recomputed
from expril.audit.recompute.sums import Sum
from expril.audit.recompute.verdicts import RunProof
from expril.report.table import Written, strong, text_table
from protocol.errors import printable
from protocol.rationals import written

TABLE_WIDTH = 120
"""Columns that these tables need."""
NAME_BYTES = 16
"""Of the name of a snapshot of records."""


def verdict(result: Recomputed) -> str:
    """The answer in one sentence."""
    if result.wrong:
        return f"Not proven: {len(result.wrong)} of these things do not fit."
    if not result.sums:
        return "Nothing was proven: no study was read."
    left = len(result.unproven) + len(result.unwitnessed)
    rest = f" What is left open is said in {left} line{'s' if left > 1 else ''}." if left else ""
    return f"Proven: every signature, entry and sum fits.{rest}"


def transcript_table(proof: RunProof) -> Written:
    """What each transcript of a run proves, under which curator's key, and how many do."""
    keys, rows = {} if proof.index is None else proof.index.keys(), []
    for item in proof.transcripts:
        told: tuple[object, ...] = ("", "", "", "")
        if item.proof is not None:
            spent = _spent(item.proof.epsilon_spent, item.proof.epsilon_at_most)
            told = (written(item.proof.epsilon_claimed), spent, item.proof.releases, item.proof.state)
        entry = item.entry
        key = keys.get(("curator", entry.curator, entry.repeat))
        names = (printable(entry.learner), printable(entry.curator), key.hex()[:8] if key else "?")
        rows.append((entry.repeat, *names, item.verdict, *told, item.ledger))
    headings = ("repeat", "learner", "curator", "key", "verdict", "claimed", "spent", "releases", "study", "ledger")
    counted = Counter(item.verdict for item in proof.transcripts)
    note = f"{len(rows)} transcripts: " + ", ".join(f"{count} {what}" for what, count in counted.items())
    return text_table(str(proof.folder), headings, rows, note=note)


def ledger_table(proof: RunProof) -> Written:
    """What each ledger of a run proves."""
    rows = [
        (
            printable(kept.entry.file),
            kept.entry.key[:8],
            kept.verdict,
            kept.entry.entries,
            "?" if kept.spent is None else written(kept.spent),
        )
        for kept in proof.ledgers
    ]
    return text_table("", ("ledger", "key", "verdict", "entries", "spent over all learners"), rows)


def sum_table(result: Recomputed) -> Written:
    """What was claimed and spent, by curator, learner, version of the records and privacy unit."""
    rows = []
    for one in result.sums:
        records = one.version[:8] if len(one.version) == 2 * NAME_BYTES else one.version
        names = (one.curator, one.unit, one.learner or "all learners")
        row = (
            *map(printable, names),
            records or "all",
            written(one.claimed),
            _spent(one.spent, one.at_most),
            INFINITE if one.integral is None else written(one.integral),
            _loss(one),
        )
        rows.append(row if one.learner or one.version else strong(*row))
    headings = ("curator", "privacy unit", "learner", "records", "claimed", "spent", "integral", "(epsilon, delta)")
    note = "\n".join((*_unit_lines(result), *_conditions(result)))
    return text_table("epsilon, recomputed", headings, rows, note=note)


def _spent(least: Fraction, most: Fraction) -> str:
    return written(least) + (f" to {written(most)}" if most != least else "")


def _unit_lines(result: Recomputed) -> Iterator[str]:
    """What one unit may have lost at several curators; where there are several runs or repeats, in which."""
    found: dict[str, list[str]] = {}
    for one in result.units:
        if len(one.curators) > 1:
            text = (
                f"{one.unit or 'units'}, all learners: {written(one.apart)} at one curator at most, "
                f"{written(one.shared)} over all {len(one.curators)}"
            )
            found.setdefault(text, []).append(one.world)
    several = len({world for worlds in found.values() for world in worlds}) > 1
    for text, worlds in found.items():
        yield f"{_listed(worlds)}: {text}" if several else text


def _listed(worlds: Sequence[str]) -> str:
    """Runs and their repeats: "runs/own, repeat 0 to 11"."""
    repeats: dict[str, list[str]] = {}
    for world in worlds:
        run, _, repeat = world.rpartition(", repeat ")
        numbers = repeats.setdefault(run or "ledgers", [])
        if numbers and numbers[-1].split(" to ")[-1] == str(int(repeat or 1) - 1):
            numbers[-1] = f"{numbers[-1].split(' to ')[0]} to {repeat}"
        else:
            numbers.append(repeat)
    return "; ".join(f"{run}, repeat {', '.join(numbers)}" if any(numbers) else run for run, numbers in repeats.items())


def _conditions(result: Recomputed) -> Iterator[str]:
    """What of the sums over all learners holds on a condition, at which curators."""
    found: dict[str, list[str]] = {}
    for one in result.sums:
        for proviso, amount in () if one.learner or one.version else one.provisos.items():
            found.setdefault(proviso, []).append(
                f"{written(amount)} of {written(one.spent)} at {printable(one.curator)}"
            )
    for proviso, where in found.items():
        yield f"on a condition: {', '.join(where)}: {proviso}"


def _loss(one: Sum) -> str:
    return "" if one.loss is None else f"({one.loss.epsilon:.4f}, {one.loss.delta:.2g})"
