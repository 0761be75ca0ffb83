"""A learner's table of readers: those that are shipped, and those of packages of others that a study names.

A study names a package by naming a strategy, a query kind or a partition that it offers. Nothing else is imported,
whatever is installed, and whatever a card says.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from expril.packages import Package, loaded_halves, loaded_partitions, package_of
from learner_node.kinds import READERS
from learner_node.strategies import STRATEGIES
from learner_node.study.federation import Federation
from learner_node.study.reading import Reader
from protocol.partitions import PARTITION_KINDS
from protocol.plug_ins import Group


def named_package(*, strategy: str = "", kind: str = "", partition: str = "") -> Package | None:
    """The package that offers a strategy, a kind or a partition that is not shipped; None if it is shipped, or unknown.

    Its files are compared with its RECORD before anything is imported, unless it is installed in editable form.

    Raises ConfigurationError: several packages offer the name, or a file is not as RECORD says.
    """
    package = None
    if strategy and strategy not in STRATEGIES:
        package = package_of(strategy, Group.STRATEGIES)
    if package is None and kind and kind not in READERS:
        package = package_of(kind, Group.READERS)
    if package is None and partition and partition not in PARTITION_KINDS:
        package = package_of(partition, Group.PARTITIONS)
    if package is not None:
        package.secure_unless_editable()
    return package


def with_package(readers: Mapping[str, Reader], package: Package | None) -> Mapping[str, Reader]:
    """The readers, and those of a package, which also read its partitions.

    Raises ConfigurationError: something that it offers does not fit.
    """
    if package is None:
        return readers
    table = {**readers, **loaded_halves(package, Group.READERS, Reader, READERS)}
    types = tuple(loaded_partitions(package).values())
    return {name: replace(reader, kind=reader.kind.with_partitions(types)) for name, reader in table.items()}


def with_named(
    federation: Federation, *, strategy: str = "", kind: str = "", partitions: Iterable[str] = ()
) -> Federation:
    """The federation, which may also be asked what the packages of these ask; raises likewise."""
    packages = [named_package(strategy=strategy, kind=kind), *(named_package(partition=name) for name in partitions)]
    readers = federation.readers
    for package in {package.name: package for package in packages if package is not None}.values():
        readers = with_package(readers, package)
    return replace(federation, readers=readers)
