"""What each transcript proves on its own, and what it holds that a ledger must hold, too."""

from collections.abc import Mapping
from pathlib import Path

from expril.audit.recompute.bounds import not_private
from expril.audit.recompute.files import read_plain
from expril.audit.recompute.verdicts import (
    IN_PART,
    NOT_PRIVATE,
    NOT_PROVEN,
    PROVEN,
    REFUSED,
    Answer,
    Exchange,
    TranscriptVerdict,
)
from protocol.envelopes import LABEL, LEARNER_TYPES, digest, open_envelope, open_receipt, request_digest
from protocol.errors import ConfigurationError, ExprilError, printable
from protocol.messages import Message, Release, StudyAccepted, StudyClosed
from protocol.query_kind import Kinds
from protocol.run_index import TRANSCRIPTS, Role, TranscriptEntry, decode_transcript
from protocol.transcript import Transcript, replay
from protocol.transitions import State


def read_exchange(
    folder: Path, keys: Mapping[tuple[Role, str, int], bytes], entry: TranscriptEntry, kinds: Kinds
) -> Exchange:
    """Replay one transcript: signatures, order, plan, exact costs, receipts, and the head in the run's list.

    Args:
        folder: of the run.
        keys: of its participants.
        entry: which.
        kinds: the query kinds that can be read.
    """
    learner = keys.get(("learner", entry.learner, entry.repeat))
    curator = keys.get(("curator", entry.curator, entry.repeat))
    if learner is None or curator is None:
        who = printable(entry.curator if learner else entry.learner)
        return Exchange(_not_proven(entry, f"the run's list has no key of {who} in repeat {entry.repeat}"))
    try:
        transcript = decode_transcript(read_plain(folder / TRANSCRIPTS / entry.file))
    except OSError:
        return Exchange(_not_proven(entry, "it is missing or cannot be read"), learner, curator)
    except ConfigurationError as error:
        return Exchange(_not_proven(entry, str(error)), learner, curator)
    try:
        proof = replay(transcript.envelopes, curator, learner, label=entry.label, kinds=kinds)
    except ExprilError as error:
        return Exchange(_not_proven(entry, printable(str(error), 400)), learner, curator)
    verdict = TranscriptVerdict(entry, PROVEN, proof=proof)
    if proof.unproven:
        verdict.unproven.append(proof.unproven)
        verdict.verdict = IN_PART
    elif proof.state in (State.NEW, State.REFUSED):
        verdict.verdict = REFUSED
    if entry.label != LABEL:
        verdict.verdict += NOT_PRIVATE
    elif proof.plan is not None and proof.state not in (State.NEW, State.REFUSED):
        verdict.why += [
            f"query {number} of its plan is not as private as its cost says, and it is signed as private"
            for number in not_private(proof.plan, kinds)[:1]
        ]
    if transcript.head.hex() != entry.head:
        verdict.why.append("the envelopes do not chain to the head in the run's list")
    if (len(transcript.envelopes), proof.state.value) != (entry.envelopes, entry.state):
        verdict.why.append("it has another number of envelopes, or another end, than the run's list says")
    if verdict.why:
        verdict.verdict = NOT_PROVEN
    return _exchange(verdict, learner, curator, transcript)


def _exchange(verdict: TranscriptVerdict, learner: bytes, curator: bytes, transcript: Transcript) -> Exchange:
    requests: dict[bytes, Message] = {}
    answers: dict[bytes, Answer] = {}
    study = b""
    for data in transcript.envelopes:
        envelope, message = open_envelope(data)
        if envelope.type in LEARNER_TYPES:
            requests[request_digest(message.sender, envelope.type, envelope.payload)] = message
        if envelope.type == "study_proposal":
            study = message.study
        if isinstance(message, StudyAccepted | Release | StudyClosed):
            receipt = open_receipt(message.receipt, curator, label=verdict.entry.label)
            release = message.body if isinstance(message, Release) else None
            answers[receipt.request] = Answer(receipt, digest(data), release)
    return Exchange(verdict, learner, curator, study, requests, answers)


def _not_proven(entry: TranscriptEntry, why: str) -> TranscriptVerdict:
    return TranscriptVerdict(entry, NOT_PROVEN, [why])
