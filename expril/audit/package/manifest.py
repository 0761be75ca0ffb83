"""The signed list of a folder's files with their hashes, by which a changed file is found and named.

Files of a package must be plain files of a bounded size. JSON files must be exactly as `as_json` writes them.
"""

import hashlib
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from expril.files import read_plain
from protocol.envelopes import SigningKey, is_signed
from protocol.errors import ConfigurationError, printable
from protocol.ledger.exports import MOST
from protocol.strict_json import UNREADABLE, decode_json

T = TypeVar("T")
MOST_BYTES = 2**26


def is_plain(path: Path) -> bool:
    """Whether the path is a plain file, and not a link, a pipe, a device or a folder."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except (OSError, ValueError):
        return False


def read_bytes(folder: Path, name: str) -> bytes:
    """The bytes of a file in a package.

    Raises:
        ConfigurationError: the file is missing, is no plain file, or is larger than any file of a package.
    """
    try:
        return read_plain(folder / name, most=MOST_BYTES, follow=False)
    except OSError:
        raise ConfigurationError(f"{name} is missing or cannot be read") from None


def as_json(value: object) -> bytes:
    """Return the only accepted bytes of a JSON file with this content."""
    return msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n"


def read_json(folder: Path, name: str, kind: Any = Any) -> Any:
    """A JSON file, as plain values or as a struct.

    Raises:
        ConfigurationError: the file cannot be read, is no JSON, or holds a key twice.
    """
    data = read_bytes(folder, name)
    try:
        plain = decode_json(data, where=name)
        if as_json(plain) == data:
            return msgspec.convert(plain, type=kind)
    except (ConfigurationError, *UNREADABLE):
        raise ConfigurationError(f"{name} is missing or cannot be read") from None
    raise ConfigurationError(f"{name} is not in its one form: a key is there twice, or it was written by hand")


FORMAT = "expril audit package 1"
DOMAIN = b"expril/2 audit package manifest"
MANIFEST, SIGNATURE = "manifest.json", "manifest.sig"
Hex32 = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]
Hex64 = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{128}\Z")]


class Packed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file: its SHA-256 and its length in bytes."""

    sha256: Hex32
    size: Annotated[int, msgspec.Meta(ge=0, le=MOST)]


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The list of a folder's files, with the packager's key."""

    format: Literal["expril audit package 1"]  # `FORMAT`
    expril: str  # version that wrote it
    created: str  # when, as ISO 8601
    key: Hex32  # public key that signs, hexadecimal
    files: dict[str, Packed]  # path inside the folder, with slashes -> what it is; all but this list and its signature


class Signed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The signature of a manifest's bytes."""

    key: Hex32
    signature: Hex64


def seal_folder(folder: Path, key: SigningKey, *, expril: str, created: str) -> Manifest:
    """List and sign every file of a folder.

    `key`: of the packager; `expril`: its version; `created`: when, as ISO 8601.

    Raises:
        ConfigurationError: the folder holds something that is no plain file.
    """
    files = {}
    for name, path in _there(folder).items():
        if not is_plain(path):
            raise ConfigurationError(f"{path} is no plain file; a package holds plain files alone")
        files[name] = packed(path)
    manifest = Manifest(
        format="expril audit package 1", expril=expril, created=created, key=key.public.hex(), files=files
    )
    data = as_json(manifest)
    (folder / MANIFEST).write_bytes(data)
    (folder / SIGNATURE).write_bytes(_signature(Signed(key.public.hex(), key.sign(DOMAIN + data).hex())))
    return manifest


def require_package(folder: Path) -> None:
    """Raise ConfigurationError: the folder holds no package."""
    if not is_plain(folder / MANIFEST):
        raise ConfigurationError(f"{folder} is no claim package: it has no {MANIFEST}; make one: expril audit package")


def check_folder(folder: Path, *, key: str = "") -> tuple[Manifest | None, list[str]]:
    """Compare a folder with its signed list.

    `key`: public key that must have signed it, hexadecimal; "" takes the one that it names.

    Returns:
        The list, or None if it cannot be read; and a sentence for each thing that is wrong, which begins with the
        file's name.

    Raises:
        ConfigurationError: the folder holds no package.
    """
    require_package(folder)
    wrong = []
    data = read_bytes(folder, MANIFEST)
    manifest = _in_one_form(data, Manifest, as_json)
    try:
        signed = _in_one_form(read_bytes(folder, SIGNATURE), Signed, _signature)
    except ConfigurationError:
        signed = None
    if signed is None:
        wrong.append(f"{SIGNATURE} is missing, or is not in its one form")
    elif not is_signed(bytes.fromhex(signed.key), bytes.fromhex(signed.signature), DOMAIN + data):
        wrong.append(f"{MANIFEST} or {SIGNATURE} was changed: the signature does not fit the list")
    if manifest is None:
        return None, [*wrong, f"{MANIFEST} cannot be read"]
    if signed is not None and signed.key != manifest.key:
        wrong.append(f"{SIGNATURE} is by another key than {MANIFEST} names")
    if key and manifest.key != key:
        wrong.append(f"{MANIFEST} is signed by {manifest.key}, not by the key that you gave")
    there = _there(folder)
    for name, listed in manifest.files.items():
        path = there.pop(name, None)
        if path is None:
            wrong.append(f"{printable(name)} is missing")
        elif not is_plain(path):
            wrong.append(f"{printable(name)} is no plain file")
        elif path.stat().st_size != listed.size or packed(path) != listed:
            wrong.append(f"{printable(name)} was changed: its hash is not the one in the signed list")
    wrong += [f"{printable(name)} is not in the signed list" for name in there if name not in (MANIFEST, SIGNATURE)]
    return manifest, wrong


def packed(path: Path) -> Packed:
    """Return the hash and the length of a file."""
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        return Packed(sha256, file.tell())


def foreign_files(folder: Path) -> list[str]:
    """Return the names in a folder that are no plain files. Nothing is opened."""
    return [name for name, path in _there(folder, all_files=True).items() if not is_plain(path)]


def _there(folder: Path, *, all_files: bool = False) -> dict[str, Path]:
    """Map relative to full paths of everything in a folder but folders. Links are not followed.

    Raises:
        ConfigurationError: folders are nested too deep.
    """
    files_found = {}
    try:
        for base, folders, files in os.walk(folder):
            for entry in (*(name for name in folders if Path(base, name).is_symlink()), *files):
                path = Path(base, entry)
                name = path.relative_to(folder).as_posix()
                if all_files or name not in (MANIFEST, SIGNATURE) or path.is_symlink():
                    files_found[name] = path
    except RecursionError:
        raise ConfigurationError(f"{folder} is no claim package: its folders are nested too deep") from None
    return dict(sorted(files_found.items()))


def _signature(signed: Signed) -> bytes:
    return msgspec.json.encode(signed) + b"\n"


def _in_one_form(data: bytes, kind: type[T], form: Callable[[T], bytes]) -> T | None:
    """Return a file's content; None if it cannot be read, or its bytes are not those that `as_json` writes."""
    try:
        value = decode_json(data, kind, where=MANIFEST)
        return value if form(value) == data else None
    except ConfigurationError:
        return None
