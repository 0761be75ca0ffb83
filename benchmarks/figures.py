"""Draws what the stored results say, and puts their tables into docs/performance.md: `python -m benchmarks.figures`.

Nothing is measured here. A table follows a mark of the page, such as `<!-- goals -->`, up to the next empty line.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.common import RESULTS
from benchmarks.growth import CURVES

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "performance.md"
TRAFFIC = DOCS / "explanation" / "secure-sums-traffic.svg"
GROWTH = DOCS / "performance-growth.svg"
FAR = {"records": 100_000_000, "sites": 100_000}
"""What the page foretells."""
GOALS: tuple[tuple[str, str, str], ...] = ()
"""What people wait for, the benchmark, and the name of its result."""


@dataclass(frozen=True)
class Axis:
    """A logarithmic one."""

    ends: tuple[float, float]
    ticks: Mapping[float, str]

    def share(self, value: float) -> float:
        """Where a value lies, from 0 to 1."""
        return math.log(value / self.ends[0]) / math.log(self.ends[1] / self.ends[0])


@dataclass(frozen=True)
class Panel:
    """One figure's frame within a picture, in the picture's units."""

    left: float
    top: float
    width: float
    height: float
    across: Axis
    up: Axis

    def place(self, x: float, y: float) -> tuple[float, float]:
        """Of a point."""
        return self.left + self.width * self.across.share(x), self.top + self.height * (1 - self.up.share(y))

    def frame(self, title: str, caption: str) -> str:
        """Grid, labels of both axes, a title above and a caption below."""
        bottom, right = self.top + self.height, self.left + self.width
        lines = [f'<text x="{self.left}" y="{self.top - 8}" font-weight="bold">{title}</text>' if title else ""]
        for value, text in self.up.ticks.items():
            _, y = self.place(self.across.ends[0], value)
            lines.append(f'<path d="M{self.left} {y:.1f}H{right}" stroke="#ccc"/>')
            lines.append(f'<text x="{self.left - 8}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
        for value, text in self.across.ticks.items():
            x, _ = self.place(value, self.up.ends[0])
            lines.append(f'<path d="M{x:.1f} {bottom}v5" stroke="#666"/>')
            lines.append(f'<text x="{x:.1f}" y="{bottom + 20}" text-anchor="middle">{text}</text>')
        lines.append(f'<text x="{(self.left + right) / 2}" y="{bottom + 42}" text-anchor="middle">{caption}</text>')
        return "".join(lines)

    def curve(self, points: Iterable[tuple[float, float]], colour: str) -> str:
        """A line through its points."""
        placed = [self.place(*point) for point in points]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
        marks = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in placed)
        return (
            f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/><g fill="{colour}">{marks}</g>'
        )


def picture(width: int, height: int, title: str, drawn: str) -> str:
    """An SVG file's text."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" font-family="sans-serif" '
        f'font-size="12"><title>{title}</title><rect width="{width}" height="{height}" fill="#fff"/>{drawn}</svg>\n'
    )


def stored(name: str) -> list[dict[str, Any]]:
    """Rows of `results/<name>.json`."""
    rows: list[dict[str, Any]] = json.loads((RESULTS / f"{name}.json").read_bytes())
    return rows


def traffic() -> str:
    """Bytes a site by number of sites, of a secure sum."""
    rows = [row for row in stored("secure_sum") if row["name"].endswith("bytes a site")]
    points = [(int(row["name"].split()[0]), row["value"]) for row in rows]
    sizes, amounts = (2, 5, 10, 20, 50, 100, 200, 500, 1000), (5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000)
    panel = Panel(
        *(70, 20, 550, 270),
        Axis((2, 1000), {value: f"{value:,}" for value in sizes}),
        Axis((5_000, 500_000), {value: f"{value // 1000} kB" for value in amounts}),
    )
    _, y = panel.place(2, 8_000)
    vector = (
        f'<path d="M70 {y:.1f}H620" stroke="#666" stroke-dasharray="4 4"/>'
        f'<text x="620" y="{y - 5:.1f}" text-anchor="end">the vector itself</text>'
    )
    drawn = panel.frame("", "sites") + vector + panel.curve(points, "#1f5fa8")
    return picture(640, 340, "Bytes a site sends and is sent in a secure sum of 1,000 values", drawn)


def growth() -> str:
    """A panel for each curve's times, in seconds of processor."""
    curves = _curves()
    drawn = []
    for place, (name, measures) in enumerate(curves.items()):
        times = {what: points for what, points in measures.items() if what not in ("memory", "disk")}
        values = [value for points in times.values() for _, value in points]
        sizes = CURVES[name][1]
        low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
        panel = Panel(
            *(60 + 300 * (place % 3), 40 + 260 * (place // 3), 220, 170),
            Axis((sizes[0], sizes[-1]), {size: _short(size) for size in sizes}),
            Axis((10.0**low, 10.0**high), {10.0**power: _seconds(power) for power in range(low, high + 1)}),
        )
        drawn.append(panel.frame(", ".join(times), name))
        drawn += [panel.curve(points, colour) for points, colour in zip(times.values(), COLOURS, strict=False)]
    return picture(900, 40 + 260 * math.ceil(len(curves) / 3), "Seconds of processor as sizes grow", "".join(drawn))


COLOURS = ("#1f5fa8", "#b3541e", "#2e7d32")


def goals() -> list[str]:
    """The table of what people wait for: the base of the same run, now, and the aim."""
    lines = ["| what | before | now | unit | aim |", "|---|---|---|---|---|"]
    for what, benchmark, name in GOALS:
        row = next(row for row in stored(benchmark) if row["name"] == name)
        before = f"{row['base']['value']:g}" if "base" in row else ""
        aim = {None: "", True: f"{row['target']}: met", False: f"{row['target']}: missed"}[row["met"]]
        lines.append(f"| {what} (`{benchmark}`) | {before} | {row['value']:g} | {row['unit']} | {aim} |")
    return lines


def sizes() -> list[str]:
    """The curves as a table."""
    lines = ["| what grows | from .. to | what is measured | at each size | exponent |", "|---|---|---|---|---|"]
    exponents = {row["name"]: row["value"] for row in stored("growth") if row["name"].endswith("exponent")}
    for name, measures in _curves().items():
        for what, points in measures.items():
            unit = "MiB" if what in ("memory", "disk") else "s"
            values = ", ".join(f"{value:.3g}" for _, value in points)
            reach = f"{points[0][0]:,} .. {points[-1][0]:,}"
            lines.append(
                f"| {name} | {reach} | {what} | {values} {unit} | {exponents[f'{name}: {what}, exponent']:.2f} |"
            )
    return lines


def foretold() -> list[str]:
    """The last point of a curve, carried on along its exponent; of what lies above a process's own memory, by size."""
    lines = ["| at | what | foretold |", "|---|---|---|"]
    exponents = {row["name"]: row["value"] for row in stored("growth") if row["name"].endswith("exponent")}
    for name, far in FAR.items():
        for what, points in _curves()[name].items():
            (first, least), (size, value) = points[0], points[-1]
            if what == "memory":
                more, unit = least + (value - least) * (far - first) / (size - first), "GiB"
                told = f"{more / 1024:.3g} {unit}"
            else:
                told = f"{value * (far / size) ** exponents[f'{name}: {what}, exponent']:.3g} s"
            lines.append(f"| {far:,} {name} | {what} | {told} |")
    return lines


TABLES = {"goals": goals, "sizes": sizes, "foretold": foretold}


def page(text: str) -> str:
    """The page with its tables as the stored results have them."""
    for name, table in TABLES.items():
        made = "\n".join([f"<!-- {name} -->", *table()])
        text = re.sub(rf"<!-- {name} -->\n.*?(?=\n\n|\Z)", lambda _, made=made: made, text, flags=re.DOTALL)
    return text


def main() -> None:
    """See the module."""
    TRAFFIC.write_text(traffic(), encoding="utf-8")
    GROWTH.write_text(growth(), encoding="utf-8")
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def _curves() -> dict[str, dict[str, list[tuple[int, float]]]]:
    """What grows -> what is measured -> size and value."""
    found: dict[str, dict[str, list[tuple[int, float]]]] = {}
    for row in stored("growth"):
        if match := re.fullmatch(r"([\d,]+) (\w+): (.+)", row["name"]):
            size, name, what = match.groups()
            found.setdefault(name, {}).setdefault(what, []).append((int(size.replace(",", "")), row["value"]))
    return found


def _short(size: int) -> str:
    for unit, letter in ((1_000_000, "M"), (1_000, "k")):
        if size >= unit:
            return f"{size // unit}{letter}"
    return str(size)


def _seconds(power: int) -> str:
    return (
        f"{10 ** (power + 3)} ms" if -3 <= power < 0 else f"{10**power} s" if power >= 0 else f"{10 ** (power + 6)} us"
    )


if __name__ == "__main__":
    main()
