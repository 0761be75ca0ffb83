"""A run's folder: its list, files, transcripts, ledgers both ways, report. Nothing is believed that is not signed."""

from collections.abc import Callable
from pathlib import Path

from expril.audit.recompute.bounds import Cards
from expril.audit.recompute.costs import check_cost
from expril.audit.recompute.files import read_plain
from expril.audit.recompute.ledgers import hold, read_ledger
from expril.audit.recompute.listing import Pins, is_deployed, kept_apart, misplaced, pin, told_twice, unlisted
from expril.audit.recompute.reports import check_report
from expril.audit.recompute.transcripts import read_exchange
from expril.audit.recompute.verdicts import RunProof
from protocol.errors import ConfigurationError
from protocol.query_kind import Kinds
from protocol.run_index import (
    INDEX,
    LEDGERS,
    PROGRESS,
    REPORT,
    SCENARIO,
    SIGNATURES,
    TRANSCRIPTS,
    FirstVersionError,
    decode_index,
    unsigned,
)

Tick = Callable[[str, int, int], None]
SCORES = "scores, notes and metrics are as the learners signed them: without records nobody can compute them anew"

OF_A_LEARNER = (
    "what the model is worth is as the learner signed it; what was charged, the curators' ledgers show as well"
)


def read_run(folder: Path, pins: Pins | None, kinds: Kinds, tick: Tick) -> RunProof:
    """Check a run's list, files and transcripts; `hold_run` does the rest.

    Args:
        folder: of the run.
        pins: public keys known from elsewhere; None takes the run's own, and says so.
        kinds: the query kinds that can be read; what others cost and release stays unproven.
        tick: called with (what, done, total).

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
    proof.remarks += [*free, *others]
    keys = index.keys()
    for number, one in enumerate(index.transcripts):
        tick("transcripts", number, len(index.transcripts))
        proof.exchanges.append(read_exchange(folder, keys, one, kinds))
    tick("transcripts", len(index.transcripts), len(index.transcripts))
    proof.transcripts += [exchange.verdict for exchange in proof.exchanges]
    proof.complaints += told_twice(proof.exchanges)
    return proof


def cards_of(proof: RunProof, curator: bytes) -> Cards:
    """The bound c that a curator's cards show, for each study whose transcript was proven."""
    return {
        (exchange.learner, exchange.study): exchange.verdict.proof.card.most_records_per_unit
        for exchange in proof.exchanges
        if exchange.curator == curator
        and exchange.study
        and exchange.verdict.proof is not None
        and exchange.verdict.proof.card is not None
    }


def hold_run(proof: RunProof, all_cards: Callable[[bytes], Cards], kinds: Kinds, tick: Tick) -> None:
    """Check a run's ledgers, each by itself and against the transcripts, and its report; `proof` is changed.

    Args:
        proof: of `read_run`.
        all_cards: curator's public key -> what its cards show, in all runs that are audited together.
        kinds: the query kinds that can be read.
        tick: called with (what, done, total).
    """
    index, folder = proof.index, proof.folder
    if index is None:
        return
    in_order = {}
    for number, entry in enumerate(index.ledgers):
        tick("ledgers", number, len(index.ledgers))
        verdict, audit = read_ledger(folder, entry, kinds=kinds, cards_of=all_cards)
        hold(verdict, audit, proof.exchanges, index)
        proof.ledgers.append(verdict)
        if audit is not None:
            proof.audits[entry.file] = audit
            if entry.repeat == 0:
                in_order[entry.curator] = audit.replayed
    tick("ledgers", len(index.ledgers), len(index.ledgers))
    if is_deployed(index):
        proof.complaints += check_cost(folder, proof.transcripts)
    else:
        proof.complaints += check_report(folder, index, proof.exchanges, in_order)
    kept = {(entry.curator, entry.repeat) for entry in index.ledgers}
    alone = [entry for entry in index.transcripts if (entry.curator, entry.repeat) not in kept]
    if alone:
        proof.remarks.insert(
            0, f"{len(alone)} transcripts have no ledger kept beside them: they rest on receipts alone"
        )
    proof.remarks += [*kept_apart(folder, index), OF_A_LEARNER if is_deployed(index) else SCORES]


def _read(path: Path) -> bytes | None:
    try:
        return read_plain(path)
    except OSError:
        return None
