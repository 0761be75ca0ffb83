"""Accuracy of the strategies of the paper's perspectives against `cells`, on the paper's problems: development seeds.

Not among `python -m benchmarks`, which measures time: `python -m lab.perspectives --help`. The noise is
OpenDP's, the curators are real and called in process. Every finished study is a line of a file, so that a run can be
continued; the table is made from the file.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from lab.comparison.studies import run_study
from lab.problems import PAPER_DATASETS, load_split
from simulations.campaign.names import parse_names
from simulations.campaign.runner import Campaign
from simulations.campaign.store import Task, read_cells

BASELINE = "cells"
SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "cells": ("cells", {}),
    "random-subsets": ("random-subsets", {}),
    "random-subsets, 4 rounds": ("random-subsets", {"rounds": 4}),
    "informative": ("informative", {}),
    "informative, 3 pairs": ("informative", {"pairs": 3}),
    "varying-bins": ("varying-bins", {}),
    "varying-bins, cells": ("varying-bins", {"cells": True}),
    "varying-bins, cells, 4 rounds": ("varying-bins", {"cells": True, "rounds": 4}),
    "new-features": ("new-features", {}),
    "new-features, random": ("new-features", {"learned": False}),
    "new-features, score": ("new-features", {"score": True, "projections": 0}),
    "new-features, shares 3:1": ("new-features", {"shares": [3, 1]}),
    "adaptive-cells": ("adaptive-cells", {}),
    "adaptive-cells, shares 1:3": ("adaptive-cells", {"shares": [1, 3]}),
    "adaptive-cells, shares 3:1": ("adaptive-cells", {"shares": [3, 1]}),
    "adaptive-cells, tree": ("adaptive-cells", {"tree": True}),
    "paper-c": ("paper-c", {}),
    "paper-i": ("paper-i", {}),
}


class Study(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One finished study.

    Attributes:
        dataset: key of `PAPER_DATASETS`.
        seed: of the split and of the learner.
        epsilon: exact text.
        setting: key of `SETTINGS`.
        accuracy: on the test records, in percent.
        log_loss: in nats a record.
        seconds: of the processor.
    """

    dataset: str
    seed: int
    epsilon: str
    setting: str
    accuracy: float
    log_loss: float
    seconds: float

    @property
    def key(self) -> Task:
        """Which study it is."""
        return Task(self.dataset, self.setting, self.epsilon, self.seed)


def compute(task: Task) -> Study:
    """Make one study."""
    split = load_split(task.problem, task.seed)
    strategy, options = SETTINGS[task.maker]
    if strategy.startswith("paper-"):
        paper = PAPER_DATASETS[task.problem]
        options = {"rounds": paper.rounds, "reweight": paper.reweight}
    start = time.process_time()
    probability = np.clip(run_study(split, strategy, options, Fraction(task.epsilon)).probability, 1e-6, 1 - 1e-6)
    seconds = time.process_time() - start
    right = (probability > 0.5) == split.test_labels
    log_loss = -float(np.mean(np.log(np.where(split.test_labels, probability, 1 - probability))))
    return Study(task.problem, task.seed, task.epsilon, task.maker, 100 * float(np.mean(right)), log_loss, seconds)


def main(arguments: Sequence[str]) -> None:
    """Run what is missing of the chosen studies and print the table."""
    parser = argparse.ArgumentParser(prog="python -m lab.perspectives", description=__doc__)
    parser.add_argument("file", type=Path, help="finished studies, one JSON line each; read and continued")
    parser.add_argument("--datasets", default=",".join(PAPER_DATASETS))
    parser.add_argument("--settings", default=";".join(SETTINGS), help="separated by semicolons")
    parser.add_argument("--epsilons", default="1,1/10")
    parser.add_argument("--first-seed", type=int, default=5000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1)
    chosen = parser.parse_args(arguments)
    epsilons = chosen.epsilons.split(",")
    tasks = [
        Task(dataset, name, epsilon, seed)
        for seed in range(chosen.first_seed, chosen.first_seed + chosen.seeds)
        for dataset in parse_names(chosen.datasets, PAPER_DATASETS, "data set")
        for epsilon in epsilons
        for name in chosen.settings.split(";")
    ]
    command = " ".join(["python -m lab.perspectives", *arguments])
    campaign = Campaign("perspectives", chosen.file.parent, chosen.first_seed, chosen.jobs, command)
    campaign.run_file(chosen.file, tasks, compute, Study)
    studies = read_cells(chosen.file, Study)
    for epsilon in epsilons:
        sys.stdout.write(table([each for each in studies if each.epsilon == epsilon], f"epsilon {epsilon}") + "\n")


def table(studies: Sequence[Study], title: str) -> str:
    """Markdown: mean accuracy of the baseline, and paired differences of the others with their standard errors."""
    datasets = [name for name in PAPER_DATASETS if any(each.dataset == name for each in studies)]
    found = {(each.dataset, each.setting, each.seed): each.accuracy for each in studies}
    lines = [f"| {title} | {' | '.join(datasets)} | seconds |", "|---" * (len(datasets) + 2) + "|"]
    for setting in [name for name in SETTINGS if any(each.setting == name for each in studies)]:
        cells = []
        for dataset in datasets:
            pairs = [
                (accuracy, found[dataset, BASELINE, seed])
                for (where, what, seed), accuracy in found.items()
                if (where, what) == (dataset, setting) and (dataset, BASELINE, seed) in found
            ]
            own = np.array([pair[0] for pair in pairs])
            differences = own - [pair[1] for pair in pairs]
            if not pairs:
                cells.append("")
            elif setting == BASELINE:
                cells.append(f"{own.mean():.1f}")
            else:
                error = differences.std(ddof=1) / np.sqrt(len(pairs)) if len(pairs) > 1 else np.nan
                cells.append(f"{differences.mean():+.1f} ± {error:.1f}")
        seconds = np.median([each.seconds for each in studies if each.setting == setting])
        lines.append(f"| {setting} | {' | '.join(cells)} | {seconds:.1f} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main(sys.argv[1:])
