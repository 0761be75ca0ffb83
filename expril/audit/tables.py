"""An audit for the terminal."""

from rich.markup import escape
from rich.table import Table

from expril.audit.page.figures import of_claim
from expril.audit.page.words import bound, claim
from expril.audit.results import AuditResult

WIDTH = 118


def audit_tables(result: AuditResult) -> list[Table]:
    """A table for each part that was done."""
    tables = []
    if result.kinds:
        table = _table("What each release gives away", "release", ("claimed", "at least", "exactly"), "verdict")
        for kind in result.kinds:
            exact = "–" if kind.exact is None else bound(kind.exact)
            numbers = (claim(kind.attack.claimed), bound(kind.attack.lower_bound), exact)
            table.add_row(escape(kind.kind), *numbers, _word(kind.violation, "VIOLATION", "holds"))
        tables.append(table)
    if result.controls:
        table = _table("Broken on purpose", "mechanism", ("claimed", "at least", "in truth"), "verdict")
        for one in result.controls:
            numbers = (claim(one.attack.claimed), bound(one.attack.lower_bound), escape(one.truth))
            table.add_row(escape(one.name), *numbers, _word(not one.caught, "MISSED", "caught"))
        tables.append(table)
    if result.colluders:
        names = ("shares made for", "colluders", "unknown shares", "claimed", "exactly", "of the claim")
        table = _table("Sums over sites, some of which collude", "sites", names[:-1], names[-1])
        for row in result.colluders:
            made, loss = row.sites - row.assumed, bound(row.loss)
            cells = (f"{made} sites", str(row.colluders), row.unknown, claim(row.claimed), loss)
            table.add_row(f"{row.sites} sites", *cells, f"{of_claim(row.claimed, row.loss):.4g} times")
        tables.append(table)
    if result.checks:
        table = Table(title="Checks", title_justify="left", box=None, pad_edge=False)
        for column in ("check", "found", "verdict"):
            table.add_column(column)
        for check in result.checks:
            table.add_row(escape(check.name), escape(check.found), _word(not check.passed, "FAILED", "passed"))
        tables.append(table)
    if result.studies:
        table = _table("Attacks on whole studies", "attack", ("epsilon", "gain", "95 %", "bound"), "verdict")
        for study in result.studies:
            name = study.attack if study.epsilon != "none" else f"{study.attack} ({study.target})"
            interval = f"{study.interval[0]:.3f} to {study.interval[1]:.3f}"
            gained = (escape(study.epsilon), f"{study.gain:.3f}", interval, f"{study.bound:.3f}")
            good = "unprotected" if study.epsilon == "none" else "holds"
            bad = "SHORT" if study.holds else "ABOVE BOUND"
            table.add_row(escape(name), *gained, _word(not (study.holds and study.reaches), bad, good))
        tables.append(table)
    return tables


def _table(title: str, first: str, numbers: tuple[str, ...], last: str) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    table.add_column(first, min_width=28)
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column(last)
    return table


def _word(wrong: bool, bad: str, good: str) -> str:
    return f"[bold red]{bad}[/]" if wrong else f"[green]{good}[/]"
