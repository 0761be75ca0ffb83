"""What a scenario, or a table with its schema file, asks of a learner's quote.

Nothing private is read: a scenario's source records are public, and of its curators only what they declare is used.
"""

from learner_node.questions.quote import Target
from learner_node.questions.quote_report import Request
from learner_node.strategies import DEFAULT_STRATEGY, selected
from learner_node.strategies.base import assumed_size
from learner_node.study.pooling import SUMMED
from protocol.limits import Limits
from simulations.records import Quoted


def request_of(quoted: Quoted) -> Request:
    """The request for what was read."""
    learner, stewards = quoted.learner, quoted.stewards
    if learner is not None and learner.pooling == "site":
        stewards = stewards[:1]
    sizes = [steward.round_size for steward in stewards]
    limits = quoted.limits if learner else [(Limits(), size) for size in sizes]
    return Request(
        title=quoted.title,
        source=quoted.source,
        target=Target(
            sites=len(stewards),
            size=assumed_size(sizes, len(quoted.source)),
            most_records_per_unit=max(steward.most_records_per_unit for steward in stewards),
            pooling=learner.pool if learner else SUMMED,
            willing=selected.willing(limits),
        ),
        declared=None not in sizes,
        strategy=learner.strategy if learner else DEFAULT_STRATEGY,
        options=dict(learner.options) if learner else {},
    )
