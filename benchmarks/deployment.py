"""A round over TLS with three curators on loopback: our daemons and learner, beside stock Flower, in one run.

Ours: a SuperLink with TLS and node authentication, `expril curator serve` for each curator, a learner who asks one
question a round of all three: signatures, counting, exact noise and a ledger on disk included. Stock: the same kind
of SuperLink, `flower-supernode` for each node, and a ServerApp that sends each node as many bytes and gets as many back
by `send_and_receive`, which its ClientApp does at once. They run one after the other, stock Flower first: at the same
time it would take our processors, since it starts a process for each message. Then the same questions over
Flower's simulation engine.
"""

import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.common import Result, at_most, bins_of, median, schema_of, spread, steward_of
from curator_node.daemon.node_key import write_node_key
from curator_node.policy import LearnerPolicy, Policy
from learner_node.study.federation import Carrier, Federation
from learner_node.study.study import Study
from protocol.envelopes import SigningKey
from protocol.hypotheses import Constant
from protocol.kinds.counts import CountsBody, PlannedCounts
from protocol.plans import Plan
from protocol.rationals import Rational
from simulations.carriers import Serve, ray_engine
from simulations.carriers.processes import guarded
from simulations.carriers.sites import Simulated, SiteOrder, make_folder
from simulations.carriers.superlink import Deployment, SuperLink, free_port

CURATORS, RECORDS, ATTRIBUTES, BINS = 3, 10_000, 22, 10
ROUNDS, STOCK_ROUNDS, OTHER_ROUNDS = 60, 8, 20
BYTES = 4096
PATIENCE = 300.0

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


def our_rounds(serve: Serve, place: Path, rounds: int) -> tuple[float, list[float]]:
    """Seconds until the curators were served, and of each question that all three answered."""
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

    def work(carrier: Carrier) -> None:
        names = {f"site{number}": identity for number, identity in enumerate(folders)}
        study = Study(Federation(names, key, carrier, lambda: int(time.time()), os.urandom))
        planned = PlannedCounts(release="signed_error", partitions=ATTRIBUTES, scale=Rational.of(10))
        body = CountsBody(partitions=bins_of(ATTRIBUTES, BINS), hypothesis=Constant(predicted=1))
        study.propose(Plan.of([planned] * rounds), "benchmark", list(study.read_cards()))
        began.append(time.perf_counter())
        for _ in range(rounds):
            start = time.perf_counter()
            study.ask(dict.fromkeys(study.survivors, body))
            durations.append(time.perf_counter() - start)
        study.close()
        assert len(study.survivors) == CURATORS

    start = time.perf_counter()
    serve(folders, work)
    return began[0] - start, durations


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


def run() -> list[Result]:
    """See the module."""
    with tempfile.TemporaryDirectory() as place:
        for name in ("ours", "stock", "ray"):
            (Path(place) / name).mkdir()
        stock = stock_rounds(Path(place) / "stock")
        with Deployment(Path(place) / "ours") as deployment:
            starting, ours = our_rounds(deployment.serve, Path(place) / "ours", ROUNDS)
        engine_start, engine = our_rounds(ray_engine.serve, Path(place) / "ray", OTHER_ROUNDS)
    size = f"{CURATORS} curators x {RECORDS} records x {ATTRIBUTES} attributes x {BINS} bins, TLS, loopback"
    return [
        at_most("a round, ours", median(ours), 0.35, "s", spread=spread(ours), note=size),
        Result("a round, stock Flower", median(stock), "s", spread=spread(stock), note=f"an echo of {BYTES} bytes"),
        Result("stock Flower over ours", median(stock) / median(ours), "times", note="in the same run"),
        Result("three daemons ready, and a plan accepted", starting, "s"),
        Result("a round, Flower's simulation engine (Ray)", median(engine), "s", note=size.replace("TLS, ", "")),
        Result(
            "three curators ready, and a plan accepted, Flower's simulation engine (Ray)",
            engine_start,
            "s",
            note=size.replace("TLS, ", ""),
        ),
    ]
