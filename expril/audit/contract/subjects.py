"""What is installed under a name, with its page and its vectors: ours, or those of a package of others.

A package keeps `page.md` and `vectors.json` beside the module of its auditor's half. Our pages are in docs/kinds of
a checkout, and our vectors in the conformance suite, which is a package of its own.
"""

import inspect
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from curator_node.answering import Answerer
from curator_node.kinds import ANSWERERS
from expril.audit.contract.kinds import KindSubject
from expril.audit.kinds import AUDITED_KINDS
from expril.audit.kinds.kind_audit import KindAudit
from expril.audit.plug_ins import tables_for
from expril.packages import installed_packages, package_of
from learner_node.kinds import READERS
from learner_node.plug_ins import with_package
from learner_node.study.reading import Reader
from protocol.errors import ConfigurationError
from protocol.plug_ins import Group
from protocol.strict_toml import suggest

ROOT = Path(__file__).resolve().parents[3]
"""Of a checkout; elsewhere there are no pages of our kinds."""
PAGE, VECTORS = "page.md", "vectors.json"
SUITE = "expril_conformance"
"""The package that holds vectors of the whole protocol."""


def kind_subject(name: str) -> KindSubject:
    """Return an installed query kind with all its halves.

    Raises:
        ConfigurationError: there is none of that name.
    """
    answerer, audit, reader = _halves(name)
    beside = Path(inspect.getfile(type(audit))).parent
    pages = [beside / PAGE, ROOT / "docs" / "kinds" / f"{name}.md"]
    texts = [path.read_text(encoding="utf-8") for path in (*pages, *_vector_files(beside)) if path.is_file()]
    page = next((text for text in texts if text.startswith("#")), "")
    return KindSubject(audit, answerer, reader, page, tuple(text for text in texts if text != page))


def _halves(name: str) -> tuple[Answerer, KindAudit, Reader | None]:
    if name in ANSWERERS:
        return ANSWERERS[name], AUDITED_KINDS.audits[name], READERS[name]
    package = package_of(name, Group.KINDS)
    if package is None:
        others = [kind for offering in installed_packages().values() for kind in offering.names(Group.KINDS)]
        raise ConfigurationError(
            f"unknown query kind {name!r}{suggest(name, [*ANSWERERS, *others])}; a package that offers it must be "
            "installed in this Python"
        )
    tables = tables_for(name)
    for group, halves in ((Group.ANSWERERS, tables.answerers), (Group.AUDITS, tables.audits)):
        if name not in halves:
            raise ConfigurationError(
                f"{package.title} offers the kind {name!r}, and no entry point {name!r} in {group}"
            )
    return tables.answerers[name], tables.audits[name], with_package(READERS, package).get(name)


def _vector_files(beside: Path) -> Iterator[Path]:
    yield beside / VECTORS
    suite = find_spec(SUITE)
    folders = [ROOT / "conformance" / SUITE, *map(Path, suite.submodule_search_locations or () if suite else ())]
    for folder in folders[:1] if folders[0].is_dir() else folders:
        yield from sorted((folder / "vectors").glob("*.json"))
