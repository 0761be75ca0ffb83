"""Where the words of a chart stand, so that no two overlap at any width of the page.

A chart's horizontal places are percentages and its words have a fixed size in pixels. So the distance of two words only
grows with the width: words that are apart at the least width are apart at every width. `chart` lays its words out at
the least width of its place on a page. It leaves labels out, or cuts or moves words, rather than let two overlap.

The width of a text is an upper bound over common fonts (DejaVu Sans, the widest, has digits of 7.63 pixels at 12).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

LEAST_WIDTH = 285
"""Least width in pixels of a chart on a page: a telephone of 320 pixels, or one of three columns."""
LEAST_OF_FOUR = 208
"""Least width of one of four charts side by side."""
STRIP_WIDTHS = (78, 144, 285)
"""Widths of a table's column of strips for which its heading has labels: from the least, on paper, to a wide table."""
SIZE = 12.0
"""Size of a chart's letters in pixels."""
Anchor = Literal["start", "middle", "end"]

_THIN, _WIDE = frozenset("iljtfrI.,:;'’‘|!()[] /"), frozenset("mwMW%@−+=<>—…×≥≤±“”→#&^~")
_ASCENT, _DESCENT = 10.0, 3.0
_GAP = 6.0
"""Least distance of two labels on one line, in pixels."""
_EVEN = 0.02
"""Largest relative difference of the distances of labels that count as evenly spaced."""
_OVERHANG = 14.0
"""How far a label may stand beyond the end of its chart, in pixels; a page's margin is wider."""


@dataclass(frozen=True)
class Box:
    """A rectangle in pixels."""

    left: float
    right: float
    top: float
    bottom: float

    def meets(self, other: "Box") -> bool:
        """Whether the two have a common inner point."""
        across = self.left < other.right and other.left < self.right
        return across and self.top < other.bottom and other.top < self.bottom


@dataclass(frozen=True)
class Words:
    """A text and its place: `x` in percent of the width, `y` its base line in pixels from the top."""

    text: str
    x: float
    y: float
    anchor: Anchor = "middle"
    full: str = ""  # the text before it was cut; "" if it was not
    style: str = ""  # class in the style sheet

    @property
    def at(self) -> str:
        """`x` as a CSS percentage."""
        return f"{self.x:.2f}".rstrip("0").rstrip(".") + "%"

    def box(self, width: float, size: float = SIZE) -> Box:
        """The rectangle that holds the text in a chart of that width."""
        long, x = text_width(self.text, size), self.x * width / 100
        left = x - {"start": 0.0, "middle": 0.5, "end": 1.0}[self.anchor] * long
        return Box(left, left + long, self.y - _ASCENT * size / SIZE, self.y + _DESCENT * size / SIZE)


def text_width(text: str, size: float = SIZE) -> float:
    """An upper bound of a text's width in pixels at a size of letters in pixels."""
    return size / SIZE * sum(map(_letter_width, text))


def _letter_width(letter: str) -> float:
    if letter in _THIN:
        return 5.0
    if letter in _WIDE or ord(letter) > 0x2E7F:
        return 12.1
    return 9.5 if letter.isupper() else 7.8


def cut(words: Words, room: float, size: float = SIZE) -> Words:
    """The words, shortened with "…" if they are longer than `room` pixels."""
    if text_width(words.text, size) <= room:
        return words
    text = words.text[
        : int(max(room, 0.0) / text_width("i", size)) + 1
    ]  # no letter is narrower, and a name may be long
    while text and text_width(f"{text}…", size) > room:
        text = text[:-1]
    return replace(words, text=f"{text.rstrip()}…", full=words.full or words.text)


def turned_in(words: Words, width: float, overhang: float) -> Words:
    """Words in the middle of a place near an end of the chart, anchored there if they stand too far beyond that end."""
    box = words.box(width)
    if words.anchor != "middle" or (box.left >= -overhang and box.right <= width + overhang):
        return words
    return replace(words, anchor="start" if box.left < -overhang else "end")


def spaced(
    labels: Sequence[Words], width: float, obstacles: Iterable[Box] = (), overhang: float = _OVERHANG
) -> list[Words]:
    """The labels on one line that fit: all, or each second, third and so on, or those that have room.

    Evenly spaced labels stay so, and keep zero, or else the last. Labels that meet an obstacle are left out. `overhang`
    is how many pixels a label may stand beyond the ends.
    """
    barred = list(obstacles)
    fitting = [cut(label, width / 2) for label in labels]
    free = [label for label in fitting if not any(label.box(width).meets(box) for box in barred)]
    places = [label.x for label in free]
    steps = [after - before for before, after in pairwise(places)]
    if steps and max(steps) - min(steps) < _EVEN * max(steps):
        anchor = next((n for n, label in enumerate(free) if not label.text.strip("0.")), len(free) - 1)
        for every in range(1, len(free)):
            chosen = [turned_in(label, width, overhang) for label in free[anchor % every :: every]]
            if _apart(chosen, width):
                return chosen
    chosen_labels: list[Words] = []
    for label in reversed(free):
        candidate = turned_in(label, width, overhang)
        if _apart([candidate, *chosen_labels[:1]], width):
            chosen_labels.insert(0, candidate)
    return chosen_labels


def _apart(labels: Sequence[Words], width: float) -> bool:
    boxes = [label.box(width) for label in labels]
    return all(before.right + _GAP <= after.left for before, after in pairwise(boxes))


def stacked(labels: Sequence[Words], width: float, height: float, size: float = SIZE) -> list[Words]:
    """Labels below one another where they do not fit beside each other: each on the first of the lines with room.

    Lines are `height` pixels apart, the first at the labels' own `y`.
    """
    placed: list[Words] = []
    for label in labels:
        candidate = cut(label, width, size)
        box = candidate.box(width, size)
        if box.left < 0 or box.right > width:  # a long text at one end: from the other side
            candidate = replace(candidate, x=0.0 if box.left < 0 else 100.0, anchor="start" if box.left < 0 else "end")
        while any(_near(candidate.box(width, size), other.box(width, size)) for other in placed):
            candidate = replace(candidate, y=candidate.y + height)
        placed.append(candidate)
    return placed


def _near(box: Box, other: Box) -> bool:
    return replace(box, left=box.left - _GAP, right=box.right + _GAP).meets(other)


def clear_of(words: Words, boxes: Sequence[Box], width: float, top: float, bottom: float) -> Words | None:
    """The words at the nearest free height between `top` and `bottom` in pixels; None if there is none.

    The heights tried are the words' own, then those below their line and further off on either side.
    """
    line = words.y
    shifts = (sign * step for step in range(int(bottom - top) + 1) for sign in ((1,) if not step else (-1, 1)))
    for shift in shifts:
        candidate = replace(words, y=line + shift)
        box = candidate.box(width)
        if box.top >= top and box.bottom <= bottom and not any(box.meets(other) for other in boxes):
            return candidate
    return None
