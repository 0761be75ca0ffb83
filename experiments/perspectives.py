"""Accuracy of the strategies of the paper's perspectives against `cells`, on the paper's problems: development seeds.

Not among `python -m benchmarks`, which measures time: `python -m experiments.perspectives --help`. The noise is
OpenDP's, the curators are real and called in process. Every finished study is a line of a file, so that a run can be
continued; the table is made from the file.
"""

import argparse
import json
import sys
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from curator_node.site import temporary_site
from curator_node.steward import StewardFile
from experiments.campaign.curators import roomy_policy
from experiments.paper.draws import Draw
from experiments.paper.problems import PAPER_DATASETS, draw
from learner_node.learn import learn
from learner_node.strategies.base import class_probabilities
from protocol.envelopes import SigningKey
from protocol.records import Records, encode_frame
from protocol.schema import NumericAttribute
from simulations.carriers.direct import direct_federation

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
LABEL, CLASSES, BOUND = "label", ("0", "1"), 32.0


class Site:
    """One run's records behind a curator that answers whatever is asked."""

    def __init__(self, data: Draw) -> None:
        attributes = tuple(NumericAttribute(name=name, lower=-BOUND, upper=BOUND) for name in data.attributes)
        steward = StewardFile(label=LABEL, classes=CLASSES, attributes=attributes, round_size=len(data.oracle))
        frame = _frame(data, data.oracle).with_columns(pl.Series(LABEL, data.oracle_labels).cast(pl.String))
        self._key = SigningKey.generate()
        self._site = temporary_site(frame, steward, roomy_policy(self._key, name="site"))
        self._source = encode_frame(_frame(data, data.source), steward.schema)
        self._test: Records = encode_frame(_frame(data, data.test), steward.schema)
        self._labels = data.test_labels > 0

    def study(self, strategy: str, options: dict[str, Any], epsilon: Fraction, seed: int) -> dict[str, float]:
        """Test accuracy in percent, log loss in nats a record, and seconds, of one study."""
        federation = direct_federation({"site": self._site}, self._key)
        start = time.process_time()
        learned = learn(
            federation, lambda _: self._source, strategy=strategy, options=options, epsilon=epsilon, seed=seed
        )
        probability = np.clip(class_probabilities(learned.model(), self._test)[:, 1], 1e-6, 1 - 1e-6)
        return {
            "accuracy": 100 * float(np.mean((probability > 0.5) == self._labels)),
            "log_loss": -float(np.mean(np.log(np.where(self._labels, probability, 1 - probability)))),
            "seconds": time.process_time() - start,
        }


def main(arguments: list[str]) -> int:
    """Run what is missing of the chosen studies and print the table."""
    parser = argparse.ArgumentParser(prog="python -m experiments.perspectives", description=__doc__)
    parser.add_argument("file", type=Path, help="finished studies, one JSON line each; read and continued")
    parser.add_argument("--datasets", default=",".join(PAPER_DATASETS))
    parser.add_argument("--settings", default=";".join(SETTINGS), help="separated by semicolons")
    parser.add_argument("--epsilons", default="1,1/10")
    parser.add_argument("--first-seed", type=int, default=5000)
    parser.add_argument("--seeds", type=int, default=5)
    chosen = parser.parse_args(arguments)
    rows = [json.loads(line) for line in chosen.file.read_text().splitlines()] if chosen.file.exists() else []
    done = {(row["dataset"], row["seed"], row["epsilon"], row["setting"]) for row in rows}
    settings, epsilons = chosen.settings.split(";"), chosen.epsilons.split(",")
    for seed in range(chosen.first_seed, chosen.first_seed + chosen.seeds):
        for dataset in chosen.datasets.split(","):
            missing = [
                (epsilon, name)
                for epsilon in epsilons
                for name in settings
                if (dataset, seed, epsilon, name) not in done
            ]
            site = Site(draw(dataset, seed)) if missing else None
            for epsilon, name in missing:
                if site is None:
                    raise AssertionError
                strategy, options = SETTINGS[name]
                if strategy.startswith("paper-"):
                    paper = PAPER_DATASETS[dataset]
                    options = {"rounds": paper.rounds, "reweight": paper.reweight}
                found = site.study(strategy, options, Fraction(epsilon), seed)
                row = {"dataset": dataset, "seed": seed, "epsilon": epsilon, "setting": name, **found}
                rows.append(row)
                with chosen.file.open("a") as out:
                    out.write(json.dumps(row) + "\n")
    for epsilon in epsilons:
        sys.stdout.write(table([row for row in rows if row["epsilon"] == epsilon], f"epsilon {epsilon}") + "\n")
    return 0


def table(rows: list[dict[str, Any]], title: str) -> str:
    """Markdown: mean accuracy of the baseline, and paired differences of the others with their standard errors."""
    datasets = [name for name in PAPER_DATASETS if any(row["dataset"] == name for row in rows)]
    found = {(row["dataset"], row["setting"], row["seed"]): row for row in rows}
    lines = [f"| {title} | {' | '.join(datasets)} | seconds |", "|---" * (len(datasets) + 2) + "|"]
    for setting in [name for name in SETTINGS if any(row["setting"] == name for row in rows)]:
        cells = []
        for dataset in datasets:
            pairs = [
                (row["accuracy"], found[dataset, BASELINE, seed]["accuracy"])
                for (where, what, seed), row in found.items()
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
        seconds = np.median([row["seconds"] for row in rows if row["setting"] == setting])
        lines.append(f"| {setting} | {' | '.join(cells)} | {seconds:.1f} |")
    return "\n".join(lines) + "\n"


def _frame(data: Draw, records: np.ndarray) -> pl.DataFrame:
    return pl.DataFrame({name: records[:, index] for index, name in enumerate(data.attributes)})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
