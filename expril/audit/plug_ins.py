"""What an auditor knows of packages of others, of which it named one, or a kind; nothing else is loaded.

Without it, a ledger or a transcript that holds the package's queries is read all the same: its sums are checked, and
what the queries cost is "not installed: unproven".
"""

from collections.abc import Mapping
from typing import NamedTuple

from curator_node.answering import Answerer
from curator_node.kinds import ANSWERERS
from curator_node.plug_ins import loaded_answerers
from expril.audit.kinds import AUDITED_KINDS
from expril.audit.kinds.kind_audit import KindAudit
from expril.packages import Package, installed_packages, loaded_halves, loaded_partitions, normalised, package_of
from protocol.errors import ConfigurationError
from protocol.plug_ins import Group
from protocol.strict_toml import suggest


class Tables(NamedTuple):
    """What the audit of a mechanism takes, by kind."""

    answerers: Mapping[str, Answerer]
    audits: Mapping[str, KindAudit]


def tables_for(kind: str) -> Tables:
    """The shipped tables, and what the package offers that has this kind; `kind` may name one of its things: "toy/sum".

    Raises ConfigurationError: the package does not fit.
    """
    name = kind.partition("/")[0]
    package = None if name in ANSWERERS else package_of(name, Group.ANSWERERS)
    if package is None:
        return Tables(ANSWERERS, AUDITED_KINDS.audits)
    package.secure_unless_editable()
    return Tables({**ANSWERERS, **loaded_answerers(package)}, {**AUDITED_KINDS.audits, **loaded_audits(package)})


def include(name: str) -> None:
    """Know an installed package's kinds and partitions from now on, in all that this process audits.

    Raises ConfigurationError: no such package is installed, or it does not fit.
    """
    packages = installed_packages()
    package = packages.get(normalised(name))
    if package is None:
        raise ConfigurationError(f"no plug-in {name!r} is installed{suggest(normalised(name), list(packages))}")
    package.secure_unless_editable()
    audits = loaded_audits(package)
    AUDITED_KINDS.include(audits.values(), tuple(loaded_partitions(package).values()))


def loaded_audits(package: Package) -> dict[str, KindAudit]:
    """The auditor's halves that a package offers; raises as `loaded_halves`."""
    return loaded_halves(package, Group.AUDITS, KindAudit, ANSWERERS)
