"""A curator's table of answerers: those that are shipped, and those of the packages that its policy names.

Each curator has a table of its own, also where several share a process: what one policy names, no other curator reads
or answers.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from curator_node.answering import Answerer
from curator_node.kinds import ANSWERERS
from curator_node.policy import POLICY_NAME, Policy, settled_limits
from expril.packages import Package, loaded_halves, loaded_partitions, named_packages
from protocol.partitions import PARTITION_KINDS
from protocol.plug_ins import Group
from protocol.query_kind import Kinds, table_of


def plugged(policy: Policy, answerers: Mapping[str, Answerer] = ANSWERERS) -> Mapping[str, Answerer]:
    """The answerers of a curator with this policy: these, and those of its plug-ins, which also read its partitions.

    Raises ConfigurationError: a plug-in is not what the policy names (`named_packages`), or does not fit.
    """
    if not policy.plug_ins:
        return answerers
    table, partitions = dict(answerers), dict[str, type[Any]]()
    for package in named_packages(policy.plug_ins, simulation=policy.simulation):
        partitions |= loaded_partitions(package, {**PARTITION_KINDS, **partitions})
        table |= loaded_answerers(package, table)
    types = tuple(partitions.values())
    return {name: replace(answerer, kind=answerer.kind.with_partitions(types)) for name, answerer in table.items()}


def loaded_answerers(package: Package, others: Mapping[str, Any] = ANSWERERS) -> dict[str, Answerer]:
    """The answerers that a package offers; raises as `loaded_halves`."""
    return loaded_halves(package, Group.ANSWERERS, Answerer, others, others)


def kinds_of(policy: Policy, answerers: Mapping[str, Answerer] = ANSWERERS) -> Kinds:
    """The query kinds of `plugged`; raises likewise."""
    return table_of(answerer.kind for answerer in plugged(policy, answerers).values())


def check_policy(policy: Policy, answerers: Mapping[str, Answerer] = ANSWERERS, *, where: str = POLICY_NAME) -> None:
    """Raise ConfigurationError unless a policy's plug-ins and limits can be used."""
    settled_limits(policy, kinds_of(policy, answerers), where=where)


def remarks_on(policy: Policy) -> tuple[str, ...]:
    """What the steward should know of the plug-ins."""
    if not policy.plug_ins or not policy.simulation:
        return ()
    packages = named_packages(policy.plug_ins, simulation=True)
    return tuple(
        f"the plug-in {package.title} is installed in editable form, and its code was not compared with anything; only "
        "a simulation takes it"
        for package in packages
        if package.editable
    )
