"""A round over TLS with three curators on loopback: our daemons and learner, beside stock Flower, in one run.

Ours: a SuperLink with TLS and node authentication, `expril curator serve` for each curator, a learner who asks one
question a round of all three: signatures, counting, exact noise and a ledger on disk included. Stock: the same kind
of SuperLink, `flower-supernode` for each node, and a ServerApp that sends each node as many bytes and gets as many back
by `send_and_receive`, which its ClientApp does at once. They run one after the other, stock Flower first: at the same
time it would take our processors, since it starts a process for each message. Then the same questions over
Flower's simulation engine.

The floor of a round is four calls one after the other: push, pull, push, pull. How long a call takes is measured at the
learner, in the rounds that are timed. How many calls a round makes is read from the log of a SuperLink of its own,
since a line for each call would slow the others.

The floor of a start is what three processes take that load a daemon's libraries and end.
"""

import json
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import polars as pl

from benchmarks.common import Result, at_least, at_most, bins_of, median, schema_of, spread, steward_of
from curator_node.daemon.node_key import write_node_key
from curator_node.policy import LearnerPolicy, Policy
from learner_node.study.federation import Carrier, Federation
from learner_node.study.study import Study
from protocol.envelopes import SigningKey
from protocol.flower_internals import RuntimeHttpClient
from protocol.hypotheses import Constant
from protocol.kinds.counts import CountsBody, PlannedCounts
from protocol.plans import Plan
from protocol.rationals import Rational
from simulations.carriers import Serve, ray_engine, superlink
from simulations.carriers.processes import guarded
from simulations.carriers.sites import Simulated, SiteOrder, make_folder
from simulations.carriers.superlink import Deployment, SuperLink, free_port

CURATORS, RECORDS, ATTRIBUTES, BINS = 3, 10_000, 22, 10
ROUNDS, STOCK_ROUNDS, OTHER_ROUNDS = 40, 5, 10
BYTES = 4096
PATIENCE = 600.0
MOST_SECONDS, MOST_START, LEAST_TIMES = 0.35, 1.5, 45.0
OF_OTHERS = ("cryptography.x509", "flwr.app", "httpx", "msgspec", "numpy", "polars", "sqlalchemy")
"""Libraries that a daemon cannot do without."""
LOADS = 5
IN_TURN = 4
"""Calls of a round that follow one another."""
MESSAGES = ("pull-messages", "push-messages")
CALL = r'"POST /v1/(?:fleet|runtime)/(?!\S*heartbeat)'
"""A line of the SuperLink's log."""

PYPROJECT = """[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "stock"
version = "1.0.0"
description = ""
license = "Apache-2.0"
dependencies = []
[tool.flwr.app]
publisher = "stock"
[tool.flwr.app.components]
serverapp = "stock.apps:server"
clientapp = "stock.apps:client"
[tool.flwr.app.config]
out = ""
rounds = 0
nodes = 0
bytes = 0
"""
APPS = """
import json, time
from pathlib import Path
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

client = ClientApp()
server = ServerApp()

@client.query("echo")
def echo(message, context):
    return Message(message.content, reply_to=message)

@server.main()
def main(grid, context):
    told = context.run_config
    while len(nodes := list(grid.get_node_ids())) < told["nodes"]:
        time.sleep(0.5)
    taken = []
    for _ in range(told["rounds"]):
        start = time.perf_counter()
        content = RecordDict({"envelope": ConfigRecord({"bytes": bytes(told["bytes"])})})
        replies = list(grid.send_and_receive([Message(content, node, "query.echo") for node in nodes]))
        assert len(replies) == len(nodes) and not any(reply.has_error() for reply in replies)
        taken.append(time.perf_counter() - start)
        Path(told["out"]).write_text(json.dumps(taken))
"""


def our_rounds(
    serve: Serve, place: Path, rounds: int, aside: Callable[[], float] = lambda: 0.0
) -> tuple[float, list[float], float]:
    """Seconds until the curators were served, and of each question that all three answered; how `aside` has grown."""
    key = SigningKey.generate()
    rng = np.random.default_rng(0)
    folders = {}
    for number in range(CURATORS):
        columns = {f"a{i}": rng.random(RECORDS) for i in range(ATTRIBUTES)}
        frame = pl.DataFrame({**columns, "label": np.where(np.arange(RECORDS) % 2, "yes", "no")})
        learner = LearnerPolicy(name="learner", key=key.public.hex(), cap="100000")
        policy = Policy(name=f"site{number}", cap="1000000", learners=(learner,))
        order = SiteOrder(frame, steward_of(schema_of(ATTRIBUTES), RECORDS), policy, Simulated(), "a benchmark")
        folders[make_folder(order, place / policy.name).identity] = place / policy.name
    durations: list[float] = []
    began: list[float] = []
    grown: list[float] = []

    def work(carrier: Carrier) -> None:
        names = {f"site{number}": identity for number, identity in enumerate(folders)}
        study = Study(Federation(names, key, carrier, lambda: int(time.time()), os.urandom))
        planned = PlannedCounts(release="signed_error", partitions=ATTRIBUTES, scale=Rational.of(10))
        body = CountsBody(partitions=bins_of(ATTRIBUTES, BINS), hypothesis=Constant(predicted=1))
        study.propose(Plan.of([planned] * rounds), "benchmark", list(study.read_cards()))
        began.append(time.perf_counter())
        grown.append(aside())
        for _ in range(rounds):
            start = time.perf_counter()
            study.ask(dict.fromkeys(study.survivors, body))
            durations.append(time.perf_counter() - start)
        grown.append(aside())
        study.close()
        assert len(study.survivors) == CURATORS

    start = time.perf_counter()
    serve(folders, work)
    return began[0] - start, durations, grown[1] - grown[0]


@contextmanager
def timed_calls() -> Iterator[list[float]]:
    """The seconds of each call of a learner that sends or fetches messages."""
    taken: list[float] = []
    real = RuntimeHttpClient._unary_unary  # noqa: SLF001 - the one place that all calls of a client pass

    def timed(client: Any, *, path: str, **rest: Any) -> Any:
        start = time.perf_counter()
        reply = real(client, path=path, **rest)
        if path.endswith(MESSAGES):
            taken.append(time.perf_counter() - start)
        return reply

    with patch.object(RuntimeHttpClient, "_unary_unary", timed):
        yield taken


def counted_rounds(place: Path) -> tuple[float, float]:
    """Seconds until the curators were served, and calls a round, as a SuperLink that logs each of them counts."""
    log = place / "superlink" / superlink.LOG
    with (
        patch.object(superlink, "guarded", lambda *line: guarded("env", "FLWR_LOG_LEVEL=DEBUG", *line)),
        Deployment(place) as deployment,
    ):
        began, _, calls = our_rounds(deployment.serve, place, OTHER_ROUNDS, lambda: _calls(log))
    return began, calls / OTHER_ROUNDS


def _calls(log: Path) -> float:
    return len(re.findall(CALL, log.read_text(encoding="utf-8", errors="replace")))


def _processor(process: int) -> float:
    """Seconds of processor of another process; 0 where the system does not tell."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def stock_rounds(folder: Path) -> list[float]:
    """Seconds of each `send_and_receive` to three stock SuperNodes."""
    app, out, home = folder / "app", folder / "rounds.json", folder / "home"
    (app / "stock").mkdir(parents=True)
    home.mkdir()
    (app / "pyproject.toml").write_text(PYPROJECT)
    (app / "stock" / "__init__.py").write_text("")
    (app / "stock" / "apps.py").write_text(APPS)
    programs = Path(sysconfig.get_path("scripts"))
    env = {
        **os.environ,
        "FLWR_HOME": str(home),
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
    }
    os.environ["PATH"] = env["PATH"]  # Flower looks its own programs up there
    with ExitStack() as stack:
        link = stack.enter_context(SuperLink(folder / "superlink", stock=True))
        log = stack.enter_context((folder / "nodes.log").open("wb"))
        for number in range(CURATORS):
            private, public = folder / f"node{number}", folder / f"node{number}.pub"
            write_node_key(private, public)
            link.register(public)
            node = subprocess.Popen(
                guarded(
                    str(programs / "flower-supernode"),
                    *("--superlink", link.address, "--root-certificates", str(link.ca)),
                    *("--auth-supernode-private-key", str(private), "--port", str(free_port())),
                ),
                env=env,
                stdout=log,
                stderr=log,
            )
            stack.callback(node.wait)
            stack.callback(node.terminate)
        (home / "config.toml").write_text(
            f'[superlink]\ndefault = "here"\n[superlink.here]\n'
            f'address = "{link.address}"\nroot-certificates = "{link.ca}"\n'
        )
        config = f'out="{out}" rounds={STOCK_ROUNDS} nodes={CURATORS} bytes={BYTES}'
        subprocess.run(
            [str(programs / "flwr"), "run", str(app), "here", "--run-config", config],
            env=env,
            stdout=log,
            stderr=log,
            check=True,
            timeout=PATIENCE,
        )
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            durations = json.loads(out.read_text() or "[]") if out.exists() else []
            if len(durations) == STOCK_ROUNDS:
                return durations
            time.sleep(0.5)
    sys.exit("stock Flower did not finish")


def loaded_apart() -> float:
    """Seconds until as many processes as curators have loaded what others wrote of a daemon, and nothing else."""
    line = [sys.executable, "-c", f"import {', '.join(OF_OTHERS)}"]
    start = time.perf_counter()
    processes = [subprocess.Popen(line) for _ in range(CURATORS)]
    assert not any(process.wait() for process in processes)
    return time.perf_counter() - start


def run() -> list[Result]:
    """See the module."""
    libraries = [loaded_apart() for _ in range(LOADS)]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for name in ("ours", "stock", "counted", "ray"):
            (place / name).mkdir()
        stock = stock_rounds(place / "stock")
        with Deployment(place / "ours") as deployment, timed_calls() as taken:
            process = deployment._link._process  # noqa: SLF001 - the SuperLink's, whose processor is measured
            assert process is not None
            starting, ours, spent = our_rounds(
                deployment.serve, place / "ours", ROUNDS, lambda: _processor(process.pid)
            )
        again, calls = counted_rounds(place / "counted")
        engine_start, engine, _ = our_rounds(ray_engine.serve, place / "ray", OTHER_ROUNDS)
    size = f"{CURATORS} curators x {RECORDS} records x {ATTRIBUTES} attributes x {BINS} bins, TLS, loopback"
    starts, call = (starting, again), median(taken)
    ratio = median(stock) / median(ours)
    return [
        at_most("a round, ours", median(ours), MOST_SECONDS, "s", spread=spread(ours), note=size),
        Result("a round, stock Flower", median(stock), "s", spread=spread(stock), note=f"an echo of {BYTES} bytes"),
        at_least("stock Flower over ours", ratio, LEAST_TIMES, "times", note="in the same run"),
        Result(
            "calls a round",
            calls,
            "calls",
            note=f"all daemons' and the learner's; {2 * CURATORS + 2} carry something, the others are looks",
        ),
        Result("a call", call * 1e3, "ms", spread=spread(taken, 1e3), note="at the learner, in the timed rounds"),
        Result("floor of a round", IN_TURN * call, "s", note=f"{IN_TURN} calls one after the other"),
        Result("a round, ours, over its floor", median(ours) / (IN_TURN * call), "times"),
        Result("a call, the SuperLink's processor", spent / ROUNDS / calls * 1e3, "ms", note="of one core"),
        at_most("three daemons ready, and a plan accepted", min(starts), MOST_START, "s", spread=spread(starts)),
        Result(
            "three processes that load a daemon's libraries alone",
            min(libraries),
            "s",
            spread=spread(libraries),
            note=", ".join(OF_OTHERS),
        ),
        Result("a round, Flower's simulation engine (Ray)", median(engine), "s", note=size.replace("TLS, ", "")),
        Result(
            "three curators ready, and a plan accepted, Flower's simulation engine (Ray)",
            engine_start,
            "s",
            note=size.replace("TLS, ", ""),
        ),
    ]
