"""Stages of a repeat, one per carrier: a stage opens the curators, carries envelopes, and exports the ledgers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

from curator_node.ledger.checks import CheckedLedger
from learner_node.study.federation import Carrier
from protocol.errors import ConfigurationError
from protocol.strict_toml import suggest
from simulations.carriers import CARRIERS, CORES, DEPLOY, PROCESS, RAY, Carry, Serve, cores, in_process
from simulations.carriers.sites import CuratorFacts, SiteOrder, export_folder, facts_of, make_folder, open_here

Ask = Callable[[Mapping[str, CuratorFacts], Carrier], None]


class Stage(Protocol):
    """Opens curators, provides a carrier to them, and exports their ledgers at the end."""

    def __call__(self, orders: Sequence[SiteOrder], ask: Ask, ledgers: Path | None = None) -> dict[str, CheckedLedger]:
        """Run one repeat and return the exported ledgers by curator's name.

        `ask` is called once with the curators' public facts by name and the carrier. `ledgers` is the folder for SQLite
        ledgers; None keeps none.
        """


def here(carry: Carry) -> Stage:
    """A stage with curators in this process."""

    def stage(orders: Sequence[SiteOrder], ask: Ask, ledgers: Path | None = None) -> dict[str, CheckedLedger]:
        with ExitStack() as stack:
            sites = {order.name: stack.enter_context(open_here(order, ledgers)) for order in orders}
            facts = {name: facts_of(site) for name, site in sites.items()}
            handles = {sites[order.name].identity: order.simulated.handle_of(sites[order.name]) for order in orders}
            carry(handles, lambda carrier: ask(facts, carrier))
            return {name: site.export() for name, site in sites.items()}

    return stage


IN_PROCESS = here(in_process.carry)


def elsewhere(serve: Serve) -> Stage:
    """A stage with curators in other processes, each with a temporary folder."""

    def stage(orders: Sequence[SiteOrder], ask: Ask, ledgers: Path | None = None) -> dict[str, CheckedLedger]:
        with TemporaryDirectory(prefix="expril-") as base:
            folders = {order.name: Path(base) / str(number) for number, order in enumerate(orders)}
            facts = {order.name: make_folder(order, folders[order.name]) for order in orders}
            serve(
                {fact.identity: folders[name] for name, fact in facts.items()},
                lambda carrier: ask(facts, carrier),
            )
            return {name: export_folder(folders[name], ledgers, fact) for name, fact in facts.items()}

    return stage


@contextmanager
def stage_of(name: str) -> Iterator[Stage]:
    """Provide the stage of a carrier for any number of repeats; its processes end with the context.

    Raises ConfigurationError: `name` is no key of `CARRIERS`, or the carrier cannot be started here.
    """
    if name == PROCESS:
        yield IN_PROCESS
    elif name == CORES:
        yield cores.stage
    elif name == RAY:
        from simulations.carriers import ray_engine  # noqa: PLC0415 - Ray is an extra

        yield elsewhere(ray_engine.serve)
    elif name == DEPLOY:
        from simulations.carriers.superlink import Deployment  # noqa: PLC0415 - loads what the others do not need

        with TemporaryDirectory(prefix="expril-superlink-") as place, Deployment(Path(place)) as deployment:
            yield elsewhere(deployment.serve)
    else:
        raise ConfigurationError(f"no carrier {name!r}{suggest(name, list(CARRIERS))}; there are {', '.join(CARRIERS)}")
