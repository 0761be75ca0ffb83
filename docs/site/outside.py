"""What lies outside the pages: links to files of the tree lead to copies, and nothing is loaded from elsewhere."""

import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from posixpath import dirname, join, normpath, relpath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[2]
PAGES = {
    "README.md": "/index.md",
    "CONTRIBUTING.md": "/project/contributing.md",
    "CHANGELOG.md": "/project/changelog.md",
}
"""Page of the tree's root -> the page of the site that has it, or says as much."""
FILES = "files"
"""Folder of the site with copies of what pages link to."""
FENCED = re.compile(r"^(```+|~~~+).*?^\1$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()#\s:]+)(#[^()\s]*)?\)")
WHOLE = re.compile(r"<!-- from the file: (\S+) -->")
ELSEWHERE = re.compile(r"\s*(https?:)?//", re.IGNORECASE)
LOADED = {"src", "srcset", "data", "poster"}
IN_STYLE = re.compile(r"(?:url\(\s*['\"]?|@import\s+['\"]?)\s*(?:https?:)?//[^\s'\")]*", re.IGNORECASE)
IN_SCRIPT = re.compile(r"(?:\bimport\(|\bimportScripts\(|\bfetch\(|\bfrom|\bsrc\s*=)\s*['\"](?:https?:)?//[^'\"]*")


class _Loads(HTMLParser):
    """Collects what a browser would load from elsewhere when it shows a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = {name: value or "" for name, value in attrs}
        names = LOADED | ({"href"} if tag in {"link", "image", "use", "base"} else set())
        if tag == "link" and told.get("rel") in {"canonical", "license", "author"}:
            names = LOADED
        self.found += [told[name] for name in sorted(names & told.keys()) if ELSEWHERE.match(told[name])]
        self.found += IN_STYLE.findall(told.get("style", ""))


def loads(text: str, suffix: str) -> list[str]:
    """What a page, a style sheet or a script loads from elsewhere."""
    if suffix == ".css":
        return IN_STYLE.findall(text)
    if suffix == ".js":
        return IN_SCRIPT.findall(text)
    page = _Loads()
    page.feed(text)
    inline = "".join(re.findall(r"<style[^>]*>(.*?)</style>", text, re.DOTALL))
    scripts = "".join(re.findall(r"<script[^>]*>(.*?)</script>", text, re.DOTALL))
    return page.found + IN_STYLE.findall(inline) + IN_SCRIPT.findall(scripts)


def check(app: "Sphinx", error: Exception | None) -> None:
    """Warn of every page, style sheet and script that loads from elsewhere, and copy what pages link to."""
    from sphinx.util import logging  # noqa: PLC0415 - tests of this module need no Sphinx

    if error is not None:
        return
    for name in sorted(_linked(app)):
        copy = Path(app.outdir) / FILES / shown(name)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, copy)
    for path in sorted(Path(app.outdir).rglob("*")):
        if path.suffix in {".html", ".css", ".js"}:
            for found in loads(path.read_text(encoding="utf-8"), path.suffix):
                logging.getLogger(__name__).warning("%s loads from elsewhere: %s", path.relative_to(app.outdir), found)


def _linked(app: "Sphinx") -> set[str]:
    return {name for names in getattr(app.env, "linked_files", {}).values() for name in names}


def shown(name: str) -> str:
    """The name of a file's copy, which a browser shows instead of saving it."""
    return name if name.endswith((".html", ".svg", ".png")) else f"{name}.txt"


def rewrite(text: str, file: str, page: str) -> tuple[str, set[str]]:
    """A text with its links as the site needs them, and the files to copy.

    Args:
        text: Markdown.
        file: where it stands in the tree, "docs/steward/policy.md".
        page: where the site shows it, likewise.
    """
    copies: set[str] = set()

    def link(found: re.Match[str]) -> str:
        words, target, anchor = found[1], found[2], found[3] or ""
        name = normpath(join(dirname(file), target))
        if name in PAGES:
            return f"[{words}]({PAGES[name]}{anchor})"
        if name.startswith("docs/") and name.endswith((".md", ".ipynb")):
            return found[0] if file == page else f"[{words}](/{name.removeprefix('docs/')}{anchor})"
        if (ROOT / name).is_dir():
            inside = f"{name}/index.md"
            return f"[{words}](/{inside.removeprefix('docs/')})" if (ROOT / inside).is_file() else words
        if not (ROOT / name).is_file():
            return found[0]  # the build says that it leads nowhere
        copies.add(name)
        return f'<a href="{relpath(f"docs/{FILES}/{shown(name)}", dirname(page))}">{words}</a>'

    parts, end = [], 0
    for fence in FENCED.finditer(text):
        parts += [LINK.sub(link, text[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, LINK.sub(link, text[end:])]), copies


def read(app: "Sphinx", docname: str, source: list[str]) -> None:
    """Rewrite a page's links; a page that stands for a file of the tree's root becomes that file."""
    page = file = Path(app.env.doc2path(docname)).relative_to(ROOT).as_posix()
    if not page.endswith(".md"):
        return
    if whole := WHOLE.search(source[0]):
        file = whole[1]
        app.env.note_dependency(str(ROOT / file))
        source[0] = (ROOT / file).read_text(encoding="utf-8")
    source[0], copies = rewrite(source[0], file, page)
    if not hasattr(app.env, "linked_files"):
        app.env.linked_files = {}
    app.env.linked_files[docname] = copies


def merge(_app: "Sphinx", env: object, docnames: set[str], other: object) -> None:
    """Take what another process read."""
    mine = env.__dict__.setdefault("linked_files", {})
    mine |= {name: found for name, found in getattr(other, "linked_files", {}).items() if name in docnames}


def setup(app: "Sphinx") -> dict[str, bool]:
    """Connect."""
    app.connect("source-read", read, priority=600)
    app.connect("env-merge-info", merge)
    app.connect("build-finished", check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
