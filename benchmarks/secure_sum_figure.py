"""Draws docs/explanation/secure-sums-traffic.svg, bytes a site by number of sites, from `results/secure_sum.json`."""

import json
import math
from pathlib import Path

from benchmarks.common import RESULTS

DRAWN = Path(__file__).parent.parent / "docs" / "explanation" / "secure-sums-traffic.svg"
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 340, 70, 20, 20, 50
SITES, BYTES = (2, 1000), (5_000, 500_000)
"""Ends of the axes, both logarithmic."""


def main() -> None:
    """See the module."""
    rows = json.loads((RESULTS / "secure_sum.json").read_text())
    points = [(int(row["name"].split()[0]), row["value"]) for row in rows if row["name"].endswith("bytes a site")]
    marks = "".join(f'<circle cx="{_x(sites):.1f}" cy="{_y(value):.1f}" r="3"/>' for sites, value in points)
    line = " ".join(f"{_x(sites):.1f},{_y(value):.1f}" for sites, value in points)
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    across = "".join(
        f'<path d="M{LEFT} {_y(value):.1f}H{right}" stroke="#ccc"/>'
        f'<text x="{LEFT - 8}" y="{_y(value) + 4:.1f}" text-anchor="end">{value // 1000} kB</text>'
        for value in (5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000)
    )
    along = "".join(
        f'<path d="M{_x(sites):.1f} {bottom}v5" stroke="#666"/>'
        f'<text x="{_x(sites):.1f}" y="{bottom + 20}" text-anchor="middle">{sites:,}</text>'
        for sites in (2, 5, 10, 20, 50, 100, 200, 500, 1000)
    )
    DRAWN.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" font-family="sans-serif" '
        f'font-size="12"><title>Bytes a site sends and is sent in a secure sum of 1,000 values</title>'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>{across}{along}'
        f'<path d="M{LEFT} {_y(8000):.1f}H{right}" stroke="#666" stroke-dasharray="4 4"/>'
        f'<text x="{right}" y="{_y(8000) - 5:.1f}" text-anchor="end">the vector itself</text>'
        f'<polyline points="{line}" fill="none" stroke="#1f5fa8" stroke-width="2"/><g fill="#1f5fa8">{marks}</g>'
        f'<text x="{(LEFT + right) / 2}" y="{HEIGHT - 8}" text-anchor="middle">sites</text></svg>\n',
        encoding="utf-8",
    )


def _x(sites: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * _share(sites, SITES)


def _y(value: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * _share(value, BYTES)


def _share(value: float, ends: tuple[int, int]) -> float:
    return math.log(value / ends[0]) / math.log(ends[1] / ends[0])


if __name__ == "__main__":
    main()
