"""The problems of all experiments: whose records are private, what the learner holds, and what is tested.

Seven are those of the paper's Table 1, as its reproduction froze them. Their training settings are not the paper's,
which prints none; they are chosen so that a network trained on the oracle's own records is about as accurate as the
paper's (column h* of Table 2). ADR 4 has the measurements. The others are of real records (`hospitals`).
"""

from functools import lru_cache, partial

import numpy as np

from lab.hospitals import HALVES, HOSPITALS, WDBC_UNEQUAL, hospital_split, scenario_split
from lab.paper.cardiotocography import CTG_A_ORACLE, draw_ctg_a, draw_ctg_b, draw_ctg_pathologic
from lab.paper.draws import Draw
from lab.paper.synthetic import draw_a, draw_b, draw_c, draw_d, draw_e
from lab.splits import PaperDataset, Problem, Split, Training, split_of
from simulations.campaign.study import Order

KEPT_SPLITS = 4
"""Splits that a process keeps, so that the strategies of one run do not each make it anew."""


_DEEP = (16, 256, 256, 16)
_SHALLOW = (32, 32)
_DEEP_TRAINING = Training(epochs=17, batch_size=128, learning_rate=5e-3, weight_decay=1e-4)
_CTG_TRAINING = Training(epochs=30, batch_size=64, learning_rate=3e-3, weight_decay=1e-4)
_SHALLOW_TRAINING = Training(epochs=15, batch_size=256, learning_rate=5e-3, weight_decay=1e-4)

PAPER_DATASETS: dict[str, PaperDataset] = {
    row.name: row
    for row in (
        PaperDataset("A", draw_a, 2, _DEEP, 2, False, 2, 2500, _DEEP_TRAINING),
        PaperDataset("B", draw_b, 4, _DEEP, 2, False, 2, 2500, _DEEP_TRAINING),
        PaperDataset("C", draw_c, 10, _SHALLOW, 2, True, 3, 5000, _SHALLOW_TRAINING),
        PaperDataset("D", draw_d, 15, _SHALLOW, 2, True, 3, 5000, _SHALLOW_TRAINING),
        PaperDataset("E", draw_e, 25, _SHALLOW, 2, True, 3, 5000, _SHALLOW_TRAINING),
        PaperDataset("CTG-A", draw_ctg_a, 22, _DEEP, 2, False, 2, 709, _CTG_TRAINING),
        PaperDataset("CTG-B", draw_ctg_b, 22, _DEEP, 2, True, 3, 708, _CTG_TRAINING),
    )
}
"""By name, in the order of Table 1."""
BIG_RUNS = 2
"""Runs of a problem on which a study takes the better part of a minute."""


def draw(name: str, seed: int) -> Draw:
    """The data of one run.

    Raises:
        ValueError: No data set has that name, or the seed is negative.
        DataUnavailableError: CTG's workbook is not to be had.
    """
    if name not in PAPER_DATASETS:
        raise ValueError(f"the paper has no data set {name!r}; it has {', '.join(PAPER_DATASETS)}")
    return PAPER_DATASETS[name].draw(seed)


def _paper(name: str, seed: int) -> Split:
    return split_of(draw(name, seed), seed, PAPER_DATASETS[name])


def _pathologic(seed: int) -> Split:
    return split_of(draw_ctg_pathologic(seed), seed, declared=CTG_A_ORACLE)


def _paper_problem(row: PaperDataset) -> Problem:
    title = f"the paper's {row.name}: {row.target_size} private records, {row.dimensions} attributes"
    return Problem(row.name, title, partial(_paper, row.name), network=row.network)


PROBLEMS: dict[str, Problem] = {
    **{row.name: _paper_problem(row) for row in PAPER_DATASETS.values()},
    **{
        name: Problem(name, title, partial(hospital_split, name))
        for name, title in (
            ("heart", "heart disease in four hospitals, unlabelled records of all"),
            ("heart-cleveland", "the same hospitals and test records, unlabelled records of Cleveland alone"),
            ("wdbc", "breast cancer, split over three sites at random"),
        )
    },
    **{
        name: Problem(name, title, partial(scenario_split, name), most_runs=BIG_RUNS, averaged=False, rare=rare)
        for name, title, rare in (
            ("readmission", "diabetes, any later readmission (34 %), four sites with 35,000 patients", False),
            ("readmission-30", "the same patients, readmission within 30 days (7 %)", True),
        )
    },
    "CTG-pathologic": Problem(
        "CTG-pathologic",
        "CTG-A's records and division, pathologic states (8 %) against the rest",
        _pathologic,
        network=PAPER_DATASETS["CTG-A"].network,
        averaged=False,
        rare=True,
    ),
}
"""By name, in the order of the tables."""


@lru_cache(KEPT_SPLITS)
def load_split(problem: str, seed: int) -> Split:
    """The records of one run, the same for every strategy.

    Args:
        problem: key of `PROBLEMS`.
        seed: >= 0. Those from 5000 on are for development, those below for what is reported.

    Raises:
        ValueError: No problem has that name, or the seed is negative.
        DataUnavailableError: The files are not to be had.
    """
    if problem not in PROBLEMS:
        raise ValueError(f"no problem is called {problem!r}; there are {', '.join(PROBLEMS)}")
    return PROBLEMS[problem].split(seed)


def load_halves(problem: str, seed: int) -> Split:
    """Another division of the hospitals: half of the records private, a quarter the learner's, a quarter for the test.

    The paper's problems are divided as `load_split` divides them. No declared size is right here.

    Args:
        problem: key of `PROBLEMS`.
        seed: >= 0; a split of its own.
    """
    if problem not in HOSPITALS:
        return load_split(problem, seed)
    return hospital_split(problem, seed, np.random.default_rng([1, seed]), parts=HALVES, wdbc_sites=WDBC_UNEQUAL)


def check_problems(order: Order) -> None:
    """Stop an order before any work where a problem's records are not to be had: raises DataUnavailableError."""
    axes = order.size.axes
    for problem in axes.get("problems", axes.get("datasets", ())):
        load_split(problem, order.seed)
