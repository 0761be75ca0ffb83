"""A deployment on this machine: a SuperLink with TLS and node authentication, and a daemon for each curator.

The learners speak to the SuperLink as they do anywhere, from this process. A curator is served by the command that its
steward would use; only where noise comes from a seed, or faults are wanted, by a launcher that passes them in.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from curator_node.daemon.node_key import write_node_key
from curator_node.daemon.settings import DAEMON, NODE_KEY, NODE_PUBLIC
from curator_node.steward.new_site import daemon_template
from learner_node.carriers.superlink import SuperLinkCarrier
from learner_node.carriers.superlink_run import SuperLinkAddress
from learner_node.study.study import Carrier
from protocol.envelopes import SigningKey
from simulations.carriers.processes import Processes
from simulations.carriers.sites import Simulated, simulated_of
from simulations.carriers.superlink import SuperLink, free_port

CA = "ca.crt"
TIMEOUT_SECONDS, IMPATIENT_SECONDS = 60.0, 10.0
"""For replies; a curator that misses it is left out. The second holds where a fault of the scenario is silence."""
ONLINE = "online"


def online(link: SuperLink) -> set[int]:
    """The nodes that are connected to a SuperLink."""
    return {node for node, status in link.nodes().items() if status == ONLINE}


class Deployment:
    """A SuperLink that serves any number of simulations; a context manager.

    Args:
        folder: for everything that it leaves.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._link = SuperLink(folder / "superlink")

    def serve(self, folders: Mapping[bytes, Path], work: Callable[[Carrier], None]) -> None:
        """See `simulations.carriers.Serve`."""
        with Processes(self._folder) as processes:
            nodes = {self._start(processes, folder) for folder in folders.values()}
            processes.wait(lambda: online(self._link) >= nodes, "to start the curators' daemons")
            silence = any(simulated_of(folder).faults for folder in folders.values())
            with SuperLinkCarrier(
                SuperLinkAddress(self._link.address, self._link.ca.read_bytes(), self._link.secret.read_bytes()),
                SigningKey.generate(),
                folders.keys(),
                timeout=IMPATIENT_SECONDS if silence else TIMEOUT_SECONDS,
            ) as carrier:
                work(carrier)

    def __enter__(self) -> Self:
        self._link.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._link.stop()

    def _start(self, processes: Processes, folder: Path) -> int:
        """Let a site's node in, and start its daemon; Flower's number of the node."""
        (folder / DAEMON).write_text(daemon_template(self._link.address, free_port()), encoding="utf-8")
        (folder / CA).write_bytes(self._link.ca.read_bytes())
        write_node_key(folder / NODE_KEY, folder / NODE_PUBLIC)
        node = self._link.register(folder / NODE_PUBLIC)
        if simulated_of(folder) == Simulated():
            processes.start(f"curator-{folder.name}", "expril", "curator", "serve", str(folder))
        else:
            processes.start(f"curator-{folder.name}", "simulations.carriers.launch", str(folder))
        return node
