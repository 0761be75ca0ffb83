"""The ledger of a curator: a durable, hash-chained, signed list of what was charged and answered.

* `entries`: what an entry is; the hash chain
* `account`: what entries add up to
* `branches`: what receipts and marks prove about entries that were lost
* `marks`: a process's own forward-only mark, outside the database
* `sealing`: what the curator's key does: signatures over heads, encrypted positions
* `store`: where entries and replies live
* `checks`: reading a chain, and checking it entry by entry
* `errors`: why a ledger says no
* `book`: the ledger itself: reserve, charge, answer, close, halt, resume
"""

from curator_node.ledger.account import Account, Owed, StudyAccount, StudyKey
from curator_node.ledger.book import (
    Caps,
    Ledger,
    Reservation,
    create_ledger,
    memory_ledger,
)
from curator_node.ledger.errors import (
    AnswerGoneError,
    HaltedError,
    InsufficientBudgetError,
    StoreFullError,
    TooManyStudiesError,
)

__all__ = [
    "Account",
    "AnswerGoneError",
    "Caps",
    "HaltedError",
    "InsufficientBudgetError",
    "Ledger",
    "Owed",
    "Reservation",
    "StoreFullError",
    "StudyAccount",
    "StudyKey",
    "TooManyStudiesError",
    "create_ledger",
    "memory_ledger",
]
