"""Public data files by name, trusted only after a checksum of their content.

A file comes from the folder ``EXPRIL_DATA_DIR``, else from the cache, else from its archive's address. The checksum
pins the *content*, not the bytes: honest copies differ in line ends (text) or in a workbook's metadata, so each file
defines its digest. Loaders do the parsing.
"""

import hashlib
import io
import os
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pooch

from protocol.errors import ConfigurationError

DATA_DIRECTORY_VARIABLE = "EXPRIL_DATA_DIR"
DOWNLOAD_TIMEOUT_SECONDS = 30


class DataUnavailableError(ConfigurationError, RuntimeError):
    """A data file is missing or has the wrong content; the one-line message says how to provide it."""

    kind = "data"

    def __init__(self, filename: str, url: str, attempts: list[str]) -> None:
        self.filename = filename
        self.attempts = tuple(attempts)
        super().__init__(
            f"the data file {filename} is not available ({'; '.join(attempts)}): "
            f"save {url} as {filename} in a folder and set {DATA_DIRECTORY_VARIABLE} to that folder"
        )


class Downloader(Protocol):
    """Writes what is at ``url`` to ``target``; raises OSError or ValueError when it cannot."""

    def __call__(self, url: str, target: Path) -> None:
        """Download."""


def http_download(url: str, target: Path) -> None:
    """Download over HTTP.

    Raises:
        OSError: There is no network, or the server refused (the errors of requests are OSErrors).
        ValueError: The address is invalid.
    """
    pooch.HTTPDownloader(timeout=DOWNLOAD_TIMEOUT_SECONDS)(url, str(target), None)


def text_digest(content: bytes) -> str:
    """SHA-256 (hex) of a text file after CRLF -> LF."""
    return hashlib.sha256(content.replace(b"\r\n", b"\n")).hexdigest()


def unzipped(content: bytes, name: str) -> bytes:
    """The file of that name in a ZIP archive, in whatever folder; ``content`` itself if it is no archive.

    Raises ValueError: The archive lacks the file, or is damaged.
    """
    if not content.startswith(b"PK"):
        return content
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for path in archive.namelist():
                if path.rpartition("/")[2] == name:
                    return archive.read(path)
    except zipfile.BadZipFile as error:
        raise ValueError(f"damaged archive: {error}") from None
    raise ValueError(f"the archive holds no {name}")


@dataclass(frozen=True)
class DataFile:
    """A public file: its name, address, and the pinned digest of its content.

    ``digest`` maps the file's bytes to a hex string that is equal for honest copies; it raises ValueError for
    bytes that cannot be such a file at all.
    """

    name: str
    url: str
    sha256: str
    digest: Callable[[bytes], str] = text_digest

    def check(self, path: Path) -> None:
        """Check a file's content. Raises OSError if it is unreadable, ValueError if it is not the pinned one."""
        digest = self.digest(path.read_bytes())
        if digest != self.sha256:
            raise ValueError(f"checksum mismatch: the content's sha256 is {digest}, expected {self.sha256}")


def data_file(file: DataFile, *, cache: Path | None = None, download: Downloader = http_download) -> Path:
    """The path of a local copy of the file whose content has been checked.

    A file in ``EXPRIL_DATA_DIR`` that fails its check is an error, never passed over in favour of a
    download; a file in the cache that fails it (cut off, damaged) is downloaded again.

    Args:
        file: The file wanted.
        cache: Where downloads are kept; by default ``pooch.os_cache("expril")``.
        download: Fetches an address to a path.

    Raises:
        DataUnavailableError: No copy was found, or the copy found holds something else.
    """
    attempts = []
    directory = os.environ.get(DATA_DIRECTORY_VARIABLE)
    if directory:
        local = Path(directory) / file.name
        if local.exists():
            try:
                file.check(local)
            except (OSError, ValueError) as error:
                raise DataUnavailableError(file.name, file.url, [f"{local}: {error}"]) from error
            return local
        attempts.append(f"{local} ({DATA_DIRECTORY_VARIABLE}): no such file")
    else:
        attempts.append(f"{DATA_DIRECTORY_VARIABLE} is not set")

    cached = (Path(pooch.os_cache("expril")) if cache is None else cache) / file.name
    if cached.exists():
        try:
            file.check(cached)
        except (OSError, ValueError) as error:
            attempts.append(f"{cached} (cache): {error}")
        else:
            return cached
    else:
        attempts.append(f"{cached} (cache): no such file")

    try:
        cached.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cached.parent) as scratch:
            arrived = Path(scratch) / file.name
            download(file.url, arrived)
            file.check(arrived)
            arrived.replace(cached)  # one step: another process never sees half a file
    except (OSError, ValueError) as error:
        reason = str(error).partition(": Max retries")[0]  # the chain of urllib3 says no more
        attempts.append(f"download of {file.url}: {type(error).__name__}: {reason}")
        raise DataUnavailableError(file.name, file.url, attempts) from None
    return cached
