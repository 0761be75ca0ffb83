"""The query kinds that ExPriL answers, as far as both sides must agree.

A new kind is one file here, one in `curator_node/answerers/`, one in `learner_node/readers/`, and a line in each of
their three tables; a test says that the three agree.
"""

from protocol.kinds import Kinds
from protocol.queries.blog_holdout import BLOG_HOLDOUT
from protocol.queries.counts import COUNTS
from protocol.queries.holdout import HOLDOUT
from protocol.queries.model import MODEL
from protocol.queries.sample import SAMPLE
from protocol.queries.secure_counts import SECURE_COUNTS
from protocol.queries.statistic import STATISTIC

QUERY_KINDS = Kinds(
    COUNTS,
    SECURE_COUNTS,
    HOLDOUT,
    BLOG_HOLDOUT,
    SAMPLE,
    MODEL,
    STATISTIC,
)
"""What a program has unless it is given others."""
