"""Figures as PNG, by resvg, which is an extra of its own (`figures`).

It is apart from what makes figures, which needs templates, so that a command can ask for it before anything else.
"""

import re
from html import escape

from expril.report.plain_svg import FONTS, SVG

SCALE, MOST = 3, 16_000
"""Pixels of a PNG for one of its SVG, about 300 an inch where a figure is as wide as a page; most on one side."""


def as_png(svg: str) -> bytes:
    """Return an SVG file of `expril.report.plain_svg` as a PNG with `SCALE` pixels for one of its own.

    Raises:
        ModuleNotFoundError: resvg_py is not installed.
    """
    width, height = (float(size) for size in re.findall(r' (?:width|height)="([\d.]+)"', svg)[:2])
    scale = min(SCALE, MOST / max(width, height))
    return _rendered(svg, round(width * scale), round(height * scale))


def has_letters() -> bool:
    """Whether a PNG would have its words: whether one of the fonts of figures is installed.

    Raises:
        ModuleNotFoundError: resvg_py is not installed.
    """
    empty = f'<svg xmlns="{SVG}" width="20" height="20"/>'
    letter = f'<svg xmlns="{SVG}" width="20" height="20"><text y="16" font-family="{escape(FONTS)}">A</text></svg>'
    return _rendered(letter, 20, 20) != _rendered(empty, 20, 20)


def _rendered(svg: str, width: int, height: int) -> bytes:
    from resvg_py import svg_to_bytes  # noqa: PLC0415 - an extra of its own

    return bytes(svg_to_bytes(svg_string=svg, width=width, height=height))
