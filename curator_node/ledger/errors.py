"""Why a ledger says no. Nothing was changed."""

from fractions import Fraction

from protocol.errors import ExprilError


class InsufficientBudgetError(ExprilError):
    """A reservation or charge does not fit.

    Attributes:
        requested: its cost.
        remaining: what the learner may still reserve.
    """

    def __init__(self, requested: Fraction, remaining: Fraction) -> None:
        self.requested = requested
        self.remaining = remaining
        super().__init__("the reservation does not fit")


class TooManyStudiesError(ExprilError):
    """A learner has as many studies as it may; the text says how many."""


class HaltedError(ExprilError):
    """The ledger is halted until its steward acts."""

    kind = "ledger"


class StoreFullError(ExprilError):
    """No more replies can be kept, and none can be dropped."""

    kind = "ledger"


class StateGoneError(ExprilError):
    """What an answerer kept of a study is missing or changed; it is never made anew.

    Attributes:
        index: of the ANSWERED entry that holds its digest.
    """

    def __init__(self, index: int) -> None:
        self.index = index
        super().__init__(f"the state kept with ledger entry {index} is gone")


class AnswerGoneError(ExprilError):
    """A request was answered, and its reply is not there any more.

    Attributes:
        index: of the ANSWERED entry.
        evicted: dropped on purpose; otherwise the store lost or changed it.
    """

    def __init__(self, index: int, evicted: bool) -> None:
        self.index = index
        self.evicted = evicted
        super().__init__(f"the reply of ledger entry {index} is gone")
