"""The common parts of all studies' cells: their tasks, their epsilons, and their grouping."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from fractions import Fraction
from typing import Any, TypeVar

import msgspec

from protocol.rationals import parse_rational
from simulations.campaign.store import Task

INFINITE = "inf"  # epsilon of what is not private
Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)
Rank = Callable[[Any], Any] | Sequence[Any]  # what sorts names: a key, or all of them in order


class TaskCell(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The result of a task. A subclass may give fields other names on disk."""

    problem: str
    maker: str  # what made it
    epsilon: str  # exact text, "inf" where nothing is private
    seed: int  # of the split and of the maker's own choices, never of noise

    @property
    def key(self) -> Task:
        """The task that this cell is the result of."""
        return Task(self.problem, self.maker, self.epsilon, self.seed)


class Run(TaskCell, frozen=True):
    """A cell that holds only numbers, by name."""

    numbers: dict[str, float]
    seconds: float = 0.0


def epsilon_text(epsilon: Fraction | None) -> str:
    """The shortest exact text: a decimal where there is one, "inf" for None."""
    if epsilon is None:
        return INFINITE
    decimal = f"{float(epsilon):.9f}".rstrip("0").rstrip(".")
    return decimal if Fraction(decimal) == epsilon else str(epsilon)


def shortest(epsilons: Iterable[str]) -> tuple[str, ...]:
    """Epsilons as typed ("1.0", "1/2") by their shortest texts, so that cells of one epsilon are found again."""
    return tuple(epsilon_text(parse_rational(text)) for text in epsilons)


def epsilon_order(text: str) -> tuple[int, Fraction]:
    """A key that sorts epsilons downwards, infinity first."""
    return (0, Fraction(0)) if text == INFINITE else (1, -parse_rational(text))


def epsilon_number(text: str) -> float:
    """The number of an exact text, for axes."""
    return float(parse_rational(text))


def place(names: Sequence[Any], name: object) -> int:
    """The index of a name; names that are no longer there come last."""
    return names.index(name) if name in names else len(names)


def grouped(items: Iterable[Item], key: Callable[[Item], Key], *ranks: Rank) -> dict[Key, list[Item]]:
    """Items by key, each group in the order of the items.

    With ranks, each key is a tuple with a part for each rank, and the groups are sorted by these ranks.
    """
    groups: dict[Key, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return {key: groups[key] for key in sorted(groups, key=lambda key: ranked(key, ranks))} if ranks else groups


def ranked(key: Any, ranks: Sequence[Rank]) -> list[Any]:
    """A key that sorts tuples by the rank of each part."""
    pairs = zip(ranks, key, strict=True)
    return [rank(part) if callable(rank) else (place(rank, part), str(part)) for rank, part in pairs]


def by_seed(cells: Iterable[Any]) -> list[Any]:
    """Cells in the order of their seeds."""
    return sorted(cells, key=lambda cell: cell.seed)


def differences(first: Iterable[Item], second: Iterable[Item], value: Callable[[Item], float]) -> list[float]:
    """A number of `first` minus that of `second`, for each seed that both have."""
    left, right = ({cell.seed: value(cell) for cell in cells} for cells in (first, second))  # type: ignore[attr-defined]
    return [left[seed] - right[seed] for seed in sorted(left.keys() & right.keys())]
