"""What an additive question brings beside cells: named attributes, all, chosen ones, and half of the budget for either.

`python -m lab.additive FILE --seeds 4` continues FILE, JSON lines, and prints its tables.
"""

import argparse
import json
import time
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import expit, logit
from sklearn.metrics import roc_auc_score

from lab.comparison.contestants import LACE_OR_HOSPITAL, OF_READMISSION
from lab.comparison.studies import make_study
from lab.problems import PROBLEMS, load_split
from lab.splits import Options, Split

FIRST_SEED = 5000
EPSILONS = ("1", "3/10", "1/10")
SUREST = 1e-4
Floats = NDArray[np.float64]


def learnt(split: Split, strategy: str, options: Options, epsilon: Fraction) -> Floats:
    """P(class 1) of the test records."""
    model = make_study(split, strategy, options, epsilon).model()
    probability: Floats = model.probability(split.test)  # type: ignore[union-attr]  # two classes
    return probability


def half_and_half(split: Split, epsilon: Fraction) -> Floats:
    """Half of the budget for either question, their models' log-odds averaged."""
    models = [learnt(split, name, {}, epsilon / 2) for name in ("cells", "additive")]
    mean: Floats = expit(np.mean([logit(np.clip(model, SUREST, 1 - SUREST)) for model in models], axis=0))
    return mean


WAYS: dict[str, Callable[[Split, Fraction], Floats]] = {
    "cells": lambda split, epsilon: learnt(split, "cells", {}, epsilon),
    "additive": lambda split, epsilon: learnt(split, "additive", {}, epsilon),
    "chosen by half": lambda split, epsilon: learnt(split, "additive", {"choice_share": "1/2"}, epsilon),
    "half and half": half_and_half,
    "published": lambda split, epsilon: learnt(split, "additive", {"attributes": list(LACE_OR_HOSPITAL)}, epsilon),
    "named": lambda split, epsilon: learnt(split, "additive", {"attributes": list(OF_READMISSION)}, epsilon),
}


OF_READMISSION_ALONE = {"named", "published"}


def main() -> None:
    """Run what the file lacks, then print means and standard errors by problem and epsilon."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--problems", default=",".join(PROBLEMS))
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--epsilons", default=",".join(EPSILONS))
    told = parser.parse_args()
    done = [json.loads(line) for line in told.file.read_text().splitlines()] if told.file.exists() else []
    known = {(row["problem"], row["seed"], row["epsilon"], row["way"]) for row in done}
    with told.file.open("a") as out:
        for seed in range(FIRST_SEED, FIRST_SEED + told.seeds):
            for problem in told.problems.split(","):
                ways = [
                    way
                    for way in told.ways.split(",")
                    if way not in OF_READMISSION_ALONE or problem.startswith("readmission")
                ]
                for epsilon, way in product(told.epsilons.split(","), ways):
                    if (problem, seed, epsilon, way) in known:
                        continue
                    split, begun = load_split(problem, seed), time.process_time()
                    found, truth = WAYS[way](split, Fraction(epsilon)), split.test_labels
                    row = {
                        "problem": problem,
                        "seed": seed,
                        "epsilon": epsilon,
                        "way": way,
                        "accuracy": 100 * float(np.mean((found > 0.5) == truth)),
                        "auc": 100 * float(roc_auc_score(truth, found)),
                        "seconds": time.process_time() - begun,
                    }
                    out.write(json.dumps(row) + "\n")
                    out.flush()
    rows = pl.read_ndjson(told.file)
    mean = [pl.col(name).mean().round(1) for name in ("accuracy", "auc", "seconds")]
    error = [(pl.col(name).std() / pl.len().sqrt()).round(1).alias(f"{name} ±") for name in ("accuracy", "auc")]
    keys = ["problem", "epsilon", "way"]
    with pl.Config(tbl_rows=-1, tbl_cols=-1):
        print(rows.group_by(keys, maintain_order=True).agg(*mean, *error, pl.len().alias("runs")))  # noqa: T201


if __name__ == "__main__":
    main()
