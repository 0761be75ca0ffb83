"""What a run left, as one list: who took part, every transcript and ledger, the digest of every file.

The run's learners sign the list. A signature proves that this learner vouches for every line of it: one honest learner
is enough to notice whatever was changed, removed or added afterwards. It does not prove who a key belongs to, and
learners who all agree to lie can sign another list; what curators signed must then still fit it.
"""

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec

from protocol.envelopes import SigningKey, is_signed
from protocol.errors import ConfigurationError, printable
from protocol.transcript import Transcript

FORMAT = 2
"""Of the list; that of ExPriL 0.1 had no number."""
DOMAIN = b"expril/2 run index"
SCENARIO = "scenario.toml"
STUDY, COST = "study.toml", "cost.json"
"""What a deployed study's folder has instead of a scenario and a report."""
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
"""Folder of what concerns single records or this machine: in no list, and handed on to nobody."""
PREDICTIONS = "predictions"
"""Folder in `LOCAL`."""
PROGRESS = ".progress"
"""Folder of what an unfinished run goes on with."""
INDEX = "index.json"
SIGNATURES = "signatures.json"

FIT, VALIDATION = 0, 1
"""A learner's studies in one repeat: their numbers in the list."""
GIVEN_UP = 2
"""The first with a curator that was given up for the fit or the validation before anything was asked."""

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
    """One learner's exchange with one curator in one study of a repeat.

    Attributes:
        file: under `transcripts`.
        repeat, learner, curator: whose.
        label: under which the curator signs.
        head: that its envelopes chain to.
        envelopes: how many.
        state: of the study at the end.
        study: which of the learner's studies in the repeat: `FIT` or `VALIDATION`; from `GIVEN_UP` on those that were
            given up for one of them before anything was asked (`learner_node.study.study.Study.retired`).
    """

    file: FileName
    repeat: Count
    learner: str
    curator: str
    label: str
    head: Hex32
    envelopes: Count
    state: str
    study: Count = 0


class LedgerEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A ledger that was kept.

    Attributes:
        file: under `ledgers`.
        curator, repeat: whose.
        key: that signed it.
        head: hash of its last entry.
        entries: how many.
    """

    file: FileName
    curator: str
    repeat: Count
    key: Hex32
    head: Hex32
    entries: Count


class Index(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The list.

    Attributes:
        format: `FORMAT`.
        expril: version that wrote it.
        title: of the scenario.
        created: when the run ended.
        repeats: how many.
        participants: every learner and curator of every repeat.
        transcripts, ledgers: what was kept of them.
        files: path inside the run's folder -> SHA-256, of every file but the page, this list and its signatures.
    """

    format: int
    expril: str
    title: str
    created: str
    repeats: Annotated[int, msgspec.Meta(ge=1, le=100_000)]
    participants: tuple[Participant, ...]
    transcripts: tuple[TranscriptEntry, ...]
    ledgers: tuple[LedgerEntry, ...]
    files: dict[str, Hex32]

    def keys(self) -> dict[tuple[Role, str, int], bytes]:
        """(role, name, repeat) -> public key, of every participant."""
        return {
            (participant.role, participant.name, participant.repeat): bytes.fromhex(participant.key)
            for participant in self.participants
        }

    def names(self, role: Role) -> list[str]:
        """All learners, or all curators, each once."""
        return list(dict.fromkeys(participant.name for participant in self.participants if participant.role == role))

    def learner_keys(self) -> dict[tuple[str, str], None]:
        """(name, key) of every learner, each once, in order."""
        return dict.fromkeys(
            (participant.name, participant.key) for participant in self.participants if participant.role == "learner"
        )


class Signature(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A learner's signature over the bytes of the list."""

    learner: str
    key: Hex32
    signature: Hex64


def sign_index(index: Index, signers: Mapping[str, SigningKey]) -> dict[str, bytes]:
    """The list and the signatures of its learners: name of a file in `transcripts` -> its bytes.

    Args:
        index: the list.
        signers: learner -> key.
    """
    data = msgspec.json.format(msgspec.json.encode(index), indent=1)
    signed = [
        Signature(learner=name, key=key.public.hex(), signature=key.sign(DOMAIN + data).hex())
        for name, key in signers.items()
    ]
    return {INDEX: data, SIGNATURES: _encoded(signed)}


def decode_index(data: bytes, where: object) -> Index:
    """Read the list of the folder `where`.

    Raises:
        FirstVersionError: it is one of ExPriL 0.1.
        ConfigurationError: it cannot be read.
    """
    try:
        plain = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ConfigurationError(f"{where}: the run's list {INDEX} is damaged: it is no JSON") from None
    if isinstance(plain, list):
        raise FirstVersionError(where)
    if not isinstance(plain, dict) or plain.get("format") != FORMAT:
        raise ConfigurationError(
            f"{where}: the run's list {INDEX} is not of format {FORMAT}, the one that this ExPriL reads; verify the "
            "run with the ExPriL that wrote it"
        )
    try:
        return msgspec.json.decode(data, type=Index)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ConfigurationError(f"{where}: the run's list {INDEX} is damaged: {printable(str(error))}") from None


class FirstVersionError(ConfigurationError):
    """A run of protocol version 1."""

    def __init__(self, where: object) -> None:
        super().__init__(
            f"{where} is a run of ExPriL 0.1 (version 1 of the protocol), whose list was not signed and whose receipts "
            "this version does not read: verify it with ExPriL 0.1"
        )


def unsigned(index: Index, data: bytes, signatures: bytes | None) -> list[str]:
    """What is wrong with the signatures of a list: every one of its learners must have signed these very bytes.

    Args:
        index: the list.
        data: its bytes.
        signatures: content of the file of signatures; None where it is absent.
    """
    learners = index.learner_keys()
    if not learners:
        return [f"{INDEX} names no learner, so nobody vouches for it"]
    if signatures is None:
        return [f"{SIGNATURES} is missing: no learner vouches for {INDEX}; anybody may have written it"]
    try:
        entries = msgspec.json.decode(signatures, type=list[Signature])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
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


def is_listed(name: str) -> bool:
    """Whether the digest of a file is in the list: of all but the page, the list and its signatures.

    And but what is in `LOCAL` and `PROGRESS`. A digest of predictions of few records would tell their labels to whoever
    tries them all, so the list has none.

    Args:
        name: path inside the run's folder, with "/" between its parts.
    """
    apart = (PAGE, f"{TRANSCRIPTS}/{INDEX}", f"{TRANSCRIPTS}/{SIGNATURES}")
    return name not in apart and not name.startswith((f"{LOCAL}/", f"{PROGRESS}/"))


def file_name(text: str) -> str:
    """A text as a part of a file's name."""
    return "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in text)


def transcript_file(position: int) -> str:
    """Name of the file of the transcript that comes at that place in the evidence."""
    return f"{position:05d}.msgpack"


def encode_transcript(transcript: Transcript) -> bytes:
    """Content of that file."""
    return msgspec.msgpack.encode(transcript.envelopes)


def decode_transcript(data: bytes) -> Transcript:
    """The transcript of a stored file.

    Raises:
        ConfigurationError: it is no list of envelopes, or not written as such a list is.
    """
    try:
        envelopes = msgspec.msgpack.decode(data, type=list[bytes])
    except (msgspec.DecodeError, RecursionError):
        raise ConfigurationError("it is no list of envelopes") from None
    if msgspec.msgpack.encode(envelopes) != data:
        raise ConfigurationError("it is not written as a list of envelopes is")
    transcript = Transcript()
    for envelope in envelopes:
        transcript.append(envelope)
    return transcript


def _encoded(signatures: list[Signature]) -> bytes:
    return msgspec.json.format(msgspec.json.encode(signatures), indent=1)
