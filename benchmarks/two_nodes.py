"""A campaign on a Ray cluster of two machines, of which one is killed in the middle: the same results, byte for byte.

`python -m benchmarks.two_nodes` needs Linux, root and the extra `ray`. The machines are network namespaces of this one,
joined by a virtual cable. Each task is a whole simulated repeat, with curators, signatures, ledgers and noise from a
seed; its result is a digest of all releases. The same tasks are also run one after the other in this process. Once a
quarter of the tasks are finished, all processes of the second machine are killed.
"""

import importlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import Any, Self

import msgspec

from protocol.envelopes import open_envelope
from protocol.messages import Release
from simulations.campaign.runner import ADDRESS, Computed, run_tasks
from simulations.records import load_records
from simulations.repeats import run_repeat
from simulations.scenario import load_scenario

TASKS = int(os.environ.get("EXPRIL_TASKS", "60"))
HOSTS = ("10.77.34.1", "10.77.34.2")
PORT = 6391
NAMES = ("expril-one", "expril-two")
DRIVER = "driver"
"""Begins the line with the processor seconds of the process that hands out tasks, for each after the first."""


@dataclass(frozen=True)
class Repeat:
    """One repeat of a simulation."""

    number: int
    maker: str = "simulation"

    def __str__(self) -> str:
        return f"repeat {self.number}"


@dataclass(frozen=True)
class Releases:
    """What a repeat gave, and where."""

    key: int
    digest: str  # of all releases of all curators, in order
    host: str  # address of the machine
    seconds: float


def compute(repeat: Repeat) -> Computed[Any]:
    """A repeat with two curators, noise from a seed and a learner without networks."""
    began = time.process_time()
    scenario, _, folder = load_scenario("wdbc")
    learner = msgspec.structs.replace(scenario.learners[0], options={"networks": False})
    scenario = msgspec.structs.replace(scenario, learners=(learner,), noise_seed=34)
    done = run_repeat(scenario, load_records(scenario, folder), repeat.number)
    digest = sha256()
    for outcome in done.outcomes:
        for name, session in sorted(outcome.study.sessions.items()) if outcome.study else ():
            digest.update(name.encode())
            messages = [open_envelope(data)[1] for data in session.transcript.envelopes]
            digest.update(b"".join(message.body for message in messages if isinstance(message, Release)))
    host = os.environ.get("EXPRIL_HOST", "here")
    return Computed((Releases(repeat.number, digest.hexdigest(), host, time.process_time() - began),))


def run_all(jobs: int) -> list[Releases]:
    """All repeats, by number; a line on standard output for each that ends."""
    results: list[Releases] = []
    moments: list[float] = []

    def keep(_: Repeat, cell: Releases) -> None:
        results.append(cell)
        moments.append(time.process_time())
        print(cell.host, cell.digest, f"{cell.seconds:.2f}", flush=True)

    tasks = [Repeat(number) for number in range(TASKS)]
    cluster = os.environ.get(ADDRESS, "")
    finish = run_tasks(tasks, compute, keep, jobs=jobs, work=lambda _: 1.0, cluster=cluster)
    finish.check()
    print(DRIVER, (moments[-1] - moments[0]) / (TASKS - 1), flush=True)
    return sorted(results, key=lambda cell: cell.key)


class Machines:
    """Two network namespaces with a cable between them, and a Ray node in each; all is gone in the end."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ray = folder / "ray"
        self._ray.mkdir()
        self._nodes: list[subprocess.Popen[bytes]] = []

    def command(self, place: int, *command: str) -> list[str]:
        """A command line that runs a program on a machine; on the second one, Ray's folder is another."""
        mounted = ["sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"', str(self._ray)]
        inside = [*mounted, *command] if place else command
        return ["ip", "netns", "exec", NAMES[place], *inside]

    def environment(self, place: int) -> dict[str, str]:
        """Of a process on a machine."""
        quiet = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0", "OMP_NUM_THREADS": "1"}
        return {**os.environ, **quiet, "EXPRIL_HOST": HOSTS[place]}

    def start(self, place: int) -> None:
        """Start a machine's Ray node."""
        shared = ["--node-ip-address", HOSTS[place], "--num-cpus", "1", "--object-store-memory", str(80 * 2**20)]
        head = ["--head", "--port", str(PORT), "--include-dashboard", "false", "--temp-dir", str(self._ray)]
        role = ["--address", f"{HOSTS[0]}:{PORT}"] if place else head
        program = str(Path(sys.executable).with_name("ray"))
        line = self.command(place, program, "start", "--block", *shared, *role)
        with (self._folder / f"{NAMES[place]}.log").open("wb") as log:
            self._nodes.append(subprocess.Popen(line, env=self.environment(place), stdout=log, stderr=log))

    def kill(self, place: int) -> int:
        """Kill every process of a machine; how many there were."""
        listed = subprocess.run(["ip", "netns", "pids", NAMES[place]], capture_output=True, text=True, check=False)
        for pid in map(int, listed.stdout.split()):
            os.kill(pid, signal.SIGKILL)
        return len(listed.stdout.split())

    def __enter__(self) -> Self:
        for name in NAMES:
            _ip("netns", "add", name)
        _ip("link", "add", "cable1", "netns", NAMES[0], "type", "veth", "peer", "name", "cable2", "netns", NAMES[1])
        for name, cable, host in zip(NAMES, ("cable1", "cable2"), HOSTS, strict=True):
            _ip("-n", name, "address", "add", f"{host}/24", "dev", cable)
            _ip("-n", name, "link", "set", cable, "up")
            _ip("-n", name, "link", "set", "lo", "up")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for place, name in enumerate(NAMES):
            self.kill(place)
            subprocess.run(["ip", "netns", "del", name], check=False)
        for node in self._nodes:
            node.wait()


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def main() -> int:
    """See the module; 0 if the results are the same."""
    if os.geteuid() or not shutil.which("ip"):
        print("left out: network namespaces need root and the command ip")
        return 0
    folder = Path(tempfile.mkdtemp(prefix="expril-two-"))
    try:
        with Machines(folder) as machines:
            machines.start(0)
            machines.start(1)
            driver = machines.command(0, sys.executable, "-m", "benchmarks.two_nodes", "driver")
            env = {**machines.environment(0), ADDRESS: f"{HOSTS[0]}:{PORT}"}
            began, killed = time.perf_counter(), 0
            lines: list[list[str]] = []
            handing = 0.0
            with subprocess.Popen(driver, env=env, stdout=subprocess.PIPE, text=True) as work:
                for line in work.stdout or ():
                    if line.startswith(HOSTS):  # and not Ray's own
                        lines.append(line.split())
                    elif line.startswith(DRIVER):
                        handing = float(line.split()[1])
                    if len(lines) >= TASKS // 4 and not killed and any(host == HOSTS[1] for host, *_ in lines):
                        killed, moment = machines.kill(1), len(lines)
            wall = time.perf_counter() - began
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    alone = run_all(1)
    same = work.returncode == 0 and sorted(line[1] for line in lines) == sorted(cell.digest for cell in alone)
    places = {host: sum(line[0] == host for line in lines) for host in HOSTS}
    print(f"{len(lines)} of {TASKS} tasks in {wall:.0f} s, finished by machine: {places}")
    if killed:
        print(f"{killed} processes of {HOSTS[1]} were killed once {moment} tasks were finished")
    print(
        f"processor seconds a task: {median(float(line[2]) for line in lines):.2f} there, "
        f"{median(cell.seconds for cell in alone):.2f} here; {1000 * handing:.1f} ms to hand one out"
    )
    print("the same results, byte for byte" if same and killed else "NOT the same results, or nothing was killed")
    return 0 if same and killed else 1


if __name__ == "__main__":
    if sys.argv[1:] == ["driver"]:
        # by name, so that other processes can import the class of the tasks
        importlib.import_module("benchmarks.two_nodes").run_all(2)
    else:
        sys.exit(main())
