"""Web pages of experiments: one HTML file that holds every number, loads nothing and runs no script.

A page has the frame of a run's report (`expril/report/frame.html.j2`), the sections of its own package's
`template.html.j2`, and where its numbers come from. Every string of what was found is untrusted and reaches the page
through the template, which escapes it.
"""

from functools import cache
from typing import Any

from expril.report.templates import Template, page_template, style

PACKAGE = "expril.report"


@cache
def _template(package: str) -> Template:
    return page_template(package)


def page(package: str, **parts: Any) -> str:
    """Return a page as one HTML document.

    Args:
        package: whose `template.html.j2` has the sections, and whose `page.css` their style.
        parts: what the template shows, and for its frame `kind` of page, `subject`, `headline`, `summary` (sentences),
            `sources` (pairs of title and `Provenance`, None for what was not run) and `settings` (a table, or None).
    """
    return _template(package).render(style=style(PACKAGE, package), **parts)
