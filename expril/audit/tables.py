"""What single parts of an audit found, in all detail, as tables for the terminal; `document` tells of a whole audit."""

from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction

from expril.audit.recompute.sums import INFINITE, Sum
from expril.audit.recompute.verdicts import Recomputed, RunProof
from expril.audit.results import Check, ControlResult, KindResult, StudyAttack
from expril.report.table import Cell, Column, Table, Written, attributes, judged, strong, text_table
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


def recomputed_tables(result: Recomputed) -> Iterator[Written]:
    """All that was recomputed: of each run its transcripts and ledgers, then the sums."""
    for proof in result.runs:
        if proof.index is not None:
            yield transcript_table(proof)
            if proof.ledgers:
                yield ledger_table(proof)
    if result.sums:
        yield sum_table(result)


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


def mechanism_tables(
    kinds: Sequence[KindResult], controls: Sequence[ControlResult], checks: Sequence[Check]
) -> Iterator[Written]:
    """What is shipped, what is broken on purpose, and what has no two neighbours."""
    shipped = [
        (
            *(one.kind, one.attack.claimed, f"{one.attack.lower_bound:.4f}"),
            "-" if one.exact is None else f"{one.exact:.9g}",
            one.searched,
            Cell(f"violation {one.verdict}", tone="bad") if one.violation else one.verdict,
        )
        for one in kinds
    ]
    headings = ("kind", "claimed", "proven by draws", "exact", "pairs searched", "verdict")
    yield text_table("Installed kinds", headings, shipped, wraps=["verdict"])
    if controls:
        broken = [
            (
                *(one.name, one.attack.claimed, one.truth, f"{one.attack.lower_bound:.4f}"),
                judged(one.caught, "yes", "NO"),
                one.fault,
            )
            for one in controls
        ]
        headings = ("control", "claimed", "true", "proven by draws", "caught", "what is wrong")
        yield text_table("Broken on purpose", headings, broken, wraps=["what is wrong"])
    passed = [(check.name, judged(check.passed, "yes", "NO"), check.found) for check in checks]
    yield text_table("Checks", ("check", "passed", "found"), passed, wraps=["found"])


def attacks_table(found: Sequence[StudyAttack], records: str) -> Table[StudyAttack]:
    """Attacks on whole studies: one row an attack."""
    columns: list[Column[StudyAttack]] = [
        *attributes("attack"),
        Column("on", lambda one: one.target),
        Column("epsilon", lambda one: one.epsilon, number=True),
        Column("games", lambda one: one.trials, number=True),
        Column("gain", lambda one: f"{one.gain:.4f}", number=True),
        Column("95 %", lambda one: "{:.3f} to {:.3f}".format(*one.interval), number=True),
        Column("theory", lambda one: "" if one.expected is None else f"{one.expected:.4f}", number=True),
        Column("bound", lambda one: f"{one.bound:.4f}", number=True),
        Column("", lambda one: "above" if not one.holds else "ok" if one.reaches else "short"),
    ]
    return Table.of(f"Attacks on whole studies, {records} records", columns, found)
