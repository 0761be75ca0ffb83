"""What `expril quote` foretells of `cells`, beside what was measured: the table of docs/quote.md.

`python -m experiments.quotes` quotes the rule's number of cells on the source of one split a data set and reads the
accuracies from docs/learning/results.csv. About three minutes of one core.
"""

import csv
import sys
import warnings
from fractions import Fraction
from pathlib import Path

from threadpoolctl import threadpool_limits

from curator_node.dataset import StewardWarning
from experiments.problems import load_split
from learner_node.quote import quote
from learner_node.strategies.base import Problem, assumed_size
from learner_node.strategies.cells import CellsStrategy

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "learning" / "results.csv"
DATASETS = ("wdbc", "heart", "CTG-A", "CTG-B", "A", "C", "D", "E")
EPSILONS = ("1", "0.1")
SEED, PROBLEMS = 5000, 9


def main() -> None:
    """See the module."""
    with RESULTS.open(encoding="utf-8") as file:
        measured = {
            (row["dataset"], row["strategy"], row["epsilon"]): float(row["mean"]) for row in csv.DictReader(file)
        }
    for dataset in DATASETS:
        split = load_split(dataset, SEED)
        size = assumed_size([site.steward.round_size for site in split.sites], len(split.source))
        for epsilon in EPSILONS:
            exact = Fraction(epsilon)
            cells = CellsStrategy().cell_count(Problem(split.source, exact, len(split.sites), size, 1, 0))
            (row,) = quote(
                split.source,
                options={"cells": cells},
                epsilons=[exact],
                sites=len(split.sites),
                target_size=size,
                problems=PROBLEMS,
            )
            told = row.simulated
            kinds = " / ".join(f"{value:.2f}" for value in told.by_difficulty.values())
            sys.stdout.write(
                f"| {dataset} | {epsilon} | {row.cells} | {told.mean:.2f} ({told.low:.2f}-{told.high:.2f}) | {kinds} | "
                f"{told.best:.2f} | {measured[dataset, 'cells', epsilon] / 100:.2f} |\n"
            )


if __name__ == "__main__":
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", StewardWarning)
        main()
