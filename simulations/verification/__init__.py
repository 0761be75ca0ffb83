"""An auditor's view of a run folder, without any data: nothing is written, nothing is believed that is not signed.

* `verdicts`: what is found
* `listing`: the run's list against its signatures, its files, and keys known from elsewhere
* `transcripts`: each replayed by itself
* `ledgers`: each held against the transcripts, and they against it
* `reports`: report and policies against what transcripts and ledgers prove
* `tables`: verdicts for the terminal
"""

from collections.abc import Callable
from pathlib import Path

from protocol.errors import ConfigurationError
from protocol.kinds import Kinds
from protocol.queries import QUERY_KINDS
from simulations.run_index import (
    INDEX,
    LEDGERS,
    PROGRESS,
    REPORT,
    SCENARIO,
    SIGNATURES,
    TRANSCRIPTS,
    FirstVersionError,
    decode_index,
    read_plain,
    unsigned,
)
from simulations.verification.costs import check_cost
from simulations.verification.ledgers import hold, read_ledger
from simulations.verification.listing import (
    Pins,
    is_deployed,
    kept_apart,
    misplaced,
    pin,
    read_pins,
    told_twice,
    unlisted,
)
from simulations.verification.reports import check_report
from simulations.verification.transcripts import read_exchange
from simulations.verification.verdicts import (
    HELD,
    IN_PART,
    LEDGER_NOT_PROVEN,
    NO_LEDGER,
    NOT_PRIVATE,
    NOT_PROVEN,
    PROVEN,
    REFUSED,
    LedgerVerdict,
    RunProof,
    TranscriptVerdict,
)

__all__ = [
    "HELD",
    "IN_PART",
    "LEDGER_NOT_PROVEN",
    "NOT_PRIVATE",
    "NOT_PROVEN",
    "NO_LEDGER",
    "PROVEN",
    "REFUSED",
    "LedgerVerdict",
    "Pins",
    "RunProof",
    "TranscriptVerdict",
    "read_pins",
    "verify_run",
]

SCORES = "scores, notes and metrics are as the learners signed them: without records nobody can compute them anew"

OF_A_LEARNER = (
    "what the model is worth is as the learner signed it; what was charged, the curators' ledgers show as well"
)


def verify_run(
    folder: Path,
    pins: Pins | None = None,
    *,
    kinds: Kinds = QUERY_KINDS,
    tick: Callable[[str, int, int], None] = lambda what, done, total: None,  # noqa: ARG005
) -> RunProof:
    """Check everything in a run's folder that can be checked without records.

    Args:
        folder: of the run.
        pins: public keys known from elsewhere; None takes the run's own, and says so.
        kinds: the query kinds that can be read; what others cost and release stays unproven.
        tick: called with (what, done, total) as transcripts and ledgers are read.

    Raises:
        ConfigurationError: the folder holds no run, or one of ExPriL 0.1.
    """
    proof = RunProof(folder)
    there = [name for name in (REPORT, SCENARIO, TRANSCRIPTS, LEDGERS) if (folder / name).exists()]
    data = _read(folder / TRANSCRIPTS / INDEX)
    if data is None:
        if (folder / PROGRESS).is_dir():
            raise ConfigurationError(
                f"{folder} is a run that was not finished: the same simulate command goes on with it"
            )
        if not there:
            raise ConfigurationError(f"{folder} holds no run: no {TRANSCRIPTS}/{INDEX}, no {REPORT}")
        proof.complaints.append(f"{TRANSCRIPTS}/{INDEX} is missing or cannot be read: nothing in this folder is proven")
        return proof
    try:
        index = decode_index(data, folder)
    except FirstVersionError:
        raise
    except ConfigurationError as error:
        proof.complaints.append(f"{error}; nothing in this folder is proven")
        return proof
    proof.index = index
    proof.complaints += unsigned(index, data, _read(folder / TRANSCRIPTS / SIGNATURES))
    wrong, free = pin(index, pins)
    changed, others = misplaced(folder, index)
    proof.complaints += wrong + unlisted(index) + changed
    keys = index.keys()
    exchanges = []
    for number, one in enumerate(index.transcripts):
        tick("transcripts", number, len(index.transcripts))
        exchanges.append(read_exchange(folder, keys, one, kinds))
    tick("transcripts", len(exchanges), len(exchanges))
    proof.transcripts += [exchange.verdict for exchange in exchanges]
    proof.complaints += told_twice(exchanges)
    in_order = {}
    for number, entry in enumerate(index.ledgers):
        tick("ledgers", number, len(index.ledgers))
        verdict, checked = read_ledger(folder, entry)
        hold(verdict, checked, exchanges, index)
        proof.ledgers.append(verdict)
        if checked is not None and entry.repeat == 0:
            in_order[entry.curator] = checked
    tick("ledgers", len(index.ledgers), len(index.ledgers))
    if is_deployed(index):
        proof.complaints += check_cost(folder, proof.transcripts)
    else:
        proof.complaints += check_report(folder, index, exchanges, in_order)
    kept = {(entry.curator, entry.repeat) for entry in index.ledgers}
    alone = [entry for entry in index.transcripts if (entry.curator, entry.repeat) not in kept]
    if alone:
        proof.remarks.append(f"{len(alone)} transcripts have no ledger kept beside them: they rest on receipts alone")
    proof.remarks += [*free, *others, *kept_apart(folder, index), OF_A_LEARNER if is_deployed(index) else SCORES]
    return proof


def _read(path: Path) -> bytes | None:
    try:
        return read_plain(path)
    except OSError:
        return None
