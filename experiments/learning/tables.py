"""What `expril compare` prints."""

from collections.abc import Iterator

from rich import box
from rich.markup import escape
from rich.table import Table

from experiments.learning.bars import averages
from experiments.learning.model import Comparison
from experiments.learning.outcome import INFINITE
from experiments.learning.words import bar_sentence, best_private, span

LEAST_WIDTH = 132


def found_tables(found: Comparison) -> Iterator[Table]:
    """For each epsilon, strategies by data sets; the best of a column that is private is bold."""
    for epsilon in found.epsilons:
        title = "not private" if epsilon == INFINITE else f"epsilon {epsilon}"
        table = Table(title=f"accuracy in percent, {title}", box=box.SIMPLE_HEAD)
        table.add_column("strategy", no_wrap=True)
        for dataset in found.problems:
            table.add_column(escape(dataset), justify="right", no_wrap=True)
        table.add_column("average", justify="right", no_wrap=True)
        best = best_private(found, epsilon)
        for average in averages(found, epsilon):
            name = average.strategy.name
            rows = [found.find(dataset, name, epsilon) for dataset in found.problems]
            cells = [
                "–" if row is None else f"[bold]{row.mean:.1f}[/]" if row.key in best else f"{row.mean:.1f}"
                for row in rows
            ]
            runs = [row.runs for row in rows if row is not None]
            mean = "–" if average.mean is None else f"{average.mean:.1f}"
            table.add_row(f"{escape(name)} ({span(runs)})", *cells, mean)
        if epsilon == found.epsilons[-1]:
            table.caption = f"in brackets: runs. {bar_sentence(found)}"
        yield table
