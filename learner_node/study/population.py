"""Which records curators count: at most so many of each privacy unit, as their cards say.

A unit with more records than the bound counts with some of them, chosen by a keyed hash, so as if at random. Units with
many records often differ from others (a patient who is often in hospital comes back). What is learnt speaks of the
records that count, and differs from all records where that is so.
"""

from collections.abc import Mapping

import numpy as np
import polars as pl

from protocol.messages import Card


def counted(frame: pl.DataFrame, unit: str | None, most: int, rng: np.random.Generator) -> pl.DataFrame:
    """Records as a curator would count them: `most` of each unit that has more, at random, in their order.

    Args:
        frame: n records.
        unit: column that names the unit; None: each record is one, and all count.
        most: contribution bound c, at least 1.
        rng: which are taken.

    Raises:
        polars.exceptions.ColumnNotFoundError: no such column.
    """
    if unit is None:
        return frame
    drawn = pl.DataFrame({"unit": frame[unit], "place": rng.permutation(frame.height)})
    rank = drawn.select(pl.col("place").rank("ordinal").over("unit")).to_series()
    return frame.filter(rank <= most)


def population(cards: Mapping[str, Card]) -> str:
    """What a learner can know, in words, of the records that the curators count; "" where each record is a unit."""
    bounds = sorted({(card.unit, card.most_records_per_unit) for card in cards.values() if card.unit is not None})
    if not bounds:
        return ""
    parts = [f"at most {most} record{'s' if most > 1 else ''} of each {unit}" for unit, most in bounds]
    return f"curators count {', or '.join(parts)}; models and estimates speak of such records"
