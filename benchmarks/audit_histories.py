"""Rollback, edits and equivocation in 10^4 invented histories of ledgers: what witnesses and held receipts find.

Each history is a ledger of real entries whose curator lies or not, and signs anew what it changes; some branch is shown
to up to three witnesses, in receipts to learners, and in the end to an auditor. A lie is open where a co-signed
checkpoint or a held receipt is not of the auditor's ledger. Beyond the newest of them nothing can be found, and nothing
is counted.
"""

import time
from collections import Counter

from benchmarks.common import Result, at_least, at_most
from benchmarks.histories import HONEST, LIES, play
from curator_node.ledger import memory_ledger
from protocol.envelopes import SigningKey
from protocol.ledger.checkpoints import Submission, make_checkpoint, read_submission, sign_checkpoint
from protocol.ledger.merkle import Tree

HISTORIES = 10_000
HONEST_SHARE = 5
"""One in so many histories is honest."""
ENTRIES = 1_000_000


def run() -> list[Result]:
    """See the module."""
    counts: Counter[str] = Counter()
    played: Counter[str] = Counter()
    by_lie: Counter[str] = Counter()
    start = time.process_time()
    for seed in range(HISTORIES):
        lie = HONEST if seed % HONEST_SHARE == 0 else LIES[(seed - seed // HONEST_SHARE) % len(LIES)]
        outcome = play(seed, lie)
        played[lie] += 1
        by_lie[lie] += outcome.contradicted
        counts["dishonest"] += lie != HONEST
        counts["open"] += outcome.contradicted
        counts["missed"] += outcome.contradicted and not outcome.found
        counts["alarms"] += outcome.found and not outcome.contradicted
        counts["shown"] += outcome.shown
        counts["signed wrongly"] += outcome.signed_wrongly
        counts["refused wrongly"] += outcome.refused_wrongly
        counts["equivocations"] += outcome.equivocations
        counts["misplaced"] += outcome.misplaced
    taken = time.process_time() - start
    kinds = ", ".join(f"{lie} {by_lie[lie]} of {played[lie]}" for lie in LIES)
    return [
        at_least("histories", HISTORIES, 10_000, "histories", note=f"{counts['dishonest']} of them dishonest"),
        at_least("open lies", counts["open"], HISTORIES / 4, "histories", note=kinds),
        at_most("open lies that were not found", counts["missed"], 0, "histories"),
        at_most("false alarms", counts["alarms"], 0, "histories", note="of histories without an open lie"),
        at_most("contradictions named at a wrong place", counts["misplaced"], 0, "contradictions"),
        Result("checkpoints shown to witnesses", counts["shown"], "checkpoints"),
        at_most("of them co-signed although they contradict", counts["signed wrongly"], 0, "checkpoints"),
        at_most("of them refused although they go on", counts["refused wrongly"], 0, "checkpoints"),
        Result("of them refused with evidence of an equivocation", counts["equivocations"], "checkpoints"),
        Result("a history", taken / HISTORIES * 1e3, "ms", note="of processor time"),
        *_of_a_large_ledger(),
    ]


def _of_a_large_ledger() -> list[Result]:
    key = SigningKey.generate()
    head = memory_ledger(key).account.head
    start = time.process_time()
    tree = Tree(number.to_bytes(32, "big") for number in range(ENTRIES - 1))
    tree.append(head)
    built = time.process_time()
    checkpoint = make_checkpoint(tree, head, key.public)
    made = str(Submission(ENTRIES // 3, tree.consistency_proof(ENTRIES // 3), sign_checkpoint(checkpoint, key)))
    read_submission(made, where="the checkpoint")
    done = time.process_time()
    return [
        Result("tree over 10^6 entries", built - start, "s"),
        Result("checkpoint of 10^6 entries: proofs, signature, reading it", (done - built) * 1e3, "ms"),
        Result("what a witness gets of 10^6 entries", len(made.encode()), "bytes"),
    ]
