"""How a curator answers each query kind; one file and one line per kind."""

from collections.abc import Callable

from curator_node.answerers import counts
from curator_node.dataset import PrivateDataset
from curator_node.mechanisms import NoiseSource, Stamp
from protocol.plans import PlannedQuery
from protocol.queries.counts import CountsBody

Answerer = Callable[[CountsBody, PlannedQuery, PrivateDataset, NoiseSource, Stamp], bytes]
"""(checked body, planned query, records, noise, stamp) -> release body; must not fail because of a record."""

ANSWERERS: dict[str, Answerer] = {
    "counts": counts.answer,
}
