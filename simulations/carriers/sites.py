"""Builds a simulation's curators and their faults, and opens one in this process or from a folder.

For carriers to other processes, a curator's folder is made as a steward would. Seeded noise and faults, which only a
simulation may add, are in a separate file there, which only `open_simulated` reads.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from curator_node.ledger import memory_ledger
from curator_node.ledger.checks import CheckedLedger, check
from curator_node.ledger.places import create_ledger_file, open_ledger_file, read_ledger_file
from curator_node.ledger.store import backup
from curator_node.policy import LearnerPolicy, Policy
from curator_node.records.schema_file import SchemaFile
from curator_node.site import LEDGER, Site, assemble_site, create_site, hold_records, now, open_site, policy_of
from expril.packages import offering
from learner_node.strategies import STRATEGIES
from learner_node.study.pooling import SECURE
from protocol.envelopes import SigningKey, open_envelope
from protocol.errors import ConfigurationError
from protocol.kinds import QUERY_KINDS
from protocol.kinds.secure_counts import SECURE_COUNTS
from protocol.limits import Limits
from protocol.messages import CardRequest
from protocol.plug_ins import Group, PlugIn
from protocol.run_index import ledger_file
from protocol.secure_sum.group import LEAST_PARTICIPANTS
from simulations.carriers import Handle
from simulations.kinds import SIMULATED_ANSWERERS
from simulations.records import SiteRecords
from simulations.scenario import Fault, Scenario
from simulations.seeded_noise import SeededNoise


class NoReplyError(ConnectionError):
    """The curator sends no reply this time."""


class FaultyCurator:
    """A curator's `handle` with faults.

    `halt` is the steward's stop, called with a note for a fault of kind "refuse".
    """

    def __init__(self, handle: Handle, faults: list[Fault], halt: Callable[[str], None]) -> None:
        self._handle = handle
        self._faults = faults
        self._halt = halt
        self._late: set[tuple[bytes, int]] = set()

    def handle(self, data: bytes) -> bytes:
        """Return the reply. Raises NoReplyError where a fault withholds it."""
        _, message = open_envelope(data)
        if isinstance(message, CardRequest):
            return self._handle(data)
        for fault in self._faults:
            if message.sequence < fault.round:
                continue
            if fault.kind == "vanish":
                raise NoReplyError
            if fault.kind == "refuse":
                self._halt("the scenario's steward said stop")
            elif message.sequence == fault.round and (message.study, message.sequence) not in self._late:
                self._late.add((message.study, message.sequence))
                self._handle(data)
                raise NoReplyError
        return self._handle(data)


SIMULATED = "simulated.json"
"""File in a site's folder for what only a simulation may do there."""


class Simulated(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A simulation's additions to a site."""

    noise_seed: int | None = None  # None draws real noise
    faults: tuple[Fault, ...] = ()

    def noise(self, name: str) -> SeededNoise | None:
        """The site's seeded noise; None is real noise."""
        return None if self.noise_seed is None else SeededNoise(self.noise_seed, name)

    def handle_of(self, site: Site) -> Handle:
        """The site's handle with its faults."""
        return FaultyCurator(site.handle, list(self.faults), site.halt).handle if self.faults else site.handle


@dataclass(frozen=True, kw_only=True)
class FaultySite(Site):
    """A site with faults."""

    faulty: Handle

    def handle(self, data: bytes) -> bytes:
        """Answer as `Site.handle`. Raises NoReplyError where no reply arrives."""
        return self.faulty(data)


@dataclass(frozen=True)
class SiteOrder:
    """What one site's curator is made from."""

    private: pl.DataFrame
    steward: SchemaFile
    policy: Policy
    simulated: Simulated
    note: str  # kept in its ledger
    key: SigningKey = field(default_factory=SigningKey.generate)  # its signing key, which others' policies may name

    @property
    def name(self) -> str:
        """Name of the site."""
        return self.policy.name


@dataclass(frozen=True)
class CuratorFacts:
    """The public facts of a curator."""

    identity: bytes  # public key
    label: str  # under which it signs
    policy: Policy  # as the scenario wrote it
    warnings: tuple[str, ...] = ()  # what its steward was warned of; a real curator's learners never hear it


def order_sites(
    scenario: Scenario, parts: Iterable[SiteRecords], repeat: int, learners: Mapping[str, SigningKey]
) -> list[SiteOrder]:
    """Make the orders of all sites' curators.

    If a learner pools securely, each curator's policy lists all curators as members of secure sums. `parts` come from
    `split_records`; `repeat` seeds the noise, if it is seeded; the public keys of `learners` enter the policies.
    """
    keys = {part.name: (part, SigningKey.generate()) for part in parts}
    secure = any(learner.pooling == SECURE for learner in scenario.learners)
    members = tuple(key.public.hex() for _, key in keys.values()) if secure else ()
    return [_order_site(scenario, part, repeat, learners, key, members) for part, key in keys.values()]


def _plug_ins(scenario: Scenario) -> tuple[PlugIn, ...]:
    """The packages of others whose strategies the learners use; their partitions are asked of every curator."""
    return offering({learner.strategy for learner in scenario.learners} - STRATEGIES.keys(), Group.STRATEGIES)


def _order_site(
    scenario: Scenario,
    part: SiteRecords,
    repeat: int,
    learners: Mapping[str, SigningKey],
    key: SigningKey,
    members: tuple[str, ...],
) -> SiteOrder:
    entry = scenario.curator(part.name)
    try:
        entry = msgspec.structs.replace(entry, limits=with_members(entry.limits, members))
    except ValueError as error:  # what its limits say does not suit so many members
        raise ConfigurationError(str(error)) from None
    policies = [
        LearnerPolicy(name=learner, key=key.public.hex(), cap=entry.cap_of(learner))
        for learner, key in learners.items()
    ]
    return SiteOrder(
        part.private,
        part.steward,
        entry.policy(policies, name=part.name, plug_ins=_plug_ins(scenario)),
        Simulated(
            None if scenario.noise_seed is None else scenario.noise_seed * 1_000_003 + repeat,
            tuple(fault for fault in scenario.faults if fault.curator == part.name),
        ),
        f"made by a simulation of {scenario.title}",
        key,
    )


def with_members(limits: Limits, members: tuple[str, ...]) -> Limits:
    """Return limits that also allow secure sums with these members; without members, nothing changes.

    `members` are public keys in hexadecimal. Existing limits on secure sums stay. Limits that name query kinds but not
    `secure_counts` do not allow it.

    Raises ConfigurationError: there is only one member.
    """
    kinds = dict(QUERY_KINDS.allowed(limits))
    named = not isinstance(limits.kinds, msgspec.UnsetType)
    if not members or (named and SECURE_COUNTS.name not in kinds):
        return limits
    if len(members) < LEAST_PARTICIPANTS:
        raise ConfigurationError(
            f'one curator alone is no secure sum; name more, or pool by "sum" instead of "{SECURE}"'
        )
    kinds[SECURE_COUNTS.name] = {"members": list(members), **kinds.get(SECURE_COUNTS.name, {})}
    return msgspec.structs.replace(limits, kinds=kinds)


def open_here(order: SiteOrder, ledgers: Path | None = None) -> Site:
    """Open a site's curator in this process with a new ledger, in the folder `ledgers` or, with None, in memory."""
    key = order.key
    dataset = hold_records(order.private, order.steward, order.policy, key)
    if ledgers is None:
        ledger = memory_ledger(key)
    else:
        path = ledgers / ledger_file(order.name)
        create_ledger_file(path, key, now=now(), note=order.note)
        ledger = open_ledger_file(path, key)
    return assemble_site(
        dataset,
        order.policy,
        key=key,
        ledger=ledger,
        noise=order.simulated.noise(order.name),
        answerers=SIMULATED_ANSWERERS,
    )


def facts_of(site: Site) -> CuratorFacts:
    """The public facts of an open curator."""
    return CuratorFacts(site.identity, site.label, site.policy, site.warnings)


def make_folder(order: SiteOrder, folder: Path) -> CuratorFacts:
    """Make a folder with a site's curator and a new ledger, for another process to open.

    Raises ConfigurationError: the records or the policy are wrong; the curator is opened here once as a check.
    """
    folder.mkdir(parents=True)
    create_site(
        folder,
        policy=as_toml(order.policy),
        schema=as_toml(order.steward),
        records=order.private,
        note=order.note,
        key=order.key,
    )
    (folder / SIMULATED).write_bytes(msgspec.json.encode(order.simulated))
    with open_simulated(folder) as site:
        return facts_of(site)


def open_simulated(folder: Path, **how: Any) -> Site:
    """Open the curator of a folder that `make_folder` made, with the simulation's noise and faults.

    `how` is passed to `open_site`. Raises ConfigurationError: no simulation made the folder, or `open_site` raises it.
    """
    simulated = simulated_of(folder)
    noise = simulated.noise(policy_of(folder, SIMULATED_ANSWERERS).name)
    site = open_site(folder, noise=noise, answerers=SIMULATED_ANSWERERS, **how)
    return with_handle(site, simulated.handle_of(site)) if simulated.faults else site


def with_handle(site: Site, handle: Handle) -> Site:
    """The site with `handle` in front of its own."""
    parts = {name: part for name, part in vars(site).items() if name != "faulty"}
    return FaultySite(**parts, faulty=handle)


def simulated_of(folder: Path) -> Simulated:
    """A simulation's additions to the site of a folder. Raises ConfigurationError: no simulation made it."""
    try:
        return msgspec.json.decode((folder / SIMULATED).read_bytes(), type=Simulated)
    except (OSError, msgspec.MsgspecError):
        raise ConfigurationError(f"{folder / SIMULATED} cannot be read: no simulation made {folder}") from None


def export_folder(folder: Path, ledgers: Path | None, facts: CuratorFacts) -> CheckedLedger:
    """Export the ledger of a site whose process has ended, as its steward would.

    `ledgers` is a folder for a copy of it, or None; `facts` are its curator's.
    """
    path = folder / LEDGER
    if ledgers is not None:
        copy = ledgers / ledger_file(facts.policy.name)
        backup(path, copy)  # with what the process left beside it when it ended
        path = copy
    with read_ledger_file(path) as store:
        return check(store, facts.identity)


def as_toml(file: msgspec.Struct) -> str:
    """The file as a steward writes it: TOML without fields that are None."""
    return msgspec.toml.encode(_without_none(msgspec.to_builtins(file))).decode()


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    return [_without_none(item) for item in value] if isinstance(value, list | tuple) else value
