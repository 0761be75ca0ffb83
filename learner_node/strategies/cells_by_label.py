"""Strategy `cells`, whatever the label is: two classes, more, or a number. Which one, the curators' card says.

Where a source has many attributes, the curators choose some of them first (`learner_node.strategies.selected`).
"""

from collections.abc import Callable
from typing import Any

from learner_node.strategies.base import Asking, Problem, Strategy
from learner_node.strategies.cells import CellsStrategy
from learner_node.strategies.cells_classes import CellsClassesStrategy
from learner_node.strategies.cells_number import CellsNumberStrategy
from learner_node.strategies.checked import attributes_chosen
from learner_node.strategies.options import names_of
from learner_node.strategies.selected import ChosenFirst, choice_of
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
    """See the module.

    Args:
        chosen: attributes that each curator chooses first, 0 for none; None goes by what is public (`choice_of`).
        options: of any of the three; one that the card's label has no use for is an error when the plan is made.
    """

    def __init__(self, *, chosen: int | None = None, **options: Any) -> None:
        self._chosen = attributes_chosen(chosen=chosen)
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
        if self._chosen and what == "a number":
            raise ConfigurationError("strategy 'cells' has attributes chosen by classes alone; leave 'chosen' out")
        return self._strategy(problem).plan(problem)

    def run(self, problem: Problem) -> Asking:
        """See `Strategy`."""
        return self._strategy(problem).run(problem)

    def _strategy(self, problem: Problem) -> Strategy:
        made, choice = self._made[label_kind(problem.source.schema)], choice_of(problem, self._chosen)
        return ChosenFirst(made, choice) if choice else made


def label_kind(schema: Schema) -> str:
    """A key of `BY_LABEL`."""
    if schema.label_bounds is not None:
        return "a number"
    return "two classes" if len(schema.classes) == 2 else "more than two classes"
