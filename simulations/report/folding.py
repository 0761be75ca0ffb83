"""Much of one kind, told briefly: notes that say the same of many curators, scores of more sites than one can read."""

import re
from collections.abc import Iterable, Sequence

from expril.report.document import Note
from simulations.report.model import SiteScore

FEW = 20
"""With more curators than this, tables keep to the ends and the middle."""
MOST_ALIKE = 3
"""So many notes that are alike are told one by one."""
NAMED = 8
"""So many names are told in a sentence."""


def fold_notes(notes: Sequence[str], names: Iterable[str]) -> list[Note]:
    """Tell notes that are alike once, in the place of the first; few of them stay as they are.

    Args:
        notes: sentences.
        names: of the curators.
    """
    known = sorted(set(names), key=len, reverse=True)
    name = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, known))})(?!\w)") if known else None
    groups: dict[str, list[str]] = {}
    for note in notes:
        groups.setdefault(_pattern(note, name), []).append(note)
    folded: dict[str, list[Note]] = {}
    for pattern, alike in groups.items():
        if len(alike) <= MOST_ALIKE:
            folded[pattern] = [Note(text) for text in alike]
            continue
        whom = [found[0] for text in alike[1:] if name is not None and (found := name.search(text))]
        more = f"{len(alike) - 1} more like this{': ' if whom else ''}{some_of(whom)}"
        folded[pattern] = [Note(alike[0], f"({more})")]
    return [one for pattern in groups for one in folded[pattern]]


def some_of(names: Sequence[str]) -> str:
    """Names in a sentence: all of them, or the first few and how many more."""
    return ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")


def _pattern(note: str, name: re.Pattern[str] | None) -> str:
    """What notes that are alike have in common."""
    text = name.sub("\0", note) if name is not None else note
    return re.sub(r"\d+(?:[.,/]\d+)*", "\1", text)


def few_of(sites: Sequence[SiteScore], most: int = FEW) -> list[tuple[str, SiteScore]]:
    """Sites for a table: all of them, or of too many the best, the middle one and the worst, by score.

    Args:
        sites: of one learner.
        most: that are all shown.

    Returns:
        ("", site) for each, or ("best of 50", site) and so on; sites without a score are none of the three.
    """
    if len(sites) <= most:
        return [("", site) for site in sites]
    scored = sorted((site for site in sites if site.accuracy is not None), key=lambda site: -(site.accuracy or 0.0))
    if not scored:
        return []
    ranks = {"best": 0, "median": (len(scored) - 1) // 2, "worst": len(scored) - 1}
    return [(f"{what} of {len(scored)}", scored[rank]) for what, rank in ranks.items()]
