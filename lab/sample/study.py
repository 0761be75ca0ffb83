"""The study of sampling: the MBDE paper's figures and claims (Husain, Cranko and Nock), run again."""

import base64
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import msgspec
import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from expril.report.chart import Figure, Key, Level, Place, Series
from expril.report.document import PAPER, Block, Charts, Document, Drawing, Fold, Heading, Section, Text
from expril.report.numbers import decimal
from expril.report.table import Cell, Column, Group, Table, Tone, attributes, numbers
from lab.averages import Mean, log_chart, mean_text
from lab.cells import epsilon_number
from lab.sample import cells as sampled
from lab.sample import methods
from lab.sample.cells import (
    DPB,
    DPGAN,
    GAN_SETTINGS,
    MAP_CELLS,
    MBDE,
    ONE_BATCH,
    REPEATS,
    Sampled,
    compute_cell,
    lattices,
)
from lab.sample.domains import MIXTURE, MOST_RANDOM, RANDOM_1D, RANDOM_2D, RING, WIDE_RING, target_of
from lab.sample.findings import BEST, METHODS, NAMES, Check, Claim, Density, Findings, Row, claims_of, findings
from lab.studies import document_of
from lab.study import Order, Part, Size, Study
from protocol.rationals import parse_rational
from simulations.campaign.store import Task

Floats = NDArray[np.float64]
SIDE, GAP, HEAD = 120, 16, 34  # of a map, between two, and above one for its name, in pixels
HEIGHT = 284  # of a chart
CHART_LINES = (1, 2, 3, 5, 7, 10)  # numbers of random Gaussians that the figures show; the tables have all
FIGURE_1 = 2.0  # epsilon of MBDE there: the largest of the paper's range
CHART_TITLES = {
    RING: "ring",
    WIDE_RING: "wide ring",
    RANDOM_2D: "Gaussians in the plane",
    MIXTURE: "mixture of three on a line",
}
KEYS = {MBDE: Key(0, False, "MBDE"), DPB: Key(1, False, "DPB, plain"), BEST: Key(1, True, "DPB at its best lattice")}
STEPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
SHADES = np.array(
    [[255, 255, 255], [214, 229, 244], [141, 190, 224], [58, 133, 189], [15, 77, 143], [8, 32, 84]], dtype=np.float64
)
"""From nothing to the peak; as grey it gets darker all the way."""
MAP = Markup(
    '<svg x="{x}" y="{y}" width="{side}" height="{tall}" overflow="visible">'
    '<text class="name" y="12">{name}</text><text y="27">{under}</text>'
    '<image y="{head}" width="{side}" height="{side}" preserveAspectRatio="none" href="{uri}"/></svg>'
)
SHEET = Markup(
    '<svg width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" aria-label="{name}">{maps}</svg>'
)

Measure = Callable[[Row], tuple[float, float]]  # a row -> a value and its deviation
Map = tuple[str, str, str]  # a name, a line under it, and a URI


def figures(results: Findings) -> list[Charts | Drawing]:
    """Every figure of which something is there, in the paper's order."""
    drawings = (
        _alike(results),
        _rows("figure4.svg", "Figure 4: the ring, over epsilon; DPB above MBDE", results, RING),
        _rows("figure4-wide.svg", "Figure 4 on the wide ring, over epsilon; DPB above MBDE", results, WIDE_RING),
        _measure_charts(results),
        _coverage_of_lines(results),
        _likelihood_of_lines(results),
        _rows("figure8.svg", "Figure 8: random Gaussians in the plane; DPB above MBDE", results, RANDOM_2D),
    )
    return [figure for figure in drawings if figure is not None]


def _alike(results: Findings) -> Drawing | None:
    """Figure 1: the target, MBDE, DPB where it is first as likely, and DPGAN."""
    densities = {
        (density.method, epsilon_number(density.epsilon)): density
        for density in results.pictures
        if density.domain == RING
    }
    ours = densities.get((MBDE, FIGURE_1))
    if ours is None:
        return None
    maps = [_target(RING, ours.seed), _map(results, ours)]
    level = results.of(RING, MBDE)[FIGURE_1].nll.value
    theirs = results.of(RING, DPB)
    reached = next((epsilon for epsilon in theirs if theirs[epsilon].nll.value <= level), max(theirs, default=0.0))
    maps += [_map(results, densities[DPB, reached])] if (DPB, reached) in densities else []
    gans = [epsilon for method, epsilon in densities if method == DPGAN]
    maps += [_map(results, densities[DPGAN, max(gans)])] if gans else []
    return _maps("figure1.svg", "Figure 1: densities on the ring that look about alike", [maps])


def _rows(file: str, title: str, results: Findings, domain: str) -> Drawing | None:
    """The target and a row of densities over epsilon for each of two methods."""
    rows = []
    largest = max(
        (epsilon_number(density.epsilon) for density in results.pictures if density.method == MBDE), default=0.0
    )
    for method in (DPB, MBDE):
        densities = [density for density in results.pictures if (density.domain, density.method) == (domain, method)]
        if densities:
            there = [_map(results, density) for density in densities if epsilon_number(density.epsilon) <= largest]
            rows.append([_target(domain, densities[0].seed), *there])
    return _maps(file, title, rows) if rows else None


def _target(domain: str, seed: int) -> Map:
    masses = target_of(domain, seed).masses(MAP_CELLS).reshape(MAP_CELLS, MAP_CELLS)
    return "target", "", picture_uri(masses / masses.max())


def _map(results: Findings, density: Density) -> Map:
    row = results.of(density.domain, density.method)[epsilon_number(density.epsilon)]
    under = f"ε = {density.epsilon}, NLL {decimal(row.nll.value, 2)}"
    return NAMES[density.method], under, picture_uri(np.asarray(density.picture.share))


def _maps(file: str, title: str, rows: Sequence[Sequence[Map]]) -> Drawing:
    """Rows of maps, the first of each row below that of the row before."""
    step, tall = SIDE + GAP, SIDE + HEAD
    maps = Markup("").join(
        MAP.format(
            x=column * step, y=row * (tall + GAP), side=SIDE, tall=tall, head=HEAD, name=name, under=under, uri=uri
        )
        for row, maps_of in enumerate(rows)
        for column, (name, under, uri) in enumerate(maps_of)
    )
    width, height = max(map(len, rows)) * step - GAP, len(rows) * (tall + GAP) - GAP
    svg = SHEET.format(width=width, height=height, name=title, maps=maps)
    return Drawing(svg, title, size=(width, height), images=True, file=file)


def picture_uri(share: Floats) -> str:
    """A data URI of a PNG (ISO 15948) with a palette.

    Shades follow the square root of the share, so that what is faint can be seen.

    `share` (n, m) shares of the peak in [0, 1]; the first coordinate goes right, the second up.
    """
    levels = np.rint(np.sqrt(np.clip(share, 0.0, 1.0)) * 255).astype(np.uint8).T[::-1]
    height, width = levels.shape
    places = np.linspace(0, len(SHADES) - 1, 256)
    palette = np.stack([np.interp(places, np.arange(len(SHADES)), stops) for stops in SHADES.T], axis=1)
    rows = np.column_stack([np.zeros(height, np.uint8), levels]).tobytes()  # each row begins with its filter, none
    data = b"".join(
        (
            b"\x89PNG\r\n\x1a\n",
            _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),  # 3: indices of a palette
            _chunk(b"PLTE", np.rint(palette).astype(np.uint8).tobytes()),
            _chunk(b"IDAT", zlib.compress(rows, 9)),
            _chunk(b"IEND", b""),
        )
    )
    return "data:image/png;base64," + base64.b64encode(data).decode()


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _measure_charts(results: Findings) -> Charts | None:
    """Figure 5: for each domain, likelihood and both coverages."""
    plots = []
    for domain, title in CHART_TITLES.items():
        if not results.of(domain, MBDE):
            continue
        lines = {method: list(results.of(domain, method).values()) for method in KEYS}
        first = lines[MBDE][0]
        levels = [
            Level("dashes", first.base, f"Q0: {decimal(first.base, 2)}"),
            Level("solid", first.entropy, f"the target: {decimal(first.entropy, 2)}"),
        ]
        plots.append(_chart(f"{title}: NLL in nats", lines, partial(_value, "nll"), levels))
        plots.append(_chart(f"{title}: coverage as printed", lines, partial(_value, "printed")))
        plots.append(_chart(f"{title}: coverage, densest region", lines, partial(_value, "coverage")))
    if not plots:
        return None
    rules = [("dashes", "Q0"), ("solid", "the target's own entropy")]
    title = "Figure 5: negative log-likelihood and mode coverage, both ways"
    return Charts(plots, tuple(KEYS.values()), rules, file="figure5.svg", name=title)


def _coverage_of_lines(results: Findings) -> Charts | None:
    """Figure 6."""
    rows = _by_modes(results, MBDE)
    keys = _mode_keys(rows)
    plots = [
        _chart("MBDE: mode coverage as printed, mean", rows, partial(_part, "printed", "value"), keys=keys),
        _chart("MBDE: its standard deviation", rows, partial(_part, "printed", "error"), keys=keys),
    ] if rows else []  # fmt: skip
    return _lines_charts("figure6.svg", "Figure 6: mode coverage on m random Gaussians on a line", plots, keys)


def _likelihood_of_lines(results: Findings) -> Charts | None:
    """Figure 7."""
    plots: list[Figure] = []
    every: dict[str, Key] = {}
    for method in (DPB, MBDE):
        if rows := _by_modes(results, method):
            keys = _mode_keys(rows)
            every |= keys
            name = NAMES[method]
            plots.append(_chart(f"{name}: NLL in nats, mean", rows, partial(_part, "nll", "value"), keys=keys))
            plots.append(_chart(f"{name}: its standard deviation", rows, partial(_part, "nll", "error"), keys=keys))
    return _lines_charts("figure7.svg", "Figure 7: NLL on m random Gaussians on a line", plots, every)


def _by_modes(results: Findings, method: str) -> dict[str, list[Row]]:
    lines = {f"{modes}": list(results.of(f"{RANDOM_1D}-{modes}", method).values()) for modes in CHART_LINES}
    return {modes: rows for modes, rows in lines.items() if rows}


def _mode_keys(modes: Mapping[str, object]) -> dict[str, Key]:
    return {count: Key(place, place % 2 == 1, f"m = {count}") for place, count in enumerate(modes)}


def _lines_charts(file: str, title: str, plots: Sequence[Figure], keys: Mapping[str, Key]) -> Charts | None:
    return Charts(plots, tuple(keys.values()), columns=2, file=file, name=title) if plots else None


def _value(measure: str, row: Row) -> tuple[float, float]:
    mean: Mean = getattr(row, measure)
    return mean.value, mean.error


def _part(measure: str, part: str, row: Row) -> tuple[float, float]:
    return getattr(getattr(row, measure), part), 0.0


def _chart(
    name: str,
    rows: Mapping[str, Sequence[Row]],
    measure: Measure,
    levels: Sequence[Level] = (),
    keys: Mapping[str, Key] = KEYS,
) -> Figure:
    """Lines over the logarithm of epsilon, with bands of one standard deviation where all places have one."""
    series = []
    for line, points in rows.items():
        places = []
        for row in points:
            value, deviation = measure(row)
            text = f"{decimal(value, 3)} at ε = {row.epsilon}"
            places.append(Place(epsilon_number(row.epsilon), value, (value - deviation, value + deviation), text))
        series.append(Series(keys[line], places))
    return log_chart(name, series, STEPS, "epsilon", levels=levels, height=HEIGHT, left=12.0)


LINES = (MIXTURE, *(f"{RANDOM_1D}-{modes}" for modes in range(1, MOST_RANDOM + 1)))
PLANES = (RING, RANDOM_2D, WIDE_RING)
EPSILONS = ("0.1", "0.5", "1", "2", "5", "10")
BEYOND = "dpb-beyond"
BEYOND_EPSILONS = ("20", "50", "100", "400", "1000")
"""At which DPB alone is run, in the plane, to see where it reaches what MBDE does at less."""
GAN_EPSILONS = ("1", "10")
CHOICES = {"domains": (*LINES, *PLANES), "methods": (MBDE, DPB, BEYOND, ONE_BATCH, DPGAN)}

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
    """A domain in words."""
    return TITLES.get(domain, f"{domain.removeprefix(f'{RANDOM_1D}-')} random Gaussians on a line, variance 0.01")


def document(results: Findings) -> Document:
    """Claims, theorems, figures and numbers."""
    claims = _claims(claims_of(results))
    plane = [domain for domain in results.domains if not domain.startswith(RANDOM_1D)]
    numbers: list[Block] = [_measures(results, plane)]
    for lines in filter(None, (_lines(results, method) for method in (MBDE, DPB, BEST))):
        numbers += [Heading(lines.caption), lines]
    theorems: list[Block] = []
    if results.checks:
        total = _checks("The theorems, over everything", {"all together": [Check.total(results.checks)]})
        every = _checks("The theorems, in numbers of densities and of iterations", _checked(results.checks))
        theorems = [Text(THEOREMS), total, Fold("By domain and epsilon", [every])]
    drawings = figures(results)
    sections = [
        Section("Claims", [Text(CAVEAT), claims], PAPER),
        Section("Claims", [claims.without("measured")], frozenset({"terminal"})),
        Section("Theorems", theorems, PAPER),
        Section("Theorems", theorems[1:2], frozenset({"terminal"})),
        Section("Figures", [Text(FIGURES), *drawings] if drawings else []),
        Section("Numbers", [Text(NUMBERS), *numbers] if results.rows else []),
    ]
    files: dict[str, Table[Any]] = {"measures.csv": _row_file(results.rows), "theory.csv": _check_file(results.checks)}
    return document_of("sample", sections, results.provenance, files, summary=[PAPER_TITLE])


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


def _measures(results: Findings, domains: Sequence[str]) -> Table[Row]:
    """Both measures of every method and epsilon, a group for each domain."""
    groups = []
    for domain in domains:
        rows = [row for row in results.rows if row.domain == domain]
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


def _lines(results: Findings, method: str) -> Table[str]:
    """The negative log-likelihood of a method on random Gaussians on a line, numbers of them against epsilon."""
    rows_of = {domain: results.of(domain, method) for domain in results.domains if domain.startswith(RANDOM_1D)}
    epsilons = sorted({epsilon for rows in rows_of.values() for epsilon in rows})

    def show(epsilon: float, domain: str) -> str:
        row = rows_of[domain].get(epsilon)
        return "–" if row is None else _mean(row.nll)

    return Table.of(
        f"NLL of {NAMES[method]} on m random Gaussians on a line",
        [
            Column("m", lambda domain: domain.removeprefix(f"{RANDOM_1D}-"), names=True),
            *(Column(f"ε = {epsilon:g}", partial(show, epsilon), number=True) for epsilon in epsilons),
        ],
        [domain for domain, rows in rows_of.items() if rows],
    )


def _checked(checks: Sequence[Check]) -> dict[str, list[Check]]:
    """Checks by domain, and by method where that is not the usual one, epsilon upwards."""
    groups: dict[str, list[Check]] = {}
    for check in sorted(checks, key=lambda check: (METHODS.index(check.method), epsilon_number(check.epsilon))):
        title = title_of(check.domain) + ("" if check.method == MBDE else f"; {NAMES[check.method]}")
        groups.setdefault(title, []).append(check)
    return groups


def _checks(caption: str, groups: Mapping[str, Sequence[Check]]) -> Table[Check]:
    """How often each theorem was kept."""

    def of(total: str, parts: str) -> Iterator[Column[Check]]:
        for heading, _, part in (text.rpartition(" = ") for text in parts.split("; ")):
            yield Column(heading, partial(share, part, total), number=True)

    def share(part: str, total: str, check: Check) -> str:
        return f"{getattr(check, part)} of {getattr(check, total)}"

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

    def makers(domain: str, seed: int) -> list[tuple[str, tuple[str, ...]]]:
        chosen = [(method, epsilons) for method in (MBDE, DPB) if method in methods]
        if BEYOND in methods and domain in PLANES:
            chosen.append((DPB, beyond))
        if ONE_BATCH in methods and domain == RING and seed == order.seed:
            chosen.append((ONE_BATCH, epsilons))
        return chosen

    cells = [
        Task(domain, method, epsilon, seed)
        for seed in order.seeds
        for domain in domains
        for method, epsilons_of in makers(domain, seed)
        for epsilon in epsilons_of
    ]
    if DPGAN in methods and RING in domains:
        cells += [Task(RING, DPGAN, epsilon, seed) for seed in order.seeds for epsilon in GAN_EPSILONS]
    return cells


def settings(order: Order) -> dict[str, object]:
    """Settings of every cell; a file of cells that was begun with others is refused."""
    return {
        "seed": order.seed,
        "records": sampled.RECORDS,
        "grid": list(sampled.CELLS.values()),
        "lattices": [[str(lattice) for lattice in lattices(dimensions)] for dimensions in sampled.CELLS],
        "training": [str(methods.TRAINING[dimensions]) for dimensions in sampled.CELLS],
        "gan": GAN_SETTINGS,
    }


def published(results: Findings) -> dict[str, object]:
    """What is published: pictures are in the figures."""
    return {"claims": claims_of(results), "found": msgspec.structs.replace(results, pictures=())}


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
    results=published,
)
