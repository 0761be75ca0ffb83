"""Strategy `cells` for a label that is a number: sums of labels over cells, a smooth function, and its own error.

The first question takes the sums of the labels over k-means cells of the source: `label_total`, whose pair gives the
mass as well. By option it takes squared errors of hypotheses instead (the paper's section 5). Those of "lower bound"
and "upper bound", e_0 = y^2 and e_1 = (1 - y)^2, give y = (1 + e_0 - e_1) / 2, at half the budget each.

Two more questions, with as small a share of the budget as the number of records allows, judge the learnt function over
all records at once: the sums of its squared and absolute errors (`error_sums`), and the sum of the labels' squared
distances from their mean (`squared_error` of a constant network), which R^2 is relative to. What is asked about is a
network, and so that network is the model.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from learner_node.kinds.counts import CountsAnswer
from learner_node.models.distillation import distil
from learner_node.models.label_model.likelihood import noise_law
from learner_node.models.label_model.number_model import fit_number_model
from learner_node.models.source import coordinates, kmeans_cells
from learner_node.strategies import options
from learner_node.strategies.base import Asking, ErrorEstimate, NumberEstimate, Problem
from learner_node.strategies.options import Share
from protocol.hypotheses import Constant, Hypothesis, Mlp
from protocol.kinds.counts import CountsBody
from protocol.partitions import Partition
from protocol.plans import Plan
from protocol.records import LABEL_STEPS, Records
from protocol.release_kinds import MOST_SQUARED_ERROR
from protocol.schema import Schema

STEPS = 1024
"""Number of steps of the label's range to which labels are rounded: far below any noise."""
FEWEST_CELLS = 4
LEAST_SPREAD, MOST_SPREAD = 0.1, 0.25
"""Bounds, as shares of the label's range, on its assumed spread around the function; noisy sums estimate it badly."""
SPREADS_COUNTED = 2.5
"""Errors are clipped at so many estimated standard deviations, or at more with many records."""
NOISE_OF_VARIANCE = 0.05
"""Largest noise in a mean square, as a share of it, at which errors are clipped later."""
USED_OF_RANGE = 0.1
"""Expected mean square, as a share of the largest counted square."""
ERROR_SHARES = tuple(Fraction(1, part) for part in (200, 100, 50, 20, 10, 5))
"""Candidate shares of epsilon for the model's own error; the least that estimates R^2 well enough is used."""
SINGLE_SHARE = Fraction(1, 10)
HALF_WIDTH_WANTED, HALF_WIDTH_TOLD = 0.1, 0.5
"""Half-widths of R^2's interval at R^2 = 1/2: the one to reach, and the one beyond which the question is not asked."""
INTERVAL = 2.12
"""Half-width of a 95 % interval in standard deviations of Laplace noise, ln(20) / sqrt(2); an upper bound for sums."""
UNEXPLAINED = 4000
"""Number of values of 1 - R^2, evenly from 0 to 2, at which the interval is tested."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class NetworkNumberModel:
    """A network, evaluated exactly as a curator evaluates it."""

    hypothesis: Mlp
    bounds: tuple[float, float]
    error: ErrorEstimate | None = None

    def predict_number(self, records: Records) -> Floats:
        """Predicted label of each record: (n,) within the label's bounds, in its units."""
        lower, upper = self.bounds
        return lower + (upper - lower) * (self.hypothesis.predict_number(records) / LABEL_STEPS)


class CellsNumberStrategy:
    """Strategy `cells` for a label that is a number.

    Args:
        cells: number of cells. None takes half as many as for two classes, since labels differ less than classes do.
        error_share: share of epsilon for the model's own error, as a rational; 0 does not ask. None takes the least of
            1/200 to 1/5 that gives R^2 = 1/2 within 0.1, else 1/5; it does not ask if even that gives more than 0.5.
            With one model per curator it is 1/10, since all curators share one plan.
        question: "label_total", or "squared_error" for the paper's perspective.
    """

    def __init__(
        self, *, cells: int | None = None, error_share: Share | None = None, question: str = "label_total"
    ) -> None:
        self._cells, self._share, self._question = options.cells_of_number(
            cells=cells, error_share=error_share, question=question
        )
        self._hypotheses: tuple[Hypothesis | None, ...] = (None,)
        if question == "squared_error":
            self._hypotheses = (Constant(predicted=0), Constant(predicted=1))

    def plan(self, problem: Problem) -> Plan:
        """One or two questions over the cells, and two about the error."""
        count, share = len(self._hypotheses), self._error_share(problem)
        questions = [(self._question, 1, (1 - share) / count)] * count
        questions += [(release, 1, share / 2) for release in (_error_release(problem), "squared_error") if share]
        return problem.counts_plan(questions, steps=STEPS)

    def run(self, problem: Problem) -> Asking:
        """Ask the cells, fit a function to the answers, then ask one cell of all records for its error and R^2."""
        source, seed = problem.source, problem.seed
        features = problem.features
        rule = problem.cell_rule(problem.epsilon_per_record()) // 2
        count = self._cells or min(max(rule, FEWEST_CELLS), problem.limits.cells)
        partitions: tuple[Partition, ...] = (kmeans_cells(source, features, count, seed),)
        answers: Sequence[CountsAnswer] = ()
        for hypothesis in self._hypotheses:
            answers = yield CountsBody(partitions=partitions, hypothesis=hypothesis), None
            partitions = answers[0].body.partitions
        sums, scale = sums_of_labels(answers)
        points = coordinates(features, source)
        fitted = fit_number_model(
            points, partitions[0].cells(source), sums, scale=scale, noises=answers[0].noises, seed=seed
        )
        network = distil(fitted.predict, features, points, most_parameters=problem.limits.parameters, seed=seed)
        model = NetworkNumberModel(network, _bounds(source.schema))
        if share := self._error_share(problem):
            everything = (kmeans_cells(source, features, 1, seed),)
            most = _counted_range(float(np.clip(fitted.spread, LEAST_SPREAD, MOST_SPREAD)) ** 2, problem, share / 2)
            answers = yield CountsBody(partitions=everything, hypothesis=network, most_squared_error=most), model
            error = _Mean.of(answers[-1], 1).share * _unit(answers[-1])
            explained = fitted.predict(points) - fitted.centre
            between = float(fitted.source_mass @ explained**2 / max(float(fitted.source_mass.sum()), 1.0))
            spread = float(np.clip(error, LEAST_SPREAD**2, MOST_SPREAD**2)) + between
            mean = (np.zeros((1, features.width), np.float32), np.full(1, fitted.centre, np.float32))
            most = _counted_range(spread, problem, share / 2)
            answers = yield (
                CountsBody(partitions=everything, hypothesis=Mlp.of(features, [mean]), most_squared_error=most),
                model,
            )
            model = _judged(model, answers[-2], answers[-1], problem.most_records_per_unit)
        return model, NumberEstimate(fitted.source_mass, model.predict_number(source))

    def _error_share(self, problem: Problem) -> Fraction:
        """Share of the budget for the two questions about the error."""
        if self._share is not None:
            return self._share
        if problem.sites == 1:
            return SINGLE_SHARE
        # The noise of both mean squares, where R^2 is one half.
        relative = INTERVAL * np.sqrt(2.0) * 0.5 / USED_OF_RANGE
        widths = {share: relative * _noise_of_mean(problem, share / 2) for share in ERROR_SHARES}
        enough = [share for share, width in widths.items() if width <= HALF_WIDTH_WANTED]
        most = ERROR_SHARES[-1]
        return enough[0] if enough else most if widths[most] <= HALF_WIDTH_TOLD else Fraction(0)


def _error_release(problem: Problem) -> str:
    """The release kind `error_sums`, or squared errors alone if a curator does not allow both."""
    return "error_sums" if "error_sums" in problem.limits.release_kinds else "squared_error"


def _noise_of_mean(problem: Problem, share: Fraction) -> float:
    """Noise deviation of a mean over all records, as a share of the largest amount a record counts."""
    scale = float(problem.scale(1, share).fraction)
    return float(np.sqrt(noise_law(scale).variance(problem.noises))) / max(problem.target_size, 1)


def _judged(model: NetworkNumberModel, errors: CountsAnswer, spread: CountsAnswer, design: int) -> NetworkNumberModel:
    """The network whose error was asked, with that error."""
    if not isinstance(errors.body.hypothesis, Mlp):
        raise TypeError("nobody was asked for the error of a network")
    return replace(model, hypothesis=errors.body.hypothesis, error=error_estimate(errors, spread, model.bounds, design))


def sums_of_labels(answers: Sequence[CountsAnswer]) -> tuple[Floats, float]:
    """Noisy sums per cell of labels (as shares of their range) and of one minus them, with the noise's scale.

    `answers` are one to `label_total`, or two to `squared_error` of the lower and of the upper bound. Returns (K, 2)
    float64, and the scale of Laplace noise with the variance in each, in records.
    """
    steps, scale = answers[0].steps, float(answers[0].scale)
    if len(answers) == 1:
        return answers[0].values / steps, scale / steps
    lower, upper = (answer.values / steps for answer in answers)
    mass = (lower.sum(axis=1) + upper.sum(axis=1)) / 2
    difference = (lower[:, 0] - upper[:, 0]) / 2
    # e_0 - e_1 = 2 y - 1. Each sum's noise: a quarter of two masses' (of two noises each) and of the two errors'.
    sums = np.column_stack([mass / 2 + difference, mass / 2 - difference])
    weights = np.array([[0.75, 0.25], [-0.25, 0.25]])
    return sums, scale / steps * float(np.sqrt((weights**2).sum()))


@dataclass(frozen=True)
class _Mean:
    """A mean over the private records, as a share of the largest amount that counts, and its variance."""

    share: float
    variance: float

    @classmethod
    def of(cls, answer: CountsAnswer, columns: int, design: float = 1.0) -> "_Mean":
        """The mean from the sum of an answer's first columns, over one cell.

        Its variance has two parts: the noise, of known law, and the private records' sampling. Amounts are shares s of
        a range, so s (1 - s) bounds their variance (Bhatia and Davis 2000).
        """
        values = answer.values[0] / answer.steps
        total = max(float(values.sum()), 1.0)
        share = float(np.clip(values[:columns].sum() / total, 0.0, 1.0))
        noise = answer.noise_variance / answer.steps**2
        rest = len(values) - columns
        varied = noise * (columns * (1.0 - share) ** 2 + rest * share**2) / total**2
        return cls(share, varied + design * share * (1.0 - share) / total)

    def interval(self, unit: float) -> tuple[float, float, float]:
        """Value and 95 % interval ends in the unit of the amounts, of which the range holds `unit`."""
        reach = INTERVAL * float(np.sqrt(self.variance))
        ends = (self.share, max(self.share - reach, 0.0), min(self.share + reach, 1.0))
        value, low, high = (end * unit for end in ends)
        return value, low, high


def error_estimate(
    errors: CountsAnswer, spread: CountsAnswer, bounds: tuple[float, float], design: float = 1.0
) -> ErrorEstimate:
    """Estimate a model's error, with 95 % intervals, from two answers over one cell of all records.

    With squared error e and the labels' variance v, R^2 = 1 - e / v is at most r if e - (1 - r) v is at least 0. That
    difference is nearly normal, so the interval holds the r for which it is within 2.12 of its deviations of 0 (Fieller
    1954).

    `errors` are `error_sums` of the model, (1, 3), or `squared_error`, (1, 2); `spread` is `squared_error` around the
    labels' mean, (1, 2); `bounds` are the label's. `design` >= 1 is the design effect of records that come in units: so
    many records carry the information of one.
    """
    width = bounds[1] - bounds[0]
    squared, about_mean = _Mean.of(errors, 1, design), _Mean.of(spread, 1, design)
    unit, unit_about_mean = _unit(errors), _unit(spread)
    most = unit * width**2
    estimate = ErrorEstimate(*squared.interval(most), most)
    if errors.release == "error_sums":
        reach = isqrt(errors.body.most_squared_error or MOST_SQUARED_ERROR) / LABEL_STEPS
        value, low, high = _Mean.of(errors, 2, design).interval(reach * width)
        estimate = replace(estimate, absolute=value, absolute_low=low, absolute_high=high)
    e, v = squared.share * unit, about_mean.share * unit_about_mean
    e_variance, v_variance = squared.variance * unit**2, about_mean.variance * unit_about_mean**2
    unexplained = np.linspace(0.0, 2.0, UNEXPLAINED + 1)
    near = np.abs(e - unexplained * v) <= INTERVAL * np.sqrt(e_variance + unexplained**2 * v_variance)
    value = float(np.clip(1.0 - e / v, -1.0, 1.0)) if v > 0.0 else 0.0
    explained = 1.0 - unexplained[near]
    low, high = (float(explained.min()), float(explained.max())) if len(explained) else (value, value)
    step = 2.0 / UNEXPLAINED
    return replace(
        estimate, r2=value, r2_low=max(min(low - step, value), -1.0), r2_high=min(max(high + step, value), 1.0)
    )


def _unit(answer: CountsAnswer) -> float:
    """The largest squared error that an answer counts, as a share of the squared label range."""
    return (answer.body.most_squared_error or MOST_SQUARED_ERROR) / MOST_SQUARED_ERROR


def _counted_range(variance: float, problem: Problem, share: Fraction) -> int:
    """The largest squared error to count, in squared grid steps, chosen from noisy answers at no cost."""
    at_little_noise = NOISE_OF_VARIANCE / _noise_of_mean(problem, share)
    ideal = max(SPREADS_COUNTED**2, at_little_noise) * variance * MOST_SQUARED_ERROR
    return int(np.clip(round(ideal), 1, MOST_SQUARED_ERROR))


def _bounds(schema: Schema) -> tuple[float, float]:
    if schema.label_bounds is None:
        raise TypeError("the label is not a number")
    return schema.label_bounds
