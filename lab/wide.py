"""Many attributes of which ten carry the signal: what `cells` learns with attributes chosen first, and without.

`python -m lab.wide FILE --seeds 4` continues FILE, JSON lines, and prints docs/strategies.md's table: area
under the ROC curve on test records, and how far below logistic regression of all private records, tuned
without privacy, that is.

Records are invented. Source, private and test records are drawn apart; the curators and their noise are the real ones.
"""

import argparse
import json
import time
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import roc_auc_score

from curator_node.steward import StewardFile
from lab.comparison.contestants import SELECTING
from lab.comparison.studies import make_study
from lab.splits import BOUND, CLASSES, LABEL_COLUMN, Site, Split
from protocol.record_frames import encode_frame
from protocol.schema import NumericAttribute

FIRST_SEED = 7000
SIGNAL, STRENGTH = 10, 2.0
"""Columns that carry the signal, and the deviation of the log odds."""
SOURCE, TEST = 2000, 6000
FACTORS = 5
"""Of correlated noise columns; each has half of its variance from them, about."""
SMALL = 0.1
"""Deviation of a signal column of low variance; of noise it is 1 and more."""
KINDS = {"equal": 0.5, "low variance": 0.5, "low variance, 25 %": 0.25, "low variance, 10 %": 0.1, "all carry": 0.5}
"""Kind of records -> prevalence. Where variance is low it is that of signal columns, and the noise's are correlated;
where all carry, there is no column of noise."""
WAYS: dict[str, dict[str, object]] = {
    "cells": {},
    "cells, none chosen": {"chosen": 0},
    "cells, chosen": {"chosen": 6},
    "cells, three chosen": {"chosen": 3},
    "without networks": {"networks": False},
    "without networks, none chosen": {"networks": False, "chosen": 0},
    "without networks, chosen": {"networks": False, "chosen": 6},
}
"""Options of `cells`."""
Floats = NDArray[np.float64]
QUIET: dict[str, Any] = {"use_legacy_attributes": False, "l1_ratios": (0.0,)}
"""Of scikit-learn 1.8, what 1.10 does unasked."""


def wide_split(kind: str, columns: int, sites: int, size: int, seed: int) -> Split:
    """Records of a logistic model of ten columns in random places; slopes differ by up to three times.

    Args:
        kind: a key of `KINDS`.
        columns: d, at least 10.
        sites: curators.
        size: records of each, about.
        seed: of everything here.
    """
    rng = np.random.default_rng(seed)
    slopes, carriers = np.zeros(columns), columns if kind == "all carry" else SIGNAL
    places = rng.permutation(columns)[:carriers]
    slopes[places] = rng.choice([-1.0, 1.0], carriers) * rng.uniform(0.5, 1.5, carriers)
    slopes *= STRENGTH / np.linalg.norm(slopes)
    count = SOURCE + sites * size + TEST
    records = rng.standard_normal((count, columns))
    signal = records @ slopes
    if kind.startswith("low"):
        others = np.setdiff1d(np.arange(columns), places)
        records[:, others] += rng.standard_normal((count, FACTORS)) @ rng.normal(0, 0.5, (FACTORS, len(others)))
        records[:, places] *= SMALL
    start = brentq(lambda b: float(expit(signal + b).mean()) - KINDS[kind], -20, 20)
    labels = (rng.random(count) < expit(signal + start)).astype(int)
    names = [f"x{index}" for index in range(columns)]
    frame = pl.DataFrame(records.clip(-BOUND, BOUND), schema=names)
    frame = frame.with_columns(pl.Series(LABEL_COLUMN, labels).cast(pl.String))
    attributes = tuple(NumericAttribute(name, -BOUND, BOUND) for name in names)
    steward = StewardFile(label=LABEL_COLUMN, classes=CLASSES, attributes=attributes, round_size=size)
    parts = [frame[SOURCE + TEST + at * size : SOURCE + TEST + (at + 1) * size] for at in range(sites)]
    return Split(
        problem=f"{kind}, {columns} columns",
        seed=seed,
        schema=steward.schema,
        source=encode_frame(frame[:SOURCE], steward.schema),
        sites=tuple(Site.of(f"site {at + 1}", part, steward) for at, part in enumerate(parts)),
        test=encode_frame(frame[SOURCE : SOURCE + TEST], steward.schema),
        test_labels=labels[SOURCE : SOURCE + TEST] > 0,
    )


def in_site(split: Split) -> Floats:
    """Logistic regression of the pooled private records; its penalty by cross-validation."""
    mean, spread = split.private.numeric.mean(axis=0), split.private.numeric.std(axis=0)
    model = LogisticRegressionCV(
        Cs=np.logspace(-3, 1, 5), cv=5, scoring="neg_log_loss", max_iter=500, use_legacy_attributes=False
    )
    model.fit((split.private.numeric - mean) / spread, split.private_labels)
    found: Floats = model.decision_function((split.test.numeric - mean) / spread)
    return found


def private(split: Split, way: str, epsilon: Fraction) -> Floats:
    """P(class 1) of the test records by a study; curators count, and choose attributes when asked."""
    model = make_study(split, "cells", WAYS[way], epsilon, kinds=SELECTING).model()
    found: Floats = model.probability(split.test)  # type: ignore[union-attr]  # two classes
    return found


def main() -> None:
    """Run what the file lacks, then print means and standard errors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    for name, default in (("seeds", 4), ("sites", 2), ("size", 2000)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--kinds", default=";".join(KINDS), help="with ; between")
    parser.add_argument("--columns", default="200")
    parser.add_argument("--ways", default="cells;cells, none chosen", help="with ; between")
    parser.add_argument("--epsilons", default="1")
    told = parser.parse_args()
    done = [json.loads(line) for line in told.file.read_text().splitlines()] if told.file.exists() else []
    names = ("kind", "columns", "sites", "size", "seed", "epsilon", "way")
    known = {tuple(row[name] for name in names): row["auc"] for row in done}
    columns, kinds = map(int, told.columns.split(",")), told.kinds.split(";")
    with told.file.open("a") as out:

        def run(split: Split, key: tuple[object, ...], way: str, epsilon: str) -> None:
            begun = time.process_time()
            found = in_site(split) if way == "in site" else private(split, way, Fraction(epsilon))
            known[*key, epsilon, way] = float(roc_auc_score(split.test_labels, found))
            row = dict(zip((*names, "auc"), (*key, epsilon, way, known[*key, epsilon, way]), strict=True))
            out.write(json.dumps({**row, "seconds": time.process_time() - begun}) + "\n")
            out.flush()

        for seed, width, kind in product(range(FIRST_SEED, FIRST_SEED + told.seeds), columns, kinds):
            key = (kind, width, told.sites, told.size, seed)
            wanted = [("", "in site"), *product(told.epsilons.split(","), told.ways.split(";"))]
            lacking = [(epsilon, way) for epsilon, way in wanted if (*key, epsilon, way) not in known]
            if not lacking:
                continue
            split = wide_split(kind, width, told.sites, told.size, seed)
            for epsilon, way in lacking:
                run(split, key, way, epsilon)
    rows = pl.read_ndjson(told.file)
    at = [name for name in names if name not in ("epsilon", "way")]
    ceilings = rows.filter(pl.col("way") == "in site").select(*at, ceiling="auc")
    paired = (
        rows.filter(pl.col("way") != "in site")
        .join(ceilings, on=at)
        .with_columns(below=pl.col("ceiling") - pl.col("auc"))
    )
    table = paired.group_by([name for name in names if name != "seed"], maintain_order=True).agg(
        pl.col("ceiling", "auc", "below").mean().round(3),
        (pl.col("below").std() / pl.len().sqrt()).round(3).alias("±"),
        pl.col("seconds").mean().round(1),
        pl.len().alias("runs"),
    )
    with pl.Config(tbl_rows=-1, tbl_cols=-1):
        print(table)  # noqa: T201


if __name__ == "__main__":
    main()
