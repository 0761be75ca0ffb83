"""Classes for the tests of a package: one test for each duty of what it adds.

    from expril.audit.contract.suites import KindContract


    class TestAbove(KindContract):
        name = "above"

The kind is found as `expril conformance above` finds it, so the package is installed first.
"""

from functools import cache
from typing import ClassVar

import pytest

from expril.audit.contract.duties import Duty, judge
from expril.audit.contract.kinds import DUTIES, KindSubject
from expril.audit.contract.partitions import PARTITION_DUTIES, PartitionSubject
from expril.audit.contract.strategies import STRATEGY_DUTIES, StrategySubject
from expril.audit.contract.subjects import kind_subject

_subject = cache(kind_subject)


class KindContract:
    """A query kind's tests. `name` says which kind."""

    name: ClassVar[str]

    @property
    def subject(self) -> KindSubject:
        """The kind; override it for one that is not installed."""
        return _subject(self.name)

    @pytest.mark.parametrize("duty", DUTIES, ids=lambda duty: duty.name)
    def test_duty(self, duty: Duty) -> None:
        """Fails unless the duty is kept; the message says what to do."""
        verdict = judge(duty, self.subject, self.subject.audit.excuses)
        assert verdict.kept, verdict.line  # noqa: S101 - a test


class PartitionContract:
    """A partition's tests."""

    subject: ClassVar[PartitionSubject]

    @pytest.mark.parametrize("duty", PARTITION_DUTIES, ids=lambda duty: duty.name)
    def test_duty(self, duty: Duty) -> None:
        """Fails unless the duty is kept; the message says what to do."""
        verdict = judge(duty, self.subject, {})
        assert verdict.kept, verdict.line  # noqa: S101 - a test


class StrategyContract:
    """A strategy's tests."""

    subject: ClassVar[StrategySubject]

    @pytest.mark.parametrize("duty", STRATEGY_DUTIES, ids=lambda duty: duty.name)
    def test_duty(self, duty: Duty) -> None:
        """Fails unless the duty is kept; the message says what to do."""
        verdict = judge(duty, self.subject, {})
        assert verdict.kept, verdict.line  # noqa: S101 - a test
