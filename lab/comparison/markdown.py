"""The short form of a comparison for readers of a repository."""

from expril.report.markdown import origin, plain, table
from lab.comparison import tables
from lab.comparison.model import Comparison
from lab.comparison.words import averaged_sentence, headline, verdict

_READING = (
    "Accuracy on the test records in percent, mean ± standard deviation over the runs; bold is the best of a column "
    "that is private. Strategies of ours ask curators and never see a private record; peers and what is trained in "
    "site see all private records, pooled."
)
_AREAS = (
    "Area under the ROC curve on the test records in percent, mean ± standard deviation over the runs: how often a "
    "record of class 1 is ranked above one of class 0; 50 is chance. Where a class is rare it says more than accuracy."
)
_BARS = (
    "A bar on the paper's data sets is met at its number, or at the same distance from h* on these splits as it had "
    "from h* when it was set. The aim is to be within one point of h*."
)


def build_markdown(found: Comparison) -> str:
    """Return the headline, the bars, a table for each epsilon and where the numbers come from."""
    parts = [f"# ExPriL compared: {plain(headline(found))}", plain(" ".join(verdict(found)))]
    parts.append("[report.html](report.html) shows them with plots; `results.csv` and `details.csv` hold the numbers.")
    if bars := tables.bars(found):
        parts += ["## The bars", plain(_BARS), table(bars)]
    for number, accuracies in enumerate(tables.measure_tables(found, tables.accuracy(found)).values()):
        reading = f"{_READING} {plain(averaged_sentence(found))}"
        parts += [f"## {accuracies.caption}", *([reading] if number == 0 else []), table(accuracies)]
    for number, areas in enumerate(tables.measure_tables(found, tables.auc(found)).values()):
        parts += [f"## {areas.caption}", *([_AREAS] if number == 0 else []), table(areas)]
    strategies = [f"* **{plain(each.name)}**: {plain(each.title)}" for each in found.strategies]
    problems = [f"* **{plain(name)}**: {plain(title)}" for name, title in found.problems.items()]
    parts += ["## What is compared", "\n".join(strategies), "\n".join(problems)]
    parts += origin([("Comparison", found.provenance)])
    return "\n\n".join(parts) + "\n"
