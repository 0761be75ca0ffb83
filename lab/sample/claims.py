"""The paper's claims beside what was measured; every verdict is computed, by a rule that its sentence states."""

import itertools
import statistics
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Literal

import msgspec

from expril.report.numbers import decimal
from lab.sample.cells import DPB, DPGAN, MBDE
from lab.sample.domains import MIXTURE, RANDOM_1D, RANDOM_2D, RING, WIDE_RING
from lab.sample.findings import BEST, Findings, Row

Verdict = Literal["holds", "in part", "does not hold", "not measured"]
TIMES, SPREAD = 400, 100
"""Of the paper's claims on epsilon and on the deviation."""
SOME_TIMES = 10
SMALL, LARGE = 0.1, 10.0
"""Epsilons between which a decrease is split."""
SHARP, PLATEAU = 2.0, 1.0
FAR = 5.0
FLAT = 0.1
"""Share of a decrease that a plateau may still have."""
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


def claims_of(found: Findings) -> list[Claim]:
    """All claims, in the paper's order."""
    return [
        Claim(says, where, *judge(found))
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


Told = tuple[str, Verdict]


def _times(found: Findings) -> Told:
    """Ratios of the least epsilon at which DPB's likelihood reaches MBDE's; one it never reaches is a lower bound."""
    told, most = [], []
    for name, method in (("plain", DPB), ("at its best lattice", BEST)):
        ours, theirs = found.of(RING, MBDE), found.of(RING, method)
        if not ours or not theirs:
            return _NOT_RUN
        parts, ratios = [], []
        for epsilon, row in ours.items():
            reached = next((other for other in theirs if theirs[other].nll.value <= row.nll.value), None)
            ratios.append((max(theirs) if reached is None else reached) / epsilon)
            more = "more than " if reached is None else ""
            parts.append(f"{more}{ratios[-1]:g} at {epsilon:g}")
        most.append(max(ratios))
        told.append(f"DPB {name} needs times MBDE's epsilon: {', '.join(parts)}")
    said = "; ".join(told) + ". Rule: 400 against both; in part if DPB needs 10 times as much against both."
    return said, "holds" if min(most) >= TIMES else "in part" if min(most) >= SOME_TIMES else "does not hold"


def _better(domain: str) -> Callable[[Findings], Told]:
    def judge(found: Findings) -> Told:
        ours = found.of(domain, MBDE)
        told, won = [], []
        for name, method in (("plain", DPB), ("best", BEST)):
            theirs = found.of(domain, method)
            both = [epsilon for epsilon in ours if epsilon in theirs]
            if not both:
                return _NOT_RUN
            here = [epsilon for epsilon in both if ours[epsilon].nll.value < theirs[epsilon].nll.value]
            won.append(len(here) / len(both))
            told.append(f"against DPB {name} at epsilon {_listed(here)} of {_listed(both)}")
        rule = ". Rule: a lower negative log-likelihood at every epsilon, against both."
        return "MBDE is better " + ", ".join(told) + rule, _share(won)

    return judge


def _falls(found: Findings) -> Told:
    rising, tried = [], 0
    for domain in found.domains:
        values = [row.nll.value for row in found.of(domain, MBDE).values()]
        if len(values) > 1:
            tried += 1
            if any(later >= before for before, later in itertools.pairwise(values)):
                rising.append(domain)
    if not tried:
        return _NOT_RUN
    kept = tried - len(rising)
    but = f"; not on {', '.join(rising)}" if rising else ""
    return f"at every step of epsilon on {kept} of {tried} domains{but}.", _share([kept / tried])


def _sharply(found: Findings) -> Told:
    told, faster = [], []
    for domain in found.domains:
        rows = found.of(domain, MBDE)
        if {SMALL, SHARP, LARGE} <= rows.keys():
            below = (rows[SMALL].nll.value - rows[SHARP].nll.value) / (SHARP - SMALL)
            above = (rows[SHARP].nll.value - rows[LARGE].nll.value) / (LARGE - SHARP)
            faster.append(below > above)
            if domain in (RING, WIDE_RING, RANDOM_2D, MIXTURE):
                told.append(f"{domain} {decimal(below, 2)} and {decimal(above, 2)}")
    if not faster:
        return _NOT_RUN
    said = (
        f"nats an epsilon below 2 and from 2 to 10: {', '.join(told)}. Faster below 2 on {sum(faster)} of "
        f"{len(faster)} domains; by Theorem 7 (10) no more than 0.5 is possible."
    )
    return said, _share([sum(faster) / len(faster)])


def _lines(found: Findings) -> list[str]:
    return [domain for domain in found.domains if domain == MIXTURE or domain.startswith(RANDOM_1D)]


def _plateau(found: Findings) -> Told:
    shares = []
    for domain in _lines(found):
        rows = found.of(domain, DPB)
        if {SMALL, PLATEAU, LARGE} <= rows.keys():
            whole = rows[SMALL].nll.value - rows[LARGE].nll.value
            shares.append((rows[PLATEAU].nll.value - rows[LARGE].nll.value) / whole if whole > 0 else 0.0)
    if not shares:
        return _NOT_RUN
    flat = sum(share <= FLAT for share in shares)
    said = (
        f"of what DPB (plain) gains between epsilon 0.1 and 10, {decimal(100 * statistics.median(shares), 0)} % "
        f"(median over {len(shares)} domains, at most {decimal(100 * max(shares), 0)} %) comes after 1. Rule: at most "
        f"10 %."
    )
    return said, _share([flat / len(shares)])


def _beats_far(found: Findings) -> Told:
    won = tried = 0
    for domain in _lines(found):
        ours, theirs = found.of(domain, MBDE), found.of(domain, DPB)
        for epsilon in ours.keys() & theirs.keys():
            if epsilon >= FAR:
                tried += 1
                won += ours[epsilon].nll.value < theirs[epsilon].nll.value
    if not tried:
        return _NOT_RUN
    return f"lower negative log-likelihood than DPB (plain) in {won} of {tried} cases.", _share([won / tried])


def _spread(found: Findings) -> Told:
    ratios, fixed = [], []
    for domain in found.domains:
        ours, theirs = found.of(domain, MBDE), found.of(domain, DPB)
        here = [_ratio(theirs[epsilon], ours[epsilon]) for epsilon in ours.keys() & theirs.keys()]
        if domain.startswith(RANDOM_1D):
            ratios += [ratio for ratio in here if ratio > 0]
        elif domain != RANDOM_2D:
            fixed += [ratio for ratio in here if ratio > 0]
    if not ratios:
        return _NOT_RUN
    often, smaller = sum(ratio >= SPREAD for ratio in ratios), sum(ratio > 1 for ratio in ratios)
    said = (
        f"standard deviation of the NLL over the repeats on random Gaussians on a line, DPB (plain) over MBDE: median "
        f"{decimal(statistics.median(ratios), 2)}, at most {decimal(max(ratios), 1)}; MBDE's is smaller in {smaller} "
        f"of {len(ratios)} cases, 100 times smaller in {often}. There most of it is where the Gaussians lie."
    )
    if fixed:
        said += (
            f" On the targets that are fixed: median {decimal(statistics.median(fixed), 1)}, at most "
            f"{decimal(max(fixed), 1)}, over {len(fixed)} cases."
        )
    every = ratios + fixed
    many = sum(ratio >= SPREAD for ratio in every) >= len(every) / 10
    said += " Rule: 100 times in a tenth of all cases; in part if smaller in most."
    most = sum(ratio > 1 for ratio in every) > len(every) / 2
    return said, "holds" if many else "in part" if most else "does not hold"


def _ratio(theirs: Row, ours: Row) -> float:
    if min(theirs.nll.runs, ours.nll.runs) < 2 or not ours.nll.error:
        return 0.0
    return theirs.nll.error / ours.nll.error


def _coverage(found: Findings) -> Told:
    told, near, tried = [], 0, 0
    for name, measure in (("as printed", PRINTED), ("of the densest region", attrgetter("coverage.value"))):
        lowest, flat = _lowest(found, measure)
        if not lowest and not flat:
            return _NOT_RUN
        places = ", ".join(f"{epsilon:g} on {lowest[epsilon]}" for epsilon in sorted(lowest))
        parts = [f"is lowest at epsilon {places} domains"] if places else []
        parts += [f"moves by less than {FLAT_COVERAGE} on {flat}"] if flat else []
        told.append(f"coverage {name} {' and '.join(parts)}")
        if measure is PRINTED:
            near = sum(count for epsilon, count in lowest.items() if NEAR_ONE[0] <= epsilon <= NEAR_ONE[1])
            tried = sum(lowest.values()) + flat
    return "; ".join(told) + ". Rule: as printed, lowest between 0.5 and 2.", _share([near / tried])


def _lowest(found: Findings, measure: Callable[[Row], float]) -> tuple[dict[float, int], int]:
    """Epsilon -> domains on which MBDE's coverage is lowest there, and domains on which it hardly moves."""
    lowest: dict[float, int] = {}
    flat = 0
    for domain in found.domains:
        values = {epsilon: measure(row) for epsilon, row in found.of(domain, MBDE).items()}
        if len(values) < LEAST_EPSILONS:
            continue
        if max(values.values()) - min(values.values()) < FLAT_COVERAGE:
            flat += 1
        else:
            least = min(values, key=values.__getitem__)
            lowest[least] = lowest.get(least, 0) + 1
    return lowest, flat


def _gan(found: Findings) -> Told:
    rows = found.of(RING, DPGAN)
    lost, told = [], []
    for epsilon, row in rows.items():
        others = [found.of(RING, method).get(epsilon) for method in (MBDE, DPB)]
        named = [other for other in others if other is not None]
        if len(named) == len(others):
            lost.append(all(other.nll.value < row.nll.value for other in named))
            mbde, dpb = (decimal(other.nll.value, 2) for other in named)
            told.append(
                f"at epsilon {epsilon:g} {decimal(row.nll.value, 2)} nats (MBDE {mbde}, DPB {dpb}), coverage "
                f"{decimal(row.coverage.value, 2)}"
            )
    if not lost:
        return _NOT_RUN
    said = "; ".join(told) + ", by a kernel estimate of its points. Rule: a higher negative log-likelihood than both."
    return said, _share([sum(lost) / len(lost)])


def _share(shares: Sequence[float]) -> Verdict:
    """All, some, or none."""
    if all(share == 1 for share in shares):
        return "holds"
    return "in part" if any(share > 0 for share in shares) else "does not hold"


def _listed(epsilons: Sequence[float]) -> str:
    return ", ".join(f"{epsilon:g}" for epsilon in epsilons) if epsilons else "none"
