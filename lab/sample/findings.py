"""What the cells of the study say, as plain data: its tables, figures and files are made of it."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Self

import msgspec

from expril.report.provenance import Provenance
from lab.averages import Deviation
from lab.cells import by_seed, epsilon_number, grouped, place
from lab.sample.cells import DPB, DPGAN, MBDE, WHOLE, Picture, Sampled, Variant
from lab.sample.domains import MIXTURE, MOST_RANDOM, RANDOM_1D, RANDOM_2D, RING, WIDE_RING
from lab.sample.theory import Theory

BEST = "dpb-best"
"""DPB at the lattice of the least mean negative log-likelihood, which is chosen with the target at hand."""
DOMAINS = (RING, WIDE_RING, RANDOM_2D, MIXTURE, *(f"{RANDOM_1D}-{modes}" for modes in range(1, MOST_RANDOM + 1)))
NAMES = {
    MBDE: "MBDE",
    WHOLE: "MBDE, one batch",
    DPB: "DPB, plain",
    BEST: "DPB, best lattice",
    DPGAN: "DPGAN",
}
"""Of the methods, in the order of tables."""
METHODS = tuple(NAMES)


class Exact(Deviation, frozen=True):
    """A mean whose sums are not rounded."""

    @classmethod
    def of(cls, values: Iterable[float]) -> Self:
        """Of at least one repeat."""
        known = list(values)
        return cls(statistics.fmean(known), statistics.stdev(known) if len(known) > 1 else 0.0, len(known))


class Row(msgspec.Struct, frozen=True):
    """A method at one domain and epsilon."""

    domain: str  # as of the cells; the method may also be "dpb-best"
    method: str
    epsilon: str
    variant: str  # which of the method's; "" where it has one
    nll: Exact  # negative log-likelihood in nats
    coverage: Exact  # P's mass of the densest region with 0.95 of Q
    printed: Exact  # P's mass of the least dense one, as the formula is printed
    entropy: float  # the least negative log-likelihood of all, mean over the repeats
    base: float  # that of Q_0
    settings: str  # of the first repeat, in words


class Check(msgspec.Struct, frozen=True):
    """The paper's theorems at one domain and epsilon, in numbers of densities, or of iterations."""

    domain: str  # of the densities
    method: str
    epsilon: str
    densities: int  # that were learnt
    in_range: int  # of them in the mollifier (Theorem 5)
    furthest: float  # largest |log Q_T / Q_0| over epsilon / 2: at most 1 there
    gain: float  # mean of KL(P, Q_0) - KL(P, Q_T)
    most: float  # epsilon / 2
    below_most: int  # densities that keep Theorem 7 (10)
    high: int  # densities in the high regime throughout
    above_least: int  # of these, that keep Theorem 7 (11) as printed
    above_least_proved: int  # of these, that gain what Theorem 6 gives in sum
    steps: int  # iterations
    weak: int  # of them with a weak learner: both gammas positive
    high_steps: int  # of them in the high regime
    above_printed: int  # of the weak, that keep Theorem 6 as printed
    above_proved: int  # of the weak, that keep it as proved

    @classmethod
    def total(cls, checks: "Sequence[Check]") -> "Check":
        """Of at least one: sums, the furthest, and the mean gain of a density."""
        numbers = {
            name: sum(getattr(check, name) for check in checks)
            for name, kind in cls.__annotations__.items()
            if kind is int
        }
        return cls(
            domain="",
            method="",
            epsilon="all",
            furthest=max(check.furthest for check in checks),
            gain=sum(check.gain * check.densities for check in checks) / numbers["densities"],
            most=max(check.most for check in checks),
            **numbers,
        )


class Density(msgspec.Struct, frozen=True):
    """A density in the plane, of the first repeat."""

    domain: str
    method: str
    epsilon: str
    seed: int
    picture: Picture


class Findings(msgspec.Struct, frozen=True):
    """Everything that a document shows."""

    rows: tuple[Row, ...]  # by domain, method and epsilon, in the order of `DOMAINS` and `METHODS`, epsilon upwards
    checks: tuple[Check, ...]
    pictures: tuple[Density, ...] = ()
    provenance: Provenance | None = None  # None before anything was computed

    def of(self, domain: str, method: str) -> dict[float, Row]:
        """The rows of a method, by epsilon upwards."""
        return {epsilon_number(row.epsilon): row for row in self.rows if (row.domain, row.method) == (domain, method)}

    @property
    def domains(self) -> tuple[str, ...]:
        """Of the rows."""
        return tuple(dict.fromkeys(row.domain for row in self.rows))


def findings(cells: Mapping[str, Sequence[Sampled]], provenance: Provenance | None = None) -> Findings:
    """All that these cells show, whatever is still missing."""
    rows, checks, pictures = [], [], []
    groups = grouped(by_seed(cells["cells"]), lambda cell: (cell.problem, cell.maker, cell.epsilon))
    for (domain, method, epsilon), held in groups.items():
        rows.append(_row(method, 0, held))
        if method == DPB:
            rows.append(_row(BEST, _best(held), held))
        theories = [cell.theory for cell in held if cell.theory is not None]
        if theories:
            checks.append(_check(held[0], theories))
        if held[0].picture is not None:
            pictures.append(Density(domain, method, epsilon, held[0].seed, held[0].picture))

    def order(each: Row | Check | Density) -> tuple[int, int, float]:
        return place(DOMAINS, each.domain), place(METHODS, each.method), epsilon_number(each.epsilon)

    return Findings(
        tuple(sorted(rows, key=order)),
        tuple(sorted(checks, key=order)),
        tuple(sorted(pictures, key=order)),
        provenance,
    )


def _best(cells: Sequence[Sampled]) -> int:
    """Place of the variant of the least mean negative log-likelihood."""
    names = range(len(cells[0].variants))
    return min(names, key=lambda which: statistics.fmean(cell.variants[which].nll for cell in cells))


def _row(method: str, which: int, cells: Sequence[Sampled]) -> Row:
    first = cells[0]
    variants: list[Variant] = [cell.variants[which] for cell in cells]
    return Row(
        domain=first.problem,
        method=method,
        epsilon=first.epsilon,
        variant=variants[0].name,
        nll=Exact.of(each.nll for each in variants),
        coverage=Exact.of(each.coverage for each in variants),
        printed=Exact.of(each.printed for each in variants),
        entropy=statistics.fmean(cell.entropy for cell in cells),
        base=statistics.fmean(cell.base for cell in cells),
        settings=first.settings,
    )


def _check(first: Sampled, theories: Sequence[Theory]) -> Check:
    steps = [step for theory in theories for step in theory.steps]
    high = [theory for theory in theories if theory.least is not None]
    weak = [step for step in steps if step.weak]
    return Check(
        domain=first.problem,
        method=first.maker,
        epsilon=first.epsilon,
        densities=len(theories),
        in_range=sum(theory.in_range for theory in theories),
        furthest=max(theory.furthest / theory.most for theory in theories),
        gain=statistics.fmean(theory.gain for theory in theories),
        most=theories[0].most,
        below_most=sum(theory.below_most for theory in theories),
        high=len(high),
        above_least=sum(theory.above_least for theory in high),
        above_least_proved=sum(theory.above_proved for theory in high),
        steps=len(steps),
        weak=len(weak),
        high_steps=sum(step.high for step in steps),
        above_printed=sum(step.above_printed for step in weak),
        above_proved=sum(step.above_proved for step in weak),
    )
