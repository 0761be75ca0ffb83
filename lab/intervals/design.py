"""The settings of the study: a balanced covering array, in which every pair of levels that can meet meets."""

from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import combinations, product
from typing import NamedTuple

from protocol.rationals import parse_rational

OWN = "own"
SECURE = "secure, t = 1, u = 0"
DROPOUT = "secure, t = 1, u = 1"
SITES = 4
SETTINGS = 24


class Condition(NamedTuple):
    """One setting."""

    epsilon: str  # of the analysis at each curator, as text
    size: int  # records at each curator
    sites: int  # curators
    noise: str  # OWN: each adds its own; SECURE and DROPOUT: only the sum is opened
    most_records_per_unit: int  # c; of more than 1, the records of one unit are correlated

    def __str__(self) -> str:
        """A name without commas inside, which `--only` takes: "1/10000/4/own/1"."""
        noise = {OWN: "own", SECURE: "t1u0", DROPOUT: "t1u1"}[self.noise]
        return f"{self.epsilon}/{self.size}/{self.sites}/{noise}/{self.most_records_per_unit}"

    @property
    def fraction(self) -> Fraction:
        """Epsilon exactly."""
        return parse_rational(self.epsilon)

    @property
    def draws(self) -> float:
        """Discrete Laplace variables in each pooled cell: s, n / (n - t) or n / (n - t - u)."""
        short = {OWN: self.sites - 1, SECURE: 1, DROPOUT: 2}[self.noise]
        return self.sites / (self.sites - short) if self.noise != OWN else float(self.sites)


LEVELS: tuple[tuple[str | int, ...], ...] = (
    ("0.1", "0.3", "1", "3"),
    (100, 1_000, 10_000),
    (1, SITES),
    (OWN, SECURE, DROPOUT),
    (1, 3),
)


def possible() -> list[Condition]:
    """All settings that there are. One site alone sums with nobody."""
    rows = (Condition(*row) for row in product(*LEVELS))  # type: ignore[arg-type]
    return [row for row in rows if row.noise == OWN or row.sites > 1]


def pairs(rows: Iterable[Sequence[object]]) -> Counter[tuple[int, object, int, object]]:
    """How often each two levels of different factors meet: (factor, level, factor, level) -> rows.

    Sites and noise are one factor here, of four levels: one site, and four with each noise.
    """
    rows = [(row[0], row[1], row[2:4], row[4]) for row in rows]
    return Counter(
        (first, row[first], second, row[second]) for row in rows for first, second in combinations(range(len(row)), 2)
    )


def covering(count: int = SETTINGS) -> tuple[Condition, ...]:
    """Choose settings one after the other, each the one whose pairs were chosen least so far; no setting twice.

    The first choice of equals decides, so that the design is always the same.
    """
    rest, chosen = possible(), list[Condition]()
    frequency = pairs(())
    for _ in range(count):
        best = max(rest, key=lambda row: sum(8.0 ** -frequency[pair] for pair in pairs([row])))
        rest.remove(best)
        chosen.append(best)
        frequency.update(pairs([best]))
    return tuple(chosen)


DESIGN = {str(condition): condition for condition in covering()}
