"""Strategy `cells` for a label that is a number: sums of labels over cells, a smooth function, and its own error.

The first question takes the sums of the labels over k-means cells of the source: `label_total`, whose pair gives the
mass as well. Or, by option, the paper's perspective (section 5): squared errors of hypotheses. Those of "lower bound"
and "upper bound", e_0 = y^2 and e_1 = (1 - y)^2, give y = (1 + e_0 - e_1) / 2, at half the budget each.

A second question, with a small share of the budget, asks for the learnt function's own squared error over all records
at once. What is asked about is a network, and so that network is the model.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from learner_node.distillation import distil
from learner_node.label_model.number_model import NumberLabelModel, fit_number_model
from learner_node.readers.counts import CountsAnswer
from learner_node.source import coordinates, kmeans_cells, standardising_map
from learner_node.strategies.base import Asking, ErrorEstimate, NumberEstimate, Problem
from learner_node.strategies.options import Share, part_of_epsilon, whole_or_none
from protocol.hypotheses import Constant, Hypothesis, Mlp
from protocol.partitions import Partition
from protocol.plans import Plan
from protocol.queries.counts import CountsBody
from protocol.records import LABEL_STEPS, Records
from protocol.release_kinds import MOST_SQUARED_ERROR
from protocol.schema import Schema

STEPS = 1024
"""A label is rounded to this share of its range: far below any noise."""
FEWEST_CELLS = 4
SPREADS_COUNTED = 2.5
"""Errors beyond so many estimated deviations count as so many."""
INTERVAL = 2.12
"""Half a 95 % interval in standard deviations of Laplace noise, ln(20) / sqrt(2); of sums of it, it is less."""
QUESTIONS = ("label_total", "squared_error")

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
    """See the module.

    Args:
        cells: number of cells; None takes half as many as for two classes, since labels differ less than classes do.
        error_share: share of the budget for the model's own error, as a rational; 0 does not ask.
        question: "label_total", or "squared_error" for the paper's perspective.
    """

    def __init__(self, *, cells: int | None = None, error_share: Share = "1/10", question: str = "label_total") -> None:
        self._cells = whole_or_none("cells", cells)
        if question not in QUESTIONS:
            raise ValueError(f"question must be one of {', '.join(QUESTIONS)}, not {question!r}")
        self._share = part_of_epsilon("error_share", error_share)
        self._hypotheses: tuple[Hypothesis | None, ...] = (None,)
        if question == "squared_error":
            self._hypotheses = (Constant(predicted=0), Constant(predicted=1))
        self._question = question

    def plan(self, problem: Problem) -> Plan:
        """One or two questions over the cells, and one about the error."""
        asked = len(self._hypotheses)
        questions = [(self._question, 1, (1 - self._share) / asked)] * asked
        questions += [("squared_error", 1, self._share)] if self._share else []
        return problem.counts_plan(questions, steps=STEPS)

    def run(self, problem: Problem) -> Asking:
        """The cells, the function that fits their answers, then one cell of all records for its error."""
        source, seed = problem.source, problem.seed
        features = standardising_map(source)
        rule = problem.cell_rule(problem.epsilon_per_record()) // 2
        count = self._cells or min(max(rule, FEWEST_CELLS), problem.limits.cells)
        asked: tuple[Partition, ...] = (kmeans_cells(source, features, count, seed),)
        answers: Sequence[CountsAnswer] = ()
        for hypothesis in self._hypotheses:
            answers = yield CountsBody(partitions=asked, hypothesis=hypothesis), None
            asked = answers[0].body.partitions
        sums, scale = sums_of_labels(answers)
        points = coordinates(features, source)
        fitted = fit_number_model(
            points, asked[0].cells(source), sums, scale=scale, noises=answers[0].noises, seed=seed
        )
        network = distil(fitted.predict, features, points, most_parameters=problem.limits.parameters, seed=seed)
        model = NetworkNumberModel(network, _bounds(source.schema))
        if self._share:
            most = _counted_range(fitted)
            everything = kmeans_cells(source, features, 1, seed)
            answers = yield (
                CountsBody(partitions=(everything,), hypothesis=network, most_squared_error=most),
                model,
            )
            model = _judged(model, answers[-1])
        return model, NumberEstimate(fitted.source_mass, model.predict_number(source))


def _judged(model: NetworkNumberModel, answer: CountsAnswer) -> NetworkNumberModel:
    """The network whose error was asked for, and that error."""
    asked = answer.body
    if not isinstance(asked.hypothesis, Mlp) or asked.most_squared_error is None:
        raise TypeError("nobody was asked for the error of a network")
    error = mean_squared_error(answer, asked.most_squared_error, model.bounds)
    return replace(model, hypothesis=asked.hypothesis, error=error)


def sums_of_labels(answers: Sequence[CountsAnswer]) -> tuple[Floats, float]:
    """Noisy sums over cells of the labels' shares of their range and of one minus them, and the noise's scale.

    Args:
        answers: one to `label_total`, or those to `squared_error` of the lower and of the upper bound.

    Returns:
        (K, 2) float64, and the scale in records of Laplace noise of the variance in each.
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


def mean_squared_error(answer: CountsAnswer, most: int, bounds: tuple[float, float]) -> ErrorEstimate:
    """The mean squared error that a `squared_error` answer over one cell tells, with a 95 % interval.

    Two things are unknown: the noise, whose law is known, and how far the private records' mean is from that of the
    records they were drawn from, of which a squared error between 0 and `most` bounds the variance by e (most - e).

    Args:
        answer: values (1, 2).
        most: the largest squared error counted, in squared grid steps.
        bounds: of the label.
    """
    steps = answer.steps
    own, rest = answer.values[0] / steps
    total = max(float(own + rest), 1.0)
    share = float(np.clip(own / total, 0.0, 1.0))
    noise = answer.noise_variance / steps**2
    variance = noise * ((1.0 - share) ** 2 + share**2) / total**2 + share * (1.0 - share) / total
    reach = INTERVAL * float(np.sqrt(variance))
    unit = most / MOST_SQUARED_ERROR * (bounds[1] - bounds[0]) ** 2
    low, high = max(share - reach, 0.0), min(share + reach, 1.0)
    return ErrorEstimate(value=share * unit, low=low * unit, high=high * unit, most=unit)


def _counted_range(fitted: NumberLabelModel) -> int:
    """The largest squared error counted, in squared grid steps: chosen from the noisy answers, so at no cost."""
    wanted = round((SPREADS_COUNTED * fitted.spread) ** 2 * MOST_SQUARED_ERROR)
    return int(np.clip(wanted, 1, MOST_SQUARED_ERROR))


def _bounds(schema: Schema) -> tuple[float, float]:
    if schema.label_bounds is None:
        raise TypeError("the label is not a number")
    return schema.label_bounds
