"""How much of a curator's attention each learner has used: requests and refusals, by day and by study.

Counted in memory, so a restart begins anew; what is remembered of refusals is bounded in the store as well.
"""

from collections import Counter

from curator_node.ledger import StudyKey
from curator_node.policy import Policy

_DAY = 86_400


class Meter:
    """Counts requests and final refusals; only of learners that a policy names, so it stays small."""

    def __init__(self) -> None:
        self._day = 0
        self._requests: Counter[bytes] = Counter()
        self._refusals: Counter[bytes] = Counter()
        self._of_studies: Counter[StudyKey] = Counter()

    def complaint_about(self, key: StudyKey, now: int, policy: Policy) -> str:
        """Count a request; which limit rules it out, "" where none does."""
        if now // _DAY != self._day:
            self._day = now // _DAY
            self._requests.clear()
            self._refusals.clear()
        self._requests[key.learner] += 1
        if self._requests[key.learner] > policy.requests_per_day:
            return f"at most {policy.requests_per_day} requests a day"
        if self._refusals[key.learner] >= policy.refusals_per_day:
            return f"at most {policy.refusals_per_day} refused requests a day"
        if self._of_studies[key] >= policy.refusals_per_study:
            return f"at most {policy.refusals_per_study} refused requests a study"
        return ""

    def refused(self, key: StudyKey, known: bool) -> None:
        """Count a final refusal; `known` where the ledger holds the study."""
        self._refusals[key.learner] += 1
        if known:
            self._of_studies[key] += 1
