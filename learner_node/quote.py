"""What a study would bring, before anything is asked: noise, cost, and the accuracy to expect from the source alone.

Labels are drawn from the label model's own prior, a synthetic target of the declared size is drawn from the source, the
strategy asks it as it would ask curators, and its model is scored on the source. That is an expectation over problems
such as the prior makes them; the one real problem may be easier or harder, and its target is another population.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from learner_node.label_model.prior import DIFFICULTIES, PriorLabels, draw_prior_labels
from learner_node.readers.counts import CountsAnswer
from learner_node.source import coordinates, standardising_map
from learner_node.strategies import make_strategy, option_names
from learner_node.strategies.base import Conversation, Problem, assumed_size, class_probabilities
from learner_node.strategies.cells import CellsStrategy
from learner_node.strategies.options import exact_shares, names_of
from protocol.errors import ConfigurationError
from protocol.noise import DiscreteLaplace
from protocol.plans import Plan, PlannedQuery
from protocol.queries import plan_cost, query_cost
from protocol.queries.counts import CountsBody
from protocol.records import Records
from protocol.release_kinds import RELEASE_KINDS

Floats = NDArray[np.float64]
Progress = Callable[[str, int, int], None]

CELLS_STRATEGY = "cells"
MOST_SITES = 1000
MOST_TARGET_SIZE = 10_000_000
"""Every one of these records is drawn and asked about in memory."""
_FACTORS = (Fraction(1, 2), Fraction(1), Fraction(2))
_SHARES = ((1, 1), (1, 3), (3, 1))
"""Of the budget for two rounds, where a strategy takes any."""
_RANGE = (0.05, 0.95)


@dataclass(frozen=True)
class Simulated:
    """Accuracies over the simulated problems; all in [0, 1].

    Attributes:
        problems: how many.
        mean, low, high: of the accuracy: its mean and the range that holds 90 % of the problems.
        majority: mean of what the majority class would score.
        best: mean of what knowing P(label | record) exactly would score.
        beats_majority: share of problems whose model beats the majority class.
        by_difficulty: mean accuracy of the easy, middling and hard problems.
    """

    problems: int
    mean: float
    low: float
    high: float
    majority: float
    best: float
    beats_majority: float
    by_difficulty: Mapping[str, float]


@dataclass(frozen=True)
class QuoteRow:
    """One way to spend one epsilon.

    Attributes:
        epsilon: at each curator, exact.
        cost: of the plan at a curator, exact; equals epsilon.
        options: of the strategy.
        split: share of epsilon of each question, exact; they sum to 1.
        cells: cells of the question that has the most, the first of such; all partitions together.
        scale: in that question, of the discrete Laplace noise of one curator in one number, exact.
        count_error: standard error of the sum over curators of one released number, in records.
        records_per_cell: target records in the average cell of one partition.
        share_error: standard error of the share of label 1 in such a cell where it is 1/2, from noise and sampling, at
            most 1/2; None where the release does not tell it.
        simulated: accuracies.
        accuracies: of the simulated problems, (problems,), in the same order in every row.
        usual: what the strategy does when it is not told otherwise.
        suggested: the usual one, unless another is better on these problems by more than two standard errors.
    """

    epsilon: Fraction
    cost: Fraction
    options: Mapping[str, Any]
    split: tuple[Fraction, ...]
    cells: int
    scale: Fraction
    count_error: float
    records_per_cell: float
    share_error: float | None
    simulated: Simulated
    accuracies: tuple[float, ...]
    usual: bool
    suggested: bool = False

    @property
    def queries(self) -> int:
        """Number of questions."""
        return len(self.split)


def quote(
    source: Records,
    *,
    strategy: str = CELLS_STRATEGY,
    options: Mapping[str, Any] | None = None,
    epsilons: Sequence[Fraction],
    sites: int = 1,
    target_size: int | None = None,
    most_records_per_unit: int = 1,
    problems: int = 9,
    seed: int = 0,
    progress: Progress = lambda what, done, total: None,  # noqa: ARG005
) -> list[QuoteRow]:
    """Quote plans at several epsilons with several numbers of cells (`cells`) or splits of the budget (two rounds).

    Every row is simulated on the same problems, so that rows of one epsilon differ by the plan and not by luck.

    Args:
        source: the learner's encoded records, at least two.
        strategy: key of `STRATEGIES`.
        options: of the strategy; with "cells" among them (strategy `cells`) only that number is tried, else the
            strategy's rule, half of it and twice it. With "shares" among them only those are tried, else, for
            strategies of two rounds, equal ones, 1 to 3 and 3 to 1.
        epsilons: to spend at each curator, positive, exact, distinct.
        sites: curators whose answers are summed, at most MOST_SITES.
        target_size: private records at all of them together, at most MOST_TARGET_SIZE; None: each has as many as the
            source.
        most_records_per_unit: contribution bound c.
        problems: simulated problems per row, at least 3: one of each difficulty in turn.
        seed: of everything random here; equal arguments give equal rows.
        progress: called with (what, done, total).

    Returns:
        Rows by epsilon, then number of cells or split.

    Raises:
        ConfigurationError: an argument out of its range, or a strategy or option that does not exist.
    """
    least = {"epsilons": len(epsilons), "sites": sites, "most_records_per_unit": most_records_per_unit}
    least["target_size"] = assumed_size([None] * sites, len(source)) if target_size is None else target_size
    for name, value in least.items():
        if value < 1:
            raise ConfigurationError(f"{name} must be at least 1, not {value}")
    for name, value, most in (("sites", sites, MOST_SITES), ("target_size", least["target_size"], MOST_TARGET_SIZE)):
        if value > most:
            raise ConfigurationError(f"{name} is {value}, and a quote simulates at most {most}; state a smaller one")
    lawful = all(epsilon > 0 for epsilon in epsilons) and len(set(epsilons)) == len(epsilons)
    if problems < len(DIFFICULTIES) or len(source) < 2 or not lawful:
        raise ConfigurationError(
            "a quote needs distinct positive epsilons, at least two source records and "
            f"at least {len(DIFFICULTIES)} problems"
        )
    if len(source.schema.classes) != 2:
        raise ConfigurationError(f"a quote is for a label of two classes; {source.schema.label!r} is another")
    asked = []
    for epsilon in epsilons:
        problem = Problem(source, epsilon, sites, least["target_size"], most_records_per_unit, seed)
        asked += [(problem, chosen, usual) for chosen, usual in _choices(problem, strategy, dict(options or {}))]
    points = coordinates(standardising_map(source), source)
    drawn = [draw_prior_labels(points, number, seed) for number in range(problems)]
    rows = []
    for place, (problem, chosen, usual) in enumerate(asked):
        found = []
        for number, labels in enumerate(drawn):
            progress("simulated studies", place * problems + number, len(asked) * problems)
            rng = np.random.default_rng([seed, number, 1])
            found.append(_study(problem, strategy, chosen, labels, rng))
        rows.append(_row(problem, strategy, chosen, drawn, found, usual=usual))
    progress("simulated studies", len(asked) * problems, len(asked) * problems)
    chosen_rows = [_suggested([row for row in rows if row.epsilon == epsilon]) for epsilon in epsilons]
    return [replace(row, suggested=any(row is best for best in chosen_rows)) for row in rows]


def _suggested(rows: Sequence[QuoteRow]) -> QuoteRow:
    """Of the rows of one epsilon; differences are paired, as the problems are the same."""
    usual = next(row for row in rows if row.usual)
    best = max(rows, key=lambda row: row.simulated.mean)
    gain = np.array(best.accuracies) - np.array(usual.accuracies)
    return best if gain.mean() > 2.0 * gain.std(ddof=1) / np.sqrt(len(gain)) else usual


@dataclass(frozen=True)
class _Found:
    accuracy: float
    bodies: tuple[CountsBody, ...]


def _choices(problem: Problem, strategy: str, options: dict[str, Any]) -> list[tuple[dict[str, Any], bool]]:
    """The options to try, and whether they are the usual ones."""
    plan = make_strategy(strategy, options).plan(problem)
    if "shares" in option_names(strategy) and len(plan.queries) == 2 and options.get("shares") is None:
        usual = _split(plan, problem)
        return [({**options, "shares": list(pair)}, exact_shares(2, pair) == usual) for pair in _SHARES]
    if strategy != CELLS_STRATEGY or options.get("cells") is not None:
        return [(options, True)]
    n_source = len(problem.source)
    known = names_of(CellsStrategy)
    rule = CellsStrategy(**{name: value for name, value in options.items() if name in known}).cell_count(problem)
    numbers = {max(2, min(n_source, round(rule * factor))) for factor in _FACTORS} | {rule}
    return [({**options, "cells": number}, number == rule) for number in sorted(numbers)]


def _split(plan: Plan, problem: Problem) -> tuple[Fraction, ...]:
    """Share of each question of the plan's cost."""
    costs = [query_cost(planned, problem.most_records_per_unit) for planned in plan.queries]
    return tuple(cost / sum(costs) for cost in costs)


def _study(
    problem: Problem, strategy: str, options: Mapping[str, Any], labels: PriorLabels, rng: np.random.Generator
) -> _Found:
    """Run the strategy against a target drawn from the source with these labels, and score its last model."""
    rows = rng.integers(len(problem.source), size=problem.target_size)
    target = problem.source.take(rows)
    truth = rng.random(problem.target_size) < labels.probability[rows]
    # Networks would take twice as long and move the expectation by less than its range.
    lighter = {"networks": False, **options} if strategy == CELLS_STRATEGY else options
    chosen = make_strategy(strategy, lighter)
    conversation = Conversation(chosen, problem)
    answers: list[CountsAnswer] = []
    bodies: list[CountsBody] = []
    for planned in chosen.plan(problem).queries:
        bodies.append(conversation.body)
        answers.append(_answer(bodies[-1], planned, target, truth, problem.sites, rng))
        conversation.hear(answers)
    model = conversation.models[-1]
    if model is None:
        raise ConfigurationError(f"strategy {strategy!r} learnt no model from its plan")
    predicted = class_probabilities(model, problem.source)[:, 1] > 0.5
    return _Found(float(np.where(predicted, labels.probability, 1.0 - labels.probability).mean()), tuple(bodies))


def _answer(
    body: CountsBody,
    planned: PlannedQuery,
    target: Records,
    truth: NDArray[np.bool_],
    sites: int,
    rng: np.random.Generator,
) -> CountsAnswer:
    """What curators would answer; the records are invented, so the noise needs no secure source."""
    kind = RELEASE_KINDS[planned.release]
    if kind.of_errors is None:
        raise ConfigurationError(
            f"{planned.release} is not private or not about two classes; a quote is for plans that are both"
        )
    wrong = np.zeros(len(truth), np.bool_) if body.hypothesis is None else body.hypothesis.predict(target) != truth
    sizes = tuple(partition.cell_count(target.schema) for partition in body.partitions)
    blocks = []
    for partition, size in zip(body.partitions, sizes, strict=True):
        cells = partition.cells(target)
        errors = np.bincount(cells[wrong], minlength=size).astype(np.int64)
        blocks.append(kind.of_errors(errors, np.bincount(cells, minlength=size).astype(np.int64) - errors))
    exact = np.concatenate(blocks)
    noise = DiscreteLaplace(planned.scale.fraction).simulate(rng, (sites, *exact.shape)).sum(axis=0)
    values = (exact + noise).astype(np.float64)
    return CountsAnswer(values, sizes, planned.release, planned.scale.fraction, sites)


def _row(
    problem: Problem,
    strategy: str,
    options: Mapping[str, Any],
    drawn: Sequence[PriorLabels],
    found: Sequence[_Found],
    *,
    usual: bool,
) -> QuoteRow:
    plan = make_strategy(strategy, options).plan(problem)
    accuracy = np.array([each.accuracy for each in found])
    majority = np.array([labels.majority for labels in drawn])
    schema = problem.source.schema
    workloads = [[partition.cell_count(schema) for partition in body.partitions] for body in found[0].bodies]
    largest = max(range(len(workloads)), key=lambda index: sum(workloads[index]))
    sizes, asked = workloads[largest], plan.queries[largest]
    variance = DiscreteLaplace(asked.scale.fraction).variance(problem.sites)
    records = problem.target_size * len(sizes) / sum(sizes)
    share_error = None
    if asked.release == "error_correct":
        # The share is n1 / (n1 + n0); at 1/2 its noise is that of (n1 - n0) / 2.
        share_error = float(min(0.5, np.sqrt(variance / 2 + records / 4) / records))
    low, high = np.quantile(accuracy, _RANGE)
    return QuoteRow(
        epsilon=problem.epsilon,
        cost=plan_cost(plan, problem.most_records_per_unit),
        options=dict(options),
        split=_split(plan, problem),
        cells=sum(sizes),
        scale=asked.scale.fraction,
        count_error=float(np.sqrt(variance)),
        records_per_cell=records,
        share_error=share_error,
        simulated=Simulated(
            problems=len(found),
            mean=float(accuracy.mean()),
            low=float(low),
            high=float(high),
            majority=float(majority.mean()),
            best=float(np.mean([labels.best for labels in drawn])),
            beats_majority=float(np.mean(accuracy > majority)),
            by_difficulty={
                name: float(accuracy[[labels.name == name for labels in drawn]].mean()) for name in DIFFICULTIES
            },
        ),
        accuracies=tuple(map(float, accuracy)),
        usual=usual,
    )
