"""The query kinds that ExPriL answers, as far as both sides must agree.

A new kind is one file here, one in `curator_node/kinds/`, one in `learner_node/kinds/`, one in `expril/audit/kinds/`,
and a line in each of their tables; a test says that they agree.
"""

from protocol.kinds.counts import COUNTS
from protocol.kinds.holdout import HOLDOUT
from protocol.kinds.model import MODEL
from protocol.kinds.sample import SAMPLE
from protocol.kinds.secure_counts import SECURE_COUNTS
from protocol.kinds.statistic import STATISTIC
from protocol.query_kind import Kinds

QUERY_KINDS = Kinds(
    COUNTS,
    SECURE_COUNTS,
    HOLDOUT,
    SAMPLE,
    MODEL,
    STATISTIC,
)
"""The default query kinds of a program."""
