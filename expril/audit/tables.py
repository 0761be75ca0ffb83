"""An audit as tables for the terminal."""

from collections.abc import Iterator, Sequence
from typing import Any

from expril.audit.page.figures import of_claim
from expril.audit.page.words import bound, claim
from expril.audit.results import AuditResult, Check, ColluderLoss, ControlResult, KindResult, StudyAttack
from expril.report.table import Cell, Column, Table, judged

WIDTH = 118


def audit_tables(result: AuditResult) -> Iterator[Table[Any]]:
    """A table for each part that was done."""
    tables: tuple[Table[Any], ...] = (
        Table.of("What each release gives away", KINDS, result.kinds),
        Table.of("Broken on purpose", CONTROLS, result.controls),
        Table.of("Sums over sites, some of which collude", COLLUDERS, result.colluders),
        Table.of("Checks", CHECKS, result.checks),
        Table.of("Attacks on whole studies", STUDIES, result.studies),
    )
    return (table for table in tables if table)


KINDS = (
    Column[KindResult]("release", lambda one: one.kind, names=True),
    Column[KindResult]("claimed", lambda one: claim(one.attack.claimed), number=True),
    Column[KindResult]("at least", lambda one: bound(one.attack.lower_bound), number=True),
    Column[KindResult]("exactly", lambda one: "–" if one.exact is None else bound(one.exact), number=True),
    Column[KindResult]("verdict", lambda one: judged(not one.violation, "holds", "VIOLATION")),
)
CONTROLS = (
    Column[ControlResult]("mechanism", lambda one: one.name, names=True),
    Column[ControlResult]("claimed", lambda one: claim(one.attack.claimed), number=True),
    Column[ControlResult]("at least", lambda one: bound(one.attack.lower_bound), number=True),
    Column[ControlResult]("in truth", lambda one: one.truth, number=True),
    Column[ControlResult]("verdict", lambda one: judged(one.caught, "caught", "MISSED")),
)
COLLUDERS = (
    Column[ColluderLoss]("sites", lambda row: f"{row.sites} sites", names=True),
    Column[ColluderLoss]("shares made for", lambda row: f"{row.sites - row.assumed} sites", number=True),
    Column[ColluderLoss]("colluders", lambda row: row.colluders, number=True),
    Column[ColluderLoss]("unknown shares", lambda row: row.unknown, number=True),
    Column[ColluderLoss]("claimed", lambda row: claim(row.claimed), number=True),
    Column[ColluderLoss]("exactly", lambda row: bound(row.loss), number=True),
    Column[ColluderLoss]("of the claim", lambda row: f"{of_claim(row.claimed, row.loss):.4g} times"),
)
CHECKS = (
    Column[Check]("check", lambda check: check.name, names=True),
    Column[Check]("found", lambda check: check.found, wraps=True),
    Column[Check]("verdict", lambda check: judged(check.passed, "passed", "FAILED")),
)


def _study(one: StudyAttack) -> str:
    return one.attack if one.epsilon != "none" else f"{one.attack} ({one.target})"


def _study_verdict(one: StudyAttack) -> Cell:
    good = "unprotected" if one.epsilon == "none" else "holds"
    return judged(one.holds and one.reaches, good, "SHORT" if one.holds else "ABOVE BOUND")


def _interval(one: StudyAttack) -> str:
    return "{:.3f} to {:.3f}".format(*one.interval)


STUDIES = (
    Column("attack", _study, names=True),
    Column[StudyAttack]("epsilon", lambda one: one.epsilon, number=True),
    Column[StudyAttack]("gain", lambda one: f"{one.gain:.3f}", number=True),
    Column("95 %", _interval, number=True),
    Column[StudyAttack]("bound", lambda one: f"{one.bound:.3f}", number=True),
    Column("verdict", _study_verdict),
)


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
    Column("95 %", _interval, number=True),
    Column[StudyAttack]("theory", lambda one: "" if one.expected is None else f"{one.expected:.4f}", number=True),
    Column[StudyAttack]("bound", lambda one: f"{one.bound:.4f}", number=True),
    Column("", _judged),
)
