"""Opens curators from a site's folder, or from parts in memory. No other module does.

A site's folder holds what its steward wrote and made:

    policy.toml      who may ask, and how much
    schema.toml      what is public about the records
    records.csv      the private records; or records.parquet; or source.toml, which names a database and a query
    curator.pem      the signing key: expril keys curator.pem
    curator.ledger   what was charged: expril ledger create curator.ledger --key curator.pem
    curator.mark     made with the ledger
    curator.data     which records were served under which name; made here, and of no use elsewhere
    learners/        who is enrolled by its card: expril curator enrol
    keys/            former signing keys: expril curator rotate

The ledger may be in another database, and the mark, best on another disk, elsewhere. Opening never makes a ledger: one
that is absent was lost.
"""

import fcntl
import os
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Self
from warnings import catch_warnings, simplefilter

import polars as pl

from curator_node.admission import undecided_proposals
from curator_node.answering import Answerer
from curator_node.budgets import Standing, standing_of
from curator_node.curator import Curator
from curator_node.identities import FormerKey, Keys
from curator_node.key_files import read_key, write_key
from curator_node.kinds import ANSWERERS
from curator_node.ledger import Ledger, memory_ledger
from curator_node.ledger.checks import CheckedLedger, check
from curator_node.ledger.places import create_ledger_file, open_ledger_file
from curator_node.mechanisms import ExactNoise, NoiseSource
from curator_node.plug_ins import check_policy, plugged, remarks_on
from curator_node.policy import Policy, doubts_about, read_policy
from curator_node.records.databases import SOURCE
from curator_node.records.dataset import PrivateDataset, StewardWarning
from curator_node.records.files import read_records
from curator_node.records.schema_file import SCHEMA, SchemaFile, read_schema_file, read_schema_of
from curator_node.steward import enrolment, keyring
from protocol.envelopes import SigningKey
from protocol.errors import ConfigurationError
from protocol.ledger.entries import LedgerCorruptError
from protocol.plug_ins import written_plug_ins

_LINE = re.compile(rb"([0-9a-f]{64}) ([0-9a-f]{32})\n")


def version_of_data(path: Path, fingerprint: bytes) -> str:
    """The random name of a snapshot of records: the one that it had, or a new one, durably stored before it is used.

    The name is entered in the ledger. The digest is not, since comparing digests could distinguish records that differ
    in one patient. If the file is lost, the same records get another name.

    Several processes may share the file.

    Args:
        path: of the file; made where there is none, for its owner only.
        fingerprint: keyed digest of the records, 32 bytes.

    Raises:
        ConfigurationError: the file cannot be read or written, or is something else.
    """
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            return _version_in(file, path, fingerprint)
        finally:
            os.close(file)
    except OSError as error:
        raise ConfigurationError(
            f"cannot keep the names of records in {path}: {error.strerror}; let the curator write there, or say where "
            "else"
        ) from None


def _version_in(file: int, path: Path, fingerprint: bytes) -> str:
    content = os.pread(file, os.fstat(file).st_size, 0)
    complete = content[: content.rfind(b"\n") + 1]  # what follows is a line that a crash cut short
    names: dict[bytes, bytes] = dict(_LINE.findall(complete))
    if b"".join(b"%s %s\n" % pair for pair in _LINE.findall(complete)) != complete:
        raise ConfigurationError(f"{path} is no file of names of records; move it away, and the records get a new name")
    digest = fingerprint.hex().encode()
    if digest not in names:
        names[digest] = secrets.token_hex(16).encode()
        os.ftruncate(file, len(complete))
        os.pwrite(file, b"%s %s\n" % (digest, names[digest]), len(complete))
        os.fsync(file)
    return names[digest].decode()


POLICY, KEY, LEDGER = enrolment.POLICY, keyring.KEY, keyring.LEDGER
DATA = "curator.data"
RECORDS = ("records.csv", "records.parquet", "records.pq", SOURCE)
"""Names of the records' file; a folder holds one of them."""


def now() -> int:
    """Seconds since 1970, by this machine's clock."""
    return int(time.time())


@dataclass(frozen=True)
class Site:
    """A curator that serves, with the acts of its steward."""

    curator: Curator  # it answers
    ledger: Ledger = field(repr=False)  # its budget
    warnings: tuple[str, ...] = ()  # what the steward should check about the records; for nobody else
    data_version: str = ""  # the random name of these records on the ledger; empty where none was kept
    _clock: Callable[[], int] = field(default=now, repr=False)

    @property
    def identity(self) -> bytes:
        """The curator's public key."""
        return self.curator.identity

    @property
    def label(self) -> str:
        """The label under which the curator signs."""
        return self.curator.label

    @property
    def policy(self) -> Policy:
        """Its steward's."""
        return self.curator.policy

    def handle(self, data: bytes) -> bytes:
        """Answer one envelope with one envelope; see `Curator.handle`."""
        return self.curator.handle(data)

    def adopt(self, policy: Policy) -> None:
        """Serve under another policy from the next request on; see `Curator.adopt`."""
        self.curator.adopt(policy)

    def halt(self, note: str) -> None:
        """Halt the ledger: nothing is reserved or charged until `expril ledger resume`. `note` is kept."""
        self.ledger.halt(self._clock(), note)

    def standing(self) -> Standing:
        """The spent and remaining budgets, from policy and ledger alone. Entries of other processes are read first.

        Raises:
            LedgerCorruptError, LedgerUnavailableError: the ledger cannot be read.
        """
        with self.curator.lock:
            self.ledger.refresh(self._clock())
            return standing_of(self.ledger.account, self.policy, self.curator.kinds)

    def waiting(self) -> int:
        """How many studies wait for the steward. Entries of other processes are read first.

        Raises:
            LedgerCorruptError, LedgerUnavailableError: the ledger cannot be read.
        """
        with self.curator.lock:
            self.ledger.refresh(self._clock())
            return len(undecided_proposals(self.ledger, self._clock()))

    def export(self) -> CheckedLedger:
        """The ledger as an auditor reads it: every entry, checked anew.

        Raises:
            LedgerCorruptError, LedgerUnavailableError: it cannot be read at all.
        """
        return check(self.ledger.store, self.identity)

    def close(self) -> None:
        """Release the ledger and its mark."""
        self.ledger.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_site(
    folder: Path,
    *,
    ledger: Path | str | None = None,
    mark: Path | None = None,
    records: Path | None = None,
    data: Path | None = None,
    clock: Callable[[], int] = now,
    noise: NoiseSource | None = None,
    answerers: Mapping[str, Answerer] = ANSWERERS,
) -> Site:
    """Open the curator of a folder, ready to serve.

    Args:
        folder: the site's folder, as this module's docstring describes it.
        ledger: another SQLite file, or a database's URL; None takes the folder's.
        mark: this process's mark; None takes the one beside the ledger.
        records: another CSV, Parquet or source file; None takes the folder's.
        data: another place for the file that knows the names of records; None takes the folder's.
        clock: seconds since 1970 as an int.
        noise: None takes what the policy names, from the operating system's randomness.
        answerers: of the query kinds that it can answer, by name; the policy says which of them it may.

    Raises:
        ConfigurationError: a file is absent or wrong, or files do not belong together. The text names them, and the
            command that makes one.
        LedgerCorruptError: the ledger's chain does not fit together.
    """
    if not folder.is_dir():
        raise ConfigurationError(f"no folder {folder}; it holds {POLICY}, {SCHEMA}, {KEY}, {LEDGER} and the records")
    policy = policy_of(folder, answerers)
    steward = read_schema_of(folder)
    with _about(folder / KEY):
        keys = keyring.read_keys(folder)
    path = records or records_of(folder)
    with _about(path):
        dataset = hold_records(read_records(path), steward, policy, keys.first)
    where = ledger or folder / LEDGER
    if isinstance(where, Path) and not where.is_file():
        raise ConfigurationError(
            f"no ledger {where}: it was lost, unless this site is new; a new site's is made by: "
            f"expril ledger create {where} --key {folder / KEY}{f' --mark {mark}' if mark else ''}"
        )
    with ExitStack() as stack, _about(where):
        opened = open_ledger_file(where, keys.current, mark=mark, first=keys.first)
        stack.callback(opened.close)
        keyring.check_keys_of(opened.account, keys)
        site = assemble_site(
            dataset,
            policy,
            key=keys.current,
            former=keys.former,
            ledger=opened,
            clock=clock,
            noise=noise,
            answerers=answerers,
        )
        version = version_of_data(data or folder / DATA, dataset.fingerprint(keys.first.derive("data version")))
        opened.serve_data(version, clock())
        stack.pop_all()
    return replace(site, data_version=version)


def policy_of(folder: Path, answerers: Mapping[str, Answerer] = ANSWERERS) -> Policy:
    """The policy of a site's folder with its enrolled learners, as the files stand there now.

    Raises:
        ConfigurationError: a file is absent or wrong, or a plug-in is not what the policy names.
    """
    policy = enrolment.read_policy_of(folder, kinds=None)
    check_policy(policy, answerers, where=str(folder / POLICY))
    return policy


def records_of(folder: Path) -> Path:
    """Where the records of a site's folder are.

    Raises:
        ConfigurationError: there are no records, or two files of them.
    """
    there = [folder / name for name in RECORDS if (folder / name).is_file()]
    if not there:
        raise ConfigurationError(f"no records in {folder}; put {' or '.join(RECORDS)} there, or say where they are")
    if len(there) > 1:
        raise ConfigurationError(f"{folder} holds {' and '.join(path.name for path in there)}; keep one of them")
    return there[0]


def create_site(
    folder: Path,
    *,
    policy: str,
    schema: str,
    records: pl.DataFrame,
    clock: Callable[[], int] = now,
    note: str = "",
    key: SigningKey | None = None,
) -> bytes:
    """Prepare the folder of a new site. This is done once, since a ledger that is absent later was lost.

    Args:
        folder: made where there is none.
        policy: text of the policy file.
        schema: text of the schema file.
        records: the private records; kept as Parquet.
        clock: seconds since 1970 as an int.
        note: kept in the ledger.
        key: its signing key; None makes one.

    Returns:
        The curator's public key.

    Raises:
        ConfigurationError: the folder holds a key or a ledger already, a text is wrong, or a file cannot be written.
    """
    check_policy(read_policy(policy, where=POLICY, kinds=None), where=POLICY)
    read_schema_file(schema, where=SCHEMA)
    identity = bytes.fromhex(write_key(folder / KEY, key))
    create_ledger_file(folder / LEDGER, read_key(folder / KEY), now=clock(), note=note)
    (folder / POLICY).write_text(policy, encoding="utf-8")
    (folder / SCHEMA).write_text(schema, encoding="utf-8")
    records.write_parquet(folder / "records.parquet")
    return identity


def hold_records(frame: pl.DataFrame, steward: SchemaFile, policy: Policy, key: SigningKey) -> PrivateDataset:
    """The private records of the curator with this first key. The key decides which records of a unit are kept.

    Warnings for the steward are an attribute of the result, not Python warnings.

    Raises:
        ConfigurationError: the records do not fit the schema; see `PrivateDataset`.
    """
    with catch_warnings():
        simplefilter("ignore", StewardWarning)
        return PrivateDataset(frame, steward, unit_key=key.derive("unit selection"), cache_bytes=policy.cache_bytes)


def assemble_site(
    dataset: PrivateDataset,
    policy: Policy,
    *,
    key: SigningKey,
    ledger: Ledger,
    former: tuple[FormerKey, ...] = (),
    clock: Callable[[], int] = now,
    noise: NoiseSource | None = None,
    entropy: Callable[[int], bytes] = secrets.token_bytes,
    answerers: Mapping[str, Answerer] = ANSWERERS,
) -> Site:
    """Put the parts of a curator together; every curator is made here, and here its plug-ins are loaded and entered.

    Args:
        dataset: its private records.
        policy: its steward's.
        key: its signing key; the ledger's.
        ledger: its durable budget.
        former: keys that it had before, the oldest first.
        clock: seconds since 1970 as an int.
        noise: None takes what the policy names, from the operating system's randomness.
        entropy: n -> n random bytes, for nonces; never for noise.
        answerers: of the query kinds that it can answer, by name.

    Raises:
        ConfigurationError: the noise is seeded, but the policy does not say `simulation = true`; or the ledger was kept
            for another privacy unit, or for releases that were not private; or a plug-in is not what the policy names.
    """
    curator = Curator(
        dataset=dataset,
        ledger=ledger,
        keys=Keys(key, former),
        policy=policy,
        clock=clock,
        noise=noise_of(policy) if noise is None else noise,
        entropy=entropy,
        answerers=plugged(policy, answerers),
    )
    ledger.use_plug_ins(written_plug_ins(policy.plug_ins), clock())
    return Site(curator, ledger, (*dataset.warnings, *doubts_about(policy), *remarks_on(policy)), _clock=clock)


def temporary_site(
    frame: pl.DataFrame,
    steward: SchemaFile,
    policy: Policy,
    *,
    key: SigningKey | None = None,
    clock: Callable[[], int] = now,
    noise: NoiseSource | None = None,
    answerers: Mapping[str, Answerer] = ANSWERERS,
) -> Site:
    """A site whose ledger is in memory alone, for simulations and tests.

    Args:
        frame: its private records.
        steward: its schema file.
        policy: its steward's.
        key: its signing key; None makes one.
        clock: seconds since 1970 as an int.
        noise: None takes what the policy names.
        answerers: of the query kinds that it can answer, by name.

    Raises:
        ConfigurationError: `hold_records` or `assemble_site` raises it.
    """
    signing_key = SigningKey.generate() if key is None else key
    dataset = hold_records(frame, steward, policy, signing_key)
    return assemble_site(
        dataset,
        policy,
        key=signing_key,
        ledger=memory_ledger(signing_key),
        clock=clock,
        noise=noise,
        answerers=answerers,
    )


def noise_of(policy: Policy) -> NoiseSource:
    """The source of noise that a policy names.

    Raises:
        ConfigurationError: it names OpenDP, which is not installed.
    """
    if policy.noise == "exact":
        return ExactNoise()
    try:
        from curator_node.opendp_noise import OpenDPNoise  # noqa: PLC0415 - it takes seconds to load
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            'the policy says noise = "opendp", and OpenDP is not installed: pip install "expril[opendp]", '
            'or say noise = "exact"'
        ) from error
    return OpenDPNoise()


@contextmanager
def _about(where: Path | str) -> Iterator[None]:
    """Errors within name the file, but never a database's URL, which may hold a password."""
    name = str(where) if isinstance(where, Path) else "the ledger"
    try:
        yield
    except (ConfigurationError, LedgerCorruptError) as error:
        text = str(error)
        raise type(error)(text if name in text else f"{name}: {text}") from None
