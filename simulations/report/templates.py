"""How pages are made from templates: the only file that imports jinja2."""

from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources
from typing import Any

import jinja2
from markupsafe import Markup

Template = jinja2.Template


@cache
def asset(package: str, name: str) -> str:
    """The text of a file beside the modules of a package."""
    return resources.files(package).joinpath(name).read_text(encoding="utf-8")


def sheet(package: str) -> Markup:
    """The style of a page with wide tables and curves: what all such pages share, and the package's `page.css`."""
    shared = asset("simulations.report", "page.css") + asset("simulations.report", "tables.css")
    return Markup(shared + asset(package, "page.css"))  # noqa: S704 - our own files, not a report's text


def page_template(package: str, filters: Mapping[str, Callable[..., Any]]) -> Template:
    """The package's `template.html.j2`; every value is escaped, and a name that is not given is an error.

    It may import `macros.html.j2`, which all pages share.
    """
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: asset("simulations.report", name)),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= filters
    return environment.from_string(asset(package, "template.html.j2"))
