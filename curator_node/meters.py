"""How much of a curator's attention is used: by each learner, by each study, and by what nobody answers for.

A learner answers for what it signed, once: for a message that is in time and that this process has not seen. Whoever
holds old bytes can send them again, so those count on the channel. What is counted of a learner is never more than it
signed itself: also after a restart, which begins anew, since a message counts on the day in which it expires, whenever
it comes.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from curator_node.ledger import StudyKey
from curator_node.policy import Policy
from protocol.messages import CardRequest, Message
from protocol.refusals import RefusalCode

STRAY = frozenset({RefusalCode.EXPIRED, RefusalCode.NOT_YET_VALID, RefusalCode.WRONG_RECIPIENT})
"""Why a message that a learner signed is none that it answers for here and now."""
_DAY = 86_400


@dataclass
class _Day:
    """The messages that expire on one day.

    Attributes:
        requests, refusals: by learner.
        seen: digests of the requests that were counted; no more of a learner than its policy lets it send.
        refused: of them, those that were refused for good.
    """

    requests: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    seen: set[bytes] = field(default_factory=set)
    refused: set[bytes] = field(default_factory=set)


class Meter:
    """Counts requests and final refusals, over all keys of a learner, and what comes on the channel beside them.

    Kept in memory: at most `requests_per_day` digests a learner and day, of the days in which a message may expire.
    """

    def __init__(self) -> None:
        self._days: defaultdict[int, _Day] = defaultdict(_Day)
        self._of_studies: Counter[StudyKey] = Counter()
        self._today = 0
        self._stray = 0

    def complaint_about(self, message: Message, identity: bytes, now: int, policy: Policy) -> str:
        """Count a request of a learner; which limit rules it out, "" where none does.

        Args:
            message: what it says; its signature is verified.
            identity: digest of the request.
            now: the time.
            policy: of today.
        """
        self._turn(now)
        late = message.expires_at <= now
        if late or identity in self._days[message.expires_at // _DAY].seen:
            # What may still take effect is served: its learner may be the one who repeats it.
            over = self.stray(now, policy) and isinstance(message, CardRequest)
            return f"at most {policy.stray_messages_per_day} repeated and stray messages a day" if over else ""
        day, key = self._days[message.expires_at // _DAY], StudyKey(message.sender, message.study)
        name = _name(policy, key)
        if day.requests[name] >= policy.requests_per_day:
            return f"at most {policy.requests_per_day} requests a day"
        if day.refusals[name] >= policy.refusals_per_day:
            return f"at most {policy.refusals_per_day} refused requests a day"
        if self._of_studies[key] >= policy.refusals_per_study:
            return f"at most {policy.refusals_per_study} refused requests a study"
        day.requests[name] += 1
        day.seen.add(identity)
        return ""

    def stray(self, now: int, policy: Policy) -> bool:
        """Count a message that no learner answers for (late, repeated, forged, misaddressed); whether it floods."""
        self._turn(now)
        self._stray += 1
        return self._stray > policy.stray_messages_per_day

    def refused(self, message: Message, identity: bytes, known: bool, policy: Policy) -> None:
        """Count a final refusal of a request that was counted, once; `known` where the ledger holds the study."""
        day = self._days.get(message.expires_at // _DAY)
        if day is None or identity not in day.seen or identity in day.refused:
            return
        day.refused.add(identity)
        key = StudyKey(message.sender, message.study)
        day.refusals[_name(policy, key)] += 1
        if known:
            self._of_studies[key] += 1

    def _turn(self, now: int) -> None:
        """Forget what expired before today, once a day."""
        if now // _DAY == self._today:
            return
        self._today, self._stray = now // _DAY, 0
        for day in [day for day in self._days if day < self._today]:
            del self._days[day]


def _name(policy: Policy, key: StudyKey) -> str:
    learner = policy.learner(key.learner)
    return "" if learner is None else learner.name
