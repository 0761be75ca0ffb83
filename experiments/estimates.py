"""How often the learners' accuracy intervals hold, and how calibrated their probabilities are, on all data sets.

`python -m experiments.estimates --seeds 5300:5304 --out FILE` adds one JSON line a run to FILE; `--show`
sums FILE up. Runs are made with their own labels and with coin flips of the same share in their place, where no model
can beat the majority class. No curator is involved: exact counts and seeded noise, in the form that curators answer.
"""

import argparse
import json
import sys
from collections import defaultdict
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from curator_node.steward import read_steward_file
from experiments.paper.problems import PAPER_DATASETS, draw
from experiments.paper.records import draw_frame, draw_steward
from learner_node.label_model import Observation, cell_count_rule, fit_with_cell_posterior
from learner_node.label_model.cell_networks import train_cell_networks
from learner_node.source import coordinates, kmeans_cells, standardising_map
from learner_node.strategies.cells import CellsModel
from learner_node.uncertainty import LEVEL, calibrated, calibration, estimate_accuracy
from protocol.noise import DiscreteLaplace
from protocol.records import Records, encode_frame, encode_labels
from simulations.datasets import load_dataset
from simulations.datasets.splits import split_parts, split_sites
from simulations.expectations import holds

HOSPITALS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "heart": ("heart", "site", {}),
    "heart-cleveland": ("heart", "site", {}),
    "wdbc": ("wdbc", "random", {"fractions": {"north": 0.4, "east": 0.3, "south": 0.3}}),
}
EPSILONS = (1.0, 0.3, 0.1)
PARTS = {"private": 0.5, "source": 0.25, "test": 0.25}
INFINITE = 10**9
Labels = NDArray[Any]


def load(name: str, seed: int) -> tuple[Records, Records, Labels, Records, Labels, int]:
    """Source, private records and labels, test records and labels, number of sites."""
    if name in PAPER_DATASETS:
        drawn = draw(name, seed)
        schema = draw_steward(drawn).schema
        source, private, test = (
            encode_frame(draw_frame(drawn, rows), schema) for rows in (drawn.source, drawn.oracle, drawn.test)
        )
        return source, private, drawn.oracle_labels > 0, test, drawn.test_labels > 0, 1
    dataset_name, how, options = HOSPITALS[name]
    dataset = load_dataset(dataset_name)
    steward = read_steward_file(dataset.schema_text)
    rng = np.random.default_rng([1, seed])
    split = {
        site: split_parts(frame, PARTS, rng, dataset.unit)
        for site, frame in split_sites(dataset, how, rng, **options).items()
    }
    held = ["cleveland"] if name == "heart-cleveland" else list(split)
    frames = {part: pl.concat([split[site][part] for site in split]) for part in ("private", "test")}
    private, test = (encode_frame(frames[part], steward.schema) for part in ("private", "test"))
    labels, test_labels = (encode_labels(frames[part][steward.label], steward.classes) for part in ("private", "test"))
    source = encode_frame(pl.concat([split[site]["source"] for site in held]), steward.schema)
    return source, private, labels, test, test_labels, len(split)


def calibration_error(probability: NDArray[np.float64], labels: Labels, bins: int = 15) -> float:
    """Expected calibration error over bins of equally many records."""
    order = np.array_split(np.argsort(probability), bins)
    return float(sum(len(rows) * abs(probability[rows].mean() - labels[rows].mean()) for rows in order) / len(labels))


def one(name: str, seed: int, epsilon: float, *, coin: bool) -> dict[str, Any]:
    """One run; `coin` puts coin flips in the labels' place."""
    source, private, labels, test, test_labels, sites = load(name, seed)
    rng = np.random.default_rng([99, seed, int(1000 * epsilon), int(coin)])
    share = float(labels.mean())
    if coin:
        labels, test_labels = rng.random(len(labels)) < share, rng.random(len(test_labels)) < share
    features = standardising_map(source)
    partition = kmeans_cells(source, features, cell_count_rule(len(source), len(private), epsilon, sites), seed)
    counts = np.zeros((partition.cell_count(source.schema), 2))
    np.add.at(counts, (partition.cells(private), labels.astype(int)), 1)
    counts += DiscreteLaplace(Fraction(1 / epsilon)).simulate(rng, (sites, *counts.shape)).sum(axis=0)
    points = coordinates(features, source)
    smooth, posterior = fit_with_cell_posterior(
        points, Observation(partition.cells(source), counts, 1 / epsilon, sites), seed=seed
    )
    model = CellsModel(features, smooth, train_cell_networks(points, posterior, seed=seed))
    probability = model.uncalibrated(points)
    told = estimate_accuracy(probability, posterior, seed=seed)
    raw = model.uncalibrated(coordinates(features, test))
    after = calibrated(raw, calibration(probability, posterior, seed=seed))
    ones = float(np.mean(raw > 0.5))
    accuracy = float(np.mean((raw > 0.5) == test_labels)) if not coin else ones * share + (1 - ones) * (1 - share)
    return {
        "dataset": name,
        "seed": seed,
        "epsilon": epsilon,
        "coin": coin,
        "accuracy": accuracy,
        "majority": float(max(share, 1 - share)),
        "expected": told.accuracy,
        "low": told.low,
        "high": told.high,
        "holds": holds(told, accuracy, INFINITE if coin else len(test_labels)),
        "verdict": told.p_value <= LEVEL,
        "error_before": calibration_error(raw, test_labels),
        "error_after": calibration_error(after, test_labels),
    }


def show(path: Path) -> None:
    """Print Markdown tables of a file's runs: by data set, and how far the estimates are off over all of them."""
    groups: dict[tuple[bool, float, str], list[dict[str, Any]]] = defaultdict(list)
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        for name in (row["dataset"], "all"):
            groups[row["coin"], row["epsilon"], name].append(row)
    columns = ("accuracy", "expected", "low", "high", "holds", "verdict", "error_before", "error_after")
    sys.stdout.write(
        f"| labels | epsilon | data set | runs | {' | '.join(columns)} |\n|{'---|' * (4 + len(columns))}\n"
    )
    for (coin, epsilon, name), rows in sorted(groups.items(), key=lambda item: (item[0][0], -item[0][1], item[0][2])):
        means = " | ".join(f"{np.mean([row[column] for row in rows]):.3f}" for column in columns)
        sys.stdout.write(f"| {'coin flips' if coin else 'own'} | {epsilon} | {name} | {len(rows)} | {means} |\n")
    sys.stdout.write(f"\n| labels | epsilon | runs | bias | mean error | mean width |\n|{'---|' * 6}\n")
    for (coin, epsilon, name), rows in sorted(groups.items(), key=lambda item: (item[0][0], -item[0][1])):
        if name == "all":
            off = np.array([row["expected"] - row["accuracy"] for row in rows])
            width = np.mean([row["high"] - row["low"] for row in rows])
            sys.stdout.write(
                f"| {'coin flips' if coin else 'own'} | {epsilon} | {len(rows)} | {off.mean():+.3f} | "
                f"{np.abs(off).mean():.3f} | {width:.2f} |\n"
            )


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="5300:5310")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--show", action="store_true")
    arguments = parser.parse_args()
    if arguments.show:
        show(arguments.out)
        return
    first, last = map(int, arguments.seeds.split(":"))
    with threadpool_limits(1), arguments.out.open("a", encoding="utf-8") as file:
        for seed in range(first, last):
            for epsilon in reversed(EPSILONS):
                for name in (*PAPER_DATASETS, *HOSPITALS):
                    for coin in (False, True):
                        file.write(json.dumps(one(name, seed, epsilon, coin=coin)) + "\n")
                        file.flush()


if __name__ == "__main__":
    main()
