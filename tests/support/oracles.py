"""Points, logits and cells in exact arithmetic on Python's integers and fractions, one record at a time."""

import math
from fractions import Fraction

import numpy as np

from protocol.feature_map import MOST_COORDINATE, STEPS, NumericFeature
from protocol.hypotheses import MOST_ACTIVATION
from protocol.partitions import (
    CrossBins,
    FeatureBins,
    NearestCentre,
    ProductBins,
    ProjectionBins,
    ScoreBins,
    TreeLeaves,
)
from protocol.records import LABEL_STEPS, MISSING_CODE
from protocol.schema import NumericAttribute


def oracle_step(value):
    """The grid step nearest to a number, ties to even."""
    return round(Fraction(min(max(value, -MOST_COORDINATE), MOST_COORDINATE)) * STEPS)


def oracle_point(features, records, row):
    """The point of one record, in grid steps."""
    point = []
    for feature in features.features:
        value = records.column(feature.attribute)[row]
        if isinstance(feature, NumericFeature):
            filled = feature.imputation if math.isnan(value) else float(value)
            point.append(oracle_step((filled - feature.offset) * feature.factor))
        else:
            declared = records.schema.find(feature.attribute).levels
            level = feature.imputation if value == MISSING_CODE else (*declared, None)[value]
            hot = feature.levels.index(level) if level in feature.levels else len(feature.levels)
            point += [oracle_step(feature.factor) if j == hot else 0 for j in range(len(feature.levels) + 1)]
    return point


def logit_at_a_point(network, values):
    """The logit of a point of grid steps, in steps of 2^-24."""
    for weight, bias in network._layers("weights"):
        rows = [[round(Fraction(float(w)) * STEPS) for w in line] for line in weight]
        starts = [round(Fraction(float(b)) * STEPS**2) for b in bias]
        sums = [s + sum(w * v for w, v in zip(r, values, strict=True)) for r, s in zip(rows, starts, strict=True)]
        values = [min(max(round(Fraction(s, STEPS)), 0), int(MOST_ACTIVATION) * STEPS) for s in sums]
    return sums[0]


def oracle_logit(network, records, row):
    """The logit of one record, in steps of 2^-24."""
    return logit_at_a_point(network, oracle_point(network.features, records, row))


def oracle_bin(steps, edges):
    """How many edges, rounded to steps of 2^-24, are at or below a number of such steps."""
    return sum(round(Fraction(edge) * STEPS**2) <= steps for edge in edges)


def _feature_bin(bins, records, row):
    schema, value = records.schema, records.column(bins.attribute)[row].item()
    attribute = schema.variable(bins.attribute)
    if bins.attribute == schema.label and schema.label_bounds:
        lower, upper = schema.label_bounds
        # An edge is rounded as labels are, and none is reached beyond the upper bound.
        inside = [edge for edge in bins.edges if edge <= upper]
        return sum(round(max(0.0, (edge - lower) / (upper - lower)) * LABEL_STEPS) <= value for edge in inside)
    if isinstance(attribute, NumericAttribute):
        return len(bins.edges) + 1 if math.isnan(value) else sum(edge <= value for edge in bins.edges)
    return len(attribute.levels) + 1 if value == MISSING_CODE else value


def nearest_centre(partition, point):
    """The first of the centres that are nearest to a point of grid steps."""
    steps = [int(step) for step in np.frombuffer(partition.centres, "<i4")]
    centres = [steps[start : start + len(point)] for start in range(0, len(steps), len(point))]
    distances = [sum((p - c) ** 2 for p, c in zip(point, centre, strict=True)) for centre in centres]
    return distances.index(min(distances))


def projection_bin(partition, point):
    """The joint bin of a point's projections."""
    steps = [int(step) for step in np.frombuffer(partition.directions, "<i4")]
    cell = 0
    for index, edges in enumerate(partition.edges):
        direction = steps[index * len(point) : (index + 1) * len(point)]
        projection = sum(w * z for w, z in zip(direction, point, strict=True))
        cell = cell * (len(edges) + 1) + oracle_bin(projection, edges)
    return cell


def tree_leaf(partition, point):
    """The leaf that a walk from the root ends in."""
    steps = [int(step) for step in np.frombuffer(partition.nodes, "<i4")]
    at = 0
    while at >= 0:
        coordinate, threshold, below, above = steps[4 * at : 4 * at + 4]
        at = above if point[coordinate] >= threshold else below
    return -1 - at


AT_A_POINT = {NearestCentre: nearest_centre, ProjectionBins: projection_bin, TreeLeaves: tree_leaf}


def oracle_cell(partition, records, row):
    """The cell of one record."""
    if isinstance(partition, FeatureBins):
        return _feature_bin(partition, records, row)
    if isinstance(partition, ProductBins):
        first, second = (_feature_bin(bins, records, row) for bins in (partition.first, partition.second))
        return first * partition.second.cell_count(records.schema) + second
    if isinstance(partition, CrossBins):
        if any(_feature_bin(term.bins, records, row) not in term.cells for term in partition.within):
            return partition.cell_count(records.schema) - 1
        cell = 0
        for factor in partition.factors:
            cell = cell * factor.cell_count(records.schema) + _feature_bin(factor, records, row)
        return cell
    if isinstance(partition, ScoreBins):
        return oracle_bin(oracle_logit(partition.hypothesis, records, row), partition.edges)
    return AT_A_POINT[type(partition)](partition, oracle_point(partition.features, records, row))
