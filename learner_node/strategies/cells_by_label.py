"""Strategy `cells`, whatever the label is: two classes, more, or a number. Which one, the curators' card says."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from learner_node.class_recall import class_recalls
from learner_node.source import coordinates, standardising_map
from learner_node.strategies.base import Asking, ClassesEstimate, Problem, Strategy
from learner_node.strategies.cells import CellsStrategy
from learner_node.strategies.cells_classes import CellsClassesStrategy
from learner_node.strategies.cells_number import CellsNumberStrategy
from learner_node.strategies.options import names_of
from protocol.errors import ConfigurationError
from protocol.plans import Plan
from protocol.schema import Schema

BY_LABEL: dict[str, Callable[..., Strategy]] = {
    "two classes": CellsStrategy,
    "more than two classes": CellsClassesStrategy,
    "a number": CellsNumberStrategy,
}
"""What a label may be -> the strategy for it."""


class CellsByLabel:
    """Args: options of any of the three; one that the card's label has no use for is an error when the plan is made."""

    def __init__(self, **options: Any) -> None:
        taken = {what: names_of(kind) for what, kind in BY_LABEL.items()}
        self._made = {
            what: kind(**{name: value for name, value in options.items() if name in taken[what]})
            for what, kind in BY_LABEL.items()
        }
        self._useless = {what: [name for name in options if name not in names] for what, names in taken.items()}

    def plan(self, problem: Problem) -> Plan:
        """See `Strategy`; ConfigurationError for an option that is for another kind of label."""
        what = label_kind(problem.source.schema)
        if self._useless[what]:
            raise ConfigurationError(
                f"strategy 'cells' takes no option {self._useless[what][0]!r} where the label is {what}; leave it out"
            )
        return self._made[what].plan(problem)

    def run(self, problem: Problem) -> Asking:
        """See `Strategy`."""
        asking = self._made[label_kind(problem.source.schema)].run(problem)
        return asking if len(problem.source.schema.classes) <= 2 else _with_recalls(asking, problem)


def _with_recalls(asking: Asking, problem: Problem) -> Asking:
    """The same, and what its one answer says of each class's recall."""
    answers = yield next(asking)
    try:
        asking.send(answers)
    except StopIteration as end:
        model, estimate = end.value
    else:
        raise TypeError("more than one question was asked about several classes")
    if not isinstance(estimate, ClassesEstimate):
        raise TypeError("the label has two classes, or is a number")
    source = problem.source
    recalls = class_recalls(
        answers[0],
        coordinates(standardising_map(source), source),
        answers[0].body.partitions[0].cells(source),
        estimate.probabilities,
        seed=problem.seed,
    )
    return model, replace(estimate, recalls=recalls)


def label_kind(schema: Schema) -> str:
    """A key of `BY_LABEL`."""
    if schema.label_bounds is not None:
        return "a number"
    return "two classes" if len(schema.classes) == 2 else "more than two classes"
