"""What `expril reproduce` prints."""

from rich import box
from rich.table import Table

from experiments.paper.model import COLUMNS, Cell, Reproduction

LEAST_WIDTH = 132
SHORT = {
    "h_star": "h*",
    "C-ExPriL": "C",
    "I-ExPriL": "I",
    "1DP-C-ExPriL": "1DP-C",
    "1DP-I-ExPriL": "1DP-I",
    "valid-1DP-C-ExPriL": "valid C",
    "valid-1DP-I-ExPriL": "valid I",
    "h0_star": "h0*",
}


def found_table(found: Reproduction, experiment: str, setting: str) -> Table:
    """Ours above the paper's: Table 2, the runs with a setting changed, or the curves' last points."""
    if experiment == "figure1":
        return _curves(found)
    if setting:
        return _closures(found, setting)
    table = Table(title="Table 2, percent: ours, and the paper's below", box=box.SIMPLE_HEAD)
    table.add_column("data set", no_wrap=True)
    for title in SHORT.values():
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("printed\nepsilon", justify="right", no_wrap=True)
    cells = {(cell.dataset, cell.column): cell for cell in found.table}
    for dataset in dict.fromkeys(cell.dataset for cell in found.table):
        row = [cells[dataset, column] for column in SHORT]
        at_data = cells[dataset, "epsilon_printed_at_data"]
        table.add_row(f"{dataset} ({at_data.runs})", *map(_ours, row), f"{at_data.median:.3g}", style="bold")
        table.add_row("", *map(_published, row), "1", end_section=True)
    table.caption = "printed epsilon: at the run's records, median; the worst case is infinite, the paper's claim 1"
    return table


def _closures(found: Reproduction, setting: str) -> Table:
    table = Table(title=f"Table 2 with the setting {setting}: ours as set, ours by default, the paper's")
    table.box = box.SIMPLE_HEAD
    for title in ("data set", "column", "as set", "by default", "paper"):
        table.add_column(title, no_wrap=True)
    cells = {(cell.dataset, cell.column): cell for cell in found.table}
    for row in found.closures:
        if row.setting == setting:
            default = cells.get((row.dataset, row.column))
            paper = "" if default is None else _published(default)
            ours = "" if default is None else _ours(default)
            table.add_row(
                f"{row.dataset} ({row.runs})", COLUMNS[row.column], f"{row.mean:.1f} ± {row.std:.1f}", ours, paper
            )
    return table


def _curves(found: Reproduction) -> Table:
    table = Table(title="Figure 1: acc(h_t) - acc(h*), percentage points", box=box.SIMPLE_HEAD)
    for title in ("data set", "learner", "mechanism", "scale", "t = 1", "t = 2", "t = 5", "t = 10"):
        table.add_column(title, no_wrap=True)
    for curve in found.curves:
        shown = [f"{point.mean:+.1f}" for point in curve.points if point.rounds in {1, 2, 5, 10}]
        scale = "fixed" if curve.fixed else "plan"
        table.add_row(curve.dataset, curve.learner, curve.noise, scale, *shown)
    return table


def _ours(cell: Cell) -> str:
    return f"{cell.mean:.1f} ± {cell.std:.1f}"


def _published(cell: Cell) -> str:
    if cell.published is None or cell.published.std is None:
        return ""
    return f"{cell.published.mean:.1f} ± {cell.published.std:.1f}"
