"""How much of a curator's attention each learner has used: requests and refusals, by day and by study.

Counted in memory, so a restart begins anew; what is remembered of refusals is bounded in the store as well.
"""

from collections import Counter

from curator_node.ledger import StudyKey
from curator_node.policy import Policy

_DAY = 86_400


class Meter:
    """Counts requests and final refusals, over all keys of a learner; only of learners that a policy names."""

    def __init__(self) -> None:
        self._day = 0
        self._requests: Counter[str] = Counter()
        self._refusals: Counter[str] = Counter()
        self._of_studies: Counter[StudyKey] = Counter()

    def complaint_about(self, key: StudyKey, now: int, policy: Policy) -> str:
        """Count a request; which limit rules it out, "" where none does."""
        if now // _DAY != self._day:
            self._day = now // _DAY
            self._requests.clear()
            self._refusals.clear()
        name = _name(policy, key)
        self._requests[name] += 1
        if self._requests[name] > policy.requests_per_day:
            return f"at most {policy.requests_per_day} requests a day"
        if self._refusals[name] >= policy.refusals_per_day:
            return f"at most {policy.refusals_per_day} refused requests a day"
        if self._of_studies[key] >= policy.refusals_per_study:
            return f"at most {policy.refusals_per_study} refused requests a study"
        return ""

    def refused(self, key: StudyKey, known: bool, policy: Policy) -> None:
        """Count a final refusal; `known` where the ledger holds the study."""
        self._refusals[_name(policy, key)] += 1
        if known:
            self._of_studies[key] += 1


def _name(policy: Policy, key: StudyKey) -> str:
    learner = policy.learner(key.learner)
    return "" if learner is None else learner.name
