"""What the tables of the comparison of synthetic data sets hold: its file, and its Markdown."""

from collections.abc import Sequence

import msgspec

from expril.report import markdown
from expril.report.files import csv_text
from expril.report.numbers import points
from expril.report.provenance import Provenance
from expril.report.table import attributes, text_table
from lab.synthetic.generators import DELTA, GENERATORS
from lab.synthetic.utility import MEASURES

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
    head = attributes("dataset generator epsilon measure")
    return csv_text((*head, *attributes("mean std", points), *attributes("runs")), rows)


def build_page(rows: Sequence[SyntheticRow], where: Provenance | None) -> str:
    """The table as Markdown: a section a data set, a line a generator and epsilon."""
    titles = [(name, each.title) for name, each in GENERATORS.items()]
    parts = [
        "# Synthetic data sets: what they are worth",
        markdown.plain(READING),
        markdown.table(text_table("Measures", ("measure", "what it is"), list(MEASURES.items()))),
        markdown.table(text_table("Generators", ("generator", "what it is"), titles)),
    ]
    found = {(row.dataset, row.generator, row.epsilon, row.measure): row for row in rows}
    measures = [name for name in (*MEASURES, SECONDS) if any(row.measure == name for row in rows)]
    for dataset in dict.fromkeys(row.dataset for row in rows):
        lines = []
        for place in dict.fromkeys((r.dataset, r.generator, r.epsilon) for r in rows if r.dataset == dataset):
            amounts = (_amount(found.get((*place, name))) for name in measures)
            lines.append([*place[1:], *amounts, str(found[*place, SECONDS].runs)])
        table = text_table(dataset, ["generator", "epsilon", *measures, "runs"], lines)
        parts += [f"## {markdown.plain(dataset)}", markdown.table(table)]
    return "\n\n".join([*parts, *markdown.origin([("Synthetic data", where)])]) + "\n"


def _amount(row: SyntheticRow | None) -> str:
    return "–" if row is None else f"{row.mean:.1f} ± {row.std:.1f}"
