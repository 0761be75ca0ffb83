"""What single parts of an audit found, in all detail, as tables for the terminal; `document` tells of a whole audit."""

from collections.abc import Iterator, Sequence
from typing import Any

from expril.audit.results import Check, ControlResult, KindResult, StudyAttack
from expril.report.table import Cell, Column, Table, judged


def mechanism_tables(
    kinds: Sequence[KindResult], controls: Sequence[ControlResult], checks: Sequence[Check]
) -> Iterator[Table[Any]]:
    """What is shipped, what is broken on purpose, and what has no two neighbours, each with all that was found."""
    yield Table.of("Installed kinds", MECHANISMS, kinds)
    if controls:
        yield Table.of("Broken on purpose", BROKEN, controls)
    yield Table.of("Checks", PASSED, checks)


def _mechanism_verdict(one: KindResult) -> Cell:
    return Cell(f"violation {one.verdict}", tone="bad") if one.violation else Cell(one.verdict)


MECHANISMS = (
    Column[KindResult]("kind", lambda one: one.kind, names=True),
    Column[KindResult]("claimed", lambda one: one.attack.claimed),
    Column[KindResult]("proven by draws", lambda one: f"{one.attack.lower_bound:.4f}"),
    Column[KindResult]("exact", lambda one: "-" if one.exact is None else f"{one.exact:.9g}"),
    Column[KindResult]("pairs searched", lambda one: one.searched),
    Column("verdict", _mechanism_verdict, wraps=True),
)
BROKEN = (
    Column[ControlResult]("control", lambda one: one.name, names=True),
    Column[ControlResult]("claimed", lambda one: one.attack.claimed),
    Column[ControlResult]("true", lambda one: one.truth),
    Column[ControlResult]("proven by draws", lambda one: f"{one.attack.lower_bound:.4f}"),
    Column[ControlResult]("caught", lambda one: judged(one.caught, "yes", "NO")),
    Column[ControlResult]("what is wrong", lambda one: one.fault, wraps=True),
)
PASSED = (
    Column[Check]("check", lambda check: check.name, names=True),
    Column[Check]("passed", lambda check: judged(check.passed, "yes", "NO")),
    Column[Check]("found", lambda check: check.found, wraps=True),
)


def attacks_table(found: Sequence[StudyAttack], records: str) -> Table[StudyAttack]:
    """Attacks on whole studies: one row an attack."""
    return Table.of(f"Attacks on whole studies, {records} records", ATTACKS, found)


def _judged(one: StudyAttack) -> str:
    return "above" if not one.holds else "ok" if one.reaches else "short"


ATTACKS = (
    Column[StudyAttack]("attack", lambda one: one.attack, names=True),
    Column[StudyAttack]("on", lambda one: one.target),
    Column[StudyAttack]("epsilon", lambda one: one.epsilon, number=True),
    Column[StudyAttack]("games", lambda one: one.trials, number=True),
    Column[StudyAttack]("gain", lambda one: f"{one.gain:.4f}", number=True),
    Column[StudyAttack]("95 %", lambda one: "{:.3f} to {:.3f}".format(*one.interval), number=True),
    Column[StudyAttack]("theory", lambda one: "" if one.expected is None else f"{one.expected:.4f}", number=True),
    Column[StudyAttack]("bound", lambda one: f"{one.bound:.4f}", number=True),
    Column("", _judged),
)
