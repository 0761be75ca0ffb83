"""The same records at few or many sites: a problem's private records, dealt to equal sites at random."""

from collections.abc import Sequence
from dataclasses import replace

import msgspec
import numpy as np
import polars as pl

from lab.splits import Site, Split
from learner_node.pooling import Pooling

LOCAL: Pooling = "sum"
"""Every site adds noise of its own."""
SECURE: Pooling = "secure"
"""All sites together add about one noise."""


def poolings_of(sites: int) -> tuple[Pooling, ...]:
    """How answers of so many sites can become one model; one alone has nobody to sum with."""
    return (LOCAL, SECURE) if sites > 1 else (LOCAL,)


def spread_over(split: Split, sites: int) -> Split:
    """The problem with its private records at so many sites, all of the same size but for one record.

    Each site declares its share of what the problem's own sites declare. A split of the same seed is always dealt
    alike, so studies of it differ in their noise alone.

    Args:
        split: of a problem where each record is a unit of its own.
        sites: 1 or more.

    Raises:
        ValueError: there are fewer records than sites, or a unit has several records.
    """
    if split.units is not None:
        raise ValueError(f"units of {split.problem} have several records; these would go to different sites")
    frame = pl.concat(site.frame for site in split.sites)
    if not 1 <= sites <= frame.height:
        raise ValueError(f"{frame.height} records cannot be dealt to {sites} sites")
    declared = _declared([site.steward.round_size for site in split.sites])
    size = None if declared is None else max(1, round(declared / sites))
    steward = msgspec.structs.replace(split.sites[0].steward, round_size=size)
    rows = np.random.default_rng([split.seed, sites]).permutation(frame.height)
    return replace(
        split,
        sites=tuple(
            Site.of(f"site {number + 1}", frame[np.sort(part)], steward)
            for number, part in enumerate(np.array_split(rows, sites))
        ),
    )


def _declared(sizes: Sequence[int | None]) -> int | None:
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None
