"""The short form of a comparison for readers of a repository."""

from experiments.campaign.markdown import plain, provenance, table
from experiments.learning.bars import standings
from experiments.learning.model import Comparison
from experiments.learning.outcome import INFINITE
from experiments.learning.page import EpsilonTable, epsilon_tables
from experiments.learning.words import best_private, headline, met, needed, spread, verdict

_READING = (
    "Accuracy on the test records in percent, mean ± standard deviation over the runs; bold is the best of a column "
    "that is private. Strategies of ours ask curators and never see a private record; peers and what is trained in "
    "site see all private records, pooled."
)
_BARS = (
    "A bar on the paper's data sets is met at its number, or at the same distance from h* on these splits as it had "
    "from h* when it was set. The aim is to be within one point of h*."
)


def build_markdown(found: Comparison) -> str:
    """Return the headline, the bars, a table for each epsilon and where the numbers come from."""
    parts = [f"# ExPriL compared: {plain(headline(found))}", plain(" ".join(verdict(found)))]
    parts.append("[report.html](report.html) shows them with plots; `results.csv` and `details.csv` hold the numbers.")
    parts += _bars(found)
    tables = epsilon_tables(found)
    for each in tables:
        parts += _accuracies(found, each, lead=each is tables[0])
    parts += _meaning(found)
    if found.provenance is not None:
        parts += ["## Where the numbers come from", *provenance("Comparison", found.provenance)]
        parts += [f"{plain(name)} was left out: {plain(why)}" for name, why in found.provenance.skipped.items()]
    return "\n\n".join(parts) + "\n"


def _bars(found: Comparison) -> list[str]:
    rows = [
        [
            f"**{plain(bar.dataset)}**",
            bar.epsilon,
            needed(bar),
            "–" if bar.in_site is None else f"{bar.in_site:.1f}",
            spread(bar.default),
            met(bar.met),
            "–" if bar.aim is None else met(bar.aim),
            "–" if bar.best is None else f"{plain(bar.best.strategy)}, {spread(bar.best)}",
            met(bar.best_met),
        ]
        for bar in standings(found)
    ]
    if not rows:
        return []
    head = ["", "epsilon", "bar", "h\\*", plain(found.default), "bar", "aim", "best of ours", "bar"]
    return ["## The bars", plain(_BARS), table(head, rows)]


def _accuracies(found: Comparison, shown: EpsilonTable, *, lead: bool) -> list[str]:
    best = best_private(found, shown.epsilon)
    rows = []
    for part in shown.parts:
        rows.append([f"*{plain(part.title)}*", *[""] * (len(found.problems) + 2)])
        for line in part.rows:
            name = plain(line.average.strategy.name)
            if line.average.strategy.group == "ours" and line.average.epsilon == INFINITE:
                name += " without noise"
            mean = "–" if line.average.mean is None else f"{line.average.mean:.1f}"
            cells = [f"**{spread(row)}**" if row is not None and row.key in best else spread(row) for row in line.rows]
            rows.append([name, *cells, mean, line.runs])
    title = "without privacy" if shown.epsilon == INFINITE else f"at epsilon {shown.epsilon}"
    head = ["", *map(plain, found.problems), "average", "runs"]
    return [f"## Accuracy {title}", *([_READING] if lead else []), table(head, rows)]


def _meaning(found: Comparison) -> list[str]:
    strategies = [f"* **{plain(each.name)}**: {plain(each.title)}" for each in found.strategies]
    problems = [f"* **{plain(name)}**: {plain(title)}" for name, title in found.problems.items()]
    return ["## What is compared", "\n".join(strategies), "\n".join(problems)]
