"""The ledger of a curator: a durable, hash-chained, signed list of what was charged and answered.

What everybody must know to read one (entries, signed heads, terms) is in `protocol/ledger`.

* `studies`: the facts on one study, request, answer and learner
* `account`: the sum of all entries
* `branches`: what receipts and marks prove about entries that were lost
* `lost_spending`: the spending of lost branches, and the units that were running when they began
* `marks`: a process's own forward-only mark, outside the database
* `sealing`: encrypted positions in receipts
* `tables`, `store`, `engines`, `upgrades`: where entries and replies live
* `places`, `exports`: where a ledger lies, how one is made, opened and read
* `checks`: reading a chain, and checking it entry by entry
* `errors`: the refusals of a ledger
* `chain`: a stored chain, appended to
* `book`: the ledger itself: reserve, charge, answer, close, expire, and what a steward enters
* `view`: a ledger for its steward's eyes, and the steward's commands
"""

from curator_node.ledger.account import Account
from curator_node.ledger.chain import create_ledger
from curator_node.ledger.errors import (
    AnswerGoneError,
    BoundElsewhereError,
    HaltedError,
    HandedOverError,
    InsufficientBudgetError,
    NotApprovedError,
    OvertakenError,
    StateGoneError,
    StoreFullError,
    TooManyStudiesError,
)
from curator_node.ledger.ledger import Caps, Ledger, Reservation, memory_ledger
from curator_node.ledger.studies import Owed, StudyAccount, StudyKey

__all__ = [
    "Account",
    "AnswerGoneError",
    "BoundElsewhereError",
    "Caps",
    "HaltedError",
    "HandedOverError",
    "InsufficientBudgetError",
    "Ledger",
    "NotApprovedError",
    "OvertakenError",
    "Owed",
    "Reservation",
    "StateGoneError",
    "StoreFullError",
    "StudyAccount",
    "StudyKey",
    "TooManyStudiesError",
    "create_ledger",
    "memory_ledger",
]
