"""What single parts of an audit found, in all detail, as tables for the terminal; `document` tells of a whole audit."""

from collections.abc import Iterator, Sequence

from expril.audit.results import Check, ControlResult, KindResult, StudyAttack
from expril.report.table import Cell, Column, Table, Written, attributes, judged, text_table


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
