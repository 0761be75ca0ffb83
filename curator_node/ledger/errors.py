"""Refusals of a ledger. A refusal changes nothing in the ledger."""

from fractions import Fraction

from protocol.errors import ConfigurationError, ExprilError


class InsufficientBudgetError(ExprilError):
    """A reservation or charge does not fit."""

    def __init__(self, requested: Fraction, remaining: Fraction) -> None:
        self.requested = requested  # its cost
        self.remaining = remaining  # what the learner may still reserve
        super().__init__("the reservation does not fit")


class TooManyStudiesError(ExprilError):
    """A learner has as many studies as it may have."""


class BoundElsewhereError(ConfigurationError):
    """A key belongs to an enrolled learner of another name, for ever."""

    def __init__(self, key: bytes, name: str, other: str) -> None:
        super().__init__(
            f"the ledger knows key {key.hex()[:16]} as the learner {name!r}, not {other!r}; a key keeps its name, as "
            "what it spent does: enrol it under that name, or take another key"
        )


class NotApprovedError(ExprilError):
    """A study waits for the steward's decision, or was declined."""

    def __init__(self, declined: bool) -> None:
        self.declined = declined  # whether it was
        super().__init__("the steward has declined the study" if declined else "the steward has not approved the study")


class HandedOverError(ExprilError):
    """Another key of the curator has taken the ledger over; a process under the old one must start anew."""

    kind = "ledger"

    def __init__(self) -> None:
        super().__init__("the ledger was handed over to another key of its curator; start the curator anew")


class HaltedError(ExprilError):
    """The ledger is halted until its steward acts."""

    kind = "ledger"


class StoreFullError(ExprilError):
    """No more replies can be kept, and none can be dropped."""

    kind = "ledger"


class OvertakenError(ExprilError):
    """Another process has gone on meanwhile, and what was looked for may be replaced. Refresh, and look again."""

    kind = "ledger"


class StateGoneError(ExprilError):
    """The state that an answerer kept of a study is missing or changed. It is never made anew."""

    def __init__(self, index: int) -> None:
        self.index = index  # of the ANSWERED entry that holds its digest
        super().__init__(f"the state kept with ledger entry {index} is gone")


class AnswerGoneError(ExprilError):
    """A request was answered, and its reply is gone."""

    def __init__(self, index: int, evicted: bool) -> None:
        self.index = index  # of the ANSWERED entry
        self.evicted = evicted  # dropped on purpose; otherwise the store lost or changed it
        super().__init__(f"the reply of ledger entry {index} is gone")
