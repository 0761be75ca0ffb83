"""The ledger of a curator: a durable, hash-chained, signed list of what was charged and answered.

What everybody must know to read one (entries, signed heads, terms) is in `protocol/ledger`.

* `studies`: what is known of one study, request or answer
* `learners`: what entries add up to by learner, over all keys of an enrolled one
* `account`: what entries add up to
* `branches`: what receipts and marks prove about entries that were lost
* `restoring`: the same of the sum of a chain
* `marks`: a process's own forward-only mark, outside the database
* `sealing`: encrypted positions in receipts
* `storing`, `tables`, `store`: where entries and replies live
* `checks`: reading a chain, and checking it entry by entry
* `errors`: why a ledger says no
* `chain`: a stored chain, appended to
* `acts`: what a steward does: enrol, approve, resume, hand over to another key
* `checkpointing`: a signed checkpoint, for witnesses
* `book`: the ledger itself: here it is decided whether a reservation or a charge fits; answer, close, expire, resume
* `files`: a ledger in a file or a database, with its mark
* `view`: a ledger for its steward's eyes
"""

from curator_node.ledger.account import Account
from curator_node.ledger.book import (
    Caps,
    Ledger,
    Reservation,
    memory_ledger,
)
from curator_node.ledger.chain import create_ledger
from curator_node.ledger.errors import (
    AnswerGoneError,
    BoundElsewhereError,
    HaltedError,
    HandedOverError,
    InsufficientBudgetError,
    NotApprovedError,
    StateGoneError,
    StoreFullError,
    TooManyStudiesError,
)
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
