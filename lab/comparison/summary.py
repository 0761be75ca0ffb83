"""From finished cells to rows: means over runs, and differences run by run."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from lab.comparison.contestants import CONTESTANTS, DEFAULT
from lab.comparison.measures import Reliability
from lab.comparison.model import Claim, Comparison, Row, Strategy
from lab.comparison.outcome import Outcome, epsilon_order
from lab.problems import PROBLEMS

CLAIMED = ("estimated_accuracy", "interval_low", "interval_high")
Groups = Mapping[tuple[str, str, str], Mapping[int, Outcome]]


def compare_outcomes(outcomes: Iterable[Outcome]) -> Comparison:
    """All rows of these cells, whatever is still missing."""
    grouped: dict[tuple[str, str, str], dict[int, Outcome]] = {}
    for outcome in outcomes:
        grouped.setdefault((outcome.problem, outcome.strategy, outcome.epsilon), {})[outcome.seed] = outcome
    names, problems = list(CONTESTANTS), list(PROBLEMS)

    def order(key: tuple[str, str, str]) -> tuple[object, ...]:
        dataset, strategy, epsilon = key
        return epsilon_order(epsilon), _place(names, strategy), strategy, _place(problems, dataset), dataset

    rows = tuple(_row(key, grouped) for key in sorted(grouped, key=order))
    used = sorted({row.strategy for row in rows}, key=lambda name: (_place(names, name), name))
    datasets = sorted({row.dataset for row in rows}, key=lambda name: (_place(problems, name), name))
    return Comparison(
        rows=rows,
        strategies=tuple(_heading(name) for name in used),
        default=DEFAULT,
        problems={name: PROBLEMS[name].title if name in PROBLEMS else name for name in datasets},
        averaged=tuple(name for name in datasets if name not in PROBLEMS or PROBLEMS[name].averaged),
        rare=tuple(name for name in datasets if name in PROBLEMS and PROBLEMS[name].rare),
    )


def pool(parts: Sequence[Reliability]) -> Reliability:
    """Merge bins by their rank: the first with the first, weighted by their records."""
    most = max(len(part.counts) for part in parts)
    counts, predicted, observed = [], [], []
    for place in range(most):
        there = [part for part in parts if place < len(part.counts)]
        weights = [part.counts[place] for part in there]
        counts.append(sum(weights))
        predicted.append(float(np.average([part.predicted[place] for part in there], weights=weights)))
        observed.append(float(np.average([part.observed[place] for part in there], weights=weights)))
    return Reliability(tuple(counts), tuple(predicted), tuple(observed))


def _place(names: Sequence[str], name: str) -> int:
    """Its place in a table of names; what is no longer there comes last."""
    return names.index(name) if name in names else len(names)


def _heading(name: str) -> Strategy:
    contestant = CONTESTANTS.get(name)
    return Strategy(name, name, "ours") if contestant is None else Strategy(name, contestant.title, contestant.group)


def _row(key: tuple[str, str, str], grouped: Groups) -> Row:
    dataset, strategy, epsilon = key
    cells = [grouped[key][seed] for seed in sorted(grouped[key])]
    accuracies = np.array([cell.measures.accuracy for cell in cells])
    areas = np.array([cell.measures.auc for cell in cells])
    default = grouped.get((dataset, DEFAULT, epsilon), {})
    differences = np.array(
        [cell.measures.accuracy - default[cell.seed].measures.accuracy for cell in cells if cell.seed in default]
    )
    paired = strategy != DEFAULT and len(differences) > 0
    return Row(
        dataset=dataset,
        strategy=strategy,
        epsilon=epsilon,
        mean=float(accuracies.mean()),
        std=_deviation(accuracies),
        runs=len(cells),
        auc=float(areas.mean()),
        auc_std=_deviation(areas),
        brier=_mean(cell.measures.brier for cell in cells),
        ece=_mean(cell.measures.reliability.error for cell in cells),
        seconds=_mean(cell.seconds for cell in cells),
        difference=float(differences.mean()) if paired else None,
        difference_error=_deviation(differences) / len(differences) ** 0.5 if paired else None,
        pairs=len(differences) if paired else 0,
        spent=", ".join(dict.fromkeys(cell.spent for cell in cells if cell.spent)),
        claims=tuple(_claim(cell) for cell in cells if all(name in cell.extras for name in CLAIMED)),
        reliability=pool([cell.measures.reliability for cell in cells]),
    )


def _claim(cell: Outcome) -> Claim:
    estimated, low, high = (cell.extras[name] for name in CLAIMED)
    return Claim(estimated, low, high, cell.measures.accuracy, sum(cell.measures.reliability.counts))


def _mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))


def _deviation(values: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> float:
    return float(values.std(ddof=1)) if len(values) > 1 else 0.0
