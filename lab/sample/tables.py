"""What the tables of the study hold, in its Markdown and in the terminal."""

from collections.abc import Sequence
from functools import partial

from expril.report.numbers import decimal, with_error
from expril.report.table import Cell, Column, Group, Table, Tone
from lab.sample.cells import DPB, MBDE
from lab.sample.claims import Claim, claims_of
from lab.sample.domains import MIXTURE, RANDOM_1D, RANDOM_2D, RING, WIDE_RING
from lab.sample.model import BEST, METHODS, NAMES, Check, Found, Mean, Row, number

TITLES = {
    RING: "ring: 8 Gaussians at radius 1, variance 0.01",
    WIDE_RING: "wide ring: 8 Gaussians at radius 4, variance 0.5",
    RANDOM_2D: "5 random Gaussians in the plane, variance 0.01",
    MIXTURE: "mixture of three on a line",
}
_TONES: dict[str, Tone] = {"holds": "within", "in part": "apart", "does not hold": "below"}
DIGITS = 3


def title_of(domain: str) -> str:
    """Of a domain."""
    return TITLES.get(domain, f"{domain.removeprefix(f'{RANDOM_1D}-')} random Gaussians on a line, variance 0.01")


def claims(found: Found) -> Table[Claim]:
    """The paper's claims, and what was measured."""
    return Table.of(
        "The paper's claims beside what was measured",
        [
            Column("the paper", lambda claim: claim.says, names=True),
            Column("where", lambda claim: claim.where),
            Column("measured", lambda claim: claim.measured),
            Column("verdict", lambda claim: Cell(claim.verdict, strong=True, tone=_TONES.get(claim.verdict, ""))),
        ],
        claims_of(found),
    )


def measures(found: Found, domains: Sequence[str]) -> Table[Row]:
    """Both measures of every method and epsilon, a group for each domain."""
    groups = []
    for domain in domains:
        held = [row for row in found.rows if row.domain == domain]
        if held:
            base = (
                f"{title_of(domain)}; NLL of Q0 {decimal(held[0].base, 2)}, of the target {decimal(held[0].entropy, 2)}"
            )
            groups.append(Group(held, base))
    return Table(
        "Negative log-likelihood in nats and mode coverage",
        [
            Column("method", lambda row: NAMES[row.method], names=True),
            Column("epsilon", lambda row: row.epsilon, number=True),
            Column("NLL", lambda row: _mean(row.nll), number=True),
            Column("coverage", lambda row: _mean(row.coverage), number=True),
            Column("as printed", lambda row: _mean(row.printed), number=True),
            Column("repeats", lambda row: row.nll.runs, number=True),
            Column("lattice", lambda row: row.variant or "–"),
        ],
        groups,
    )


def _mean(mean: Mean) -> str:
    return with_error(decimal(mean.value, DIGITS), mean.deviation if mean.runs > 1 else None, DIGITS)


def lines(found: Found, method: str) -> Table[str]:
    """The negative log-likelihood of a method on random Gaussians on a line, numbers of them against epsilon."""
    held = {domain: found.of(domain, method) for domain in found.domains if domain.startswith(RANDOM_1D)}
    rows = [domain for domain, each in held.items() if each]
    epsilons = sorted({epsilon for each in held.values() for epsilon in each})

    def show(epsilon: float, domain: str) -> str:
        row = held[domain].get(epsilon)
        return "–" if row is None else _mean(row.nll)

    return Table.of(
        f"NLL of {NAMES[method]} on m random Gaussians on a line",
        [
            Column("m", lambda domain: domain.removeprefix(f"{RANDOM_1D}-"), names=True),
            *(Column(f"ε = {epsilon:g}", partial(show, epsilon), number=True) for epsilon in epsilons),
        ],
        rows,
    )


def all_lines(found: Found) -> list[Table[str]]:
    """That of MBDE and of DPB."""
    return [shown for method in (MBDE, DPB, BEST) if (shown := lines(found, method))]


def checks(found: Found) -> Table[Check]:
    """How often each theorem was kept, by domain and epsilon."""
    groups: dict[str, list[Check]] = {}
    for check in sorted(found.checks, key=lambda each: METHODS.index(each.method)):
        title = title_of(check.domain) + ("" if check.method == MBDE else f"; {NAMES[check.method]}")
        groups.setdefault(title, []).append(check)
    return Table(
        "The theorems, in numbers of densities and of iterations",
        [
            Column("epsilon", lambda check: check.epsilon, names=True),
            Column("largest log ratio over ε/2", lambda check: decimal(check.furthest, DIGITS), number=True),
            Column("in the mollifier", lambda check: f"{check.in_range} of {check.densities}", number=True),
            Column("gain Δ, mean", lambda check: decimal(check.gain, DIGITS), number=True),
            Column("at most ε/2 (10)", lambda check: f"{check.below_most} of {check.densities}", number=True),
            Column("high regime", lambda check: f"{check.high} of {check.densities}", number=True),
            Column("(11) as printed", lambda check: f"{check.above_least} of {check.high}", number=True),
            Column("as proved", lambda check: f"{check.above_least_proved} of {check.high}", number=True),
            Column("weak learners", lambda check: f"{check.weak} of {check.steps}", number=True),
            Column("Theorem 6 as printed", lambda check: f"{check.above_printed} of {check.weak}", number=True),
            Column("as proved", lambda check: f"{check.above_proved} of {check.weak}", number=True),
        ],
        [Group(sorted(rows, key=lambda each: number(each.epsilon)), title) for title, rows in groups.items()],
    )
