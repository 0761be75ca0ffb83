"""The study that the suite plays: who takes part, what is asked, what it costs, and what is true of the records."""

import random
from fractions import Fraction
from typing import Any

from expril_conformance import vectors, wire
from expril_conformance.simulated_curator import NOW, SimulatedCurator
from expril_conformance.wire import Key

LEARNER, CURATOR, STRANGER = Key(b"\x21" * 32), Key(b"\x22" * 32), Key(b"\x23" * 32)
STUDY, NEXT_STUDY = b"one study.......", b"the next study.."
PURPOSE = "a conformance test"


def planned(release: str, partitions: int, scale: int, **more: Any) -> dict[str, Any]:
    """A planned query of counts; it costs partitions / scale."""
    return {"kind": "counts", "release": release, "partitions": partitions, "scale": [scale, 1], **more}


AGE = {"type": "feature_bins", "attribute": "age", "edges": [30.0, 60.5]}
SEX: dict[str, Any] = {"type": "feature_bins", "attribute": "sex", "edges": []}
POSITIVE = {"type": "constant", "predicted": 1}
"""The hypothesis that every label is the second class."""
PLAN = {"queries": [planned("mass", 2, 2), planned("error_correct", 1, 4)]}
COSTS = [Fraction(1), Fraction(1, 4)]
BODIES = [
    wire.encode({"partitions": [AGE, SEX], "hypothesis": None}),
    wire.encode({"partitions": [SEX], "hypothesis": POSITIVE}),
]
CAP = "2"
"""Of the learner, in epsilon."""


def records() -> list[list[Any]]:
    """Age, sex and label of each record, in an order that means nothing."""
    ages = [*[20.0] * 300, *[45.0] * 700, *[60.5] * 150, *[None] * 60]
    sexes = [*["f"] * 800, *["m"] * 250, *["x"] * 100, *[None] * 60]
    labels = [*["yes"] * 500, *["no"] * 710]
    shuffle = random.Random(7).shuffle  # noqa: S311 - no secret
    for column in (ages, sexes):
        shuffle(column)
    return [list(row) for row in zip(ages, sexes, labels, strict=True)]


def exact_numbers() -> list[list[int]]:
    """What an answer without noise would hold, by query: cells in order, and in each its columns."""
    rows = records()
    by_age = [
        sum(1 for age, _, _ in rows if age is not None and low <= age < high)
        for low, high in ((0, 30), (30, 60.5), (60.5, 121))
    ]
    masses = [*by_age, sum(1 for age, _, _ in rows if age is None)]
    cells = [[label for _, value, label in rows if cell(value) == place] for place in range(4)]
    errors = [number for labels in cells for number in (labels.count("no"), labels.count("yes"))]
    return [[*masses, *map(len, cells)], errors]


def cell(sex: str | None) -> int:
    """The cell of a sex: one for each declared level, then one for other levels, then one for missing values."""
    if sex is None:
        return 3
    return {"f": 0, "m": 1}.get(sex, 2)


def card() -> dict[str, Any]:
    """The card of the curator, without its header."""
    message = vectors()["envelopes"]["good"][1]["taken"]["message"]
    return {name: message[name] for name in wire.BODIES["card"]} | {"cap": CAP}


def curator(**options: Any) -> SimulatedCurator:
    """A curator that the suite plays. Its numbers need not be of any records."""
    numbers = [[7, -3, 0, 2**40, -(2**40), 5, -1, 12], [1, 2, -3, 4, 5, 6, 7, 8]]
    return SimulatedCurator(CURATOR, card(), COSTS, numbers, **options)


def site() -> dict[str, Any]:
    """The content of `site.json` for a curator under test."""
    schema = card()["schema"]
    return {
        "seed": CURATOR.seed.hex(),
        "name": "basel",
        "cap": "4",
        "learners": [{"name": "ann", "key": LEARNER.public.hex(), "cap": CAP}],
        "kinds": ["counts"],
        "release_kinds": ["mass", "error_correct"],
        "schema": schema,
        "round_size": 1000,
        "records": records(),
        "message_seconds": 3600,
        "reservation_seconds": 86_400,
    }


__all__ = ["NOW"]
