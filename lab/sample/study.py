"""The study of sampling: the MBDE paper's figures and claims (Husain, Cranko and Nock), run again."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import msgspec

from expril.report.document import PAPER, Block, Document, Fold, Heading, Section, Text
from expril.report.numbers import decimal
from expril.report.table import Cell, Column, Group, Table, Tone, attributes, numbers
from lab.averages import mean_text
from lab.cells import epsilon_number
from lab.sample import boosting
from lab.sample import cells as sampled
from lab.sample.cells import DPB, DPGAN, GAN_SETTINGS, MBDE, REPEATS, WHOLE, Sampled, compute_cell, lattices
from lab.sample.claims import Claim, claims_of
from lab.sample.domains import MIXTURE, MOST_RANDOM, RANDOM_1D, RANDOM_2D, RING, WIDE_RING
from lab.sample.figures import figures
from lab.sample.findings import BEST, METHODS, NAMES, Check, Findings, Row, findings
from lab.studies import document_of
from lab.study import Order, Part, Size, Study
from protocol.rationals import parse_rational
from simulations.campaign.store import Task

LINES = (MIXTURE, *(f"{RANDOM_1D}-{modes}" for modes in range(1, MOST_RANDOM + 1)))
PLANES = (RING, RANDOM_2D, WIDE_RING)
EPSILONS = ("0.1", "0.5", "1", "2", "5", "10")
BEYOND = "dpb-beyond"
BEYOND_EPSILONS = ("20", "50", "100", "400", "1000")
"""At which DPB alone is run, in the plane, to see where it reaches what MBDE does at less."""
GAN_EPSILONS = ("1", "10")
CHOICES = {"domains": (*LINES, *PLANES), "methods": (MBDE, DPB, BEYOND, WHOLE, DPGAN)}

TITLES = {
    RING: "ring: 8 Gaussians at radius 1, variance 0.01",
    WIDE_RING: "wide ring: 8 Gaussians at radius 4, variance 0.5",
    RANDOM_2D: "5 random Gaussians in the plane, variance 0.01",
    MIXTURE: "mixture of three on a line",
}
TONES: dict[str, Tone] = {"holds": "within", "in part": "apart", "does not hold": "below"}
DIGITS = 3

PAPER_TITLE = (
    "Husain, Cranko and Nock, Integral Privacy for Sampling from Mollifier Densities with Approximation Guarantees: "
    "Figures 1, 4, 5, 6, 7 and 8."
)
CAVEAT = (
    "The epsilons are not alike. MBDE's is of one sampled record, under integral privacy: any data against any other; "
    "k records cost k times as much. DPB's is of the whole density, from which any number of records may be drawn, "
    "under ordinary differential privacy: one record replaced, n public. DPGAN's is of the whole generator, with "
    "delta 0.1, and the bandwidth of DPB is chosen by cross-validation on the records, unpaid for, as in the paper. "
    "So a lower epsilon of MBDE for equal likelihood is no cheaper study, and the comparison follows the paper's."
)
THEOREMS = (
    "Theorem 5: a density lies in the mollifier where the largest log ratio is at most epsilon / 2. Theorem 7 (10): it "
    "gains at most that much. Theorem 6 promises a gain to each weak learner, in the low regime as printed without a "
    "factor c* that the paper's own Lemma 13 has; Theorem 7 (11) one to each density that stays in the high regime, "
    "where its proof gives the sum of the drops of Theorem 6."
)
FIGURES = (
    "Shades follow the square root of the density, each picture up to its own peak; bands are one standard deviation "
    "over the repeats. The paper's figures were not at hand as numbers, so that only what its text says is compared."
)
NUMBERS = (
    "Mean ± standard deviation over the repeats. Coverage is the mass of the target under the densest region that "
    "holds 0.95 of the model, as the paper has it in words; “as printed” takes the least dense region, as its formula "
    "does. “Best lattice” is chosen with the target at hand. The CSV files have all, unrounded."
)


def title_of(domain: str) -> str:
    """Of a domain."""
    return TITLES.get(domain, f"{domain.removeprefix(f'{RANDOM_1D}-')} random Gaussians on a line, variance 0.01")


def document(found: Findings) -> Document:
    """Claims, theorems, figures and numbers."""
    claims = _claims(claims_of(found))
    plane = [domain for domain in found.domains if not domain.startswith(RANDOM_1D)]
    numbers: list[Block] = [_measures(found, plane)]
    for lines in filter(None, (_lines(found, method) for method in (MBDE, DPB, BEST))):
        numbers += [Heading(lines.caption), lines]
    theorems: list[Block] = []
    if found.checks:
        total = _checks("The theorems, over everything", {"all together": [Check.total(found.checks)]})
        every = _checks("The theorems, in numbers of densities and of iterations", _checked(found.checks))
        theorems = [Text(THEOREMS), total, Fold("By domain and epsilon", [every])]
    drawn = figures(found)
    sections = [
        Section("Claims", [Text(CAVEAT), claims], PAPER),
        Section("Claims", [claims.without("measured")], frozenset({"terminal"})),
        Section("Theorems", theorems, PAPER),
        Section("Theorems", theorems[1:2], frozenset({"terminal"})),
        Section("Figures", [Text(FIGURES), *drawn] if drawn else []),
        Section("Numbers", [Text(NUMBERS), *numbers] if found.rows else []),
    ]
    files: dict[str, Table[Any]] = {"measures.csv": _row_file(found.rows), "theory.csv": _check_file(found.checks)}
    return document_of("sample", sections, found.provenance, files, summary=[PAPER_TITLE])


def _claims(claims: Sequence[Claim]) -> Table[Claim]:
    return Table.of(
        "The paper's claims beside what was measured",
        [
            Column("the paper", lambda claim: claim.says, names=True),
            *attributes("where measured"),
            Column("verdict", lambda claim: Cell(claim.verdict, strong=True, tone=TONES.get(claim.verdict, ""))),
        ],
        claims,
    )


def _measures(found: Findings, domains: Sequence[str]) -> Table[Row]:
    """Both measures of every method and epsilon, a group for each domain."""
    groups = []
    for domain in domains:
        rows = [row for row in found.rows if row.domain == domain]
        base, least = decimal(rows[0].base, 2), decimal(rows[0].entropy, 2)
        groups.append(Group(rows, f"{title_of(domain)}; NLL of Q0 {base}, of the target {least}"))
    return Table(
        "Negative log-likelihood in nats and mode coverage",
        [
            Column("method", lambda row: NAMES[row.method], names=True),
            *numbers("epsilon = epsilon"),
            *numbers("NLL = nll; coverage = coverage; as printed = printed", _mean),
            *numbers("repeats = nll.runs"),
            Column("lattice", lambda row: row.variant or "–"),
        ],
        groups,
    )


digits = partial(decimal, digits=DIGITS)
_mean = partial(mean_text, form=digits, digits=DIGITS)


def _lines(found: Findings, method: str) -> Table[str]:
    """The negative log-likelihood of a method on random Gaussians on a line, numbers of them against epsilon."""
    held = {domain: found.of(domain, method) for domain in found.domains if domain.startswith(RANDOM_1D)}
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
        [domain for domain, each in held.items() if each],
    )


def _checked(checks: Sequence[Check]) -> dict[str, list[Check]]:
    """Checks by domain, and by method where that is not the usual one, epsilon upwards."""
    groups: dict[str, list[Check]] = {}
    for check in sorted(checks, key=lambda each: (METHODS.index(each.method), epsilon_number(each.epsilon))):
        title = title_of(check.domain) + ("" if check.method == MBDE else f"; {NAMES[check.method]}")
        groups.setdefault(title, []).append(check)
    return groups


def _checks(caption: str, groups: Mapping[str, Sequence[Check]]) -> Table[Check]:
    """How often each theorem was kept."""

    def of(whole: str, parts: str) -> Iterator[Column[Check]]:
        for heading, _, part in (text.rpartition(" = ") for text in parts.split("; ")):
            yield Column(heading, partial(share, part, whole), number=True)

    def share(part: str, whole: str, check: Check) -> str:
        return f"{getattr(check, part)} of {getattr(check, whole)}"

    return Table(
        caption,
        [
            Column("epsilon", lambda check: check.epsilon, names=True),
            *numbers("largest log ratio over ε/2 = furthest", digits),
            *of("densities", "in the mollifier = in_range"),
            *numbers("gain Δ, mean = gain", digits),
            *of("densities", "at most ε/2 (10) = below_most; high regime = high"),
            *of("high", "(11) as printed = above_least; as proved = above_least_proved"),
            *of("steps", "weak learners = weak"),
            *of("weak", "Theorem 6 as printed = above_printed; as proved = above_proved"),
        ],
        [Group(rows, title) for title, rows in groups.items()],
    )


_six = "{:.6f}".format


def _row_file(rows: Sequence[Row]) -> Table[Row]:
    """A row for each domain, method and epsilon; `_deviation` is the standard deviation over the repeats, in nats."""

    def of(measure: str, part: str) -> Callable[[Row], str]:
        return lambda row: _six(getattr(getattr(row, measure), "error" if part == "deviation" else part))

    columns = (
        *attributes("domain method variant epsilon"),
        Column[Row]("repeats", lambda row: row.nll.runs),
        *(
            Column(measure if part == "value" else f"{measure}_{part}", of(measure, part))
            for measure in ("nll", "coverage", "printed")
            for part in ("value", "deviation")
        ),
        *attributes("entropy base", _six),
        *attributes("settings"),
    )
    return Table.of("measures", columns, rows)


def _check_file(checks: Sequence[Check]) -> Table[Check]:
    """A row for each domain and epsilon of MBDE: how often each theorem was kept."""
    columns = (
        *attributes("domain method epsilon densities in_range"),
        *attributes("furthest gain most", _six),
        *attributes("below_most high above_least above_least_proved steps weak high_steps above_printed above_proved"),
    )
    return Table.of("theory", columns, checks)


def tasks(order: Order) -> list[Task]:
    """All cells: the first repeat of everything before the second of anything, and DPGAN, which is slow, last."""
    domains, methods = order.size.axes["domains"], order.size.axes["methods"]
    epsilons = order.size.epsilons
    largest = max(map(parse_rational, epsilons), default=Fraction(0))
    beyond = tuple(text for text in BEYOND_EPSILONS if parse_rational(text) > largest)

    def wanted(domain: str, seed: int) -> list[tuple[str, tuple[str, ...]]]:
        found = [(method, epsilons) for method in (MBDE, DPB) if method in methods]
        if BEYOND in methods and domain in PLANES:
            found.append((DPB, beyond))
        if WHOLE in methods and domain == RING and seed == order.seed:
            found.append((WHOLE, epsilons))
        return found

    found = [
        Task(domain, method, epsilon, seed)
        for seed in order.seeds
        for domain in domains
        for method, each in wanted(domain, seed)
        for epsilon in each
    ]
    if DPGAN in methods and RING in domains:
        found += [Task(RING, DPGAN, epsilon, seed) for seed in order.seeds for epsilon in GAN_EPSILONS]
    return found


def settings(order: Order) -> dict[str, object]:
    """What every cell depends on: cells that were computed under other settings are not gone on with."""
    return {
        "seed": order.seed,
        "records": sampled.RECORDS,
        "grid": list(sampled.CELLS.values()),
        "lattices": [[str(lattice) for lattice in lattices(dimensions)] for dimensions in sampled.CELLS],
        "training": [str(boosting.TRAINING[dimensions]) for dimensions in sampled.CELLS],
        "gan": GAN_SETTINGS,
    }


def results(found: Findings) -> dict[str, object]:
    """What is published: pictures are in the figures."""
    return {"claims": claims_of(found), "found": msgspec.structs.replace(found, pictures=())}


STUDY = Study(
    name="sample",
    parts=[Part("cells", Sampled, tasks, compute_cell, settings)],
    findings=findings,
    document=document,
    choices=CHOICES,
    short=Size(
        1,
        ("0.1", "2", "10"),
        {"domains": (MIXTURE, f"{RANDOM_1D}-1", RING), "methods": (MBDE, DPB, BEYOND)},
        "a minute",
    ),
    full=Size(REPEATS, EPSILONS, CHOICES, "an hour"),
    seed=1000,
    noise="seeded generators of NumPy",
    width=190,
    results=results,
)
