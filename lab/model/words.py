"""What the study of in-site models says in sentences."""

from expril.report.numbers import decimal
from lab.model.model import Found, Point
from lab.model.studies import WAYS
from lab.model.tables import AHEAD, BEHIND, OPEN, charged_all, mean_text, side_of

READING = (
    "Mean over the repeats and half the width of its 95 % interval. Every number is of a whole study with real "
    "curators, noise, signatures and ledgers; a repeat has its own split, which all methods share. Models are fitted "
    "at each site, and what the sites release is added up, or averaged where it cannot be. A mark tells that the "
    "difference to cells, within a repeat, is larger than its interval."
)
OTHERS = (
    "A regression predicts the named attribute, and what it explains is of that attribute's variance. Clusters and "
    "components explain the points' variance: with clusters, the mean over the sites of what each one's centres do. "
    "What explains less than the mean does is counted as 0."
)


def headline(found: Found) -> str:
    """The answer in one line: the best method beside `cells` at the largest epsilon that is not above 1."""
    shown = _compared(found)
    if not shown:
        return "Models that curators fit in site"
    told = ", ".join(
        f"{decimal(cells.score.value)} % by cells and {decimal(best.score.value)} % by {WAYS[best.way].title} on "
        f"{best.problem}"
        for cells, best in shown
    )
    return f"In-site models at epsilon {shown[0][0].epsilon}: {told}"


def summary(found: Found) -> tuple[str, ...]:
    """The sentences under the headline."""
    shown = _compared(found)
    if not shown:
        return ()
    sides: dict[str, list[str]] = {}
    for _, best in shown:
        if best.gain is not None:
            sides.setdefault(side_of(best.gain), []).append(f"{best.problem} ({mean_text(best.gain)} points)")
    sentences = [
        f"The best in-site model is behind cells on {', '.join(sides[BEHIND])}." if BEHIND in sides else "",
        f"It is ahead on {', '.join(sides[AHEAD])}; the best of several is chosen after the fact."
        if AHEAD in sides
        else "",
        f"Which of the two is ahead on {', '.join(sides[OPEN])} cannot be told." if OPEN in sides else "",
        "Every ledger was charged exactly epsilon." if all(map(charged_all, found.points)) else "",
    ]
    return tuple(sentence for sentence in sentences if sentence)


def _compared(found: Found) -> list[tuple[Point, Point]]:
    """Of each problem, `cells` and the best in-site classifier, at the epsilon nearest to 1."""
    pairs = []
    for problem in found.problems:
        private = [
            point for point in found.points if point.problem == problem and point.auc is not None and point.charged
        ]
        epsilons = {point.epsilon for point in private}
        if not epsilons:
            continue
        epsilon = "1" if "1" in epsilons else found.epsilons[0]
        cells = found.point(problem, "cells", epsilon)
        rest = [point for point in private if point.epsilon == epsilon and point.way != "cells"]
        if cells is not None and rest:
            pairs.append((cells, max(rest, key=lambda point: point.score.value)))
    return pairs
