"""Carriers of envelopes between a simulation's learners and curators; `stages` chooses among them.

A `Carry` calls `work` with a carrier to curators that this process can call (`direct.carry`, `in_process.carry`);
`cores` keeps them open in other processes, and carries envelopes there itself. A `Serve` calls it with a carrier to
curators that other processes open from their folders (`ray_engine.serve`, `superlink.Deployment.serve`).
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from learner_node.study.federation import Carrier

PROCESS, CORES, RAY, DEPLOY = "process", "cores", "ray", "deploy"
CARRIERS = {
    PROCESS: "Flower in one process",
    CORES: "pipes to curators in a process a core",
    RAY: "Flower's simulation engine (Ray)",
    DEPLOY: "a SuperLink with TLS, and a daemon for each curator",
}
"""Name -> description. Importing this module loads no carrier."""

Handle = Callable[[bytes], bytes]
"""A curator: envelope -> envelope. Raises ConnectionError if no reply comes back."""


class Carry(Protocol):
    """A way to carry envelopes to curators of this process."""

    def __call__(self, handles: Mapping[bytes, Handle], work: "Callable[[Carrier], None]") -> None:
        """Call `work` with a carrier to `handles`, which are keyed by curators' public keys."""


class Serve(Protocol):
    """A way to carry envelopes to curators that other processes serve from their folders."""

    def __call__(self, folders: Mapping[bytes, Path], work: "Callable[[Carrier], None]") -> None:
        """Call `work` once with a carrier to the curators; their processes have ended when this returns.

        `folders` maps curators' public keys to folders made by `simulations.carriers.sites.make_folder`.
        """
