"""What an extension owes, one duty after the other, and whether it is kept. Nothing here knows what is extended.

Questions are drawn by Hypothesis, always the same ones. What breaks a duty is made as small as can be before it is
told.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.strategies import SearchStrategy

from protocol.errors import ExprilError

HELD, BROKEN, NOT_GIVEN, EXCUSED = "held", "broken", "not given", "excused"
"""What becomes of a duty. `EXCUSED`: the author says why there can be none."""
Drawn = TypeVar("Drawn")


class BrokenDutyError(ExprilError):
    """A duty is not kept; the text says what was found, and what to do."""

    kind = "contract"


class MissingDutyError(ExprilError):
    """What a duty needs was not given; the text says where it belongs."""

    kind = "contract"


@dataclass(frozen=True)
class Duty:
    """One thing that an extension owes."""

    name: str
    about: str  # what holds if it is kept, in words
    check: Callable[[Any], str]
    """The subject -> what was looked at, in words. It raises one of the two errors above."""


@dataclass(frozen=True)
class Verdict:
    """What became of one duty."""

    duty: str
    status: str  # HELD, BROKEN, NOT_GIVEN or EXCUSED
    text: str  # what was looked at, or what to do

    @property
    def kept(self) -> bool:
        """Whether nothing is left to do."""
        return self.status in (HELD, EXCUSED)

    @property
    def line(self) -> str:
        """One line for people."""
        return f"{self.status:10} {self.duty}: {self.text}"


def judge(duty: Duty, subject: Any, excuses: Mapping[str, str]) -> Verdict:
    """Ask for one duty. An excuse counts only where the duty was not given: what is given must hold."""
    try:
        return Verdict(duty.name, HELD, duty.check(subject))
    except MissingDutyError as missing:
        if duty.name in excuses:
            return Verdict(duty.name, EXCUSED, excuses[duty.name])
        return Verdict(duty.name, NOT_GIVEN, str(missing))
    except BrokenDutyError as broken:
        return Verdict(duty.name, BROKEN, str(broken))
    except NotImplementedError as error:
        return Verdict(duty.name, NOT_GIVEN, str(error))
    except Exception as error:  # noqa: BLE001 - code of an extension may fail in any way
        return Verdict(duty.name, BROKEN, f"its code fails with {type(error).__name__}: {error}")


def explore(strategy: SearchStrategy[Drawn], check: Callable[[Drawn], object], most: int) -> int:
    """Check what a strategy draws, `most` times at most; return how many were checked.

    Raises what the check raises, for the smallest draw that was found.
    """
    count, unfinished = 0, list[NotImplementedError]()

    def counted(drawn: Drawn) -> None:
        nonlocal count
        count += 1
        try:
            if not unfinished:  # a function that is not written yet has no smallest case
                check(drawn)
        except NotImplementedError as error:
            unfinished.append(error)

    quietly = settings(
        max_examples=most,
        deadline=None,
        database=None,
        derandomize=True,
        print_blob=False,
        report_multiple_bugs=False,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    quietly(given(strategy)(counted))()
    for error in unfinished:
        raise error
    return count
