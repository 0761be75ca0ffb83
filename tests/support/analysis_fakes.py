"""A fake analysis: it shows its raw tables, so that a test sees what was asked and what came back."""

from dataclasses import dataclass

import msgspec
import polars as pl

from expril.report.document import Text
from learner_node.analyses.noisy_table import TableQuestion
from learner_node.analyses.part import THESE, EffectTest, Estimate
from protocol.errors import ConfigurationError
from protocol.partitions.feature_bins import FeatureBins


class RawTables(msgspec.Struct, frozen=True, tag_field="kind", tag="raw", forbid_unknown_fields=True):
    """Counts of one attribute each, or of pairs."""

    name: str
    tables: tuple[tuple[str, ...], ...]
    weight: int | float | str = 1
    edges: tuple[float, ...] = (-1.0, 0.0, 1.0)
    within: tuple = ()

    def questions(self, schema):
        def bins(name):
            variable = schema.variable(name)
            if variable is None:
                raise ConfigurationError(f"the schema has no variable {name!r}")
            return FeatureBins(name, () if hasattr(variable, "levels") else self.edges)

        return [TableQuestion(tuple(map(bins, names)), within=self.within) for names in self.tables]

    def words(self, schema):
        return f"How many there are by {', '.join('-'.join(names) for names in self.tables)}."

    def read(self, answers):
        return RawResult(answers)

    @property
    def measures(self):
        return ("mean",)

    def effect_tests(self, setting, stated):
        """Power grows with epsilon, to .9 without noise."""
        return [EffectTest("a mean of 1", lambda noises: 0.9 / (1.0 + noises[0].scale))]

    def quote(self, setting):
        return [("a count", f"give or take {setting.noises[0].quantile(0.975)}")]


@dataclass(frozen=True)
class RawResult:
    """The answers themselves."""

    answers: object

    def to_text(self):
        return "\n".join(str(table.values.tolist()) for table in self.answers.pooled)

    def to_frames(self):
        return {
            f"{number}": pl.DataFrame({"count": table.values.ravel()})
            for number, table in enumerate(self.answers.pooled, 1)
        }

    def to_builtins(self):
        tables = []
        for table in self.answers.pooled:
            width = table.noise.quantile(0.975)
            estimates = [Estimate(value, value - width, value + width, THESE) for value in table.values.ravel()]
            values = table.values.ravel().tolist()
            tables.append({"value": values, "cells": [estimate.to_builtins() for estimate in estimates]})
        return {"tables": tables}

    def blocks(self):
        return [Text(self.to_text())]

    def methods(self):
        return ["Counts were asked as they are."]
