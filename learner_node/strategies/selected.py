"""Strategy `selected-cells`: ask which attributes tell most of the class, then `cells` on those alone.

A label model of few attributes needs fewer records, but knows nothing of the others. What it costs is the share of
epsilon with which the attributes are chosen (`features` of the query kind `statistic`). Each curator chooses for
itself; most votes count. docs/statistics.md compares it with `cells`.
"""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import msgspec
import numpy as np

from learner_node.strategies.base import Asking, Problem
from learner_node.strategies.cells import CellsStrategy
from learner_node.strategies.options import Share, part_of_epsilon, whole
from protocol.codec import encode
from protocol.errors import ConfigurationError
from protocol.partitions import FeatureBins
from protocol.plans import Plan
from protocol.queries.statistic import PlannedStatistic, StatisticBody
from protocol.rationals import Rational
from protocol.records import Records
from protocol.schema import NumericAttribute
from protocol.statistics.asked import MOST_CANDIDATES, Selection
from protocol.statistics.methods import Features

QUARTILES = (0.25, 0.5, 0.75)
"""Edges of a numeric attribute, as quantiles of the source."""


class SelectedCellsStrategy:
    """See the module.

    Args:
        features: how many attributes are chosen; all, where there are no more.
        share: of epsilon, for the choice.
        weights: of the two classes: a record of a class counts so many times. Where one is rare, a larger weight lets
            attributes that tell it score.
        cells: as of `cells`.
        networks: as of `cells`.
    """

    def __init__(
        self,
        *,
        features: int = 5,
        share: Share = "1/10",
        weights: Sequence[int] = (1, 1),
        cells: int | None = None,
        networks: bool = True,
    ) -> None:
        self._features = whole("features", features, most=100)
        self._share = part_of_epsilon("share", share)
        if not self._share:
            raise ValueError("share must be above 0: choosing attributes costs epsilon")
        if len(weights) != 2:
            raise ValueError("weights must be two whole numbers, one a class")
        self._weights = tuple(whole("each of weights", weight, most=1000) for weight in weights)
        self._cells = CellsStrategy(cells=cells, networks=networks)

    def plan(self, problem: Problem) -> Plan:
        """Two queries, exactly epsilon in all; ConfigurationError where the choice needs more than 32 bits."""
        rest = self._cells.plan(self._rest(problem, problem.source))
        chosen = PlannedStatistic(method=self._method(problem))
        return Plan((msgspec.Raw(encode(chosen)), *rest.queries))

    def run(self, problem: Problem) -> Asking:
        """The attributes, then cells of those, over the same source."""
        candidates = candidates_of(problem.source)
        answers = yield StatisticBody((Selection(candidates, self._weights),)), None
        (chosen,) = answers[0].chosen
        names = {candidates[index].attribute for index in chosen}
        asking = self._cells.run(self._rest(problem, restricted(problem.source, names)))
        body, model = next(asking)
        while True:
            answers = yield body, model
            try:
                body, model = asking.send(answers[1:])
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]

    def _method(self, problem: Problem) -> Features:
        wanted = min(self._features, len(candidates_of(problem.source)))
        weight = max(self._weights)
        scale = Fraction(wanted * problem.most_records_per_unit * weight) / (self._share * problem.epsilon)
        try:
            return Features(wanted, weight, Rational.of(scale))
        except ValueError:
            raise ConfigurationError(f"choosing at a scale of {scale} needs more than 32 bits; round epsilon") from None

    def _rest(self, problem: Problem, source: Records) -> Problem:
        return replace(problem, source=source, epsilon=(1 - self._share) * problem.epsilon)


def candidates_of(source: Records) -> tuple[FeatureBins, ...]:
    """A partition for each attribute, the first thousand: quarters of the source's numbers, or the declared levels."""
    found = []
    for attribute in source.schema.attributes[:MOST_CANDIDATES]:
        edges: tuple[float, ...] = ()
        if isinstance(attribute, NumericAttribute):
            known = source.column(attribute.name)
            known = known[~np.isnan(known)]
            ends = np.quantile(known, QUARTILES) if len(known) else np.empty(0)
            edges = tuple(np.unique(ends[ends > attribute.lower]).tolist())
        found.append(FeatureBins(attribute.name, edges))
    return tuple(found)


def restricted(records: Records, names: set[str]) -> Records:
    """The records with these attributes alone, in the schema's order; hypotheses on them fit the whole schema, too."""
    kept = tuple(each for each in records.schema.attributes if each.name in names)
    places = [records.positions[each.name] for each in kept]
    return Records(
        msgspec.structs.replace(records.schema, attributes=kept),
        records.numeric[:, [at for is_number, at in places if is_number]],
        records.categorical[:, [at for is_number, at in places if not is_number]],
    )
