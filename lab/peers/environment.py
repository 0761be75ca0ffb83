"""The peers' environments: where the Python of each is, and the process of it that trains peers, or plays them.

Peers need libraries that cannot live with ours (diffprivlib wants an older scikit-learn), nor with each other
(smartnoise-sql wants an older OpenDP), so they have environments of their own, and run in processes that are started
once and reused.
"""

import atexit
import json
import os
import select
import subprocess
import tempfile
import threading
import time
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from lab.peers.task import ARRAYS, Matrix, PeerFailedError, PeerResult, PeerTask, PeerUnavailableError, Release, Vector

PYTHON_VARIABLE = "EXPRIL_PEERS"
ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Environment:
    """A Python with the libraries of some peers."""

    target: str  # of the Makefile, which makes `folder`
    folder: str  # in the checkout
    variable: str  # environment variable that names another Python
    requirements: str  # what to install elsewhere

    @property
    def how_to_install(self) -> str:
        """What to do where it is absent."""
        return (
            f"`make {self.target}` in ExPriL's checkout makes {self.folder}; or install {self.requirements} into an "
            f"environment of its own and set {self.variable} to its python"
        )

    def python(self) -> Path:
        """What its variable names, else the Python of its folder.

        Raises PeerUnavailableError: there is none; the text says how to install it.
        """
        named = os.environ.get(self.variable)
        python = Path(named) if named else ROOT / self.folder / "bin" / "python"
        if not python.is_file():
            raise PeerUnavailableError(f"an environment of peers is not there: no {python}. {self.how_to_install}")
        return python


PEERS_ENVIRONMENT = Environment("peers", ".venv-peers", PYTHON_VARIABLE, "lab/peers/requirements.txt")
AUDITED_ENVIRONMENT = Environment("audited", ".venv-audited", "EXPRIL_AUDITED", "lab/peers/requirements-audited.txt")
TIMEOUT_SECONDS = 1800.0  # for one answer; far above what any peer takes, so that only one that hangs is ended
CLOSING_SECONDS = 5.0
# Ours come last on the path: a scikit-learn beside ExPriL must not hide the older one of the peers.
_START = "import sys; sys.path.append(sys.argv[1]); from lab.peers.worker import main; main()"
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def peers_python() -> Path:
    """The Python of the peers' environment; raises as `Environment.python`."""
    return PEERS_ENVIRONMENT.python()


class Worker:
    """A process that answers one request at a time; not for several threads at once.

    `command`: starts it; it reads requests from stdin and writes replies to stdout, as `worker` says.
    """

    def __init__(
        self,
        command: Sequence[str],
        timeout_seconds: float = TIMEOUT_SECONDS,
        environment: Environment = PEERS_ENVIRONMENT,
    ) -> None:
        self._timeout_seconds = timeout_seconds
        self._environment = environment
        self._folder = tempfile.TemporaryDirectory(prefix="expril-peers-")
        self._tasks = 0
        try:
            self._process = subprocess.Popen(  # noqa: S603 - the command is ours; only the path of Python is the user's
                list(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,  # warnings of libraries, which may quote records
                env={**os.environ, **_ONE_THREAD},
            )
        except OSError as error:
            self._folder.cleanup()
            raise PeerUnavailableError(
                f"{command[0]} cannot be started ({error.strerror}). {environment.how_to_install}"
            ) from None

    @property
    def alive(self) -> bool:
        """Whether it can be asked."""
        return self._process.poll() is None

    def run(self, family: str, task: PeerTask) -> PeerResult:
        """Train one peer; raises as `arrays`, and PeerFailedError where it gives no probabilities."""
        (probability,), seconds = self.arrays(family, task)
        return PeerResult(checked(probability, len(task.test), task.peer), seconds)

    def arrays(self, family: str, task: PeerTask, count: int = 1) -> tuple[list[NDArray[np.float64]], float]:
        """The first `count` arrays of a peer's answer, unchecked, and the seconds that it took.

        Raises PeerUnavailableError: a library is missing; PeerFailedError: the peer failed, or its process ended or
        took too long; then it cannot be asked again.
        """
        scalars = {name: getattr(task, name) for name in ("peer", "epsilon", "delta", "seed", "columns")}
        inputs = {name: getattr(task, name) for name in ARRAYS}
        return self._exchange({"family": family, "task": scalars}, inputs, count, task.peer)

    def rows(self, family: str, release: Release, records: Matrix) -> Matrix:
        """`release.draws` outcomes of a library on these records, (draws, k); raises as `arrays`."""
        scalars = {"name": release.name, "setting": dict(release.setting), "draws": release.draws}
        request = {"family": family, "release": scalars}
        (rows,), _ = self._exchange(request, {"records": records}, 1, release.name)
        if rows.ndim != 2 or len(rows) != release.draws:
            raise PeerFailedError(f"{release.name} gave {rows.shape} numbers, not {release.draws} rows")
        return rows

    def _exchange(
        self, request: dict[str, Any], inputs: dict[str, NDArray[Any]], count: int, peer: str
    ) -> tuple[list[NDArray[np.float64]], float]:
        self._tasks += 1
        arrays, answer = (Path(self._folder.name) / f"{name}-{self._tasks}.npz" for name in ("task", "answer"))
        np.savez(arrays, allow_pickle=False, **inputs)
        try:
            reply = self._ask({**request, "arrays": str(arrays), "answer": str(answer)}, peer)
            return _read(answer, count, peer), float(reply["seconds"])
        finally:
            arrays.unlink(missing_ok=True)
            answer.unlink(missing_ok=True)

    def versions(self, family: str | None = None) -> dict[str, str]:
        """Library -> its version in the environment, of one family or of all."""
        request = {"versions": True} | ({} if family is None else {"family": family})
        return {str(name): str(version) for name, version in self._ask(request, "versions")["versions"].items()}

    def close(self) -> None:
        """End the process and remove its files; a second call does nothing."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:
                    continue  # what was still to be written to a dead process
        try:
            self._process.wait(CLOSING_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._folder.cleanup()

    def _ask(self, request: dict[str, Any], peer: str) -> dict[str, Any]:
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            raise PeerFailedError(f"{peer}: the peers' process has no pipes")
        try:
            stdin.write(json.dumps(request).encode() + b"\n")
            stdin.flush()
            line = self._line(stdout, peer)
            reply = json.loads(line)
        except (OSError, EOFError, ValueError) as error:
            self._process.kill()
            code = self._process.wait()
            raise PeerFailedError(f"{peer}: its process broke off ({type(error).__name__}, exit {code})") from None
        if "missing" in reply:
            how = self._environment.how_to_install
            raise PeerUnavailableError(f"{peer}: its environment has no {reply['missing']}. {how}")
        if "error" in reply:
            raise PeerFailedError(f"{peer} failed: {reply['error']} at {reply['place']}")
        answered: dict[str, Any] = reply
        return answered

    def _line(self, stdout: IO[bytes], peer: str) -> bytes:
        deadline, line = time.monotonic() + self._timeout_seconds, b""
        while not line.endswith(b"\n"):
            seconds = deadline - time.monotonic()
            if seconds <= 0 or not select.select([stdout], [], [], seconds)[0]:
                self._process.kill()
                self._process.wait()
                raise PeerFailedError(f"{peer}: no answer in {self._timeout_seconds:g} s; its process was ended")
            # Unbuffered, as select looks at the pipe and not at a buffer.
            part = os.read(stdout.fileno(), 65536)
            if not part:
                raise EOFError
            line += part
        return line


_LOCK = threading.Lock()
_WORKERS: dict[tuple[int, Path], Worker] = {}  # by process, as a fork must not share its parent's pipes, and Python


def run_in_environment(family: str, task: PeerTask) -> PeerResult:
    """Train one peer in the peers' environment; its process is started where there is none, and reused.

    Raises PeerUnavailableError: there is no such environment, or it lacks a library; PeerFailedError: the peer failed;
    the next one gets a fresh process where that is needed.
    """
    with _LOCK:
        return _worker().run(family, task)


def generate_in_environment(task: PeerTask) -> tuple[Matrix, Vector]:
    """Synthetic records of "aim" or "mst": (m, p), and their labels, (m,), 0 or 1; else as `run_in_environment`."""
    with _LOCK:
        (matrix, labels), _ = _worker().arrays("generators", task, 2)
    return matrix, labels


def rows_in_environment(family: str, task: PeerTask) -> Matrix:
    """Points of a generator without labels ("gans"): a row for each of `test`."""
    with _LOCK:
        (rows,), _ = _worker().arrays(family, task)
    return rows


def release_in_environment(environment: Environment, family: str, release: Release, records: Matrix) -> Matrix:
    """Outcomes of a library on these records, as `Worker.rows`; else as `run_in_environment`."""
    with _LOCK:
        return _worker(environment).rows(family, release, records)


def environment_versions(environment: Environment = PEERS_ENVIRONMENT, family: str | None = None) -> dict[str, str]:
    """Library -> its version in an environment, of one family or of all.

    Raises PeerUnavailableError: there is no such environment.
    """
    with _LOCK:
        return _worker(environment).versions(family)


def _worker(environment: Environment = PEERS_ENVIRONMENT) -> Worker:
    key = os.getpid(), environment.python()
    if key not in _WORKERS or not _WORKERS[key].alive:
        if key in _WORKERS:
            _WORKERS.pop(key).close()
        _WORKERS[key] = Worker([str(key[1]), "-c", _START, str(ROOT)], environment=environment)
    return _WORKERS[key]


@atexit.register
def _close_all() -> None:
    for (process, _), worker in _WORKERS.items():
        if process == os.getpid():
            worker.close()


def _read(path: Path, count: int, peer: str) -> list[NDArray[np.float64]]:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return [np.asarray(arrays[f"arr_{place}"], dtype=np.float64) for place in range(count)]
    except (OSError, ValueError, KeyError, zipfile.BadZipFile):
        raise PeerFailedError(f"{peer}: its answer cannot be read") from None


def checked(probability: Vector, records: int, peer: str) -> Vector:
    """The probabilities, if they are one a record and in [0, 1]. Raises PeerFailedError: they are not."""
    if probability.shape != (records,) or not np.all((probability >= 0) & (probability <= 1)):
        raise PeerFailedError(f"{peer} gave no probability for each of {records} records")
    return probability
