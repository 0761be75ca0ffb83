"""Strategy `additive`: one question over the bins of some attributes, and an interpretable additive model.

Class counts by bin are the sufficient statistics of a logistic additive model, so a question about m attributes has
noise of scale m c / epsilon (contribution bound c) and loses nothing else. Interactions of attributes are not learnt;
`cells` learns those.

Fewer attributes have less noise. The user may name them, which is free. Alternatively a first question over all
attributes, on a share of the budget, chooses the attributes that the rest is spent on.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from learner_node.kinds.counts import CountsAnswer
from learner_node.models.label_model.additive import (
    AdditiveFit,
    BinCounts,
    ShapeFunction,
    bin_kernel,
    fit_additive,
    named_attributes,
    shape_functions,
    tied_bins,
)
from learner_node.strategies import options
from learner_node.strategies.base import Asking, Problem, SourceEstimate, varying_attributes
from learner_node.strategies.options import Share
from protocol.hypotheses import Constant
from protocol.kinds.counts import CountsBody
from protocol.partitions import FeatureBins
from protocol.plans import Plan
from protocol.records import Records

MOST_BINS = 10
"""Most bins of a numeric attribute, besides the one for missing values."""


@dataclass(frozen=True)
class AdditiveModel:
    """log-odds(x) = intercept + one contribution for each attribute."""

    partitions: tuple[FeatureBins, ...]  # the bins of each attribute
    fit: AdditiveFit  # the posterior of intercept and contributions
    shape_functions: tuple[ShapeFunction, ...]  # what each attribute contributes, with bands; the strongest first

    def probability(self, records: Records) -> NDArray[np.float64]:
        """P(class 1) for each record: (n,) in [0, 1]."""
        return self.fit.probability([partition.cells(records).astype(np.int64) for partition in self.partitions])


class AdditiveStrategy:
    """Strategy `additive`.

    Args:
        attributes: names of those to ask; None takes all that vary in the source.
        bins: number of bins of each numeric attribute. None gives each about three times as many records as a signed
            count's noise deviation, with at most 10 bins.
        choice_share: share of epsilon for a first question over all attributes that chooses those of the second; both
            answers are used. 0 asks one question. It cannot be combined with `attributes`.
        chosen: number of attributes that the second question asks.
    """

    def __init__(
        self,
        *,
        attributes: Sequence[str] | None = None,
        bins: int | None = None,
        choice_share: Share = 0,
        chosen: int = options.CHOSEN,
    ) -> None:
        self._names, self._bins, self._share, self._chosen = options.additive(
            attributes=attributes, bins=bins, choice_share=choice_share, chosen=chosen
        )

    def plan(self, problem: Problem) -> Plan:
        """One query over m attributes, or one over all and one over the chosen; exactly epsilon in total."""
        return problem.counts_plan([("error_correct", count, share) for count, share in self._questions(problem)])

    def run(self, problem: Problem) -> Asking:
        """Ask class counts in each attribute's bins: errors of the hypothesis "class 1" are class 0."""
        names = self._attributes(problem)
        (count, share), *later = self._questions(problem)
        bins = self.bin_count(problem, share, count)
        partitions = tuple(tied_bins(problem.source, name, bins) for name in names)
        answers = yield CountsBody(partitions=partitions, hypothesis=Constant(predicted=1)), None
        model = _model(problem, answers)
        for count, _ in later:
            strongest = [shape.attribute for shape in model.shape_functions[:count]]
            again = tuple(partition for partition in model.partitions if partition.attribute in strongest)
            answers = yield CountsBody(partitions=again, hypothesis=Constant(predicted=1)), model
            model = _model(problem, answers)
        return model, SourceEstimate(model.fit.source_mass, model.probability(problem.source))

    def bin_count(self, problem: Problem, share: Fraction, count: int) -> int:
        """Number of bins of each of `count` attributes that share a question at this share of epsilon."""
        rule = problem.cell_rule(problem.epsilon_per_record(share, count), most=MOST_BINS)
        # Each attribute has a further bin for missing values.
        return max(1, min(self._bins or rule, problem.limits.cells // count - 1))

    def _attributes(self, problem: Problem) -> list[str]:
        if self._names is None:
            return varying_attributes(problem)
        return named_attributes(problem.source.schema, self._names)

    def _questions(self, problem: Problem) -> list[tuple[int, Fraction]]:
        """Number of attributes and share of epsilon of each question."""
        count = len(self._attributes(problem))
        if not self._share or count <= self._chosen:
            return [(count, Fraction(1))]
        return [(count, self._share), (self._chosen, 1 - self._share)]


def _model(problem: Problem, answers: Sequence[CountsAnswer]) -> AdditiveModel:
    """The model over the bins of the first question; later questions ask some of them again."""
    schema, count = problem.source.schema, len(problem.source)
    bins_by_answer = [_bins(answer) for answer in answers]
    partitions = bins_by_answer[0]
    cells = [partition.cells(problem.source).astype(np.int64) for partition in partitions]
    # A secure sum that was opened before a curator dropped out counts its records, too.
    factors = [answers[-1].sites / answer.sites for answer in answers]
    bin_counts = []
    for partition, places in zip(partitions, cells, strict=True):
        estimates = [
            (factor * answer.blocks[bins.index(partition)], factor**2 * answer.noise_variance)
            for bins, answer, factor in zip(bins_by_answer, answers, factors, strict=True)
            if partition in bins
        ]
        counts, variance = _averaged(estimates)
        shares = np.bincount(places, minlength=len(counts)) / count
        bin_counts.append(BinCounts(places, counts, variance, bin_kernel(partition, schema, shares)))
    declared = problem.target_size * answers[-1].sites / problem.sites
    fit = fit_additive(bin_counts, declared=declared, seed=problem.seed)
    return AdditiveModel(partitions, fit, shape_functions(problem.source, partitions, fit, cells))


def _bins(answer: CountsAnswer) -> tuple[FeatureBins, ...]:
    """Partitions of an answer that are bins of an attribute."""
    return tuple(partition for partition in answer.body.partitions if isinstance(partition, FeatureBins))


def _averaged(estimates: Sequence[tuple[NDArray[np.float64], float]]) -> tuple[NDArray[np.float64], float]:
    """Counts (K, 2) of the same bins from several answers, weighted by the inverse variance of their noise."""
    precision = np.array([1.0 / max(variance, 1e-9) for _, variance in estimates])
    mean: NDArray[np.float64] = np.tensordot(precision / precision.sum(), np.stack([c for c, _ in estimates]), axes=1)
    return mean, float(1.0 / precision.sum())
