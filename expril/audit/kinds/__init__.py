"""An auditor's knowledge of each query kind, in one file for each. Nothing here attacks.

* `kind_audit`: what an auditor can know of a kind
* `invented`: records that are made up, and pairs of neighbouring sets of them
* `answer_path`: a question, its registered answerer, and all numbers that come back
* `exact`: worst-case loss by enumeration, also for noise in shares, some of which may be known
* `claimed_records`, `holdout_law`, `statistic_law`: records that count, and two laws, without any curator's code
"""

from expril.audit.kinds.blog_holdout import BlogHoldoutAudit
from expril.audit.kinds.counts import CountsAudit
from expril.audit.kinds.holdout import HoldoutAudit
from expril.audit.kinds.kind_audit import AuditedKinds
from expril.audit.kinds.model import ModelAudit
from expril.audit.kinds.sample import SampleAudit
from expril.audit.kinds.secure_counts import SecureCountsAudit
from expril.audit.kinds.statistic import StatisticAudit

AUDITED_KINDS = AuditedKinds(
    CountsAudit(),
    SecureCountsAudit(),
    HoldoutAudit(),
    BlogHoldoutAudit(),
    SampleAudit(),
    ModelAudit(),
    StatisticAudit(),
)
"""The kinds that an audit knows by default."""
