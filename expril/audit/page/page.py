"""The page: an audit as one HTML file that needs nothing else, runs no script and loads nothing.

Names, verdicts and neighbours come from mechanisms of any origin. They reach the page through one door, a template with
autoescape; the page's content security policy allows no script and no request.
"""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from curator_node.new_files import replace_text
from expril.audit.page import figures, words
from expril.audit.page.paper import paper_law, paper_words
from expril.audit.page.spent import SpentRow
from expril.audit.results import AuditResult
from expril.report.templates import Template, page_template, style

PACKAGE = "expril.audit.page"


@cache
def _template() -> Template:
    return page_template(
        PACKAGE,
        {
            "mirror": figures.mirror,
            "share_of_claim": figures.share_of_claim,
            "times_claim": figures.times_claim,
            "spaced": figures.spaced,
            "bound": words.bound,
            "claim": words.claim,
            "share": words.share,
            "told": words.told,
            "times": figures.of_claim,
            "inverse": words.inverse,
        },
    )


def build_page(
    result: AuditResult, *, spent: Sequence[SpentRow] = (), created: str = "", command: str = "expril audit all"
) -> str:
    """Return the page of an audit; the same arguments give the same text.

    Args:
        result: of the audit.
        spent: what was recomputed of runs and exports that were given.
        created: when, as ISO 8601; "" leaves it out.
        command: that does it again.
    """
    controls = words.in_order(result.controls)
    return _template().render(
        result=result,
        spent=spent,
        created=created,
        command=command,
        headline=words.headline(result),
        summary=words.summary(result),
        controls=controls,
        paper=words.paper_control(controls),
        law=paper_law(),
        law_words=paper_words(),
        share_axis=figures.SHARE_AXIS,
        ratio_axis=figures.ratio_axis(one.attack for one in controls),
        studies=figures.studies_figure(result.studies),
        gap=None if result.blog is None else figures.gap_figure(result.blog),
        above=None if result.blog is None else figures.above_figure(result.blog),
        style=style("simulations.report", PACKAGE),
    )


def write_page(
    result: AuditResult,
    path: Path,
    *,
    spent: Sequence[SpentRow] = (),
    created: str = "",
    command: str = "expril audit all",
) -> None:
    """Write the page to a file (UTF-8)."""
    replace_text(path, build_page(result, spent=spent, created=created, command=command))
