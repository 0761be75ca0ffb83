"""Tables for the terminal of what was recomputed, and of attacks on kinds and studies; `document` has whole audits."""

from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction

from expril.audit.recompute.sums import INFINITE, UNKNOWN
from expril.audit.recompute.verdicts import Recomputed, RunProof
from expril.audit.results import Check, ControlResult, KindResult, StudyAttack
from expril.report.table import Cell, Column, Table, Written, attributes, judged, strong, text_table
from protocol.errors import printable
from protocol.rationals import written

TABLE_WIDTH = 120
"""Columns of a terminal that these tables need."""
NAME_BYTES = 16
"""Length of the name of a snapshot of records, in bytes."""


def verdict(result: Recomputed) -> str:
    """The verdict in one sentence."""
    if result.wrong:
        return f"Not proven: {len(result.wrong)} of these things do not fit."
    if not result.sums:
        return "Nothing was proven: no study was read."
    open_points = len(result.unproven) + len(result.unwitnessed)
    rest = f" What is left open is said in {open_points} line{'s' if open_points > 1 else ''}." if open_points else ""
    return f"Proven: every signature, entry and sum fits.{rest}"


def recomputed_tables(result: Recomputed) -> Iterator[Written]:
    """Yield tables of all that was recomputed: transcripts and ledgers of each run, then the sums."""
    for proof in result.runs:
        if proof.index is not None:
            yield transcript_table(proof)
            if proof.ledgers:
                yield ledger_table(proof)
    if result.sums:
        yield sum_table(result)


def transcript_table(proof: RunProof) -> Written:
    """What each transcript of a run proves, and under which curator's key."""
    keys, rows = {} if proof.index is None else proof.index.keys(), []
    for item in proof.transcripts:
        proven: tuple[object, ...] = ("", "", "", "")
        if item.proof is not None:
            spent = _spent(item.proof.epsilon_spent, item.at_most)
            proven = (written(item.proof.epsilon_claimed), spent, item.proof.releases, item.proof.state)
        entry = item.entry
        key = keys.get(("curator", entry.curator, entry.repeat))
        names = (printable(entry.learner), printable(entry.curator), key.hex()[:8] if key else "?")
        rows.append((entry.repeat, *names, item.verdict, *proven, item.ledger))
    headings = ("repeat", "learner", "curator", "key", "verdict", "claimed", "spent", "releases", "study", "ledger")
    counted = Counter(item.verdict for item in proof.transcripts)
    note = f"{len(rows)} transcripts: " + ", ".join(f"{count} {verdict}" for verdict, count in counted.items())
    return text_table(str(proof.folder), headings, rows, note=note)


def ledger_table(proof: RunProof) -> Written:
    """A table of a run's ledgers: what each one proves."""
    rows = [
        (
            printable(ledger.entry.file),
            ledger.entry.key[:8],
            ledger.verdict,
            ledger.entry.entries,
            "?" if ledger.spent is None else written(ledger.spent),
        )
        for ledger in proof.ledgers
    ]
    return text_table("", ("ledger", "key", "verdict", "entries", "spent over all learners"), rows)


def sum_table(result: Recomputed) -> Written:
    """Claimed and spent epsilon by curator, privacy unit, learner and version of the records."""
    rows = []
    for total in result.sums:
        records = total.version[:8] if len(total.version) == 2 * NAME_BYTES else total.version
        names = (total.curator, total.unit, total.learner or "all learners")
        row = (
            *map(printable, names),
            records or "all",
            written(total.claimed),
            _spent(total.spent, total.at_most),
            INFINITE if total.integral is None else written(total.integral),
            "" if total.loss is None else f"({total.loss.epsilon:.4f}, {total.loss.delta:.2g})",
        )
        rows.append(row if total.learner or total.version else strong(*row))
    headings = ("curator", "privacy unit", "learner", "records", "claimed", "spent", "integral", "(epsilon, delta)")
    note = "\n".join((*_unit_lines(result), *_conditions(result)))
    return text_table("epsilon, recomputed", headings, rows, note=note)


def _spent(least: Fraction, most: Fraction | None) -> str:
    return written(least) + (f" to {bounded(most)}" if most != least else "")


def bounded(amount: Fraction | None) -> str:
    """Write an amount, or that it is not known."""
    return UNKNOWN if amount is None else written(amount)


def _unit_lines(result: Recomputed) -> Iterator[str]:
    """Yield what one unit may have lost at several curators; if there are several runs or repeats, they are named."""
    worlds_by_text: dict[str, list[str]] = {}
    for unit in result.units:
        if len(unit.curators) > 1:
            text = (
                f"{unit.unit or 'units'}, all learners: {bounded(unit.apart)} at one curator at most, "
                f"{bounded(unit.shared)} over all {len(unit.curators)}"
            )
            worlds_by_text.setdefault(text, []).append(unit.world)
    several = len({world for worlds in worlds_by_text.values() for world in worlds}) > 1
    for text, worlds in worlds_by_text.items():
        yield f"{_listed(worlds)}: {text}" if several else text


def _listed(worlds: Sequence[str]) -> str:
    """Runs with their repeats, such as "runs/own, repeat 0 to 11"."""
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
    """Yield the conditional parts of the sums over all learners, and the curators at which they arose."""
    places_by_proviso: dict[str, list[str]] = {}
    for total in result.sums:
        for proviso, amount in () if total.learner or total.version else total.provisos.items():
            places_by_proviso.setdefault(proviso, []).append(
                f"{written(amount)} of {written(total.spent)} at {printable(total.curator)}"
            )
    for proviso, where in places_by_proviso.items():
        yield f"on a condition: {', '.join(where)}: {proviso}"


def mechanism_tables(
    kinds: Sequence[KindResult], controls: Sequence[ControlResult], checks: Sequence[Check]
) -> Iterator[Written]:
    """Yield tables of the shipped kinds, of the mechanisms that are broken on purpose, and of the checks."""
    shipped = [
        (
            *(row.kind, row.attack.claimed, f"{row.attack.lower_bound:.4f}"),
            "-" if row.exact is None else f"{row.exact:.9g}",
            row.searched,
            Cell(f"violation {row.verdict}", tone="bad") if row.violation else row.verdict,
        )
        for row in kinds
    ]
    headings = ("kind", "claimed", "proven by draws", "exact", "pairs searched", "verdict")
    yield text_table("Installed kinds", headings, shipped, wraps=["verdict"])
    if controls:
        broken = [
            (
                *(row.name, row.attack.claimed, row.truth, f"{row.attack.lower_bound:.4f}"),
                judged(row.caught, "yes", "NO"),
                row.fault,
            )
            for row in controls
        ]
        headings = ("control", "claimed", "true", "proven by draws", "caught", "what is wrong")
        yield text_table("Broken on purpose", headings, broken, wraps=["what is wrong"])
    passed = [(check.name, judged(check.passed, "yes", "NO"), check.finding) for check in checks]
    yield text_table("Checks", ("check", "passed", "found"), passed, wraps=["found"])


def attacks_table(attacks: Sequence[StudyAttack], records: str) -> Table[StudyAttack]:
    """Attacks on whole studies, a row for each result."""
    columns: list[Column[StudyAttack]] = [
        *attributes("attack"),
        Column("on", lambda attack: attack.target),
        Column("epsilon", lambda attack: attack.epsilon, number=True),
        Column("games", lambda attack: attack.trials, number=True),
        Column("gain", lambda attack: f"{attack.gain:.4f}", number=True),
        Column("95 %", lambda attack: "{:.3f} to {:.3f}".format(*attack.interval), number=True),
        Column("theory", lambda attack: "" if attack.expected is None else f"{attack.expected:.4f}", number=True),
        Column("bound", lambda attack: f"{attack.bound:.4f}", number=True),
        Column("", lambda attack: "above" if not attack.holds else "ok" if attack.reaches else "short"),
    ]
    return Table.of(f"Attacks on whole studies, {records} records", columns, attacks)
