"""Who shares masks and secrets with whom: everybody with everybody."""

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True)
class Graph:
    """See the module.

    Attributes:
        size: nodes.
        local_colluders: most colluders among a node's holders.
    """

    size: int
    local_colluders: int

    def neighbours(self, node: int) -> tuple[int, ...]:
        """Ascending, without itself."""
        return tuple(other for other in range(self.size) if other != node)

    def holders(self, node: int) -> tuple[int, ...]:
        """Neighbours and itself."""
        return (*self.neighbours(node), node)

    def threshold(self, node: int) -> int:
        """Shares that give one of its secrets."""
        return (len(self.holders(node)) + self.local_colluders) // 2 + 1

    def holds(self, survivors: Collection[int]) -> bool:
        """Whether every survivor keeps enough holders."""
        return all(len(survivors) >= self.threshold(node) for node in survivors)


def graph_of(seed: bytes, size: int, colluders: int, dropouts: int) -> Graph:  # noqa: ARG001
    """The graph of a round."""
    return Graph(size, colluders)
