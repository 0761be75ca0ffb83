"""How a curator answers each query kind; one file and one line per kind."""

from collections.abc import Mapping
from types import MappingProxyType

from curator_node.answerers.blog_holdout import BLOG_HOLDOUT
from curator_node.answerers.counts import COUNTS
from curator_node.answerers.holdout import HOLDOUT
from curator_node.answerers.secure_counts import SECURE_COUNTS
from curator_node.answering import Answerer

ANSWERERS: Mapping[str, Answerer] = MappingProxyType(
    {answerer.kind.name: answerer for answerer in (COUNTS, SECURE_COUNTS, HOLDOUT, BLOG_HOLDOUT)}
)
"""What a curator has unless it is given others."""
