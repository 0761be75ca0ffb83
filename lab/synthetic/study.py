"""The study `synthetic`: synthetic data sets for the same records at the same epsilon, and what each is worth."""

import time
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

import msgspec
import numpy as np

from expril.report.document import PAPER, Document, Facts, Section, Text
from expril.report.numbers import points
from expril.report.provenance import Provenance
from expril.report.table import Column, Table, attributes
from lab.cells import INFINITE, TaskCell, by_seed, epsilon_order, grouped, shortest
from lab.peers import discrete, graphical, marginals, peer_versions
from lab.peers.environment import peers_python
from lab.problems import PROBLEMS, check_problems, load_split
from lab.studies import document_of
from lab.study import Order, Part, Size, Study
from lab.synthetic.generators import DELTA, GENERATORS
from lab.synthetic.utility import BINS, MEASURES, Columns, WeightedRecords, utility
from protocol.rationals import parse_rational
from simulations.campaign.store import Task

DISTANCES = ("marginal-tv", "wasserstein", "pair-tv", "label-gap")
SECONDS = "seconds"
"""Of generating; in the tables beside the measures."""
READING = (
    "Mean ± standard deviation over the runs. Accuracies and areas (higher is better) are those of a classifier "
    "trained on the data set and tested on real records; distances (lower is better) are to the private records. "
    f"AIM and MST spend (epsilon, {DELTA:g}) and see the private records; ours spends pure epsilon at each curator and "
    "never sees one."
)


class Finished(TaskCell, frozen=True):
    """One data set that was generated and measured: the problem is a key of `PROBLEMS`, the maker of `GENERATORS`."""

    maker: str = msgspec.field(name="generator")
    values: dict[str, float]  # key of `MEASURES` -> value; only the `DISTANCES` where it is no training data
    seconds: float  # of generating


class SyntheticRow(msgspec.Struct, frozen=True):
    """One line of the table: mean and sample standard deviation (0 for one run) over the runs."""

    dataset: str
    generator: str
    epsilon: str
    measure: str
    mean: float
    std: float
    runs: int


class Findings(msgspec.Struct, frozen=True):
    """Every measure of every generator at every epsilon, in the order of problems, generators and measures."""

    rows: tuple[SyntheticRow, ...]
    provenance: Provenance | None = None


def tasks(order: Order) -> list[Task]:
    """All cells, the first run of everything before the second of anything; what is not private is made once a run."""
    private = shortest(order.size.epsilons)
    return order.tasks("datasets", "generators", lambda name: private if GENERATORS[name].private else (INFINITE,))


def compute(task: Task) -> Finished:
    """Generate one data set and measure it."""
    generator = GENERATORS[task.maker]
    split = load_split(task.problem, task.seed)
    matrices = split.matrices
    start = time.monotonic()
    made = generator.generate(split, Fraction(0) if task.epsilon == INFINITE else parse_rational(task.epsilon))
    seconds = time.monotonic() - start
    private = WeightedRecords.of(matrices.train, matrices.labels)
    test = WeightedRecords.of(matrices.test, matrices.test_labels)
    values = utility(made, private, test, Columns.of(matrices.columns, matrices.lower, matrices.upper))
    rounded = {name: round(values[name], 6) for name in (MEASURES if generator.trains else DISTANCES)}
    return Finished(*task, rounded, round(seconds, 3))


def findings(cells: Mapping[str, Sequence[Finished]], provenance: Provenance | None = None) -> Findings:
    """Means over the runs, whatever is still missing."""
    groups = grouped(
        by_seed(cells["cells"]),
        lambda cell: (cell.problem, cell.epsilon, cell.maker),
        list(PROBLEMS),
        epsilon_order,
        list(GENERATORS),
    )
    rows = []
    for (problem, epsilon, generator), held in groups.items():
        columns = {name: [cell.values[name] for cell in held] for name in MEASURES if name in held[0].values}
        for measure, values in (columns | {SECONDS: [cell.seconds for cell in held]}).items():
            std = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
            rows.append(SyntheticRow(problem, generator, epsilon, measure, float(np.mean(values)), std, len(values)))
    return Findings(tuple(rows), provenance)


def document(found: Findings) -> Document:
    """What is measured and made, then a table a data set: a line a generator and epsilon."""
    datasets = dict.fromkeys(row.dataset for row in found.rows)
    measures = [name for name in (*MEASURES, SECONDS) if any(row.measure == name for row in found.rows)]
    titles = [(name, each.title) for name, each in GENERATORS.items()]
    return document_of(
        "synthetic",
        [
            *(
                Section(name, [Text(READING) if name in list(datasets)[:1] else None, _table(found, name, measures)])
                for name in datasets
            ),
            Section("Measures", [Facts(list(MEASURES.items()), "glossary")], PAPER),
            Section("Generators", [Facts(titles, "glossary")], PAPER),
        ],
        found.provenance,
        {
            "synthetic.csv": Table.of(
                "synthetic data",
                [
                    *attributes("dataset generator epsilon measure"),
                    *attributes("mean std", points),
                    *attributes("runs"),
                ],
                found.rows,
            )
        },
    )


def _table(found: Findings, dataset: str, measures: Sequence[str]) -> Table[Mapping[str, SyntheticRow]]:
    lines: dict[tuple[str, str], dict[str, SyntheticRow]] = {}
    for row in found.rows:
        if row.dataset == dataset:
            lines.setdefault((row.generator, row.epsilon), {})[row.measure] = row

    def show(measure: str) -> Callable[[Mapping[str, SyntheticRow]], str]:
        return lambda line: f"{line[measure].mean:.1f} ± {line[measure].std:.1f}" if measure in line else "–"

    return Table.of(
        dataset,
        [
            Column("generator", lambda line: line[SECONDS].generator, names=True),
            Column("epsilon", lambda line: line[SECONDS].epsilon),
            *(Column(name, show(name), number=True, title=MEASURES.get(name, "")) for name in measures),
            Column("runs", lambda line: line[SECONDS].runs, number=True),
        ],
        list(lines.values()),
        "dense",
    )


def needs_environment(order: Order) -> bool:
    """Whether AIM or MST is asked for."""
    return any(GENERATORS[name].needs_environment for name in order.size.axes["generators"])


def check(order: Order) -> None:
    """No environment for AIM and MST, or records that are not to be had, stop an order before any work."""
    if needs_environment(order):
        peers_python()
    check_problems(order)


def settings(order: Order) -> Mapping[str, object]:
    """What the numbers depend on."""
    return {
        "seed": order.seed,
        "delta": DELTA,
        "bins": [discrete.BINS, BINS],
        "fit_steps": graphical.FIT_STEPS,
        "aim": [marginals.MOST_ROUNDS, marginals.MOST_MEGABYTES, marginals.MOST_CANDIDATE_CELLS],
    }


STUDY = Study(
    name="synthetic",
    parts=[Part("cells", Finished, tasks, compute, settings)],
    findings=findings,
    document=document,
    choices={"generators": tuple(GENERATORS), "datasets": tuple(PROBLEMS)},
    short=Size(
        2,
        ("1", "0.1"),
        {"generators": ("cells", "source", "real", "fresh"), "datasets": ("A", "wdbc")},
        "half a minute",
    ),
    full=Size(
        2,
        ("1", "0.1"),
        {"generators": tuple(GENERATORS), "datasets": ("A", "C", "CTG-A", "heart", "wdbc")},
        "nine minutes",
    ),
    seed=1000,
    width=170,
    check=check,
    read_versions=lambda order: peer_versions() if needs_environment(order) else {},
)
