"""What `daemon.toml` says: where the SuperLink is, and where the ledger, its mark and the health page are.

The file concerns no learner. Only a ledger's URL is secret, and it may stand in an environment variable instead.
"""

import ipaddress
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec

from expril.files import read_text_file
from protocol.errors import ConfigurationError
from protocol.strict_toml import convert, read_toml

DAEMON = "daemon.toml"
NODE_KEY, NODE_PUBLIC = "node.pem", "node.pub"
_ADDRESS = re.compile(r"(?P<host>[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\]):(?P<port>[0-9]{1,5})\Z")
Port = Annotated[int, msgspec.Meta(ge=1, le=65_535)]
Argument = Annotated[str, msgspec.Meta(min_length=1, max_length=1000, pattern=r"^[^\x00]*\Z")]
Wait = Annotated[float, msgspec.Meta(ge=0.001, le=60)]


class DaemonSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A daemon file. Paths that are not absolute are in the site's folder."""

    superlink: str  # "host:port"
    ca: str | None = None  # file of the authority that certifies the SuperLink
    insecure: bool = False  # True speaks HTTP without TLS; only to a SuperLink on this machine
    health_port: Port = 9090  # of the loopback
    ledger: str | None = None  # a database's URL; none takes the folder's file
    ledger_env: str | None = None  # the environment variable that holds that URL
    mark: str | None = None  # this process's mark; none takes the one beside the ledger's file
    busy_seconds: Wait = 0.05  # longest wait between two looks for messages while there is work
    idle_seconds: Wait = 0.25  # the same, after a while without any
    # messages that are fetched and answered at once; counts are made one at a time
    workers: Annotated[int, msgspec.Meta(ge=1, le=64)] = 4
    # how long what is in hand may take once the daemon is told to stop
    stop_seconds: Annotated[float, msgspec.Meta(ge=0, le=600)] = 20.0
    # a program, by its absolute path, and its arguments: run when a study begins to wait for the steward, with the
    # study's identity as one more argument. None is run where it is empty.
    waiting_command: tuple[Argument, ...] = ()

    def __post_init__(self) -> None:
        host = host_of(self.superlink)
        if self.insecure and self.ca is not None:
            raise ValueError("ca and insecure exclude each other; leave insecure out")
        if self.insecure and not _is_loopback(host):
            raise ValueError(
                "insecure is for a SuperLink on this machine (127.0.0.1); give the file of its authority: ca"
            )
        if not self.insecure and self.ca is None:
            raise ValueError("ca is missing: the file of the authority that certifies the SuperLink")
        if self.ledger is not None and self.ledger_env is not None:
            raise ValueError("ledger and ledger_env exclude each other")
        if (self.ledger or self.ledger_env) and self.mark is None:
            raise ValueError("a ledger in a database needs a mark: say where this process keeps it")
        if self.waiting_command and not Path(self.waiting_command[0]).is_absolute():
            raise ValueError(
                'waiting_command is a program by its absolute path and its arguments, as ["/usr/bin/logger", "a study '
                'waits"]; no shell reads it'
            )


def host_of(address: str) -> str:
    """The host of "host:port"; ValueError says what is wrong."""
    match = _ADDRESS.fullmatch(address)
    if match is None or not 1 <= int(match["port"]) <= 65_535:
        raise ValueError(f'superlink is "host:port", as "superlink.example.org:8000", and not {address!r}')
    return match["host"].strip("[]")


def read_settings(folder: Path, changes: Mapping[str, object] | None = None) -> DaemonSettings:
    """The settings of a site's folder. `changes` come from the command line and replace settings of the file.

    Raises:
        ConfigurationError: the file is absent or wrong.
    """
    path = folder / DAEMON
    text = read_text_file(path, "daemon file", remedy="docs/administrator/daemon.md says what it holds")
    settings = read_toml(text, DaemonSettings, where=str(path))
    options = {name: value for name, value in (changes or {}).items() if value is not None}
    if options.get("ca") and settings.insecure:
        options["insecure"] = False
    where = f"{path}, with the options of this command"
    return convert({**msgspec.to_builtins(settings), **options}, DaemonSettings, where=where)


def ledger_of(settings: DaemonSettings, environment: Mapping[str, str] = os.environ) -> str | None:
    """URL of the ledger's database; None if the ledger is the folder's file.

    Raises:
        ConfigurationError: the environment variable is not set.
    """
    if settings.ledger_env is None:
        return settings.ledger
    url = environment.get(settings.ledger_env)
    if not url:
        raise ConfigurationError(
            f"the environment variable {settings.ledger_env} is not set; {DAEMON} says that it holds the ledger's URL"
        )
    return url


def inside(folder: Path, name: str | None) -> Path | None:
    """A path of the settings; one that is not absolute is in the folder."""
    return None if name is None else folder / Path(name).expanduser()


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
