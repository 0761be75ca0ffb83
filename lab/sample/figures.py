"""The paper's figures: lines as charts, and densities in the plane as rows of small maps."""

import base64
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from expril.report.chart import Figure, Key, Level, Place, Series
from expril.report.document import Charts, Drawing
from expril.report.numbers import decimal
from lab.averages import Mean, log_chart
from lab.cells import epsilon_number
from lab.sample.cells import DPB, DPGAN, MAP_CELLS, MBDE
from lab.sample.domains import MIXTURE, RANDOM_1D, RANDOM_2D, RING, WIDE_RING, target_of
from lab.sample.findings import BEST, NAMES, Density, Findings, Row

Floats = NDArray[np.float64]
SIDE, GAP, HEAD = 120, 16, 34
"""Of a map, between two, and above one for its name, in pixels."""
HEIGHT = 284
"""Of a chart."""
LINES = (1, 2, 3, 5, 7, 10)
"""Numbers of random Gaussians that the figures show; the tables have all."""
FIGURE_1 = 2.0
"""Epsilon of MBDE there: the largest of the paper's range."""
TITLES = {
    RING: "ring",
    WIDE_RING: "wide ring",
    RANDOM_2D: "Gaussians in the plane",
    MIXTURE: "mixture of three on a line",
}
KEYS = {
    MBDE: Key(0, False, "MBDE"),
    DPB: Key(1, False, "DPB, plain"),
    BEST: Key(1, True, "DPB at its best lattice"),
}
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
SHEET = Markup('<svg width="{width}" height="{height}" role="img" aria-label="{name}">{maps}</svg>')

Measure = Callable[[Row], tuple[float, float]]
"""A row -> a value and its deviation."""
Map = tuple[str, str, str]
"""A name, a line under it, and a URI."""


def figures(found: Findings) -> list[Charts | Drawing]:
    """Every figure of which something is there, in the paper's order."""
    shown = (
        _alike(found),
        _rows("figure4.svg", "Figure 4: the ring, over epsilon; DPB above MBDE", found, RING),
        _rows("figure4-wide.svg", "Figure 4 on the wide ring, over epsilon; DPB above MBDE", found, WIDE_RING),
        _measures(found),
        _coverage_of_lines(found),
        _likelihood_of_lines(found),
        _rows("figure8.svg", "Figure 8: random Gaussians in the plane; DPB above MBDE", found, RANDOM_2D),
    )
    return [figure for figure in shown if figure is not None]


def _alike(found: Findings) -> Drawing | None:
    """Figure 1: the target, MBDE, DPB where it is first as likely, and DPGAN."""
    shown = {(each.method, epsilon_number(each.epsilon)): each for each in found.pictures if each.domain == RING}
    ours = shown.get((MBDE, FIGURE_1))
    if ours is None:
        return None
    maps = [_target(RING, ours.seed), _map(found, ours)]
    level = found.of(RING, MBDE)[FIGURE_1].nll.value
    theirs = found.of(RING, DPB)
    reached = next((epsilon for epsilon in theirs if theirs[epsilon].nll.value <= level), max(theirs, default=0.0))
    maps += [_map(found, shown[DPB, reached])] if (DPB, reached) in shown else []
    gans = [epsilon for method, epsilon in shown if method == DPGAN]
    maps += [_map(found, shown[DPGAN, max(gans)])] if gans else []
    return _maps("figure1.svg", "Figure 1: densities on the ring that look about alike", [maps])


def _rows(file: str, title: str, found: Findings, domain: str) -> Drawing | None:
    """The target and a row of densities over epsilon for each of two methods."""
    rows = []
    largest = max((epsilon_number(each.epsilon) for each in found.pictures if each.method == MBDE), default=0.0)
    for method in (DPB, MBDE):
        shown = [each for each in found.pictures if (each.domain, each.method) == (domain, method)]
        if shown:
            there = [_map(found, each) for each in shown if epsilon_number(each.epsilon) <= largest]
            rows.append([_target(domain, shown[0].seed), *there])
    return _maps(file, title, rows) if rows else None


def _target(domain: str, seed: int) -> Map:
    masses = target_of(domain, seed).masses(MAP_CELLS).reshape(MAP_CELLS, MAP_CELLS)
    return "target", "", picture_uri(masses / masses.max())


def _map(found: Findings, shown: Density) -> Map:
    row = found.of(shown.domain, shown.method)[epsilon_number(shown.epsilon)]
    under = f"ε = {shown.epsilon}, NLL {decimal(row.nll.value, 2)}"
    return NAMES[shown.method], under, picture_uri(np.asarray(shown.picture.share))


def _maps(file: str, title: str, rows: Sequence[Sequence[Map]]) -> Drawing:
    """Rows of maps, the first of each row below that of the row before."""
    step, tall = SIDE + GAP, SIDE + HEAD
    maps = Markup("").join(
        MAP.format(
            x=column * step, y=row * (tall + GAP), side=SIDE, tall=tall, head=HEAD, name=name, under=under, uri=uri
        )
        for row, shown in enumerate(rows)
        for column, (name, under, uri) in enumerate(shown)
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


def _measures(found: Findings) -> Charts | None:
    """Figure 5: for each domain, likelihood and both coverages."""
    plots = []
    for domain, title in TITLES.items():
        if not found.of(domain, MBDE):
            continue
        held = {method: list(found.of(domain, method).values()) for method in KEYS}
        first = held[MBDE][0]
        levels = [
            Level("dashes", first.base, f"Q0: {decimal(first.base, 2)}"),
            Level("solid", first.entropy, f"the target: {decimal(first.entropy, 2)}"),
        ]
        plots.append(_chart(f"{title}: NLL in nats", held, partial(_value, "nll"), levels))
        plots.append(_chart(f"{title}: coverage as printed", held, partial(_value, "printed")))
        plots.append(_chart(f"{title}: coverage, densest region", held, partial(_value, "coverage")))
    if not plots:
        return None
    rules = [("dashes", "Q0"), ("solid", "the target's own entropy")]
    title = "Figure 5: negative log-likelihood and mode coverage, both ways"
    return Charts(plots, tuple(KEYS.values()), rules, file="figure5.svg", name=title)


def _coverage_of_lines(found: Findings) -> Charts | None:
    """Figure 6."""
    rows = _by_modes(found, MBDE)
    keys = _mode_keys(rows)
    plots = [
        _chart("MBDE: mode coverage as printed, mean", rows, partial(_alone, "printed", "value"), keys=keys),
        _chart("MBDE: its standard deviation", rows, partial(_alone, "printed", "error"), keys=keys),
    ] if rows else []  # fmt: skip
    return _lines_charts("figure6.svg", "Figure 6: mode coverage on m random Gaussians on a line", plots, keys)


def _likelihood_of_lines(found: Findings) -> Charts | None:
    """Figure 7."""
    plots: list[Figure] = []
    every: dict[str, Key] = {}
    for method in (DPB, MBDE):
        if rows := _by_modes(found, method):
            keys = _mode_keys(rows)
            every |= keys
            name = NAMES[method]
            plots.append(_chart(f"{name}: NLL in nats, mean", rows, partial(_alone, "nll", "value"), keys=keys))
            plots.append(_chart(f"{name}: its standard deviation", rows, partial(_alone, "nll", "error"), keys=keys))
    return _lines_charts("figure7.svg", "Figure 7: NLL on m random Gaussians on a line", plots, every)


def _by_modes(found: Findings, method: str) -> dict[str, list[Row]]:
    held = {f"{modes}": list(found.of(f"{RANDOM_1D}-{modes}", method).values()) for modes in LINES}
    return {modes: rows for modes, rows in held.items() if rows}


def _mode_keys(modes: Mapping[str, object]) -> dict[str, Key]:
    return {each: Key(place, place % 2 == 1, f"m = {each}") for place, each in enumerate(modes)}


def _lines_charts(file: str, title: str, plots: Sequence[Figure], keys: Mapping[str, Key]) -> Charts | None:
    return Charts(plots, tuple(keys.values()), columns=2, file=file, name=title) if plots else None


def _value(measure: str, row: Row) -> tuple[float, float]:
    mean: Mean = getattr(row, measure)
    return mean.value, mean.error


def _alone(measure: str, part: str, row: Row) -> tuple[float, float]:
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
    for line, held in rows.items():
        places = []
        for row in held:
            value, deviation = measure(row)
            text = f"{decimal(value, 3)} at ε = {row.epsilon}"
            places.append(Place(epsilon_number(row.epsilon), value, (value - deviation, value + deviation), text))
        series.append(Series(keys[line], places))
    return log_chart(name, series, STEPS, "epsilon", levels=levels, height=HEIGHT, left=12.0)
