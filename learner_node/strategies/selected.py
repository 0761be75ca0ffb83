"""Lets curators choose attributes, then runs another strategy on those: for sources where few of many carry the signal.

A choice by noisy scores costs as much as for one attribute, however many there are, and errs by the logarithm of their
number (`features` of the query kind `statistic`). Each curator chooses for itself. Noise rarely makes two curators
choose the same attribute, so the union of the choices is nearly all signal.

`selected-cells` does this with fixed shares. Strategy `cells` does it if a source has many attributes and the curators
allow it (`choice_of`). docs/learner/strategies.md has the gains.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from statistics import median

import msgspec
import numpy as np
from numpy.typing import NDArray

from learner_node.kinds.statistic import StatisticAnswer
from learner_node.models.source import standardising_map
from learner_node.strategies.base import Asking, Problem, Strategy, Willing
from protocol.codec import encode
from protocol.errors import ConfigurationError, RemoteProtocolError
from protocol.hypotheses import Constant
from protocol.kinds import QUERY_KINDS
from protocol.kinds.counts import CountsBody
from protocol.kinds.statistic import CELL_COST, STATISTIC, PlannedStatistic, StatisticBody
from protocol.kinds.statistics.items import MOST_CANDIDATES, Selection
from protocol.kinds.statistics.methods import METHODS, Features
from protocol.limits import ASSUMED_ROUND_SIZE, Limits
from protocol.partitions import FeatureBins, NearestCentre
from protocol.plans import Plan
from protocol.query_kind import Kinds
from protocol.rationals import Rational
from protocol.records import Records
from protocol.schema import NumericAttribute

QUARTILES = (0.25, 0.5, 0.75)
"""Quantiles of the source at which a numeric attribute is cut."""
MANY = 80
"""Number of attributes that vary in the source from which `cells` has them chosen first. At 60 a choice loses more if
all are informative than it wins if ten are; at 100 it wins more (docs/learner/strategies.md)."""
MOST_CHOSEN = 6
"""Most attributes that each curator chooses by default."""
CHOICE_SHARE, CLASSES_SHARE = Fraction(1, 2), Fraction(1, 20)
"""Shares of epsilon for a choice, and for the class shares that weight it."""
RESOLVED = 0.06
"""Largest noise of a choice, scale x log(attributes), as a share of a curator's records."""
BALANCE = 100
"""Weight of the rarest class; other classes have smaller whole weights."""


class ManyAttributesWarning(UserWarning):
    """A study asks many attributes without a choice; the text says what to change."""


@dataclass(frozen=True)
class AttributeChoice:
    """Number and cost of attributes that curators choose."""

    chosen: int  # q, by each curator
    most: int  # of all that were chosen, so many are used
    share: Fraction  # of epsilon, for the choice, in (0, 1)
    # of the classes in a score, whole numbers from 1 to 1000; None asks for the classes' shares first, at
    # `CLASSES_SHARE` of epsilon, so that a rare one counts as much as the others
    weights: tuple[int, ...] | None = None


class ChosenFirst:
    """A strategy on attributes that curators choose.

    `inner` asks with the rest of epsilon and learns; its plan must not depend on which attributes are chosen.
    """

    def __init__(self, inner: Strategy, choice: AttributeChoice) -> None:
        self._inner, self._choice = inner, choice

    def plan(self, problem: Problem) -> Plan:
        """The choice's queries, then the strategy's. Raises ConfigurationError: a scale needs more than 32 bits."""
        first = problem.counts_plan([_classes_question(problem)]).queries if self._choice.weights is None else ()
        chosen = msgspec.Raw(encode(PlannedStatistic(method=self._method(problem))))
        return Plan((*first, chosen, *self._inner.plan(self._rest(problem, problem.source)).queries))

    def run(self, problem: Problem) -> Asking:
        """The classes' counts, the attributes, then the strategy's questions, over the same source."""
        candidates, weights, before = candidates_of(problem.source), self._choice.weights, 1
        if weights is None:
            answers = yield _classes_body(problem), None
            weights, before = balanced(answers[0].values.sum(axis=0), float(answers[0].noise_variance)), 2
        answers = yield StatisticBody((Selection(candidates, weights),)), None
        names = {candidates[index].attribute for index in by_votes(answers[before - 1])[: self._choice.most]}
        asking = self._inner.run(self._rest(problem, restricted(problem.source, names)))
        body, model = next(asking)
        while True:
            answers = yield body, model
            try:
                body, model = asking.send(answers[before:])
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]

    def _method(self, problem: Problem) -> Features:
        count = min(self._choice.chosen, len(candidates_of(problem.source)))
        weight = max(self._choice.weights or (BALANCE,))
        scale = Fraction(count * problem.most_records_per_unit * weight) / (self._choice.share * problem.epsilon)
        try:
            return Features(count, weight, Rational.of(scale))
        except ValueError:
            raise ConfigurationError(f"choosing at a scale of {scale} needs more than 32 bits; round epsilon") from None

    def _rest(self, problem: Problem, source: Records) -> Problem:
        spent = self._choice.share + (CLASSES_SHARE if self._choice.weights is None else 0)
        return replace(problem, source=source, epsilon=(1 - spent) * problem.epsilon)


def willing(
    stated: Sequence[tuple[Limits, int | None]], records: float | None = None, kinds: Kinds = QUERY_KINDS
) -> Willing:
    """What a study's curators allow.

    Curators that allow less than most others do, and less than the default policy, do not make the common question
    coarser: they are left out if it exceeds their limits.

    Args:
        stated: for each curator its limits and declared number of records, if any; at least one.
        records: approximate number at one curator; None uses the problem's own.
        kinds: query kinds that may be asked.
    """
    works = [limits.multiply_adds / (size or ASSUMED_ROUND_SIZE) for limits, size in stated]
    usual = min(median(works), Limits().multiply_adds / ASSUMED_ROUND_SIZE)
    return Willing(max(min(works), usual), all(_selects(limits, kinds) for limits, _ in stated), records)


def _selects(limits: Limits, kinds: Kinds) -> bool:
    """Whether a curator allows the choice of attributes."""
    try:
        allowed = kinds.limits(limits, STATISTIC.name).methods
    except RemoteProtocolError:
        return False
    return any(METHODS[name] is Features for name in allowed)


def choice_of(problem: Problem, chosen: int | None = None) -> AttributeChoice | None:
    """The choice that `cells` makes first, by public facts alone; None if it makes none.

    `chosen` is the user's number for each curator, 0 for no choice. With None there is no choice below `MANY`
    attributes, or if a curator does not allow it; else up to `MOST_CHOSEN`, as many as exceed the noise.
    """
    if chosen is None:
        wide = is_wide(problem.source) and problem.willing.selects
        willing = wide and selection_work(problem.source) <= problem.willing.work
        chosen = chosen_by_rule(problem) if willing else 0
    return AttributeChoice(chosen, 2 * chosen, CHOICE_SHARE) if chosen else None


def why_not_chosen(problem: Problem) -> str:
    """A text, if `cells` does not have many attributes chosen by default: the loss, and what to change.

    It is empty if there are few attributes or they are chosen. It uses public facts alone.
    """
    if not is_wide(problem.source) or choice_of(problem):
        return ""
    remedies = []
    if not problem.willing.selects:
        remedies.append(
            'have the stewards allow it (limits.kinds: counts = {}, statistic = { methods = ["features"] })'
        )
    if selection_work(problem.source) > problem.willing.work:
        remedies.append("have them declare round_size, without which a million records are assumed")
    if not remedies:
        remedies.append("at this epsilon the records are too few for it: keep the attributes that you know to matter")
    count = len(standardising_map(problem.source).features)
    return (
        f"{count} attributes vary in the source, and the curators do not choose among them first: where few carry the "
        f"signal, most of what is asked then tells nothing; {', and '.join(remedies)}"
    )


def is_wide(source: Records) -> bool:
    """Whether so many attributes vary that they are chosen first; False for a numeric label."""
    if not source.schema.classes or len(source.schema.attributes) < MANY:
        return False  # the map, which has one feature an attribute at most, reads all records
    return len(standardising_map(source).features) >= MANY


def chosen_by_rule(problem: Problem) -> int:
    """Number of attributes that each curator can choose reliably, given the noise; may be 0."""
    records = problem.willing.records or problem.target_size / max(problem.sites, 1)
    reach = math.log(max(len(problem.source.schema.attributes), 2)) / problem.epsilon_per_record(CHOICE_SHARE)
    return min(MOST_CHOSEN, int(RESOLVED * records / reach))


def selection_work(source: Records) -> int:
    """A curator's work for one record to score every attribute, in the unit of `protocol.limits`."""
    return sum(CELL_COST + partition.multiply_adds() for partition in candidates_of(source))


def candidates_of(source: Records) -> tuple[FeatureBins, ...]:
    """A partition for each of the first thousand attributes: quartiles of the source, or the declared levels."""
    candidates = []
    for attribute in source.schema.attributes[:MOST_CANDIDATES]:
        edges: tuple[float, ...] = ()
        if isinstance(attribute, NumericAttribute):
            present = source.column(attribute.name)
            present = present[~np.isnan(present)]
            ends = np.quantile(present, QUARTILES) if len(present) else np.empty(0)
            edges = tuple(np.unique(ends[ends > attribute.lower]).tolist())
        candidates.append(FeatureBins(attribute.name, edges))
    return tuple(candidates)


def by_votes(answer: StatisticAnswer) -> list[int]:
    """Candidates in order of the number of curators that chose them, ties in order of choice."""
    chosen = answer.numbers[:, 0]
    places = np.arange(chosen.shape[1], 0, -1)
    indices = np.unique(chosen).tolist()
    return sorted(indices, key=lambda index: (-int((chosen == index).sum()), -int(((chosen == index) * places).sum())))


def balanced(counts: NDArray[np.float64], variance: float) -> tuple[int, ...]:
    """Weights that let every class count alike: 100 for the rarest, at least 1 for the others.

    `counts` (C,) are noisy, with the given `variance`; a count below its standard deviation is raised to it.
    """
    least = np.maximum(counts, max(math.sqrt(variance), 1.0))
    return tuple(np.maximum(np.rint(BALANCE * least.min() / least), 1).astype(int).tolist())


def restricted(records: Records, names: set[str]) -> Records:
    """The records with only these attributes, in the schema's order; hypotheses on them fit the full schema."""
    attributes = tuple(attribute for attribute in records.schema.attributes if attribute.name in names)
    places = [records.positions[attribute.name] for attribute in attributes]
    return Records(
        msgspec.structs.replace(records.schema, attributes=attributes),
        records.numeric[:, [at for is_number, at in places if is_number]],
        records.categorical[:, [at for is_number, at in places if not is_number]],
    )


def _classes_question(problem: Problem) -> tuple[str, int, Fraction]:
    two = len(problem.source.schema.classes) == 2
    return "error_correct" if two else "class_counts", 1, CLASSES_SHARE


def _classes_body(problem: Problem) -> CountsBody:
    """A question on one cell that holds every record."""
    features = standardising_map(problem.source)
    everywhere = NearestCentre.of(features, np.zeros((1, features.width)))
    two = len(problem.source.schema.classes) == 2
    return CountsBody(partitions=(everywhere,), hypothesis=Constant(predicted=1) if two else None)
