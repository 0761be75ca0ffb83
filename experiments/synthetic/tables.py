"""What the tables of the comparison of synthetic data sets hold: its file, and its Markdown."""

from collections.abc import Sequence
from functools import partial

import msgspec

from experiments.campaign.provenance import Provenance
from experiments.publish import markdown
from experiments.publish.files import csv_text
from experiments.publish.numbers import points
from experiments.publish.table import Column, Table, text_table
from experiments.synthetic.generators import DELTA, GENERATORS
from experiments.synthetic.utility import MEASURES

READING = (
    "Mean ± standard deviation over the runs. Accuracies and areas (higher is better) are those of a classifier "
    "trained on the data set and tested on real records; distances (lower is better) are to the private records. "
    f"AIM and MST spend (epsilon, {DELTA:g}) and see the private records; ours spends pure epsilon at each curator and "
    "never sees one."
)
SECONDS = "seconds"
"""Of generating; in the table beside the measures."""


class SyntheticRow(msgspec.Struct, frozen=True):
    """One line of the table: mean and sample standard deviation (0 for one run) over the runs."""

    dataset: str
    generator: str
    epsilon: str
    measure: str
    mean: float
    std: float
    runs: int


def rows_csv(rows: Sequence[SyntheticRow]) -> str:
    """The table: percent, percentage points or seconds with two decimals."""
    return csv_text(
        (
            Column("dataset", lambda row: row.dataset),
            Column("generator", lambda row: row.generator),
            Column("epsilon", lambda row: row.epsilon),
            Column("measure", lambda row: row.measure),
            Column("mean", lambda row: points(row.mean)),
            Column("std", lambda row: points(row.std)),
            Column("runs", lambda row: row.runs),
        ),
        rows,
    )


Line = dict[str, SyntheticRow]
"""What one generator reached on one data set at one epsilon, by measure."""


def build_page(rows: Sequence[SyntheticRow], where: Provenance | None) -> str:
    """The table as Markdown: a section a data set, a line a generator and epsilon."""
    titles = [(name, each.title) for name, each in GENERATORS.items()]
    parts = [
        "# Synthetic data sets: what they are worth",
        markdown.plain(READING),
        markdown.table(text_table("Measures", ("measure", "what it is"), list(MEASURES.items()))),
        markdown.table(text_table("Generators", ("generator", "what it is"), titles)),
    ]
    found: dict[str, dict[tuple[str, str], Line]] = {}
    for row in rows:
        found.setdefault(row.dataset, {}).setdefault((row.generator, row.epsilon), {})[row.measure] = row
    measures = [name for name in (*MEASURES, SECONDS) if any(row.measure == name for row in rows)]
    columns = [
        Column[Line]("generator", lambda line: line[SECONDS].generator),
        Column[Line]("epsilon", lambda line: line[SECONDS].epsilon),
        *(Column[Line](name, partial(_amount, name), number=True) for name in measures),
        Column[Line]("runs", lambda line: line[SECONDS].runs, number=True),
    ]
    for dataset, lines in found.items():
        table = Table.of(dataset, columns, list(lines.values()))
        parts += [f"## {markdown.plain(dataset)}", markdown.table(table)]
    return "\n\n".join([*parts, *markdown.origin([("Synthetic data", where)])]) + "\n"


def _amount(measure: str, line: Line) -> str:
    return f"{line[measure].mean:.1f} ± {line[measure].std:.1f}" if measure in line else "–"
