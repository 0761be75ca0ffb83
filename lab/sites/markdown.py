"""The short form of the study of sites for readers of a repository."""

from expril.report.markdown import origin, plain, table
from lab.sites import tables, words
from lab.sites.model import Found


def build_markdown(found: Found) -> str:
    """Return the headline, a table for each figure of the page, and where the numbers come from."""
    parts = [f"# {plain(words.headline(found))}", plain(" ".join(words.summary(found)))]
    parts.append(
        "[report.html](report.html) shows them with figures; the CSV files and `results.json` hold the numbers."
    )
    for number, shown in enumerate(tables.accuracies(found).values()):
        parts += [f"## {shown.caption}", *([plain(words.READING)] if number == 0 else []), table(shown)]
    if noises := tables.noises(found):
        parts += ["## The noise of what is opened", plain(words.NOISE), table(noises)]
    if traffic := tables.traffic(found):
        parts += ["## Traffic", plain(words.TRAFFIC), table(traffic)]
    if fates := tables.fates(found):
        parts += ["## Sites that fall silent", plain(words.LOSSES), table(fates)]
    parts += origin([("Study of sites", found.provenance)])
    return "\n\n".join(parts) + "\n"
