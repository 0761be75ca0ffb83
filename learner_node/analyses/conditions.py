"""Conditions of a filter, as a plan's file states them: levels of a category, or a range of a number.

All kinds of parts share them: `where = [{ variable = "age", at_least = 65 }, { variable = "sex", levels = ["f"] }]`.
"""

from collections.abc import Sequence

import msgspec

from protocol.errors import ConfigurationError
from protocol.partitions.cross_bins import Range
from protocol.partitions.feature_bins import FeatureBins
from protocol.schema import CategoricalAttribute, Name, Schema


class Condition(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Records of which it holds are counted; a missing value fulfils none."""

    variable: Name  # an attribute, an outcome or the label
    levels: tuple[Name, ...] = ()  # of a category: any of these
    at_least: float | None = None  # of a number: its lower end, which counts
    below: float | None = None  # its upper end, which does not

    def range(self, schema: Schema) -> Range:
        """The condition as a table states it. Raises ConfigurationError: it does not fit the schema."""
        variable = schema.variable(self.variable)
        if variable is None:
            raise ConfigurationError(f"where: the schema has no variable {self.variable!r}")
        if isinstance(variable, CategoricalAttribute):
            if not self.levels or self.at_least is not None or self.below is not None:
                raise ConfigurationError(f"where: {self.variable!r} is a category; name levels of it")
            for level in self.levels:
                if level not in variable.levels:
                    raise ConfigurationError(f"where: {self.variable!r} has no level {level!r}")
            codes = sorted({variable.levels.index(level) for level in self.levels})
            return Range(FeatureBins(self.variable, ()), tuple(codes))
        if self.levels:
            raise ConfigurationError(f"where: {self.variable!r} is a number; write at_least or below")
        edges = [edge for edge in (self.at_least, self.below) if edge is not None]
        if not edges or (len(edges) > 1 and edges[0] >= edges[1]):
            raise ConfigurationError(f"where: {self.variable!r} needs at_least, below, or both, the smaller first")
        return Range(FeatureBins(self.variable, tuple(edges)), (0,) if self.at_least is None else (1,))

    def words(self) -> str:
        """The condition for a reader."""
        if self.levels:
            return f"{self.variable} {' or '.join(self.levels)}"
        ends = [f"from {self.at_least:g}"] if self.at_least is not None else []
        ends += [f"below {self.below:g}"] if self.below is not None else []
        return f"{self.variable} {' '.join(ends)}"


def ranges(conditions: Sequence[Condition], schema: Schema) -> tuple[Range, ...]:
    """All conditions as a table states them. Raises ConfigurationError: one does not fit the schema."""
    return tuple(condition.range(schema) for condition in conditions)
