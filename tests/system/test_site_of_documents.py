"""The site of docs: what a page loads from elsewhere, where links lead, and that the commands of all pages exist."""

import importlib
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
import typer.main

from every_command import commands as all_commands
from expril.commands.app import app
from lab.__main__ import app as lab_app

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [*ROOT.glob("*.md"), *DOCS.rglob("*.md")]
PROGRAMS = {"expril": typer.main.get_command(app), "expril-lab": typer.main.get_command(lab_app)}


@pytest.fixture(scope="module")
def site():
    """Name -> module of docs/site."""
    sys.path.insert(0, str(DOCS / "site"))
    yield importlib.import_module
    sys.path.remove(str(DOCS / "site"))


@pytest.mark.parametrize(
    ("suffix", "text"),
    [
        (".html", '<link rel="stylesheet" href="https://fonts.example.org/a.css">'),
        (".html", '<script src="//cdn.example.org/a.js"></script>'),
        (".html", '<img alt="" src="http://example.org/a.png">'),
        (".html", '<p style="background: url(https://example.org/a.png)">'),
        (".html", '<style>@import "https://example.org/a.css";</style>'),
        (".html", '<script>import("https://example.org/a.js")</script>'),
        (".css", "@font-face { src: url('https://example.org/a.woff2') }"),
        (".js", 'script.src = "https://example.org/a.js"'),
    ],
)
def test_what_a_page_loads_from_elsewhere_is_seen(site, suffix, text):
    assert len(site("outside").loads(text, suffix)) == 1


def test_a_link_that_a_reader_may_follow_loads_nothing(site):
    page = '<a href="https://docs.opendp.org">OpenDP</a><img alt="" src="_images/parties.svg"><link href="style.css">'
    assert site("outside").loads(page, ".html") == []
    assert site("outside").loads("a { background: url(data:image/svg+xml;x) }", ".css") == []


def test_links_out_of_the_documents_lead_to_copies_or_to_pages(site):
    told, copies = site("outside").rewrite(
        "[a](../../Makefile) [b](../../README.md#x) [c](policy.md) [d](../../lab) [e](../nowhere.md)\n"
        "```\n[f](../../Makefile)\n```\n",
        "docs/steward/schema.md",
        "docs/steward/schema.md",
    )
    assert '<a href="../files/Makefile.txt">a</a> [b](/index.md#x) [c](policy.md) d [e](../nowhere.md)' in told
    assert "[f](../../Makefile)" in told
    assert copies == {"Makefile"}
    moved, _ = site("outside").rewrite("[c](docs/steward/policy.md)", "CONTRIBUTING.md", "docs/project/contributing.md")
    assert moved == "[c](/steward/policy.md)"


def test_every_page_is_in_one_menu():
    """As the build says, in moments and without Sphinx."""
    listed = []
    for page in DOCS.rglob("*.md"):
        for block in re.findall(
            r"^```{toctree}\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
        ):
            entries = [re.sub(r".*<(.*)>", r"\1", line) for line in block.splitlines() if line and line[0] != ":"]
            for entry in entries:
                named = (page.parent / entry).resolve().relative_to(DOCS)
                found = list(DOCS.glob(f"{named}.*")) if "*" in entry or "[" in entry else []
                found = [each for each in found if each.name != "index.md"]
                listed += [each.relative_to(DOCS).with_suffix("") for each in found] or [named]
    pages = {page.relative_to(DOCS).with_suffix("") for page in [*DOCS.rglob("*.md"), *DOCS.rglob("*.ipynb")]}
    assert sorted(map(str, pages - {Path("index")})) == sorted(map(str, listed))


def test_the_index_of_decisions_names_each_by_its_title():
    listed = re.findall(
        r"^\* \[(ADR \d+)\]\((\S+)\)(: .+)$", (DOCS / "adr" / "index.md").read_text("utf-8"), re.MULTILINE
    )
    titles = [(page.name, page.read_text("utf-8").splitlines()[0]) for page in sorted(DOCS.glob("adr/0*.md"))]
    assert [(page, f"# {number}{title}") for number, page, title in listed] == titles


def lines_of(page):
    """The lines of a page's shell blocks, each a whole command."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    blocks = re.findall(r"^ *```(?:sh|bash|console)\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)
    return [line.strip().removeprefix("$ ") for block in blocks for line in block.splitlines()]


def check_line(line):
    """Raises UsageError where a line calls a command, or gives it an option, that there is not."""
    words = shlex.split(line, comments=True)
    words = words[
        : next((place for place, word in enumerate(words) if word in {"|", ">", "&&", ";", "2>", ">>"}), None)
    ]
    if not words or words[0] not in PROGRAMS:
        return False
    command, context, rest = PROGRAMS[words[0]], None, words[1:]
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        context = click.Context(command, parent=context)
        _, command, rest = command.resolve_command(context, rest)
    context = click.Context(command, parent=context)
    command.make_parser(context).parse_args(args=list(rest))
    return True


def test_every_command_line_in_the_documents_calls_what_there_is():
    wrong, checked = [], 0
    for page in PAGES:
        for line in lines_of(page):
            try:
                checked += check_line(line)
            except (click.UsageError, ValueError) as error:
                wrong.append(f"{page.relative_to(ROOT)}: {line}: {error}")
    assert wrong == []
    assert checked > 150


@pytest.mark.parametrize("line", ["expril simulat wdbc", "expril simulate --no-such-option", "expril-lab stud x"])
def test_a_command_line_that_is_wrong_is_seen(line):
    with pytest.raises(click.UsageError):
        check_line(line)


def is_hidden(name):
    """Whether it is another name of a command, which no help lists."""
    command = PROGRAMS["expril"]
    for word in name.split():
        command = command.commands[word]
    return command.hidden


def test_the_reference_has_every_command_and_every_refusal(site):
    reference = site("reference")
    told = reference.commands()
    listed = {f"expril {name}" for name in all_commands() if not is_hidden(name)}
    assert listed <= set(re.findall(r"^## (.*)$", told, re.MULTILINE))
    assert len(re.findall(r"^\| `\w+` \|", reference.refusals(), re.MULTILINE)) == len(reference.EXPLANATIONS)


def test_the_reference_says_types_and_defaults_as_the_files_have_them(site):
    keys = site("reference").keys()
    assert "| `cap` | amount | required |" in keys
    assert '| `approval` | `"automatic"`, `"manual"` | `"automatic"` |' in keys
    assert "| `health_port` | whole number at least 1, at most 65535 | `9090` |" in keys
    assert "Type" not in re.sub(r"`[^`]*`|TimeToEvent", "", keys), "a type without a word"


def test_every_page_of_the_reference_asks_for_what_there_is(site):
    generated = site("reference").GENERATED
    asked = {name for page in PAGES for name in re.findall(r"<!-- from the program: (\w+) -->", page.read_text())}
    assert asked == generated.keys()


@pytest.mark.slow
def test_a_dead_link_and_a_page_in_no_menu_fail_the_build(tmp_path):
    """On three pages of the same configuration; the whole site is built by `make docs`, in CI too."""
    pytest.importorskip("sphinx")
    (tmp_path / "docs" / "steward").mkdir(parents=True)
    for name in ("pyproject.toml", "docs/conf.py"):
        shutil.copyfile(ROOT / name, tmp_path / name)
    shutil.copytree(DOCS / "site", tmp_path / "docs" / "site")
    (tmp_path / "docs" / "index.md").write_text("# Here\n\n```{toctree}\nsteward/policy\n```\n")
    (tmp_path / "docs" / "lost.md").write_text("# Lost\n")
    page = tmp_path / "docs" / "steward" / "policy.md"
    page.write_text("# There\n\n[good](../index.md#here) [bad](../index.md#nowhere) [worse](nothing.md)\n")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-E", "docs", "built"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.count("WARNING") == 3, done.stderr
    for told in ("'nowhere'", "nothing.md", "isn't included in any toctree"):
        assert told in done.stderr
