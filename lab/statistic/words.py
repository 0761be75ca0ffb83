"""What the study of statistics says in sentences."""

from collections import Counter
from collections.abc import Sequence

from lab.statistic.methods import DEGREES, DELTA, DRAWS, LEAST_BLOCKS, METHODS, MOST_BLOCKS
from lab.statistic.model import Found
from lab.statistic.plots import LEAST

READING = (
    "Mean absolute distance between what is told and the population's own quantile, in percent of its interquartile "
    f"range, over {DRAWS} draws of noise on each sample; sampling error is in it, and is all that there is without "
    "noise. The smallest private error of a row is bold. Grids have 10,001 points between the bounds, of stays 14. The "
    f"decay of smooth sensitivity takes half of epsilon, Student's t has {DEGREES} degrees of freedom, and its Laplace "
    f"variant, for simulations only, a delta of {DELTA:g}. There are about as many blocks as records in a block, from "
    f"{LEAST_BLOCKS} to {MOST_BLOCKS}. Scores, sensitivities and estimators are those of a curator, noise and blocks "
    "are numpy's."
)

FIGURES = f"Figures show errors below {LEAST} % at {LEAST} %."


def headline(found: Found) -> str:
    """The answer in one line."""
    if not found.points:
        return "Private quantiles, method by method"
    wins = Counter(point.best() for point in found.points)
    name, count = wins.most_common(1)[0]
    return f"{_begun(METHODS[name][0])} errs least in {count} of {len(found.points)} cases"


def _begun(title: str) -> str:
    return title[:1].upper() + title[1:]


def summary(found: Found) -> Sequence[str]:
    """Sentences below the headline."""
    wins, cases = Counter(point.best() for point in found.points), len(found.points)
    counts = "where it errs least, and where it stays within twice the error without noise"
    said = [f"Two counts of {cases} cases for each method: {counts}."]
    for name, (title, _) in METHODS.items():
        within = sum(point.errors[name] <= 2 * point.errors["none"] for point in found.points)
        if name != "none":
            said.append(f"{_begun(title)}: {wins[name]} and {within}.")
    return said
