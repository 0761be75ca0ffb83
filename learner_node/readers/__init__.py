"""How a learner reads each query kind; one file and one line per kind."""

from collections.abc import Mapping
from types import MappingProxyType

from learner_node.readers.counts import COUNTS
from learner_node.readers.secure_counts import SECURE_COUNTS
from learner_node.readers.statistic import STATISTIC
from learner_node.reading import Reader

READERS: Mapping[str, Reader] = MappingProxyType(
    {reader.kind.name: reader for reader in (COUNTS, SECURE_COUNTS, STATISTIC)}
)
"""What a learner has unless it is given others."""
