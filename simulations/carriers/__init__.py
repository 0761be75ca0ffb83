"""How a simulation carries envelopes between learners and curators; `stages` names the ways.

A `Carry` takes handles and lends a carrier over them for as long as some work takes: `direct.carry` and
`in_process.carry`. A `Serve` takes the folders of sites, and lends a carrier to curators that other processes open
there. Faults wrap a handle and fit under all of them.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from learner_node.study.federation import Carrier

PROCESS, RAY, DEPLOY = "process", "ray", "deploy"
CARRIERS = {
    PROCESS: "Flower in one process",
    RAY: "Flower's simulation engine (Ray)",
    DEPLOY: "a SuperLink with TLS, and a daemon for each curator",
}
"""Name -> what it is, for people. Names load nothing: whoever reads them waits for no carrier."""

Handle = Callable[[bytes], bytes]
"""A curator: envelope -> envelope; a ConnectionError means that nothing came back."""


class Carry(Protocol):
    """A way to carry envelopes to curators of this process."""

    def __call__(self, handles: Mapping[bytes, Handle], work: "Callable[[Carrier], None]") -> None:
        """Do `work` with a carrier to `handles`, which are told by their curators' public keys."""


class Serve(Protocol):
    """A way to have curators served from their folders by other processes, and to carry envelopes to them."""

    def __call__(self, folders: Mapping[bytes, Path], work: "Callable[[Carrier], None]") -> None:
        """Do `work` with a carrier to the curators; their processes have ended when this returns.

        Args:
            folders: curator's public key -> its folder, made by `simulations.carriers.sites.make_folder`.
            work: what to do.
        """
