"""The study of holdouts for readers of a repository."""

from expril.report.markdown import origin, plain, table
from lab.holdout import tables, words
from lab.holdout.model import Found


def build_markdown(found: Found, curves: str, signals: str) -> str:
    """Return the headline, the claims, the figures, what is believed and paid, and where the numbers come from.

    Args:
        found: all of it.
        curves: name of the file of that figure.
        signals: likewise.
    """
    parts = [f"# {plain(words.headline(found))}", plain(" ".join(words.summary(found)))]
    parts += [plain(words.SETUP), plain(words.DATA)]
    parts.append("[report.html](report.html) shows the same; the CSV file and `results.json` hold the numbers.")
    if found.claims:
        parts += ["## What the blog says, and what was measured", plain(words.CLAIMS), table(tables.claims(found))]
        parts.append(plain(words.WHY))
    if found.main:
        parts += ["## Curves", plain(words.CURVES), f"![Accuracy against the number of variables]({curves})"]
        parts.append(f"![Signal variables found]({signals})")
        parts += ["## What is believed, and what is true", plain(words.KEPT), table(tables.reported(found))]
        parts += ["## What it costs", plain(words.COST), table(tables.paid(found)), plain(words.OURS)]
    if found.cost is not None:
        parts += ["### The blog's variant, step by step", table(tables.cost(found))]
    if found.others:
        parts += ["## Other strengths of the signal", table(tables.settings(found))]
    parts += origin([("Study of holdouts", found.provenance)])
    return "\n\n".join(parts) + "\n"
