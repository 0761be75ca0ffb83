"""The short form of the study of in-site models for readers of a repository."""

from expril.report.markdown import origin, plain, table
from lab.model import tables, words
from lab.model.model import Found


def build_markdown(found: Found) -> str:
    """Return the headline, the tables, and where the numbers come from."""
    parts = [f"# {plain(words.headline(found))}", *([plain(" ".join(words.summary(found)))] if found.points else [])]
    parts.append(
        "[report.html](report.html) shows them with figures; `scores.csv` and `results.json` hold the numbers."
    )
    if classified := tables.classified(found):
        parts += [f"## {classified.caption}", plain(words.READING), table(classified)]
    if others := tables.others(found):
        parts += [f"## {others.caption}", plain(words.OTHERS), table(others)]
    parts += origin([("Study of in-site models", found.provenance)])
    return "\n\n".join(parts) + "\n"
