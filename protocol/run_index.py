"""The index of a run: participants, every transcript and ledger, and the digest of every file.

All learners of the run sign the index, and each vouches for all of it, so one honest learner suffices to detect a later
change. A signature does not prove whose key it is. If all learners lie, they can sign another index, but that must
still agree with what curators signed.
"""

import re
from collections.abc import Collection, Mapping
from typing import Annotated, Any, Literal

import msgspec

from protocol.codec import decode
from protocol.envelopes import SigningKey, is_signed
from protocol.errors import ConfigurationError, RemoteProtocolError, printable
from protocol.strict_json import decode_json
from protocol.transcript import Transcript

FORMAT = 2
"""Version of the index's format; the index of ExPriL 0.1 had no number."""
DOMAIN = b"expril/2 run index"
SCENARIO = "scenario.toml"
STUDY, COST = "study.toml", "cost.json"
"""Files that a deployed study's folder has in place of a scenario and a report."""
ANALYSES = "analyses.json"
"""Raw answers of analyses, in a deployed study's folder that has any."""
RESULTS = "results.json"
"""Results of analyses, in a deployed study's folder that has any, with a copy of what is in `COST`."""
RECEIPTS = "receipts"
"""Folder of each curator's newest receipt, in a deployed study's folder."""
METRICS = "metrics.parquet"
REPORT = "report.json"
PAGE = "report.html"
LEDGERS = "ledgers"
LEDGER_SUFFIX = ".ledger"
POLICY_SUFFIX = ".policy.toml"
TRANSCRIPTS = "transcripts"
AGAIN = "again.json"
SCHEMA = "schema.toml"
MODELS = "models"
LOCAL = "local"
"""Folder for data about single records or this machine. No index lists it, and it is never passed on."""
PREDICTIONS = "predictions"
"""Folder in `LOCAL`."""
PROGRESS = ".progress"
"""Folder from which an unfinished run is resumed."""
INDEX = "index.json"
SIGNATURES = "signatures.json"

MOST_TRANSCRIPT = 2**30
"""Most bytes of a transcript's file: 64 of the longest messages."""

FIT, VALIDATION = 0, 1
"""Numbers of a learner's studies in one repeat."""
GIVEN_UP = 2
"""Number of the first study that was abandoned at a curator before any question."""

Hex32 = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]
Hex64 = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{128}\Z")]
FileName = Annotated[str, msgspec.Meta(pattern=r"^[^/\\\x00]{1,255}\Z")]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**40)]
Role = Literal["curator", "learner"]


class Participant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A learner or curator in one repeat, and its public key; a learner keeps its key in all of them."""

    role: Role
    name: str
    repeat: Count
    key: Hex32


class TranscriptEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One learner's exchange with one curator in one study of a repeat."""

    file: FileName  # its name in the folder `transcripts`
    repeat: Count
    learner: str
    curator: str
    label: str  # the domain separation of the curator's signatures
    head: Hex32  # the last hash of the chain of its envelopes
    envelopes: Count  # their number
    state: str  # of the study when the run ended
    # which of the learner's studies in the repeat: `FIT` or `VALIDATION`; from `GIVEN_UP` on, studies that were given
    # up before anything was asked
    study: Count = 0


class LedgerEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A curator's ledger in one repeat."""

    file: FileName  # its name in the folder `ledgers`
    curator: str
    repeat: Count
    key: Hex32  # the curator's, which signed it
    head: Hex32  # hash of its last entry
    entries: Count  # their number


class Index(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The index itself."""

    format: int  # `FORMAT`
    expril: str  # version that wrote it
    title: str  # the scenario's
    created: str  # when the run ended
    repeats: Annotated[int, msgspec.Meta(ge=1, le=100_000)]  # their number
    participants: tuple[Participant, ...]  # every learner and curator of every repeat
    transcripts: tuple[TranscriptEntry, ...]
    ledgers: tuple[LedgerEntry, ...]
    # path inside the run's folder -> SHA-256, for every file but the page, this index and its signatures
    files: dict[str, Hex32]

    def keys(self) -> dict[tuple[Role, str, int], bytes]:
        """The public key of every participant, by (role, name, repeat)."""
        return {
            (participant.role, participant.name, participant.repeat): bytes.fromhex(participant.key)
            for participant in self.participants
        }

    def names(self, role: Role) -> list[str]:
        """Names of all learners or all curators, without repetition."""
        return list(dict.fromkeys(participant.name for participant in self.participants if participant.role == role))

    def learner_keys(self) -> dict[tuple[str, str], None]:
        """(name, key) of every learner, in order, without repetition."""
        return dict.fromkeys(
            (participant.name, participant.key) for participant in self.participants if participant.role == "learner"
        )


class _Format(msgspec.Struct, frozen=True):
    format: Any = None


class Signature(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A learner's signature over the bytes of the index."""

    learner: str
    key: Hex32
    signature: Hex64


def sign_index(index: Index, signers: Mapping[str, SigningKey]) -> dict[str, bytes]:
    """Files in the folder `transcripts`: the index and its learners' signatures, name -> bytes."""
    data = msgspec.json.format(msgspec.json.encode(index), indent=1)
    signed = [
        Signature(learner=name, key=key.public.hex(), signature=key.sign(DOMAIN + data).hex())
        for name, key in signers.items()
    ]
    return {INDEX: data, SIGNATURES: _encoded(signed)}


def decode_index(data: bytes, where: object) -> Index:
    """Read the index of the folder `where`.

    Raises:
        FirstVersionError: ExPriL 0.1 wrote the index.
        ConfigurationError: it cannot be read.
    """
    name = f"{where}: the run's list {INDEX}"
    head = decode_json(data, _Format | list[msgspec.Raw], where=name)
    if isinstance(head, list):
        raise FirstVersionError(where)
    if head.format != FORMAT:
        raise ConfigurationError(
            f"{where}: the run's list {INDEX} is not of format {FORMAT}, the one that this ExPriL reads; verify the "
            "run with the ExPriL that wrote it"
        )
    return decode_json(data, Index, where=name)


class FirstVersionError(ConfigurationError):
    """A run of protocol version 1."""

    def __init__(self, where: object) -> None:
        super().__init__(
            f"{where} is a run of ExPriL 0.1 (version 1 of the protocol), whose list was not signed and whose receipts "
            "this version does not read: verify it with ExPriL 0.1"
        )


def unsigned(index: Index, data: bytes, signatures: bytes | None) -> list[str]:
    """Complaints about the signatures of an index: every learner in it must have signed exactly these bytes.

    Args:
        index: the decoded index.
        data: its bytes.
        signatures: content of the file of signatures; None if it is absent.
    """
    learners = index.learner_keys()
    if not learners:
        return [f"{INDEX} names no learner, so nobody vouches for it"]
    if signatures is None:
        return [f"{SIGNATURES} is missing: no learner vouches for {INDEX}; anybody may have written it"]
    try:
        entries = decode_json(signatures, list[Signature], where=SIGNATURES)
    except ConfigurationError:
        return [f"{SIGNATURES} cannot be read: no learner vouches for {INDEX}"]
    complaints = []
    if _encoded(entries) != signatures or len({(entry.learner, entry.key) for entry in entries}) != len(entries):
        complaints.append(f"{SIGNATURES} was changed: it is not as it is written")
    by_learner = {(entry.learner, entry.key): entry for entry in entries}
    for name, key in learners:
        signature = by_learner.pop((name, key), None)
        if signature is None:
            complaints.append(f"{INDEX} is not signed by learner {printable(name)}")
        elif not is_signed(bytes.fromhex(key), bytes.fromhex(signature.signature), DOMAIN + data):
            complaints.append(
                f"{INDEX} was changed, or {SIGNATURES}: the signature of learner {printable(name)} does not fit; what "
                "it lists may be anybody's"
            )
    complaints += [f"{SIGNATURES} names {printable(name)}, who is no learner of this run" for name, _ in by_learner]
    return complaints


def absent_repeats(there: Collection[int], repeats: int) -> str:
    """Which of so many repeats are not there, as "3" or "2 to 99,999 and 1 other"; "" where all are.

    The work is that of what is there, whatever number the list tells.
    """
    inside = sorted({repeat for repeat in there if repeat < repeats})
    if len(inside) == repeats:
        return ""
    first = next((place for place, repeat in enumerate(inside) if place != repeat), len(inside))
    last = (inside[first] if first < len(inside) else repeats) - 1
    others = repeats - len(inside) - (last - first + 1)
    return (f"{first}" if first == last else f"{first} to {last}") + (f" and {others} more" if others else "")


def is_listed(name: str) -> bool:
    """Whether the index holds a file's digest: all but page, index, signatures, and files in `LOCAL` and `PROGRESS`.

    `LOCAL` has predictions: from a digest of those for a few records, a search over all labels would find their labels.
    `name` is the path inside the run's folder, with "/" between its parts.
    """
    apart = (PAGE, f"{TRANSCRIPTS}/{INDEX}", f"{TRANSCRIPTS}/{SIGNATURES}")
    return name not in apart and not name.startswith((f"{LOCAL}/", f"{PROGRESS}/"))


def file_name(text: str) -> str:
    """Replace the characters of a text that a file name may not contain."""
    return "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in text)


def ledger_file(curator: str) -> str:
    """Name of the file of a curator's ledger."""
    return f"{_without_slashes(curator)}{LEDGER_SUFFIX}"


def policy_file(curator: str) -> str:
    """Name of the file of a curator's policy, beside its ledger."""
    return f"{_without_slashes(curator)}{POLICY_SUFFIX}"


def _without_slashes(name: str) -> str:
    """The name with what no file's name may hold written as in a URL: "a/b" as "a%2Fb"."""
    return re.sub(r"[/\\\0]", lambda sign: f"%{ord(sign[0]):02X}", name)


def transcript_file(position: int) -> str:
    """Name of the file of the transcript at that position in the index."""
    return f"{position:05d}.msgpack"


def encode_transcript(transcript: Transcript) -> bytes:
    """Content of a transcript's file."""
    return msgspec.msgpack.encode(transcript.envelopes)


def decode_transcript(data: bytes) -> Transcript:
    """The transcript of a stored file.

    Raises ConfigurationError: the file is no list of envelopes in the one encoding of such a list.
    """
    try:
        envelopes = decode(data, list[bytes], limit=MOST_TRANSCRIPT)
    except RemoteProtocolError as error:
        raise ConfigurationError(f"it is no list of envelopes, as one is written ({error})") from None
    transcript = Transcript()
    for envelope in envelopes:
        transcript.append(envelope)
    return transcript


def _encoded(signatures: list[Signature]) -> bytes:
    return msgspec.json.format(msgspec.json.encode(signatures), indent=1)
