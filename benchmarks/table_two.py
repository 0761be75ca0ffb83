"""Table 2 of the paper by the laboratory: all seven data sets, a tenth of the 100 runs of each, as a person runs it.

It takes two minutes of two cores. A run costs the same in the whole table, so that takes ten times as long, less the
seconds until the processes have loaded their modules.

The floor is the matrix products of all training steps alone, in the same groups of networks: a layer's forward, and its
two backward. Bernoulli targets, activations, AdamW, and all that a study does beside training come on top.
"""

import tempfile
import time
from itertools import pairwise

import torch

from benchmarks.common import Result, at_most, command_seconds
from lab.reproduction.experiments import EXPERIMENTS, TABLE, Setup
from learner_node.models.network_training import group_size
from learner_node.models.training_options import TrainingOptions

RUNS, DATA_SETS = 10, 7
MOST = 36.0
"""A tenth of six minutes."""
STEPS = 20
"""Steps that are timed of each data set, after one that warms up."""
COMMAND = f"lab study reproduction --full --only experiments=table2 --repeats {RUNS}"


def run() -> list[Result]:
    """See the module."""
    with tempfile.TemporaryDirectory() as folder:
        wall, processor, status = command_seconds(*COMMAND.split(), "--out", folder)
    assert status == 0, COMMAND
    products = [_products(setup) for setup in EXPERIMENTS[TABLE].setups().values()]
    name = f"{DATA_SETS} x {RUNS} runs of Table 2"
    return [
        at_most(name, wall, MOST, "s", note="a process a core"),
        Result(f"{name}, processor time of all", processor, "s"),
        Result("a run of Table 2, processor time", processor / RUNS / DATA_SETS, "s", note="modules loaded among it"),
        Result(
            f"{name}, matrix products alone",
            RUNS * sum(seconds for seconds, _ in products),
            "s",
            note=f"of processor, {RUNS * sum(work for _, work in products) / 1e12:.3g} TFlop; {STEPS} steps timed",
        ),
    ]


def _products(setup: Setup) -> tuple[float, float]:
    """Seconds of processor, and operations, of the matrix products of one run's training."""
    problem = setup.problem
    options = TrainingOptions(
        hidden=problem.hidden, epochs=problem.training.epochs, batch_size=problem.training.batch_size
    )
    count = group_size(problem.target_size, problem.dimensions, options)
    batches = -(-problem.target_size // options.batch_size)
    rows = problem.target_size // batches
    widths = list(pairwise((problem.dimensions, *problem.hidden, 1)))
    layers = [
        (torch.rand(count, rows, inputs), torch.rand(count, inputs, outputs), torch.rand(count, rows, outputs))
        for inputs, outputs in widths
    ]

    def step() -> None:
        for place, (inputs, weights, errors) in enumerate(layers):
            torch.bmm(inputs, weights)
            torch.bmm(inputs.mT, errors)
            if place:  # nobody asks for the gradient at the records
                torch.bmm(errors, weights.mT)

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.inference_mode():
            step()
            start = time.process_time()
            for _ in range(STEPS):
                step()
            taken = (time.process_time() - start) / STEPS
    finally:
        torch.set_num_threads(threads)
    steps = options.epochs * batches * EXPERIMENTS[TABLE].networks(setup) / count
    operations = sum(2 * rows * a * b * (3 if place else 2) for place, (a, b) in enumerate(widths)) * count
    return steps * taken, steps * operations
