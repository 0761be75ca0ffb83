"""Bins of single attributes for an additive model: few, and none that mixes a frequent value with its neighbours."""

import numpy as np
from numpy.typing import NDArray

from learner_node.models.label_model.bin_counts import ordered_kernel
from protocol.errors import ConfigurationError
from protocol.partitions import FeatureBins
from protocol.records import Records
from protocol.schema import CategoricalAttribute, NumericAttribute, Schema
from protocol.strict_toml import suggest

LEAST_SHARE = 0.01
"""Least share of the source's records in a bin of a numeric attribute."""
MOST_SORTED = 20_000
"""Of more source records than this, as many of the sorted values place the edges."""


def named_attributes(schema: Schema, names: tuple[str, ...]) -> list[str]:
    """The names, checked.

    Raises:
        ConfigurationError: no attribute has a name (with a suggestion).
    """
    known = [attribute.name for attribute in schema.attributes]
    for name in names:
        if name == schema.label:
            raise ConfigurationError(f"attributes: {name!r} is the label; name what it is to be predicted from")
        if name not in known:
            raise ConfigurationError(f"attributes: the curators' card has no attribute {name!r}{suggest(name, known)}")
    return list(names)


def tied_bins(source: Records, name: str, bins: int) -> FeatureBins:
    """At most `bins` bins of about even mass of the source; a value more frequent than a bin has one of its own.

    Counts such as 0, 0, 0, 1, 0, 4 have few quantiles that differ; here the zeros are a bin, and the others share the
    rest. A categorical attribute has a bin for each level, "other" and missing, whatever is asked.

    Args:
        source: n records.
        name: of an attribute of its schema.
        bins: of a numeric attribute, at least 1, the bin of missing values not counted.
    """
    if isinstance(source.schema.find(name), CategoricalAttribute):
        return FeatureBins(attribute=name, edges=())
    column = source.column(name)
    known = np.sort(column[~np.isnan(column)])
    if len(known) > MOST_SORTED:
        known = known[np.linspace(0, len(known) - 1, MOST_SORTED).astype(np.int64)]
    values, counts = np.unique(known, return_counts=True)
    least = LEAST_SHARE * len(known)
    edges: list[float] = []
    left, held, free = float(len(known)), 0.0, bins
    for index in range(len(values) - 1):
        held += counts[index]
        goal, following = left / free, counts[index + 1]
        if free == 1 or held < least or left - held < least:
            continue
        if following >= goal or held + 0.5 * following >= goal:
            edges.append(float(values[index + 1]))
            left, held, free = left - held, 0.0, free - 1
    return FeatureBins(attribute=name, edges=tuple(edges))


def bin_kernel(partition: FeatureBins, schema: Schema, shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Prior covariance of the bins' contributions: levels are independent, bins of a number vary smoothly.

    Args:
        partition: bins of one attribute.
        schema: that has it.
        shares: of the source in each bin, missing values last, (K,).
    """
    if isinstance(schema.find(partition.attribute), NumericAttribute):
        return ordered_kernel(shares)
    return np.eye(len(shares))
