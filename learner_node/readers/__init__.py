"""How a learner writes each query kind's body and reads its release; one file and one line per kind."""

from collections.abc import Callable

from learner_node.readers import counts
from protocol.plans import PlannedQuery
from protocol.queries.counts import CountsBody
from protocol.schema import Schema

Reader = Callable[[bytes, CountsBody, PlannedQuery, Schema], counts.CountsAnswer]
"""(release body, what was asked, planned query, schema) -> answer; RemoteProtocolError for a wrong shape."""

READERS: dict[str, Reader] = {
    "counts": counts.read,
}
