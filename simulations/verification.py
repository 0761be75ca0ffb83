"""An auditor's view of a run folder: what its transcripts prove without any data, held against ledgers where kept."""

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from curator_node.ledger.entries import Account
from protocol.envelopes import LABEL, open_envelope, open_receipt
from protocol.errors import ConfigurationError, ExprilError
from protocol.messages import Release, StudyAccepted, StudyClosed
from protocol.transcript import Replay, Transcript, replay
from simulations import ledger_view
from simulations.run_folder import LEDGER_SUFFIX, LEDGERS, IndexEntry, read_index, read_transcript

PROVEN = "proven"
NOT_PRIVATE = "proven, NOT PRIVATE"
REFUSED = "refused"
NOT_PROVEN = "NOT PROVEN"


@dataclass(frozen=True)
class Verdict:
    """What one transcript proves.

    Attributes:
        entry: which.
        verdict: `PROVEN`; `NOT_PRIVATE` where all is in order but signed as not private; `REFUSED` where no plan
            was accepted, so that nothing could be spent; `NOT_PROVEN`.
        why: for `NOT_PROVEN`, what is wrong.
        proof: the replay, where it went through.
    """

    entry: IndexEntry
    verdict: str
    why: str = ""
    proof: Replay | None = None


def verify_run(folder: Path) -> list[Verdict]:
    """Replay every transcript that the run's index names: signatures, order, plan, exact costs, receipts, head.

    Receipts of the first repeat are also looked up in the ledgers that the run kept.

    Raises:
        ConfigurationError: the folder holds no run.
    """
    accounts: dict[str, Account] = {}
    for path in sorted((folder / LEDGERS).glob(f"*{LEDGER_SUFFIX}")):
        accounts[path.name.removesuffix(LEDGER_SUFFIX)] = ledger_view.read(path).account
    return [_verify(folder, entry, accounts.get(entry.curator)) for entry in read_index(folder)]


def _verify(folder: Path, entry: IndexEntry, account: Account | None) -> Verdict:
    transcript = read_transcript(folder, entry)
    if transcript is None:
        return Verdict(entry, NOT_PROVEN, f"{entry.file} is missing or cannot be read")
    if transcript.head.hex() != entry.head:
        return Verdict(entry, NOT_PROVEN, f"{entry.file}: the envelopes do not chain to the run's recorded head")
    curator, learner = bytes.fromhex(entry.curator_key), bytes.fromhex(entry.learner_key)
    try:
        proof = replay(transcript.envelopes, curator, learner, label=entry.label)
        if account is not None and entry.repeat == 0:
            _compare(transcript, proof, curator, entry.label, account)
    except ExprilError as error:
        return Verdict(entry, NOT_PROVEN, f"{entry.file}: {error}")
    if proof.plan is None or proof.epsilon_claimed == 0:
        return Verdict(entry, REFUSED, proof=proof)
    return Verdict(entry, PROVEN if entry.label == LABEL else NOT_PRIVATE, proof=proof)


def _compare(transcript: Transcript, proof: Replay, curator: bytes, label: str, account: Account) -> None:
    """Raise ConfigurationError where a receipt is not in the ledger, or the ledger charges another amount."""
    study = b""
    for data in transcript.envelopes:
        message = open_envelope(data)[1]
        if isinstance(message, StudyAccepted | Release | StudyClosed):
            receipt = open_receipt(message.receipt, curator, label=label)
            hashes = account.hashes
            if receipt.ledger_index >= len(hashes) or hashes[receipt.ledger_index] != receipt.ledger_head:
                raise ConfigurationError("a receipt names a ledger entry that the ledger beside it does not hold")
            study = receipt.study
    charged = account.studies[study].spent if study in account.studies else Fraction(0)
    # A curator that fell silent may have charged an answer that never arrived.
    if charged < proof.epsilon_spent or (proof.state == "closed" and charged != proof.epsilon_spent):
        raise ConfigurationError(f"the ledger charges {charged}, the receipts {proof.epsilon_spent}")
