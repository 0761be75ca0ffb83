"""Splits records over curators, and into private, source and test records.

All functions are pure: records and a random generator in, frames out. Every record lands exactly once, in its original
order and with all its columns. All records of one privacy unit go to the same part.
"""

import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from simulations.datasets import SITE_SPLITS
from simulations.datasets.dataset import Dataset

Indices = np.ndarray[Any, np.dtype[np.intp]]
Floats = np.ndarray[Any, np.dtype[np.float64]]

MOST_DRAWS = 1000
"""Most draws of a shifted split, which is redrawn while a site is empty."""


@dataclass(frozen=True)
class _Units:
    """The privacy units of n records: ``of_record`` (n,) numbers each record's unit in 0 .. count - 1."""

    of_record: Indices
    count: int


def _units(frame: pl.DataFrame, unit: str | None) -> _Units:
    if unit is None:
        return _Units(np.arange(frame.height), frame.height)
    column = frame.get_column(unit)
    if column.null_count():
        raise ValueError(f"{column.null_count()} records have no {unit}: the unit column must be filled")
    names, of_record = np.unique(column.to_numpy(), return_inverse=True)
    return _Units(of_record, len(names))


def _sizes(count: int, fractions: Mapping[str, float]) -> list[int]:
    """Integers near ``fractions`` of ``count``, each at least 1, with sum ``count``, by largest remainder."""
    shares = np.array(list(fractions.values()), dtype=np.float64)
    if not shares.size or not np.all(shares > 0) or not np.isclose(shares.sum(), 1.0, rtol=0.0, atol=1e-9):
        raise ValueError(f"fractions must be positive and add up to 1, not {dict(fractions)}")
    if count < shares.size:
        raise ValueError(f"{count} units cannot fill {shares.size} parts: {', '.join(fractions)}")
    exact = shares * count
    sizes = np.floor(exact).astype(np.int64)
    for place in np.argsort(sizes - exact, kind="stable")[: count - int(sizes.sum())]:
        sizes[place] += 1
    while not sizes.all():
        sizes[np.argmax(sizes)] -= 1
        sizes[np.argmin(sizes)] += 1
    return [int(size) for size in sizes]


def _take(frame: pl.DataFrame, place_of_record: Indices, names: list[str]) -> dict[str, pl.DataFrame]:
    return {name: frame.filter(pl.Series(place_of_record == place)) for place, name in enumerate(names)}


def split_parts(
    frame: pl.DataFrame, fractions: Mapping[str, float], rng: np.random.Generator, unit: str | None = None
) -> dict[str, pl.DataFrame]:
    """Split records at random into named parts.

    Args:
        frame: n records.
        fractions: Part -> its share of the *units*, e.g. ``{"private": 0.6, "source": 0.2, "test": 0.2}``;
            positive, adding up to 1. Sizes are exact up to rounding, and never zero.
        rng: The source of randomness.
        unit: The column whose equal values stay together; None where each record is a unit.

    Returns:
        Part -> its records, in the order of ``fractions``.

    Raises:
        ValueError: The fractions are invalid, a record has no unit, or there are fewer units than parts.
        polars.exceptions.ColumnNotFoundError: There is no column ``unit``.
    """
    units = _units(frame, unit)
    names = list(fractions)
    place_of_unit = rng.permutation(np.repeat(np.arange(len(names)), _sizes(units.count, fractions)))
    return _take(frame, place_of_unit[units.of_record], names)


def split_by_site(dataset: Dataset, *, units_move: bool = False) -> dict[str, pl.DataFrame]:
    """Split records by the data set's site column; sites are in alphabetical order.

    ``units_move`` allows a unit to have records at several sites.

    Raises:
        ValueError: There is no site column, a record has no site, or a unit has records at several sites against
            ``units_move``.
    """
    if dataset.site is None:
        raise ValueError(f"the data set {dataset.name} has no site column")
    sites = dataset.frame.get_column(dataset.site)
    if sites.null_count():
        first = int(sites.is_null().arg_true()[0]) + 1
        raise ValueError(f"{sites.null_count()} records have no {dataset.site}, the first of them is record {first}")
    names = sites.unique().sort().to_list()
    if dataset.unit is not None and not units_move:
        pairs = dataset.frame.select(dataset.unit, dataset.site).n_unique()
        if pairs != _units(dataset.frame, dataset.unit).count:
            raise ValueError(
                f"some {dataset.unit} has records at more than one {dataset.site}; if so it is, say units_move = true: "
                "each curator then protects its own part, and the costs of such a unit add up"
            )
    return {str(name): dataset.frame.filter(sites == name) for name in names}


def split_at_random(
    dataset: Dataset, rng: np.random.Generator, *, fractions: Mapping[str, float]
) -> dict[str, pl.DataFrame]:
    """Split units at random over named sites: ``split_parts`` with the data set's unit."""
    return split_parts(dataset.frame, fractions, rng, dataset.unit)


def split_by_shift(
    dataset: Dataset,
    rng: np.random.Generator,
    *,
    attribute: str,
    sites: tuple[str, str],
    probabilities: tuple[float, float] = (0.1, 0.9),
) -> dict[str, pl.DataFrame]:
    """Split over two sites whose populations differ: a high attribute favours the first (CTG-B, EXPRIL.md).

    A unit goes to the first site with probability low + (high - low) (a - min) / (max - min), where a is the mean of
    the attribute over the unit's records, and min and max are over the units. The split is the experimenter's, made
    before any curator exists: min and max are not published. It is redrawn while a site is empty.

    Args:
        dataset: The records; its unit column keeps records together.
        rng: The source of randomness.
        attribute: A numeric column without missing values, not the same in every unit.
        sites: Names of the site that high values favour, and of the other.
        probabilities: (low, high), 0 <= low < high <= 1.

    Returns:
        The first site's records and the second's.

    Raises:
        ValueError: Any of the above does not hold, or no draw filled both sites.
    """
    low, high = probabilities
    if not 0 <= low < high <= 1:
        raise ValueError(f"probabilities must satisfy 0 <= low < high <= 1, not {probabilities}")
    if sites[0] == sites[1]:
        raise ValueError(f"two sites need two names, not {sites}")
    column = dataset.frame.get_column(attribute)
    if not column.dtype.is_numeric():
        raise ValueError(f"{attribute} is not numeric")
    values = column.cast(pl.Float64)
    if values.null_count() or not values.is_finite().all():
        raise ValueError(f"{attribute} has missing or infinite values")
    units = _units(dataset.frame, dataset.unit)
    means: Floats = np.bincount(units.of_record, weights=values.to_numpy(), minlength=units.count) / np.bincount(
        units.of_record, minlength=units.count
    )
    if units.count < len(sites) or means.min() == means.max():
        raise ValueError(f"{attribute} is the same in every unit: nothing to shift by")
    chance = low + (high - low) * (means - means.min()) / (means.max() - means.min())
    for _ in range(MOST_DRAWS):
        place_of_unit = (rng.random(units.count) >= chance).astype(np.intp)
        if 0 < place_of_unit.sum() < units.count:
            return _take(dataset.frame, place_of_unit[units.of_record], list(sites))
    raise ValueError(f"none of {MOST_DRAWS} draws filled both sites: {probabilities} are too extreme")


def split_units_over_sites(
    sites: Mapping[str, pl.DataFrame], fractions: Mapping[str, float], rng: np.random.Generator, unit: str
) -> dict[str, dict[str, pl.DataFrame]]:
    """Split each site like `split_parts`; a unit with records at several sites is in the same part at all of them.

    Returns site -> part -> records; a small site's part may be empty.
    """
    units = pl.concat([frame.select(unit) for frame in sites.values()]).unique(maintain_order=True)
    chosen = split_parts(units, fractions, rng, unit)
    return {
        site: {part: frame.join(there, on=unit, how="semi", maintain_order="left") for part, there in chosen.items()}
        for site, frame in sites.items()
    }


def split_as_recorded(
    dataset: Dataset, rng: np.random.Generator, *, units_move: bool = False
) -> dict[str, pl.DataFrame]:
    """Split as `split_by_site`; the form that `SITE_SPLITS` needs."""
    del rng  # nothing is random about where a record was made
    return split_by_site(dataset, units_move=units_move)


def split_sites(dataset: Dataset, how: str, rng: np.random.Generator, **options: Any) -> dict[str, pl.DataFrame]:
    """Split a data set over curators: site -> its records. No site is empty.

    No privacy unit is at two sites, unless the split "site" has the option ``units_move``.

    Args:
        dataset: The records; ``dataset.without_unit()`` splits plain rows.
        how: "site" (the site column; option ``units_move``), "random" (option ``fractions``) or "shift" (options
            ``attribute``, ``sites``, ``probabilities``); see ``split_by_site``, ``split_at_random``,
            ``split_by_shift``.
        rng: The source of randomness.
        options: Those of the chosen split.

    Raises:
        ValueError: ``how`` is unknown, or the split cannot be made.
        TypeError: The split does not know an option.
    """
    if how not in SITE_SPLITS:
        raise ValueError(f"no split is called {how!r}; there are {', '.join(SITE_SPLITS)}")
    split: dict[str, pl.DataFrame] = pkgutil.resolve_name(SITE_SPLITS[how])(dataset, rng, **options)
    return split
