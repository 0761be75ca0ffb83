"""The short form of a reproduction for readers of a repository: GitHub-flavoured Markdown, tables and words only."""

from expril.report.markdown import origin, plain, table
from lab.paper import tables, words
from lab.paper.model import Reproduction

_READING = (
    "Percent, mean ± standard deviation over the runs; in brackets the paper's. "
    "= within two standard errors of the paper, ▲ above, ▼ below, with the number of standard errors."
)
_CURVES = "Percentage points from h\\*, the model trained on the target itself; epsilon by the mechanism's own claim."


def build_markdown(found: Reproduction) -> str:
    """Return the headline, the verdict and the tables; parts that were not run are left out."""
    parts = [f"# ExPriL reproduced: {words.headline(found)}"]
    if sentences := words.verdict(found):
        parts.append(" ".join(map(plain, sentences)))
    if accuracies := tables.accuracies(found):
        parts += ["## Table 2: accuracy", _READING, table(accuracies)]
    if epsilons := tables.epsilons(found):
        texts = (words.EPSILON_MEANING, words.WHY_NOT_PRIVATE, words.VALID_INSTEAD)
        parts += ["## Privacy of the printed mechanism", *map(plain, texts), table(epsilons), plain(words.EPSILON_NOTE)]
    if tests := tables.tests(found):
        parts += [
            "## C-ExPriL against I-ExPriL",
            "Wilcoxon signed-rank test over paired runs, two-sided, at 95 %; the difference is C minus I in points.",
            table(tests.without("runs")),
        ]
    if gaps := tables.gaps(found):
        parts += ["## Cells that differ, and what closes them", plain(words.CLOSING), table(gaps)]
        if changes := tables.changes(found):
            parts += [plain(words.ONE_SETTING), table(changes)]
    if ends := tables.curve_ends(found):
        parts += [
            "## Figure 1: first and last points of the learning curves",
            _CURVES,
            table(ends),
        ]
    parts += origin(
        (("Table 2", found.table_provenance), ("Figure 1", found.curves_provenance)), tables.settings(found)
    )
    return "\n\n".join(parts) + "\n"
