"""The curators that are attacked: real ones, with real noise, over records that the audit holds."""

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Protocol

import polars as pl

from curator_node.policy import read_policy
from curator_node.site import Site, create_site, open_site, temporary_site
from curator_node.steward import read_steward_file
from protocol.envelopes import SigningKey
from protocol.errors import ConfigurationError

OPEN_STUDIES = 1_000
"""More than any attack opens: an adversary shall be stopped by a cap, and by nothing else."""


class Attacked(Protocol):
    """A curator, as the adversary sees it."""

    @property
    def identity(self) -> bytes:
        """Its public key."""

    def handle(self, data: bytes) -> bytes:
        """Answer one envelope with one envelope."""

    def restart(self) -> None:
        """Stop the process and start it again: what is in memory is lost, what is on disk is not."""


Opening = Callable[[pl.DataFrame, str, str], AbstractContextManager[Attacked]]
"""Opens a curator of (records, schema file, policy file)."""


def policy_text(learners: Mapping[str, SigningKey], cap: Fraction) -> str:
    """A policy file whose learners may each spend `cap`, and all together no more either."""
    least = min(cap / 100, Fraction(1, 10_000))
    lines = ['name = "attacked"', f'cap = "{cap}"', f'least_cost = "{least}"', f'least_query_cost = "{least}"']
    lines.append(f"open_studies = {OPEN_STUDIES}")
    for name, key in learners.items():
        lines += ["[[learners]]", f"name = {json.dumps(name)}", f'key = "{key.public.hex()}"', f'cap = "{cap}"']
    return "\n".join(lines)


class _InMemory:
    def __init__(self, site: Site) -> None:
        self._site = site
        self.identity, self.handle = site.identity, site.handle

    def restart(self) -> None:
        raise ConfigurationError("a curator in memory keeps nothing over a restart; open it on disk")


@contextmanager
def in_memory(records: pl.DataFrame, schema: str, policy: str) -> Iterator[Attacked]:
    """A curator whose ledger is gone with it. It cannot be restarted."""
    with temporary_site(records, read_steward_file(schema), read_policy(policy)) as site:
        yield _InMemory(site)


class _OnDisk:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._site = open_site(folder)
        self.identity = self._site.identity

    def handle(self, data: bytes) -> bytes:
        return self._site.handle(data)

    def restart(self) -> None:
        self.close()
        self._site = open_site(self._folder)

    def close(self) -> None:
        self._site.close()


@contextmanager
def on_disk(records: pl.DataFrame, schema: str, policy: str) -> Iterator[Attacked]:
    """A curator as it is deployed: a folder with policy, schema, records, key, ledger and mark."""
    with tempfile.TemporaryDirectory(prefix="expril-audit-") as name:
        folder = Path(name)
        create_site(folder, policy=policy, schema=schema, records=records)
        opened = _OnDisk(folder)
        try:
            yield opened
        finally:
            opened.close()
