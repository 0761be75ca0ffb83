"""Estimates a study's noise, cost and scores from the source alone, before anything is asked.

Labels are drawn from a broad prior and a synthetic target of the declared size from the source. The strategy asks it as
it would ask curators, and its model is scored on the source. The best reachable score depends on the labels, which the
source does not have. The loss through noise depends on them much less. A quote states both.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from learner_node.kinds import READERS
from learner_node.models.label_model import MOST_CELLS
from learner_node.models.label_model.prior import DIFFICULTIES, Belief, PriorProblems, draw_prior_problems
from learner_node.plug_ins import named_package, with_package
from learner_node.questions.rehearsal import CARRIERS, CellsForeseen, Rehearsal, carriers, rehearse
from learner_node.strategies import ANY_LABEL, make_strategy, option_names
from learner_node.strategies.base import UNWILLING, Conversation, Problem, Willing, assumed_size
from learner_node.strategies.cells import CellsStrategy
from learner_node.strategies.options import exact_shares, names_of
from learner_node.strategies.selected import choice_of, chosen_by_rule, is_wide, why_not_chosen
from learner_node.study.pooling import SUMMED, Pooling, SecurePool
from learner_node.study.reading import Precision, Reader, not_foreseen, questions
from protocol.errors import ConfigurationError
from protocol.plans import Plan
from protocol.query_kind import Kinds
from protocol.records import Records

Floats = NDArray[np.float64]
Progress = Callable[[str, int, int], None]

CELLS_STRATEGY = "cells"
CHOSEN, NETWORKS = "chosen", "networks"
"""Names of options of a quoted strategy."""
MOST_SITES = 1000
MOST_TARGET_SIZE = 10_000_000
FORESEEN, REHEARSED = 300, 12
"""Default numbers of simulated problems: if fits are computed in closed form, and if each is made."""
SAMPLE_RECORDS, SAMPLE_PER_CELL = 2000, 4
"""Size of the source sample on which studies are simulated. Larger samples change scores by less than another seed
does."""
NO_NOISE = Fraction(10**6)
"""An epsilon so large that the noise is 0 in every draw."""
WHAT = "simulated studies"
_FACTORS = (Fraction(1, 2), Fraction(1), Fraction(2))
_SHARES = ((1, 1), (1, 3), (3, 1))
"""Splits of the budget to try for strategies of two rounds."""
_OUTSIDE = 0.025
"""Share of the problems beyond each end of a range that is quoted as a 90 % range; see docs/learner/quote.md."""
_LEAST_GAIN = 0.005
"""Smallest gain in mean accuracy for which another plan is suggested."""
_STUDIES = 60
"""Approximate number of rehearsed studies in a quote of several rows, unless `problems` is given."""


@dataclass(frozen=True)
class Scores:
    """One score over the simulated problems, in [0, 1]; the loss is in [-1, 1].

    Ranges hold 95 % of the problems and are rounded outwards to hundredths. They are quoted as 90 % ranges, since real
    problems differ from the prior's.
    """

    mean: float
    low: float
    high: float
    best: float  # mean score of knowing P(label | record) exactly
    without_noise: float  # mean score of what the same strategy would learn from exact answers
    loss: float  # mean of what noise takes from that
    loss_low: float
    loss_high: float


@dataclass(frozen=True)
class Simulated:
    """A plan's scores over the simulated problems."""

    problems: int  # how many
    accuracy: Scores  # share of records whose label is predicted
    auc: Scores  # area under the ROC curve: how well the model ranks, however rare a label is
    majority: float  # mean accuracy of the majority class
    beats_majority: float  # share of problems whose model's accuracy beats the majority class
    by_difficulty: Mapping[str, float]  # mean accuracy of the easy, middling and hard problems


@dataclass(frozen=True)
class QuoteRow:
    """One way to spend one epsilon.

    The suggested row is the default plan, unless another is better on these problems by more than two standard errors
    and half a percentage point of accuracy.
    """

    epsilon: Fraction  # at each curator, exact
    cost: Fraction  # of the plan at a curator, exact; equals epsilon
    options: Mapping[str, Any]  # of the strategy
    split: tuple[Fraction, ...]  # share of epsilon of each question, exact; they sum to 1
    precision: Precision  # of the question that has the most cells, the first of such
    simulated: Simulated | None  # None where the label is not of two classes: there is no prior of such labels
    accuracies: tuple[float, ...]  # of the simulated problems, (problems,), in the same order in every row
    usual: bool  # what the strategy does when it is not told otherwise
    suggested: bool = False
    chosen: int = 0  # attributes that each curator chooses first

    @property
    def queries(self) -> int:
        """Number of questions."""
        return len(self.split)


@dataclass(frozen=True)
class Target:
    """What a quote must know of the curators.

    `size` is the number of records at all curators together that count under the contribution bound, at most
    MOST_TARGET_SIZE. None assumes that every curator has as many as the source.
    """

    sites: int = 1  # number of curators, at most MOST_SITES
    size: int | None = None
    most_records_per_unit: int = 1  # contribution bound c
    pooling: Pooling = SUMMED  # how their answers are pooled
    willing: Willing = UNWILLING  # what they allow by their cards

    @property
    def pool(self) -> SecurePool | None:
        """The pool of a secure sum, with placeholder curators. Raises ConfigurationError: they are too few."""
        if not self.pooling.secure:
            return None
        keys = (number.to_bytes(32, "big") for number in range(self.sites))
        return SecurePool.of(keys, colluders=self.pooling.colluders, dropouts=self.pooling.dropouts)

    def records(self, source: Records) -> int:
        """Total number of private records, as stated or assumed."""
        return assumed_size([None] * self.sites, len(source)) if self.size is None else self.size

    def problem(self, source: Records, epsilon: Fraction, seed: int = 0) -> Problem:
        """The strategy's problem at one epsilon."""
        size, bound = self.records(source), self.most_records_per_unit
        return Problem(source, epsilon, self.sites, size, bound, seed, pool=self.pool, willing=self.willing)


def quote(
    source: Records,
    target: Target = Target(),
    *,
    strategy: str = CELLS_STRATEGY,
    options: Mapping[str, Any] | None = None,
    epsilons: Sequence[Fraction],
    belief: Belief | None = None,
    problems: int | None = None,
    seed: int = 0,
    progress: Progress = lambda what, number, total: None,  # noqa: ARG005
) -> list[QuoteRow]:
    """Quote plans at several epsilons, with several numbers of cells or, for two-round strategies, budget splits.

    All rows use the same simulated problems, so rows of one epsilon differ by the plan and not by luck. If the label
    does not have two classes, rows hold only cost, noise and precision of the default plan.

    Args:
        source: the learner's encoded records, at least two, of the population that curators count.
        target: the curators.
        strategy: key of `STRATEGIES`.
        options: the strategy's options. Without "cells", strategy `cells` tries its default number, half and twice of
            it. Without "shares", strategies of two rounds try equal shares, 1 to 3 and 3 to 1.
        epsilons: to spend at each curator; positive, exact and distinct.
        belief: what is known of the labels; None if nothing is.
        problems: simulated problems per row, at least 3. None takes 300 for `cells`; for other strategies 12, or as few
            as 4 with many rows.
        seed: seed of everything random here; equal arguments give equal rows.
        progress: called with (step, number done, total).

    Returns:
        Rows by epsilon, then number of cells or split.

    Raises:
        ConfigurationError: an argument is out of its range, or a strategy or option does not exist.
    """
    _check(source, strategy, epsilons, target, problems)
    options = dict(options or {})
    base = {epsilon: target.problem(source, epsilon, seed) for epsilon in (*epsilons, NO_NOISE)}
    if len(source.schema.classes) != 2:
        return [_unlabelled_row(base[epsilon], strategy, options) for epsilon in epsilons]
    choices = {epsilon: _choices(problem, strategy, options) for epsilon, problem in base.items()}
    # Exact answers first: what all rows are held against.
    trials = [_Trial(base[NO_NOISE], *next(choice for choice in choices[NO_NOISE] if choice[1]))]
    trials += [_Trial(base[epsilon], *choice) for epsilon in epsilons for choice in choices[epsilon]]
    subset = _sample(source, max(trial.options.get("cells") or 0 for trial in trials), seed)
    trials = [replace(trial, problem=replace(trial.problem, source=subset)) for trial in trials]
    at_once = [_at_once(trial.problem, strategy, trial.options) for trial in trials]
    slow = len(trials) - sum(at_once)
    number = problems or (max(4, min(REHEARSED, _STUDIES // slow)) if slow else FORESEEN)
    progress(WHAT, 0, len(trials) * number)
    prior = draw_prior_problems(carriers(subset, number, seed), number, seed, belief)
    foreseen = CellsForeseen(subset, prior, seed=seed) if any(at_once) else None
    rehearsals: list[Rehearsal] = []
    for place, trial in enumerate(trials):
        if foreseen and at_once[place]:
            cells_options = {name: value for name, value in trial.options.items() if name != CHOSEN}
            rehearsals.append(foreseen.rehearse(trial.problem, cells_options))
        else:
            faster = {NETWORKS: False, **trial.options} if strategy == CELLS_STRATEGY else trial.options
            tick = partial(_tick, progress, place * number, len(trials) * number)
            rehearsals.append(rehearse(trial.problem, strategy, faster, prior, seed=seed, tick=tick))
        progress(WHAT, (place + 1) * number, len(trials) * number)
    exact, *noisy = rehearsals
    rows = [_row(trial, strategy, prior, rehearsal, exact) for trial, rehearsal in zip(trials[1:], noisy, strict=True)]
    chosen_rows = [_suggested([row for row in rows if row.epsilon == epsilon]) for epsilon in epsilons]
    return [replace(row, suggested=any(row is best for best in chosen_rows)) for row in rows]


def many_attributes(problem: Problem, strategy: str, options: Mapping[str, Any]) -> list[str]:
    """Notes for `cells` on a source of many attributes: what is simulated, and whether some are chosen; else empty."""
    if strategy != CELLS_STRATEGY or not is_wide(problem.source):
        return []
    first = choice_of(problem, options.get(CHOSEN))
    choosing = f"each curator first chooses {first.chosen} attributes at {first.share} of epsilon" if first else ""
    lines = f"simulated: {CARRIERS} of the source's many attributes carry the signal", choosing
    return [line for line in (*lines, "" if CHOSEN in options else why_not_chosen(problem)) if line]


@dataclass(frozen=True)
class _Trial:
    """A plan that is simulated."""

    problem: Problem
    options: Mapping[str, Any]
    usual: bool  # whether these are the strategy's own options


def _at_once(problem: Problem, strategy: str, options: Mapping[str, Any]) -> bool:
    """Whether all problems are fitted in closed form together: with `cells`, unless it first chooses attributes."""
    return strategy == CELLS_STRATEGY and choice_of(problem, options.get(CHOSEN)) is None


def _tick(progress: Progress, before: int, total: int, number: int) -> None:
    progress(WHAT, before + number, total)


def _check(source: Records, strategy: str, epsilons: Sequence[Fraction], target: Target, problems: int | None) -> None:
    """Raise ConfigurationError for arguments that cannot be quoted, before any simulation."""
    sites, size = target.sites, target.records(source)
    bound = target.most_records_per_unit
    least = {"epsilons": len(epsilons), "sites": sites, "most_records_per_unit": bound, "target_size": size}
    for name, value in least.items():
        if value < 1:
            raise ConfigurationError(f"{name} must be at least 1, not {value}")
    for name, value, limit in (("sites", sites, MOST_SITES), ("target_size", size, MOST_TARGET_SIZE)):
        if value > limit:
            raise ConfigurationError(f"{name} is {value}, and a quote simulates at most {limit}; state a smaller one")
    lawful = all(epsilon > 0 for epsilon in epsilons) and len(set(epsilons)) == len(epsilons)
    fewest = len(DIFFICULTIES)
    if (problems is not None and problems < fewest) or len(source) < 2 or not lawful:
        raise ConfigurationError(
            f"a quote needs distinct positive epsilons, at least two source records and at least {fewest} problems"
        )
    option_names(strategy)  # says so where there is no such strategy
    if len(source.schema.classes) != 2 and strategy not in ANY_LABEL:
        raise ConfigurationError(
            f"strategy {strategy!r} is for a label of two classes, and {source.schema.label!r} is another; "
            f"quote {' or '.join(sorted(ANY_LABEL))}"
        )


def _sample(source: Records, cells: int, seed: int) -> Records:
    """The source, or a random sample that is large enough for the cells."""
    most = max(SAMPLE_RECORDS, SAMPLE_PER_CELL * cells)
    if len(source) <= most:
        return source
    return source.take(np.sort(np.random.default_rng(seed).choice(len(source), most, replace=False)))


def _suggested(rows: Sequence[QuoteRow]) -> QuoteRow:
    """The suggested row among those of one epsilon; differences are paired, as the problems are the same."""
    usual = next(row for row in rows if row.usual)
    best = max(rows, key=lambda row: float(np.mean(row.accuracies)))
    gain = np.array(best.accuracies) - np.array(usual.accuracies)
    least = max(_LEAST_GAIN, 2.0 * float(gain.std(ddof=1)) / len(gain) ** 0.5)
    return best if gain.mean() > least else usual


def _choices(problem: Problem, strategy: str, options: dict[str, Any]) -> list[tuple[dict[str, Any], bool]]:
    """Options to try, each with whether they are the default ones."""
    plan = make_strategy(strategy, options).plan(problem)
    if "shares" in option_names(strategy) and len(plan.queries) == 2 and options.get("shares") is None:
        usual = _split(plan, problem, _readers_for(strategy)[1])
        return [({**options, "shares": list(pair)}, exact_shares(2, pair) == usual) for pair in _SHARES]
    if strategy != CELLS_STRATEGY or options.get("cells") is not None:
        return [(options, True)]
    if choice_of(problem, options.get(CHOSEN)):
        return [(options, True)] if CHOSEN in options else [(options, True), ({**options, CHOSEN: 0}, False)]
    n_source = len(problem.source)
    names = names_of(CellsStrategy)
    rule = CellsStrategy(**{name: value for name, value in options.items() if name in names}).cell_count(problem)
    most = min(n_source, max(rule, MOST_CELLS))
    numbers = {max(2, min(most, round(rule * factor))) for factor in _FACTORS} | {rule}
    rows = [({**options, "cells": number}, number == rule) for number in sorted(numbers)]
    if CHOSEN not in options and is_wide(problem.source) and (could := chosen_by_rule(problem)):
        rows.append(({**options, CHOSEN: could}, False))
    return rows


def _split(plan: Plan, problem: Problem, kinds: Kinds) -> tuple[Fraction, ...]:
    """Each question's share of the plan's cost."""
    costs = kinds.costs(plan, problem.most_records_per_unit)
    return tuple(cost / sum(costs) for cost in costs)


def _readers_for(strategy: str) -> tuple[Mapping[str, Reader], Kinds]:
    """The readers and kinds of a strategy's plan, also where a package of others offers it."""
    readers = with_package(READERS, named_package(strategy=strategy))
    return readers, Kinds(*(reader.kind for reader in readers.values()))


def _unlabelled_row(problem: Problem, strategy: str, options: Mapping[str, Any]) -> QuoteRow:
    """Cost, noise and precision of the first question; later questions depend on answers."""
    readers, kinds = _readers_for(strategy)
    choice = choice_of(problem, options.get(CHOSEN)) if strategy == CELLS_STRATEGY else None
    plan = make_strategy(strategy, options).plan(problem)
    # What is asked after a choice depends on it; how precisely does not.
    rest = replace(problem, epsilon=problem.epsilon * _split(plan, problem, kinds)[-1]) if choice else problem
    last = make_strategy(strategy, {**options, CHOSEN: 0} if choice else options)
    turn, *_ = questions(kinds.turns(last.plan(rest)), readers)
    body = Conversation(last, rest).body
    return QuoteRow(
        epsilon=problem.epsilon,
        cost=kinds.plan_cost(plan, problem.most_records_per_unit),
        options=dict(options),
        split=_split(plan, problem, kinds),
        precision=readers[turn.planned.kind].precision(
            body, turn, problem.source.schema, problem.target_size, problem.sites
        ),
        simulated=None,
        accuracies=(),
        usual=True,
        suggested=True,
        chosen=choice.chosen if choice else 0,
    )


def _row(trial: _Trial, strategy: str, prior: PriorProblems, rehearsal: Rehearsal, exact: Rehearsal) -> QuoteRow:
    problem, options = trial.problem, trial.options
    readers, kinds = _readers_for(strategy)
    plan = make_strategy(strategy, options).plan(problem)
    turns = questions(kinds.turns(plan), readers)
    precisions = [
        readers[turn.planned.kind].precision(body, turn, problem.source.schema, problem.target_size, problem.sites)
        for turn, body in zip(turns[-len(rehearsal.bodies) :], rehearsal.bodies, strict=True)
        if readers[turn.planned.kind].precision is not not_foreseen
    ]
    choice = choice_of(problem, options.get(CHOSEN)) if strategy == CELLS_STRATEGY else None
    return QuoteRow(
        epsilon=problem.epsilon,
        cost=kinds.plan_cost(plan, problem.most_records_per_unit),
        options=dict(options),
        split=_split(plan, problem, kinds),
        precision=max(precisions, key=lambda precision: precision.cells),
        simulated=Simulated(
            problems=len(rehearsal.accuracy),
            accuracy=_score_summary(rehearsal.accuracy, exact.accuracy, prior.best),
            auc=_score_summary(rehearsal.auc, exact.auc, prior.best_auc),
            majority=float(prior.majority.mean()),
            beats_majority=float(np.mean(rehearsal.accuracy > prior.majority)),
            by_difficulty={
                name: float(rehearsal.accuracy[prior.difficulty == number].mean())
                for number, name in enumerate(DIFFICULTIES)
            },
        ),
        accuracies=tuple(map(float, rehearsal.accuracy)),
        usual=trial.usual,
        chosen=choice.chosen if choice else 0,
    )


def _score_summary(score: Floats, exact: Floats, best: Floats) -> Scores:
    loss = exact - score
    low, high = _range(score)
    return Scores(
        float(score.mean()), max(low, 0.0), min(high, 1.0), float(best.mean()), float(exact.mean()),
        float(loss.mean()), *_range(loss),
    )  # fmt: skip


def _range(values: Floats) -> tuple[float, float]:
    """Range of the values without a share `_OUTSIDE` at each end, rounded outwards to hundredths."""
    low, high = np.quantile(values, (_OUTSIDE, 1.0 - _OUTSIDE))
    return float(np.floor(100.0 * low)) / 100.0, float(np.ceil(100.0 * high)) / 100.0
