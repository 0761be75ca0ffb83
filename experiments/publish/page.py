"""Web pages of experiments: one HTML file that holds every number, loads nothing and runs no script.

A page has the frame of a run's report (`simulations/report/frame.html.j2`), the sections of its own package's
`template.html.j2`, and where its numbers come from. Every string of what was found is untrusted and reaches the page
through the template, which escapes it.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from experiments.campaign.provenance import Provenance
from experiments.publish.table import Table
from simulations.report.templates import Template, page_template, style

PACKAGE = "experiments.publish"


@cache
def _template(package: str) -> Template:
    return page_template(package)


def page(
    package: str,
    *,
    kind: str,
    subject: str,
    headline: str,
    summary: Iterable[str],
    sources: Iterable[tuple[str, Provenance | None]],
    settings: Table[Sequence[str]] | None = None,
    **parts: Any,
) -> str:
    """Return a page as one HTML document.

    Args:
        package: whose `template.html.j2` has the sections, and whose `page.css` their style.
        kind: of page, such as "ExPriL compared".
        subject: beside it.
        headline: the result in one line.
        summary: sentences below it.
        sources: what was run -> where its numbers come from, if it was.
        settings: of what was run.
        parts: what the template shows.
    """
    known = [(title, where) for title, where in sources if where is not None]
    return _template(package).render(
        kind=kind,
        subject=subject,
        headline=headline,
        summary=list(summary),
        sources=known,
        settings=settings,
        style=style(PACKAGE, package),
        **parts,
    )
