"""Sentences and marks that terminal, Markdown and page share."""

import math
from collections.abc import Callable, Iterable, Sequence

from expril.report.numbers import decimal, signed, with_error
from lab.comparison.bars import Average, Standing, averages, standings
from lab.comparison.contestants import SECURE_DEFAULT
from lab.comparison.model import Comparison, Row
from lab.comparison.outcome import INFINITE


def private_epsilons(found: Comparison) -> tuple[str, ...]:
    """The finite ones, downwards."""
    return tuple(epsilon for epsilon in found.epsilons if epsilon != INFINITE)


def best_private(
    found: Comparison, epsilon: str, datasets: Iterable[str], value: Callable[[Row], float]
) -> set[tuple[str, str, str]]:
    """Keys of the rows with the highest value of their data set, to the decimal shown; nothing without privacy."""
    if epsilon == INFINITE:
        return set()
    best: set[tuple[str, str, str]] = set()
    for dataset in datasets:
        rows = [row for row in found.rows if row.dataset == dataset and row.epsilon == epsilon]
        if rows:
            most = max(round(value(row), 1) for row in rows)
            best |= {row.key for row in rows if round(value(row), 1) == most}
    return best


def common(found: Comparison) -> list[str]:
    """The data sets on which accuracy decides: no class is rare."""
    return [dataset for dataset in found.problems if dataset not in found.rare]


def accuracy_of(row: Row) -> float:
    """Mean accuracy, in percent."""
    return row.mean


def auc_of(row: Row) -> float:
    """Mean area under the ROC curve, in percent."""
    return row.auc


def bar_sentence(found: Comparison) -> str:
    """How many bars the default strategy meets."""
    bars = standings(found)
    decided = [bar for bar in bars if bar.met is not None]
    if not decided:
        return f"{found.default} was not run where a bar is set."
    return f"{found.default} meets {sum(bool(bar.met) for bar in decided)} of {len(decided)} bars."


def leaders(found: Comparison, epsilon: str) -> tuple[Average | None, Average | None]:
    """The default strategy and the peer with the highest average accuracy at this epsilon."""
    everyone = [average for average in averages(found, epsilon) if average.mean is not None]
    default = next((average for average in everyone if average.strategy.name == found.default), None)
    peers = [average for average in everyone if average.strategy.group == "peer"]
    return default, max(peers, key=lambda average: average.mean or 0.0, default=None)


def headline(found: Comparison) -> str:
    """One line that says where the default strategy stands."""
    for epsilon in found.epsilons:
        default, peer = leaders(found, epsilon) if epsilon != INFINITE else (None, None)
        if default is None or default.mean is None:
            continue
        text = f"{default.strategy.name} reaches {default.mean:.1f} % on average {over(found)}at epsilon {epsilon}"
        if peer is not None and peer.mean is not None:
            text += f", the best peer {peer.mean:.1f} %"
        return text
    return "strategies and peers on the same records"


def over(found: Comparison) -> str:
    """Of which data sets accuracies are averaged, where that is not all."""
    return "" if len(found.averaged) == len(found.problems) else f"over {len(found.averaged)} data sets "


def ranking_leaders(found: Comparison, epsilon: str) -> tuple[Average | None, Average | None]:
    """The default strategy and the peer with the highest average AUC over all problems, of those that have them all."""
    everyone = [average for average in averages(found, epsilon) if average.auc is not None]
    default = next((average for average in everyone if average.strategy.name == found.default), None)
    peers = [average for average in everyone if average.strategy.group == "peer"]
    return default, max(peers, key=lambda average: average.auc or 0.0, default=None)


def averaged_sentence(found: Comparison) -> str:
    """Which data sets the averages are over."""
    if len(found.averaged) == len(found.problems):
        return "Averages are over all data sets."
    others = [name for name in found.problems if name not in found.averaged]
    return (
        f"Averages of accuracy are over {', '.join(found.averaged)}; {', '.join(others)} stand beside them. "
        "Averages of AUC are over all."
    )


def verdict(found: Comparison) -> list[str]:
    """A few sentences below the headline."""
    sentences = [bar_sentence(found)]
    for epsilon in found.epsilons:
        if epsilon == INFINITE:
            continue
        default, peer = leaders(found, epsilon)
        if default is None or peer is None or default.mean is None or peer.mean is None:
            continue
        side = "above" if default.mean > peer.mean else "not above"
        sentences.append(
            f"At epsilon {epsilon} its average of {default.mean:.1f} is {side} that of every peer; the best, "
            f"{peer.strategy.name}, has {peer.mean:.1f}."
        )
        default, peer = ranking_leaders(found, epsilon)
        if default is not None and peer is not None:
            name = peer.strategy.name
            sentences.append(f"Its AUC over all data sets is {default.auc:.1f}, of peers {name} has {peer.auc:.1f}.")
    if gains := pooled_gains(found):
        sentences.append(gains)
    aims = [bar.aim for bar in standings(found) if bar.aim is not None]
    if aims:
        sentences.append(f"Within one point of h* at epsilon 1 on {sum(aims)} of {len(aims)} of the paper's data sets.")
    return sentences


def pooled_gains(found: Comparison) -> str:
    """What the default strategy gains where curators sum its answers securely, run by run; "" where it was not run."""
    told = []
    datasets: dict[str, None] = {}
    for epsilon in private_epsilons(found):
        rows = [
            row
            for row in found.rows
            if (row.strategy, row.epsilon) == (SECURE_DEFAULT, epsilon) and row.dataset in found.averaged
        ]
        known = [(row.difference, row.difference_error) for row in rows if row.pairs > 1]
        if known:
            gain = sum(value or 0.0 for value, _ in known) / len(known)
            error = math.sqrt(sum((each or 0.0) ** 2 for _, each in known)) / len(known)
            told.append(f"{with_error(signed(gain), error)} at epsilon {epsilon}")
            datasets |= {row.dataset: None for row in rows}
    if not told:
        return ""
    return (
        f"Where curators sum its answers securely, {found.default} gains in points, on average over "
        f"{', '.join(datasets)}: {', '.join(told)}."
    )


def spread(row: Row | None) -> str:
    """Mean accuracy ± standard deviation in percent; one run has no deviation."""
    return "–" if row is None else with_error(decimal(row.mean), row.std if row.runs > 1 else None)


def auc_spread(row: Row | None) -> str:
    """Mean AUC ± standard deviation in percent; one run has no deviation."""
    return "–" if row is None else with_error(decimal(row.auc), row.auc_std if row.runs > 1 else None)


def difference(row: Row | None) -> str:
    """The paired difference with its standard error; one pair has none."""
    if row is None or row.difference is None:
        return "–"
    return with_error(signed(row.difference), row.difference_error if row.pairs > 1 else None)


def met(value: bool | None) -> str:
    """Whether a bar is met, in a word."""
    return {None: "not run", True: "met", False: "not met"}[value]


def needed(bar: Standing) -> str:
    """The bar's number, and what our h* makes of it where that is less."""
    return f"{bar.number:.1f}" if bar.needed == bar.number else f"{bar.number:.1f}, by distance {bar.needed:.1f}"


def span(numbers: Sequence[int]) -> str:
    """The least and the greatest, once where they are one."""
    return str(min(numbers)) if min(numbers) == max(numbers) else f"{min(numbers)} to {max(numbers)}"
