"""A simulation's curators: their parts, their faults, and two ways to open one, in this process or from a folder.

For carriers to other processes, a curator is put in a folder as by a steward. Noise from a seed and faults, which only
a simulation may add, are in a file of their own there, which nothing but `open_simulated` reads.
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
from learner_node.study.pooling import SECURE
from protocol.envelopes import SigningKey, open_envelope
from protocol.errors import ConfigurationError
from protocol.kinds import QUERY_KINDS
from protocol.kinds.secure_counts import SECURE_COUNTS
from protocol.limits import Limits
from protocol.messages import CardRequest
from protocol.secure_sum.group import LEAST_PARTICIPANTS
from simulations.carriers import Handle
from simulations.kinds import SIMULATED_ANSWERERS
from simulations.records import SiteRecords
from simulations.scenario import Fault, Scenario
from simulations.seeded_noise import SeededNoise


class NoReplyError(ConnectionError):
    """Nothing comes back from the curator this time."""


class FaultyCurator:
    """A curator's `handle` where faults happen.

    Args:
        handle: the curator's.
        faults: of this curator.
        halt: its steward's stop, with a note, for a fault of kind "refuse".
    """

    def __init__(self, handle: Handle, faults: list[Fault], halt: Callable[[str], None]) -> None:
        self._handle = handle
        self._faults = faults
        self._halt = halt
        self._late: set[tuple[bytes, int]] = set()

    def handle(self, data: bytes) -> bytes:
        """The reply; NoReplyError where a fault keeps it back."""
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
"""In a site's folder: what only a simulation may do there."""


class Simulated(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a simulation adds to a site."""

    noise_seed: int | None = None  # None draws real noise
    faults: tuple[Fault, ...] = ()

    def noise(self, name: str) -> SeededNoise | None:
        """Its source of noise; None is the real one."""
        return None if self.noise_seed is None else SeededNoise(self.noise_seed, name)

    def handle_of(self, site: Site) -> Handle:
        """The site's, with its faults."""
        return FaultyCurator(site.handle, list(self.faults), site.halt).handle if self.faults else site.handle


@dataclass(frozen=True, kw_only=True)
class FaultySite(Site):
    """A site where something goes wrong on purpose."""

    faulty: Handle

    def handle(self, data: bytes) -> bytes:
        """See `Site.handle`; NoReplyError where no reply arrives."""
        return self.faulty(data)


@dataclass(frozen=True)
class SiteOrder:
    """The parts of one site's curator."""

    private: pl.DataFrame
    steward: SchemaFile
    policy: Policy
    simulated: Simulated
    note: str  # kept in its ledger
    key: SigningKey = field(default_factory=SigningKey.generate)  # its signing key, which others' policies may name

    @property
    def name(self) -> str:
        """Of the site."""
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
    """The parts of the curators of all sites.

    Where a learner pools securely, each curator's policy lists all of them as members of secure sums.

    Args:
        scenario: the scenario.
        parts: of `split_records`.
        repeat: number of the repeat; seeds the noise, where it is seeded.
        learners: name -> key; their public halves enter the policies.
    """
    keys = {part.name: (part, SigningKey.generate()) for part in parts}
    secure = any(learner.pooling == SECURE for learner in scenario.learners)
    members = tuple(key.public.hex() for _, key in keys.values()) if secure else ()
    return [_order_site(scenario, part, repeat, learners, key, members) for part, key in keys.values()]


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
        entry.policy(policies, name=part.name),
        Simulated(
            None if scenario.noise_seed is None else scenario.noise_seed * 1_000_003 + repeat,
            tuple(fault for fault in scenario.faults if fault.curator == part.name),
        ),
        f"made by a simulation of {scenario.title}",
        key,
    )


def with_members(limits: Limits, members: tuple[str, ...]) -> Limits:
    """Limits that allow secure sums with these members, too.

    What limits say of secure sums themselves stays. Limits that name query kinds, and not this one, allow none.

    Args:
        limits: of a policy.
        members: public keys in hexadecimal; none changes nothing.

    Raises:
        ConfigurationError: there is one member alone.
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
    """Open the curator of a site in this process, with a new ledger.

    Args:
        order: its parts.
        ledgers: folder for SQLite ledgers; None keeps it in memory.
    """
    key = order.key
    dataset = hold_records(order.private, order.steward, order.policy, key)
    if ledgers is None:
        ledger = memory_ledger(key)
    else:
        path = ledgers / f"{order.name}.ledger"
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
    """Put a site's curator in a folder, with a new ledger, where another process opens it.

    Args:
        order: its parts.
        folder: for it; made.

    Raises:
        ConfigurationError: the records or the policy are wrong; the curator is opened here once to see.
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
    """Open the curator of a simulation's folder, with the noise and the faults of the simulation.

    Args:
        folder: made by `make_folder`.
        how: as `open_site` takes it.

    Raises:
        ConfigurationError: the folder is no simulation's, or see `open_site`.
    """
    simulated = simulated_of(folder)
    noise = simulated.noise(policy_of(folder, SIMULATED_ANSWERERS).name)
    site = open_site(folder, noise=noise, answerers=SIMULATED_ANSWERERS, **how)
    return with_handle(site, simulated.handle_of(site)) if simulated.faults else site


def with_handle(site: Site, handle: Handle) -> Site:
    """The site, with another handle before its own."""
    parts = {name: part for name, part in vars(site).items() if name != "faulty"}
    return FaultySite(**parts, faulty=handle)


def simulated_of(folder: Path) -> Simulated:
    """A simulation's additions to the site of a folder. Raises ConfigurationError: no simulation made it."""
    try:
        return msgspec.json.decode((folder / SIMULATED).read_bytes(), type=Simulated)
    except (OSError, msgspec.MsgspecError):
        raise ConfigurationError(f"{folder / SIMULATED} cannot be read: no simulation made {folder}") from None


def export_folder(folder: Path, ledgers: Path | None, facts: CuratorFacts) -> CheckedLedger:
    """The ledger of a site whose process has ended, as its steward exports it.

    Args:
        folder: of the site.
        ledgers: folder where a copy is put; None makes none.
        facts: of its curator.
    """
    path = folder / LEDGER
    if ledgers is not None:
        copy = ledgers / f"{facts.policy.name}.ledger"
        backup(path, copy)  # with what the process left beside it when it ended
        path = copy
    with read_ledger_file(path) as store:
        return check(store, facts.identity)


def as_toml(file: msgspec.Struct) -> str:
    """As a steward writes it: without fields of None."""
    return msgspec.toml.encode(_without_none(msgspec.to_builtins(file))).decode()


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    return [_without_none(item) for item in value] if isinstance(value, list | tuple) else value
