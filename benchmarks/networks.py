"""Training many small networks: together, one after the other by `train_network`, and by plain torch.

Plain torch is torch.nn with autograd and torch.optim.AdamW on the same batches, on one thread like ours. All three run
in turn on the same sets for a few epochs; a network's seconds are scaled to the epochs of a study. Times are of the
processor, which for one thread is the wall time of an otherwise idle machine.
"""

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch

from benchmarks.common import Result, at_least, median, spread
from learner_node.models.networks import TrainingSet, train_network, train_networks
from learner_node.models.training_options import TrainingOptions

EPOCHS, STUDY_EPOCHS = 3, 40
REPEATS = 3
PRODUCT = 1024


@dataclass(frozen=True)
class Case:
    """An architecture of the paper, with the ratios asked for over plain torch."""

    hidden: tuple[int, ...]
    n: int
    d: int
    together: int
    alone: int
    ratio: float

    def options(self, batch_size: int) -> TrainingOptions:
        """A rate at which both architectures learn."""
        return TrainingOptions(self.hidden, epochs=EPOCHS, batch_size=batch_size, learning_rate=1e-3)

    def sets(self) -> list[TrainingSet]:
        """Normal records, labelled by the sign of a product."""
        rng = np.random.default_rng(0)
        inputs = [rng.normal(size=(self.n, self.d)).astype(np.float32) for _ in range(self.together)]
        return [TrainingSet(X, (X[:, 0] * X[:, 1] > 0).astype(float), None, seed) for seed, X in enumerate(inputs)]

    def products(self) -> int:
        """Floating point operations of an epoch's matrix products, that of the input gradient included."""
        sizes = (self.d, *self.hidden, 1)
        return 6 * self.n * sum(a * b for a, b in pairwise(sizes))


CASES = (
    Case(hidden=(16, 256, 256, 16), n=2500, d=22, together=8, alone=2, ratio=1.3),
    Case(hidden=(32, 32), n=5000, d=25, together=64, alone=4, ratio=5.0),
)
BATCH_SIZES = 64, 128, 256


def train_by_torch(training_set: TrainingSet, options: TrainingOptions) -> torch.nn.Module:
    """One network in the usual way."""
    X, y = (torch.tensor(np.asarray(array, dtype=np.float32)) for array in (training_set.X, training_set.y))
    sizes = (X.shape[1], *options.hidden, 1)
    layers = [torch.nn.Linear(a, b) for a, b in pairwise(sizes)]
    hidden = [module for layer in layers[:-1] for module in (layer, torch.nn.ReLU())]
    network = torch.nn.Sequential(*hidden, layers[-1])
    optimiser = torch.optim.AdamW(network.parameters(), lr=options.learning_rate, weight_decay=options.weight_decay)
    steps = options.epochs * -(-len(X) // options.batch_size)
    falling = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: max(0.02, 1 - step / steps))
    for _ in range(options.epochs):
        for rows in torch.randperm(len(X)).split(options.batch_size):
            loss = torch.nn.functional.binary_cross_entropy_with_logits(network(X[rows])[:, 0], y[rows])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            falling.step()
    return network


def train_one_by_one(sets: Sequence[TrainingSet], options: TrainingOptions) -> None:
    """Each by `train_network`."""
    for each in sets:
        train_network(
            each.X,
            each.y,
            hidden=options.hidden,
            epochs=options.epochs,
            batch_size=options.batch_size,
            learning_rate=options.learning_rate,
            seed=each.seed,
        )


def processor_seconds(tasks: Sequence[Callable[[], object]]) -> list[list[float]]:
    """Of several tasks, run in turn after one round of warming up."""
    times: list[list[float]] = [[] for _ in tasks]
    gc.collect()
    for _ in range(1 + REPEATS):
        for task, taken in zip(tasks, times, strict=True):
            start = time.process_time()
            task()
            taken.append(time.process_time() - start)
    return [taken[1:] for taken in times]


def measure(case: Case, batch_size: int) -> list[Result]:
    """One architecture at one batch size, beside a large product in the same run."""
    options, sets = case.options(batch_size), case.sets()
    few = sets[: case.alone]
    square = torch.randn(PRODUCT, PRODUCT)
    together, one_by_one, plain, product = processor_seconds(
        [
            lambda: train_networks(sets, options),
            lambda: train_one_by_one(few, options),
            lambda: [train_by_torch(each, options) for each in few],
            lambda: [square @ square for _ in range(10)],
        ]
    )
    # Of the same round, so that a busy machine slows both sides of a ratio.
    over_plain = [b / case.alone * case.together / a for a, b in zip(together, plain, strict=True)]
    over_single = [b / case.alone * case.together / a for a, b in zip(together, one_by_one, strict=True)]
    bound = [
        case.products() * EPOCHS * case.together * b / (10 * 2 * PRODUCT**3) / a
        for a, b in zip(together, product, strict=True)
    ]
    taken = [seconds / case.together * STUDY_EPOCHS / EPOCHS for seconds in together]
    name = f"{list(case.hidden)}, batches of {batch_size}"
    about = (
        f"{case.n} x {case.d} records; {case.together} networks together, {EPOCHS} epochs; torch {torch.__version__}"
    )
    return [
        at_least(
            f"{name}: together / plain torch",
            median(over_plain),
            case.ratio,
            "x",
            spread=spread(over_plain),
            note=about,
        ),
        Result(f"{name}: together / train_network", median(over_single), "x", spread=spread(over_single), note=about),
        Result(
            f"{name}: seconds a network",
            median(taken),
            "s",
            spread=spread(taken),
            note=f"scaled to {STUDY_EPOCHS} epochs; one process, one thread",
        ),
        Result(
            f"{name}: share of the bound",
            median(bound) * 100,
            "%",
            spread=spread(bound, 100),
            note=f"the bound is 6 parameters records epochs operations at the speed of a {PRODUCT} x {PRODUCT} product",
        ),
    ]


def run() -> list[Result]:
    """See the module."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return [result for case in CASES for size in BATCH_SIZES for result in measure(case, size)]
    finally:
        torch.set_num_threads(threads)
