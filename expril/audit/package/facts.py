"""The facts of a deployment that only people know, as a small TOML: why, where, for whom, and who wrote them down."""

import re
from datetime import date
from pathlib import Path
from typing import Annotated

import msgspec

from expril.files import read_text_file
from protocol.errors import ConfigurationError
from protocol.strict_toml import read_toml

TEMPLATE = """\
# What only people know. Lines without "#" are needed; remove the "#" of others where they apply.
name = ""                 # of what is published: "Readmission model of three wards"
intended_use = ""         # what it is for, and what it is not for
records = ""              # what one record is, and whose: "one hospital stay of an adult, 2019 to 2023"
region = ""               # which region the records describe, or whose law applies
publication_date = ""     # first publication: "2026-11-30"
authors = []              # who writes this down: ["A. Steward"]
looked_before = ""        # what was looked at in the records before bounds, bins and epsilon were fixed; "nothing"
one_curator_each = false  # true if every person's records are at one curator only; else epsilons are added up
# sector = "Healthcare"   # Technology, Healthcare, Education, Government, Energy, Finance
# product = "Machine learning model"   # or "Synthetic data", "Summary statistics"
# actors = ""             # who sees what, and why they are trusted so far; there is a text by default
# justification = ""      # why these choices
# more_releases = ""      # whether the records will be asked again, and how the budget goes on
# sources = ""            # links
# notes = ""
"""
Text = Annotated[str, msgspec.Meta(max_length=20_000)]


class Facts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The content of the file; `TEMPLATE` explains its keys."""

    name: Text = ""
    intended_use: Text = ""
    records: Text = ""
    region: Text = ""
    publication_date: Text = ""
    authors: tuple[Text, ...] = ()
    looked_before: Text = ""
    one_curator_each: bool = False
    sector: Text = ""
    product: Text = "Machine learning model"
    actors: Text = ""
    justification: Text = ""
    more_releases: Text = ""
    sources: Text = ""
    notes: Text = ""

    @property
    def slug(self) -> str:
        """The deployment's name as a part of a URL."""
        return re.sub(r"[^a-z0-9]+", "_", self.name.lower()).strip("_") or "deployment"


NEEDED = ("name", "intended_use", "records", "region", "publication_date", "authors", "looked_before")


def read_facts(path: Path) -> Facts:
    """Read the file.

    Raises:
        ConfigurationError: the file cannot be read, or lacks a needed fact, which the message names.
    """
    where = f"facts file {path.name}"
    text = read_text_file(path, "facts file", remedy="write a template: expril audit package --template FILE")
    facts = read_toml(text, Facts, where=where)
    check_facts(facts, where)
    return facts


def check_facts(facts: Facts, where: str) -> None:
    """Check that no needed fact is missing.

    Raises:
        ConfigurationError: a needed fact is missing, or publication_date is no date.
    """
    missing = [name for name in NEEDED if _is_blank(getattr(facts, name))]
    if missing:
        raise ConfigurationError(f"{where}: fill in {', '.join(missing)}; only people know")
    try:
        date.fromisoformat(facts.publication_date)
    except ValueError:
        raise ConfigurationError(
            f"{where}: publication_date is {facts.publication_date!r}; write it as 2026-11-30"
        ) from None


def _is_blank(value: str | tuple[str, ...]) -> bool:
    texts = (value,) if isinstance(value, str) else value
    return not texts or any(not text.strip() for text in texts)
