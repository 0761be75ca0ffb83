"""A curator's keys on disk, and their rotation.

    curator.pem          the key that signs
    keys/                after a rotation:
      rotations.toml     the former public keys, the oldest first, and until when each is answered
      0123456789abcdef.pem   their private keys, named by the first digits of the public ones

A former private key stays: which records of a unit are kept, and the mark's own key, are derived from the first one,
and the positions in old receipts open under the key that sealed them.
"""

from contextlib import ExitStack
from pathlib import Path

import msgspec

from curator_node.identities import FormerKey, Keys
from curator_node.key_files import read_key, write_key
from curator_node.ledger import Account
from curator_node.ledger.checks import load
from curator_node.ledger.ledger import hand_over
from curator_node.ledger.places import open_mark, url_and_mark
from curator_node.ledger.store import DatabaseStore
from curator_node.policy import Instant, PublicKey, instant, written_instant
from expril.files import read_text_file, replace_text, write_new
from protocol.envelopes import SigningKey
from protocol.errors import ConfigurationError
from protocol.identity import MOST_SUCCESSIONS, IdentityCard, succession
from protocol.strict_toml import read_toml

KEY, LEDGER, FORMER = "curator.pem", "curator.ledger", "keys"
ROTATIONS, NEXT = "rotations.toml", "next.pem"
UNFINISHED = "a rotation of this curator's key was not finished; end it by: expril curator rotate"
MOST_ROTATIONS = 1000


class Rotation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The replacement of a key by the next one."""

    key: PublicKey  # the former public key
    at: Instant  # when it gave way
    until: Instant  # when requests to it are answered no more
    leaked: bool = False  # whether somebody else may have it


class Rotations(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All rotations of a curator's key, the oldest first."""

    rotations: tuple[Rotation, ...] = ()


def read_keys(folder: Path) -> Keys:
    """The keys of a site's folder.

    Raises:
        ConfigurationError: a key's file is absent or holds no key, or a rotation was not finished.
    """
    current = read_key(folder / KEY)
    former = tuple(_former_key(folder, rotation) for rotation in _rotations(folder))
    if (folder / FORMER / NEXT).exists() or current.public in {entry.key.public for entry in former}:
        raise ConfigurationError(f"{folder / FORMER}: {UNFINISHED} {folder}")
    return Keys(current, former)


def first_key(path: Path) -> SigningKey:
    """The first key of the curator whose present key is in this file, read from its folder; raises as `read_keys`."""
    return read_keys(path.parent).first if path.name == KEY else read_key(path)


def check_keys_of(account: Account, keys: Keys) -> None:
    """Raise ConfigurationError if a key that had the ledger before is not among a curator's former keys.

    Without the first key other records of a unit would be kept, and more records of the unit would be counted over
    time.
    """
    public_keys = {keys.current.public, *(former.key.public for former in keys.former)}
    lacking = [key.hex()[:16] for _, key in account.curators if key not in public_keys]
    if lacking or (account.curators and account.curators[0][1] != keys.first.public):
        which = ", ".join(lacking) or account.curators[0][1].hex()[:16]
        raise ConfigurationError(
            f"the ledger was kept under a former key of this curator that is not the first one in {FORMER}/ ({which}); "
            "put the whole folder back in its place"
        )


def rotate(
    folder: Path,
    *,
    now: int,
    overlap: int,
    leaked: bool = False,
    ledger: Path | str | None = None,
    mark: Path | None = None,
) -> bytes:
    """Give a curator a new key and hand its ledger to it; also finishes a rotation that was interrupted.

    If the ledger is an older copy that still belongs to a former key, it is handed to the present key, and no new key
    is made.

    Args:
        folder: the site's; nobody may be serving from it.
        now: the time.
        overlap: seconds for which requests to the old key are answered, too.
        leaked: whether somebody else may have the old key; if so, it is answered no more, whatever `overlap` says.
        ledger: another SQLite file, or a database's URL; None takes the folder's.
        mark: of the process that serves from the folder; None takes the one beside the ledger.

    Returns:
        The public key that signs from now on.

    Raises:
        ConfigurationError: a process serves from the folder, the ledger is another curator's, or a file is wrong.
        LedgerCorruptError, LedgerUnavailableError: the ledger cannot be read or written.
    """
    current, rotations = read_key(folder / KEY), _rotations(folder)
    url, where = url_and_mark(ledger or folder / LEDGER, mark)
    first = _private_key(folder, rotations[0].key) if rotations else current
    with ExitStack() as opened:
        opened.callback(open_mark(where, first).close)
        store = DatabaseStore(url)
        opened.callback(store.close)
        holder = load(store).curator
        begun = (folder / FORMER / NEXT).exists()
        former = {
            bytes.fromhex(rotation.key): rotation for rotation in rotations if rotation.key != current.public.hex()
        }
        if holder in former and not begun:
            hand_over(store, _private_key(folder, former[holder].key), current, now)
            return current.public
        expected = {current.public, *([read_key(folder / FORMER / NEXT).public] if begun else [])}
        if holder not in expected:
            raise ConfigurationError(f"the ledger belongs to another curator's key ({holder.hex()[:16]})")
        if not begun:
            write_key(folder / FORMER / NEXT)
        following = read_key(folder / FORMER / NEXT)
        kept_path = _key_path(folder, current.public.hex())
        if not kept_path.exists():
            write_new(kept_path, current.to_pem(), rule="a key is never overwritten")
        hand_over(store, current, following, now)
        if current.public not in {bytes.fromhex(rotation.key) for rotation in rotations}:
            until = instant(now if leaked else now + overlap)
            last = Rotation(current.public.hex(), instant(now), until, leaked)
            replace_text(folder / FORMER / ROTATIONS, _rotations_text((*rotations, last)))
        (folder / FORMER / NEXT).replace(folder / KEY)
    return following.public


def curator_card(folder: Path, card: IdentityCard) -> tuple[IdentityCard, SigningKey]:
    """An identity card of a site's present key with the successions from its former keys, and the key that signs it.

    Successions up to a leaked key are left out: its thief could sign one for another key.

    Args:
        folder: the site's.
        card: the other texts on the card.
    """
    keys, rotations = read_keys(folder), _rotations(folder)
    ahead = [former.key for former in keys.former] + [keys.current]
    passed_on: list[tuple[int, Rotation]] = []
    for place, rotation in enumerate(rotations):
        passed_on = [] if rotation.leaked else [*passed_on, (place, rotation)]
    chain = tuple(
        succession(ahead[place], ahead[place + 1].public, "curator", int(rotation.at.timestamp()))
        for place, rotation in passed_on[-MOST_SUCCESSIONS:]
    )
    return msgspec.structs.replace(card, key=keys.current.public, successions=chain), keys.current


def _rotations(folder: Path) -> tuple[Rotation, ...]:
    path = folder / FORMER / ROTATIONS
    if not path.exists():
        return ()
    return read_toml(read_text_file(path, "file of rotations"), Rotations, where=str(path)).rotations


def _former_key(folder: Path, rotation: Rotation) -> FormerKey:
    return FormerKey(_private_key(folder, rotation.key), int(rotation.until.timestamp()), rotation.leaked)


def _private_key(folder: Path, public: str) -> SigningKey:
    key = read_key(_key_path(folder, public))
    if key.public.hex() != public:
        raise ConfigurationError(f"{_key_path(folder, public)} holds another key than {ROTATIONS} says")
    return key


def _key_path(folder: Path, public: str) -> Path:
    return folder / FORMER / f"{public[:16]}.pem"


def _rotations_text(rotations: tuple[Rotation, ...]) -> str:
    lines = ["# Former keys of this curator, the oldest first; made by expril curator rotate."]
    for rotation in rotations:
        lines += ["", "[[rotations]]", f'key = "{rotation.key}"', f"at = {written_instant(rotation.at)}"]
        lines += [f"until = {written_instant(rotation.until)}", *(["leaked = true"] if rotation.leaked else [])]
    return "\n".join(lines) + "\n"
