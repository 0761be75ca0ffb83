"""The paper's figures, each as one SVG file that loads nothing."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from expril.report.chart import Axis, Figure, Key, Line, Place, Rule, Stage, Tick, make_axis
from expril.report.numbers import decimal
from expril.report.templates import page_template
from lab.sample.cells import DPB, DPGAN, MAP_CELLS, MBDE
from lab.sample.domains import MIXTURE, RANDOM_1D, RANDOM_2D, RING, WIDE_RING, target_of
from lab.sample.images import picture_uri
from lab.sample.model import BEST, NAMES, Found, Mean, Row, Shown, number

PACKAGE, TEMPLATE = "lab.sample", "figure.svg.j2"
MARGIN, HEAD = 16, 84
MAP_WIDTH, MAP_GAP = 150, 20
PLOT_WIDTH, PLOT_HEIGHT, PLOT_GAP = 330, 230, 46
LINES = (1, 2, 3, 5, 7, 10)
"""Numbers of random Gaussians that the figures show; the tables have all."""
FIGURE_1 = 2.0
"""Epsilon of MBDE there: the largest of the paper's range."""
TITLES = {
    RING: "ring",
    WIDE_RING: "wide ring",
    RANDOM_2D: "random Gaussians in the plane",
    MIXTURE: "mixture of three on a line",
}
_KEYS = {
    MBDE: Key(0, False, "MBDE"),
    DPB: Key(1, False, "DPB, plain"),
    BEST: Key(1, True, "DPB at its best lattice"),
    DPGAN: Key(3, False, "DPGAN"),
}
_STEPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_LEFT, _RIGHT = 12.0, 96.0


@dataclass(frozen=True)
class Panel:
    """A picture (`image`, a URI) or a plot (`figure`) at a place in pixels, under a name."""

    x: int
    y: int
    width: int
    height: int
    name: str
    under: str = ""
    image: str = ""
    figure: Figure | None = None


@dataclass(frozen=True)
class Sheet:
    """One file."""

    title: str
    width: int
    height: int
    panels: tuple[Panel, ...]
    keys: tuple[Key, ...] = ()
    key_width: int = 190


Measure = Callable[[Row], tuple[float, float]]
"""A row -> a value and its deviation."""


def figures(found: Found) -> dict[str, str]:
    """File name -> SVG of every figure of which something is there."""
    sheets = {
        "figure1.svg": _figure_1(found),
        "figure4.svg": _rows_of_maps(found, RING, "Figure 4: the ring, over epsilon"),
        "figure4-wide.svg": _rows_of_maps(found, WIDE_RING, "Figure 4 on the wide ring, over epsilon"),
        "figure5.svg": _figure_5(found),
        "figure6.svg": _figure_6(found),
        "figure7.svg": _figure_7(found),
        "figure8.svg": _rows_of_maps(found, RANDOM_2D, "Figure 8: random Gaussians in the plane, over epsilon"),
    }
    template = page_template(PACKAGE, name=TEMPLATE)
    return {name: template.render(sheet=sheet).lstrip() for name, sheet in sheets.items() if sheet is not None}


def _figure_1(found: Found) -> Sheet | None:
    shown = {(each.method, number(each.epsilon)): each for each in found.pictures if each.domain == RING}
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
    return _maps("Figure 1: densities that look about alike, on the ring", [maps])


def _rows_of_maps(found: Found, domain: str, title: str) -> Sheet | None:
    rows = []
    largest = max((number(each.epsilon) for each in found.pictures if each.method == MBDE), default=0.0)
    for method in (DPB, MBDE):
        shown = [each for each in found.pictures if (each.domain, each.method) == (domain, method)]
        if shown:
            there = [_map(found, each) for each in shown if number(each.epsilon) <= largest]
            rows.append([_target(domain, shown[0].seed), *there])
    return _maps(title, rows) if rows else None


Map = tuple[str, str, str]
"""A name, a line under it, and a URI."""


def _target(domain: str, seed: int) -> Map:
    masses = target_of(domain, seed).masses(MAP_CELLS).reshape(MAP_CELLS, MAP_CELLS)
    return "target", "", picture_uri(masses / masses.max())


def _map(found: Found, shown: Shown) -> Map:
    row = found.of(shown.domain, shown.method)[number(shown.epsilon)]
    name = f"{NAMES[shown.method]}, ε = {shown.epsilon}"
    return name, f"NLL {decimal(row.nll.value, 2)}", picture_uri(np.asarray(shown.picture.share))


def _maps(title: str, rows: Sequence[Sequence[Map]]) -> Sheet:
    step, tall = MAP_WIDTH + MAP_GAP, MAP_WIDTH + 62
    panels = [
        Panel(MARGIN + column * step, 58 + row * tall, MAP_WIDTH, MAP_WIDTH + 22, name, under, image)
        for row, maps in enumerate(rows)
        for column, (name, under, image) in enumerate(maps)
    ]
    wide = max(len(maps) for maps in rows)
    return Sheet(title, max(480, 2 * MARGIN + wide * step - MAP_GAP), 58 + len(rows) * tall - 24, tuple(panels))


def _figure_5(found: Found) -> Sheet | None:
    domains = [domain for domain in TITLES if found.of(domain, MBDE)]
    plots = []
    for domain in domains:
        rows = {method: found.of(domain, method) for method in (MBDE, DPB, BEST)}
        held = {method: list(each.values()) for method, each in rows.items()}
        any_row = held[MBDE][0]
        levels = (
            ("majority", any_row.base, f"Q0: {decimal(any_row.base, 2)}"),
            ("ceiling", any_row.entropy, f"the target: {decimal(any_row.entropy, 2)}"),
        )
        plots.append((f"{TITLES[domain]}: NLL in nats", _plot(held, _nll, levels)))
        plots.append((f"{TITLES[domain]}: mode coverage as printed", _plot(held, _printed)))
        plots.append(("the same of the densest region", _plot(held, _coverage)))
    if not plots:
        return None
    keys = tuple(_KEYS[method] for method in (MBDE, DPB, BEST))
    title = "Figure 5: negative log-likelihood (dotted Q0, solid the target's own entropy) and mode coverage, both ways"
    return _plots(title, plots, keys, columns=3)


def _by_modes(found: Found, method: str) -> dict[str, list[Row]]:
    held = {f"{modes}": list(found.of(f"{RANDOM_1D}-{modes}", method).values()) for modes in LINES}
    return {modes: rows for modes, rows in held.items() if rows}


def _mode_keys(modes: Sequence[str]) -> dict[str, Key]:
    return {each: Key(place, place % 2 == 1, f"m = {each}") for place, each in enumerate(modes)}


def _figure_6(found: Found) -> Sheet | None:
    rows = _by_modes(found, MBDE)
    if not rows:
        return None
    keys = _mode_keys(list(rows))
    plots = [
        ("MBDE: mode coverage as printed, mean", _plot(rows, _alone(_printed), keys=keys)),
        ("MBDE: its standard deviation", _plot(rows, _deviation(_printed), keys=keys)),
    ]
    return _plots("Figure 6: mode coverage on m random Gaussians on a line", plots, tuple(keys.values()), 110)


def _figure_7(found: Found) -> Sheet | None:
    plots = []
    named: dict[str, Key] = {}
    for method in (DPB, MBDE):
        if rows := _by_modes(found, method):
            keys = _mode_keys(list(rows))
            named |= keys
            plots.append((f"{NAMES[method]}: NLL in nats, mean", _plot(rows, _alone(_nll), keys=keys)))
            plots.append((f"{NAMES[method]}: its standard deviation", _plot(rows, _deviation(_nll), keys=keys)))
    if not plots:
        return None
    return _plots("Figure 7: NLL on m random Gaussians on a line", plots, tuple(named.values()), 110)


def _of(mean: Mean) -> tuple[float, float]:
    return mean.value, mean.deviation


def _nll(row: Row) -> tuple[float, float]:
    return _of(row.nll)


def _coverage(row: Row) -> tuple[float, float]:
    return _of(row.coverage)


def _printed(row: Row) -> tuple[float, float]:
    return _of(row.printed)


def _alone(measure: Measure) -> Measure:
    return lambda row: (measure(row)[0], 0.0)


def _deviation(measure: Measure) -> Measure:
    return lambda row: (measure(row)[1], 0.0)


def _plots(
    title: str, plots: Sequence[tuple[str, Figure]], keys: tuple[Key, ...], key_width: int = 190, *, columns: int = 2
) -> Sheet:
    tall = PLOT_HEIGHT + 56
    panels = [
        Panel(
            MARGIN + (place % columns) * (PLOT_WIDTH + PLOT_GAP),
            HEAD + (place // columns) * tall,
            PLOT_WIDTH,
            PLOT_HEIGHT + 30,
            name,
            figure=figure,
        )
        for place, (name, figure) in enumerate(plots)
    ]
    height = HEAD + math.ceil(len(plots) / columns) * tall
    width = 2 * MARGIN + columns * (PLOT_WIDTH + PLOT_GAP) - PLOT_GAP
    return Sheet(title, width, height, tuple(panels), keys, key_width)


def _plot(
    rows: Mapping[str, Sequence[Row]],
    measure: Measure,
    levels: Sequence[tuple[str, float, str]] = (),
    keys: Mapping[str, Key] = _KEYS,
) -> Figure:
    """Lines over the logarithm of epsilon, with bands of one standard deviation where all places have one."""
    epsilons = sorted({number(row.epsilon) for held in rows.values() for row in held})
    low, high = math.log(epsilons[0]), math.log(max(epsilons[-1], 2 * epsilons[0]))
    axis = Axis(low, high, left=_LEFT, right=_RIGHT)
    drawn: list[tuple[Key, list[Place]]] = []
    for name, held in rows.items():
        places = []
        for row in held:
            value, deviation = measure(row)
            text = f"{decimal(value, 3)} at ε = {row.epsilon}"
            places.append(
                Place(axis.place(math.log(number(row.epsilon))), value, (value - deviation, value + deviation), text)
            )
        if places:
            drawn.append((keys[name], places))
    ends = [end for _, places in drawn for place in places for end in place.error] + [level[1] for level in levels]
    stage = Stage(make_axis(min(ends), max(ends), _STEPS), PLOT_HEIGHT)
    lines: list[Line] = [
        stage.line(key.index, key.hollow, key.name, places, errors=any(p.error[0] < p.error[1] for p in places))
        for key, places in drawn
    ]
    ticks = [epsilon for epsilon in epsilons if _round(epsilon)]
    return Figure(
        stage,
        "",
        tuple(Tick(f"{epsilon:g}", axis.at(math.log(epsilon))) for epsilon in ticks),
        tuple(lines),
        " ".join(f"{key.name}: {'; '.join(place.text for place in places)}." for key, places in drawn),
        below=20,
        rules=tuple(Rule(style, stage.y(value), text) for style, value, text in levels),
    )


def _round(epsilon: float) -> bool:
    """Whether it is a power of ten: only these have room below the axis."""
    return abs(math.log10(epsilon) - round(math.log10(epsilon))) < 1e-9
