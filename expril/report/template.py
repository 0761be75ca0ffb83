"""Templates and style sheets of packages, filled with untrusted strings: the only file that imports jinja2."""

import re
from functools import cache
from importlib import resources

import jinja2
from markupsafe import Markup, escape

from expril.report.chart import COLOURS, SHAPES
from expril.report.numbers import count, moment

PACKAGE = "expril.report"
LONG_PATH = re.compile(r"[^\s/]+(?:/[^\s/]+){2,}")


@cache
def asset(package: str, name: str) -> str:
    """The text of a file in a package's folder."""
    return resources.files(package).joinpath(name).read_text(encoding="utf-8")


def style(*packages: str) -> Markup:
    """A page's style sheet: the shared styles, then the `page.css` of further packages."""
    sheets = [asset(PACKAGE, "chart.css")]
    sheets += [asset(package, "page.css") for package in dict.fromkeys((PACKAGE, *packages))]
    return Markup("\n".join(sheets))  # noqa: S704 - our own files, not a report's text


@cache
def page_template(package: str, name: str) -> jinja2.Template:
    """A package's template. Every value is escaped, and a name without a value is an error.

    It may extend and import templates of any package as "package/name": `expril.report/frame.html.j2` frames all
    pages, `expril.report/chart.html.j2` draws charts.
    """
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda template: asset(*template.split("/", 1))),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"count": count, "kind": _kind, "markup": Markup, "moment": moment, "paths": _paths}
    environment.globals |= {"shapes": SHAPES, "colours": COLOURS, "id": id}
    return environment.get_template(f"{package}/{name}")


def _kind(block: object) -> str:
    return type(block).__name__


def _paths(text: str) -> Markup:
    """A text whose long paths may go on in the next line after a slash, instead of anywhere."""
    return Markup(LONG_PATH.sub(lambda path: path[0].replace("/", "/<wbr>"), str(escape(text))))  # noqa: S704 - escaped
