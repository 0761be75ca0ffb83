"""The short form of a reproduction for readers of a repository: GitHub-flavoured Markdown, tables and words only."""

from experiments.campaign.markdown import plain, provenance, table
from experiments.paper import findings
from experiments.paper.model import COLUMNS, NOISE_TITLES, Cell, Curve, Reproduction
from experiments.paper.plots import by_style, curve_title, point_text
from experiments.paper.published import TABLE_2

_READING = (
    "Percent, mean ± standard deviation over the runs; in brackets the paper's. "
    "= within two standard errors of the paper, ▲ above, ▼ below, with the number of standard errors."
)


def build_markdown(found: Reproduction) -> str:
    """Return the headline, the verdict and the tables; parts that were not run are left out."""
    parts = [f"# ExPriL reproduced: {findings.headline(found)}"]
    if sentences := findings.verdict(found):
        parts.append(" ".join(plain(sentence) for sentence in sentences))
    parts += [*_accuracies(found), *_privacy(found), *_tests(found), *_gaps(found), *_curves(found), *_origin(found)]
    return "\n\n".join(parts) + "\n"


def _accuracies(found: Reproduction) -> list[str]:
    cells = {(cell.dataset, cell.column): cell for cell in found.table}
    datasets = findings.in_order(dataset for dataset, column in cells if column in findings.TABLE_COLUMNS)
    if not datasets:
        return []
    columns = [column for column in findings.TABLE_COLUMNS if any((name, column) in cells for name in datasets)]
    rows = [
        [f"**{plain(dataset)}**", *(_cell(dataset, column, cells.get((dataset, column))) for column in columns)]
        for dataset in datasets
    ]
    return [
        "## Table 2: accuracy",
        _READING,
        table(["", *(plain(COLUMNS[column]) for column in columns)], rows),
    ]


def _cell(dataset: str, column: str, cell: Cell | None) -> str:
    published = TABLE_2.get((dataset, column))
    text = "–" if cell is None else findings.spread(column, cell)
    if published is not None:
        text += f" ({findings.spread(column, published)})"
    side = None if cell is None else findings.standing(cell)
    if cell is not None and side is not None:
        text += f" {findings.MARKS[side]} {findings.errors(cell)}"
    return text


def _privacy(found: Reproduction) -> list[str]:
    cells = {(cell.dataset, cell.column): cell for cell in found.table if cell.column in findings.EPSILON_COLUMNS}
    if not cells:
        return []
    head = ["", "claimed", "true, worst case", *findings.EPSILON_HEADS]
    rows = [
        [
            f"**{plain(name)}**",
            *(findings.epsilon_summary(cells.get((name, column))) for column in findings.EPSILON_COLUMNS),
        ]
        for name in findings.in_order(dataset for dataset, _ in cells)
    ]
    texts = (findings.EPSILON_MEANING, findings.WHY_NOT_PRIVATE, findings.VALID_INSTEAD)
    return ["## Privacy of the printed mechanism", *map(plain, texts), table(head, rows), plain(findings.EPSILON_NOTE)]


def _tests(found: Reproduction) -> list[str]:
    if not found.wilcoxon:
        return []
    rows = [
        [
            f"**{plain(row.dataset)}**",
            NOISE_TITLES[row.noise],
            findings.signed(row.difference),
            plain(findings.probability(row.p_value)),
            findings.we_say(row),
            findings.paper_says(row),
            findings.agreement(row),
        ]
        for row in findings.ordered_tests(found)
    ]
    return [
        "## C-ExPriL against I-ExPriL",
        "Wilcoxon signed-rank test over paired runs, two-sided, at 95 %; the difference is C minus I in points.",
        table(["", "noise", "C − I", "p value", "ours", "paper", "verdict"], rows),
    ]


def _gaps(found: Reproduction) -> list[str]:
    rows = []
    for gap in findings.gaps(found):
        published = TABLE_2.get((gap.dataset, gap.column))
        rows.append(
            [
                f"**{plain(gap.dataset)}**",
                plain(COLUMNS.get(gap.column, gap.column)),
                "–" if published is None else findings.spread(gap.column, published),
                findings.spread(gap.column, gap.default),
                plain(gap.change) if gap.change else "–",
                "–" if gap.closure is None else findings.spread(gap.column, gap.closure),
                "–" if gap.closure is None else str(gap.closure.runs),
                gap.outcome,
            ]
        )
    if not rows:
        return []
    head = ["", "column", "paper", "ours", "setting changed", "with it", "runs", "outcome"]
    parts = ["## Cells that differ, and what closes them", plain(findings.CLOSING), table(head, rows)]
    settings = [[plain(change), *map(str, counts)] for change, *counts in findings.setting_rows(found)]
    if settings:
        heads = ["setting changed", "runs", "cells of the method", "within", "above", "below"]
        parts += [plain(findings.ONE_SETTING), table(heads, settings)]
    return parts


def _curves(found: Reproduction) -> list[str]:
    drawn = [curve for curve in found.curves if curve.points]
    rows = [
        _ends(curve)
        for dataset in findings.in_order(curve.dataset for curve in drawn)
        for curve in by_style(each for each in drawn if each.dataset == dataset)
    ]
    if not rows:
        return []
    return [
        "## Figure 1: first and last points of the learning curves",
        "Percentage points from h\\*, the model trained on the target itself; epsilon by the mechanism's own claim.",
        table(["", "curve", "first t", "points", "last t", "points", "epsilon claimed there"], rows),
    ]


def _ends(curve: Curve) -> list[str]:
    points = sorted(curve.points, key=lambda point: point.rounds)
    first, last = points[0], points[-1]
    cost = "–" if curve.noise == "none" else findings.epsilon(last.epsilon)
    ends = [str(first.rounds), point_text(first), str(last.rounds), point_text(last)]
    return [f"**{plain(curve.dataset)}**", curve_title(curve), *ends, cost]


def _origin(found: Reproduction) -> list[str]:
    both = (("Table 2", found.table_provenance), ("Figure 1", found.curves_provenance))
    parts = [text for title, where in both if where is not None for text in provenance(title, where)]
    if found.settings:
        datasets, settings = findings.settings_by_dataset(found)
        rows = [[plain(name), *map(plain, values)] for name, values in settings]
        parts += ["### Settings by data set", table(["", *map(plain, datasets)], rows)]
    return ["## Where the numbers come from", *parts] if parts else []
