"""How a curator answers each query kind; one file and one line per kind."""

from collections.abc import Mapping
from types import MappingProxyType

from curator_node.answering import Answerer
from curator_node.kinds.counts import COUNTS
from curator_node.kinds.holdout import HOLDOUT
from curator_node.kinds.model import MODEL
from curator_node.kinds.sample import SAMPLE
from curator_node.kinds.secure_counts import SECURE_COUNTS
from curator_node.kinds.statistic import STATISTIC

_SHIPPED = (
    COUNTS,
    SECURE_COUNTS,
    HOLDOUT,
    SAMPLE,
    MODEL,
    STATISTIC,
)
ANSWERERS: Mapping[str, Answerer] = MappingProxyType({answerer.kind.name: answerer for answerer in _SHIPPED})
"""The answerers that a curator has by default, by query kind."""
