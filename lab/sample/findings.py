"""What the cells of the study say: rows, theorems, and the paper's claims beside what was measured.

Every verdict on a claim is computed, by a rule that its sentence states.
"""

import itertools
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Literal, Self

import msgspec

from expril.report.numbers import decimal
from expril.report.provenance import Provenance
from lab.averages import Deviation
from lab.cells import by_seed, epsilon_number, grouped, place
from lab.sample.cells import DPB, DPGAN, MBDE, ONE_BATCH, Picture, Sampled, Variant
from lab.sample.domains import MIXTURE, MOST_RANDOM, RANDOM_1D, RANDOM_2D, RING, WIDE_RING
from lab.sample.theory import Theory

BEST = "dpb-best"
"""DPB at the lattice of the least mean negative log-likelihood, which is chosen with the target at hand."""
DOMAINS = (RING, WIDE_RING, RANDOM_2D, MIXTURE, *(f"{RANDOM_1D}-{modes}" for modes in range(1, MOST_RANDOM + 1)))
NAMES = {MBDE: "MBDE", ONE_BATCH: "MBDE, one batch", DPB: "DPB, plain", BEST: "DPB, best lattice", DPGAN: "DPGAN"}
"""Of the methods, in the order of tables."""
METHODS = tuple(NAMES)


class Exact(Deviation, frozen=True):
    """A mean whose sums are not rounded."""

    @classmethod
    def of(cls, values: Iterable[float]) -> Self:
        """The mean of at least one repeat."""
        sample = list(values)
        return cls(statistics.fmean(sample), statistics.stdev(sample) if len(sample) > 1 else 0.0, len(sample))


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
        """One check for at least one: sums, the furthest ratio, and the mean gain of a density."""
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
        """Domains of the rows."""
        return tuple(dict.fromkeys(row.domain for row in self.rows))


def findings(cells: Mapping[str, Sequence[Sampled]], provenance: Provenance | None = None) -> Findings:
    """Findings of the cells that there are."""
    rows, checks, pictures = [], [], []
    groups = grouped(by_seed(cells["cells"]), lambda cell: (cell.problem, cell.maker, cell.epsilon))
    for (domain, method, epsilon), group in groups.items():
        rows.append(_row(method, 0, group))
        if method == DPB:
            rows.append(_row(BEST, _best(group), group))
        theories = [cell.theory for cell in group if cell.theory is not None]
        if theories:
            checks.append(_check(group[0], theories))
        if group[0].picture is not None:
            pictures.append(Density(domain, method, epsilon, group[0].seed, group[0].picture))

    def order(item: Row | Check | Density) -> tuple[int, int, float]:
        return place(DOMAINS, item.domain), place(METHODS, item.method), epsilon_number(item.epsilon)

    return Findings(
        tuple(sorted(rows, key=order)), tuple(sorted(checks, key=order)), tuple(sorted(pictures, key=order)), provenance
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
        nll=Exact.of(variant.nll for variant in variants),
        coverage=Exact.of(variant.coverage for variant in variants),
        printed=Exact.of(variant.printed for variant in variants),
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


Verdict = Literal["holds", "in part", "does not hold", "not measured"]
TIMES, SPREAD = 400, 100  # of the paper's claims on epsilon and on the deviation
SOME_TIMES = 10
SMALL, LARGE = 0.1, 10.0  # epsilons between which a decrease is split
SHARP, PLATEAU = 2.0, 1.0
FAR = 5.0
FLAT = 0.1  # share of a decrease that a plateau may still have
NEAR_ONE = (0.5, 2.0)
FLAT_COVERAGE = 0.005
LEAST_EPSILONS = 3
PRINTED = attrgetter("printed.value")
_NOT_RUN: tuple[str, Verdict] = ("not measured", "not measured")


class Claim(msgspec.Struct, frozen=True):
    """One claim."""

    says: str  # the paper, in our words
    where: str  # in the paper
    measured: str  # here
    verdict: Verdict  # by the rule in `measured`


def claims_of(results: Findings) -> list[Claim]:
    """All claims, in the paper's order."""
    return [
        Claim(says, where, *judge(results))
        for says, where, judge in (
            ("On the ring MBDE does what DPB does at an epsilon 400 times larger", "Figure 1, section 5", _times),
            ("On the ring MBDE estimates the density much better than DPB", "Figures 4 and 5", _better(RING)),
            ("On random Gaussians in the plane MBDE stays better", "Figure 8", _better(RANDOM_2D)),
            ("The negative log-likelihood of MBDE falls as epsilon grows, on all domains", "Figures 5 and 7", _falls),
            ("It falls sharply below epsilon 2", "section 5", _sharply),
            ("On 1-D Gaussians DPB reaches a plateau beyond epsilon 1", "section 5", _plateau),
            ("Beyond epsilon 5 MBDE beats DPB there", "section 5", _beats_far),
            ("MBDE's standard deviation is often 100 times smaller than DPB's", "Figure 7", _spread),
            ("Mode coverage falls until epsilon is about 1, then rises, on all domains", "Figures 5 and 6", _coverage),
            ("DPGAN is outperformed by both, and its modes collapse", "Figure 1, section 5", _gan),
        )
    ]


Judgement = tuple[str, Verdict]


def _times(results: Findings) -> Judgement:
    """Ratios of the least epsilon at which DPB's likelihood reaches MBDE's; one it never reaches is a lower bound."""
    parts_of, most = [], []
    for name, method in (("plain", DPB), ("at its best lattice", BEST)):
        ours, theirs = results.of(RING, MBDE), results.of(RING, method)
        if not ours or not theirs:
            return _NOT_RUN
        parts, ratios = [], []
        for epsilon, row in ours.items():
            reached = next((other for other in theirs if theirs[other].nll.value <= row.nll.value), None)
            ratios.append((max(theirs) if reached is None else reached) / epsilon)
            more = "more than " if reached is None else ""
            parts.append(f"{more}{ratios[-1]:g} at {epsilon:g}")
        most.append(max(ratios))
        parts_of.append(f"DPB {name} needs times MBDE's epsilon: {', '.join(parts)}")
    text = "; ".join(parts_of) + ". Rule: 400 against both; in part if DPB needs 10 times as much against both."
    return text, "holds" if min(most) >= TIMES else "in part" if min(most) >= SOME_TIMES else "does not hold"


def _better(domain: str) -> Callable[[Findings], Judgement]:
    def judge(results: Findings) -> Judgement:
        ours = results.of(domain, MBDE)
        texts, won = [], []
        for name, method in (("plain", DPB), ("best", BEST)):
            theirs = results.of(domain, method)
            common = [epsilon for epsilon in ours if epsilon in theirs]
            if not common:
                return _NOT_RUN
            here = [epsilon for epsilon in common if ours[epsilon].nll.value < theirs[epsilon].nll.value]
            won.append(len(here) / len(common))
            texts.append(f"against DPB {name} at epsilon {_listed(here)} of {_listed(common)}")
        rule = ". Rule: a lower negative log-likelihood at every epsilon, against both."
        return "MBDE is better " + ", ".join(texts) + rule, _share(won)

    return judge


def _falls(results: Findings) -> Judgement:
    rising, tried = [], 0
    for domain in results.domains:
        values = [row.nll.value for row in results.of(domain, MBDE).values()]
        if len(values) > 1:
            tried += 1
            if any(later >= before for before, later in itertools.pairwise(values)):
                rising.append(domain)
    if not tried:
        return _NOT_RUN
    falling = tried - len(rising)
    but = f"; not on {', '.join(rising)}" if rising else ""
    return f"at every step of epsilon on {falling} of {tried} domains{but}.", _share([falling / tried])


def _sharply(results: Findings) -> Judgement:
    texts, faster = [], []
    for domain in results.domains:
        rows = results.of(domain, MBDE)
        if {SMALL, SHARP, LARGE} <= rows.keys():
            below = (rows[SMALL].nll.value - rows[SHARP].nll.value) / (SHARP - SMALL)
            above = (rows[SHARP].nll.value - rows[LARGE].nll.value) / (LARGE - SHARP)
            faster.append(below > above)
            if domain in (RING, WIDE_RING, RANDOM_2D, MIXTURE):
                texts.append(f"{domain} {decimal(below, 2)} and {decimal(above, 2)}")
    if not faster:
        return _NOT_RUN
    text = (
        f"nats an epsilon below 2 and from 2 to 10: {', '.join(texts)}. Faster below 2 on {sum(faster)} of "
        f"{len(faster)} domains; by Theorem 7 (10) no more than 0.5 is possible."
    )
    return text, _share([sum(faster) / len(faster)])


def _lines(results: Findings) -> list[str]:
    return [domain for domain in results.domains if domain == MIXTURE or domain.startswith(RANDOM_1D)]


def _plateau(results: Findings) -> Judgement:
    shares = []
    for domain in _lines(results):
        rows = results.of(domain, DPB)
        if {SMALL, PLATEAU, LARGE} <= rows.keys():
            gain = rows[SMALL].nll.value - rows[LARGE].nll.value
            shares.append((rows[PLATEAU].nll.value - rows[LARGE].nll.value) / gain if gain > 0 else 0.0)
    if not shares:
        return _NOT_RUN
    flat = sum(share <= FLAT for share in shares)
    text = (
        f"of what DPB (plain) gains between epsilon 0.1 and 10, {decimal(100 * statistics.median(shares), 0)} % "
        f"(median over {len(shares)} domains, at most {decimal(100 * max(shares), 0)} %) comes after 1. Rule: at most "
        f"10 %."
    )
    return text, _share([flat / len(shares)])


def _beats_far(results: Findings) -> Judgement:
    won = tried = 0
    for domain in _lines(results):
        ours, theirs = results.of(domain, MBDE), results.of(domain, DPB)
        for epsilon in ours.keys() & theirs.keys():
            if epsilon >= FAR:
                tried += 1
                won += ours[epsilon].nll.value < theirs[epsilon].nll.value
    if not tried:
        return _NOT_RUN
    return f"lower negative log-likelihood than DPB (plain) in {won} of {tried} cases.", _share([won / tried])


def _spread(results: Findings) -> Judgement:
    ratios, fixed = [], []
    for domain in results.domains:
        ours, theirs = results.of(domain, MBDE), results.of(domain, DPB)
        here = [_ratio(theirs[epsilon], ours[epsilon]) for epsilon in ours.keys() & theirs.keys()]
        if domain.startswith(RANDOM_1D):
            ratios += [ratio for ratio in here if ratio > 0]
        elif domain != RANDOM_2D:
            fixed += [ratio for ratio in here if ratio > 0]
    if not ratios:
        return _NOT_RUN
    often, smaller = sum(ratio >= SPREAD for ratio in ratios), sum(ratio > 1 for ratio in ratios)
    text = (
        f"standard deviation of the NLL over the repeats on random Gaussians on a line, DPB (plain) over MBDE: median "
        f"{decimal(statistics.median(ratios), 2)}, at most {decimal(max(ratios), 1)}; MBDE's is smaller in {smaller} "
        f"of {len(ratios)} cases, 100 times smaller in {often}. There most of it is where the Gaussians lie."
    )
    if fixed:
        text += (
            f" On the targets that are fixed: median {decimal(statistics.median(fixed), 1)}, at most "
            f"{decimal(max(fixed), 1)}, over {len(fixed)} cases."
        )
    every = ratios + fixed
    many = sum(ratio >= SPREAD for ratio in every) >= len(every) / 10
    text += " Rule: 100 times in a tenth of all cases; in part if smaller in most."
    most = sum(ratio > 1 for ratio in every) > len(every) / 2
    return text, "holds" if many else "in part" if most else "does not hold"


def _ratio(theirs: Row, ours: Row) -> float:
    if min(theirs.nll.runs, ours.nll.runs) < 2 or not ours.nll.error:
        return 0.0
    return theirs.nll.error / ours.nll.error


def _coverage(results: Findings) -> Judgement:
    texts, near, tried = [], 0, 0
    for name, measure in (("as printed", PRINTED), ("of the densest region", attrgetter("coverage.value"))):
        lowest, flat = _lowest(results, measure)
        if not lowest and not flat:
            return _NOT_RUN
        places = ", ".join(f"{epsilon:g} on {lowest[epsilon]}" for epsilon in sorted(lowest))
        parts = [f"is lowest at epsilon {places} domains"] if places else []
        parts += [f"moves by less than {FLAT_COVERAGE} on {flat}"] if flat else []
        texts.append(f"coverage {name} {' and '.join(parts)}")
        if measure is PRINTED:
            near = sum(count for epsilon, count in lowest.items() if NEAR_ONE[0] <= epsilon <= NEAR_ONE[1])
            tried = sum(lowest.values()) + flat
    return "; ".join(texts) + ". Rule: as printed, lowest between 0.5 and 2.", _share([near / tried])


def _lowest(results: Findings, measure: Callable[[Row], float]) -> tuple[dict[float, int], int]:
    """Epsilon -> domains on which MBDE's coverage is lowest there, and domains on which it hardly moves."""
    lowest: dict[float, int] = {}
    flat = 0
    for domain in results.domains:
        values = {epsilon: measure(row) for epsilon, row in results.of(domain, MBDE).items()}
        if len(values) < LEAST_EPSILONS:
            continue
        if max(values.values()) - min(values.values()) < FLAT_COVERAGE:
            flat += 1
        else:
            least = min(values, key=values.__getitem__)
            lowest[least] = lowest.get(least, 0) + 1
    return lowest, flat


def _gan(results: Findings) -> Judgement:
    rows = results.of(RING, DPGAN)
    beaten, texts = [], []
    for epsilon, row in rows.items():
        rivals = [results.of(RING, method).get(epsilon) for method in (MBDE, DPB)]
        named = [other for other in rivals if other is not None]
        if len(named) == len(rivals):
            beaten.append(all(other.nll.value < row.nll.value for other in named))
            mbde, dpb = (decimal(other.nll.value, 2) for other in named)
            texts.append(
                f"at epsilon {epsilon:g} {decimal(row.nll.value, 2)} nats (MBDE {mbde}, DPB {dpb}), coverage "
                f"{decimal(row.coverage.value, 2)}"
            )
    if not beaten:
        return _NOT_RUN
    text = "; ".join(texts) + ", by a kernel estimate of its points. Rule: a higher negative log-likelihood than both."
    return text, _share([sum(beaten) / len(beaten)])


def _share(shares: Sequence[float]) -> Verdict:
    """The verdict: all shares are 1, some are above 0, or none is."""
    if all(share == 1 for share in shares):
        return "holds"
    return "in part" if any(share > 0 for share in shares) else "does not hold"


def _listed(epsilons: Sequence[float]) -> str:
    return ", ".join(f"{epsilon:g}" for epsilon in epsilons) if epsilons else "none"
