"""A curator's daemon with 10^5 records of 22 attributes: how long until it is connected, and how much memory it takes.

Each start is a process of its own at a SuperLink over TLS. Memory is the process's largest resident size: after the
start, and after a learner's question over all attributes.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec
import numpy as np
import polars as pl

from benchmarks.common import Result, at_most, bins_of, schema_of, spread, steward_of
from curator_node.policy import LearnerPolicy, Policy
from curator_node.records.schema_file import SCHEMA, StewardFile
from curator_node.site import POLICY
from curator_node.steward.new_site import init_site
from learner_node.carriers.superlink import SuperLinkCarrier
from learner_node.carriers.superlink_run import SuperLinkAddress
from learner_node.study.study import Federation, Study
from protocol.envelopes import SigningKey
from protocol.hypotheses import Constant
from protocol.kinds.counts import CountsBody, PlannedCounts
from protocol.plans import Plan
from protocol.rationals import Rational
from simulations.carriers.superlink import SuperLink

RECORDS, ATTRIBUTES, BINS = 100_000, 22, 10
REPEATS = 5
MOST_SECONDS, MOST_MIB = 3.0, 350.0
PATIENCE = 120.0


def run() -> list[Result]:
    """See the module."""
    results = []
    with tempfile.TemporaryDirectory() as place, SuperLink(Path(place) / "link") as link:
        for kind in ("parquet", "csv"):
            folder, key = Path(place) / kind, SigningKey.generate()
            identity = make_site(folder, link, key, kind)
            starts, users, memory = [], [], 0.0
            for _ in range(REPEATS):
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                wall, process = start(folder)
                memory = peak(process)
                stop(process)
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                starts.append(wall)
                users.append(after.ru_utime - before.ru_utime)
            note = f"the quickest of {REPEATS} starts, of which {min(users):.2f} s are user CPU, its stop among it"
            name = f"records as {kind}"
            results.append(at_most(f"{name}: ready", min(starts), MOST_SECONDS, "s", spread=spread(starts), note=note))
            results.append(at_most(f"{name}: memory when ready", memory, MOST_MIB, "MiB"))
            _, process = start(folder)
            ask(link, key, identity)
            results.append(at_most(f"{name}: memory after a question", peak(process), MOST_MIB, "MiB"))
            stop(process)
    return results


def make_site(folder: Path, link: SuperLink, key: SigningKey, kind: str) -> bytes:
    """A site's folder with drawn records; the curator's public key."""
    rng = np.random.default_rng(0)
    columns = {f"a{i}": rng.random(RECORDS).round(4) for i in range(ATTRIBUTES)}
    frame = pl.DataFrame({**columns, "label": np.where(np.arange(RECORDS) % 2, "yes", "no")})
    made = init_site(folder, kind, superlink=link.address, ca=link.ca)
    learner = LearnerPolicy(name="learner", key=key.public.hex(), cap="1000")
    write_toml(folder / POLICY, Policy(name=kind, cap="1000", learners=(learner,)))
    write_toml(folder / SCHEMA, steward_of(schema_of(ATTRIBUTES), RECORDS))
    getattr(frame, f"write_{kind}")(folder / f"records.{kind}")
    link.register(folder / "node.pub")
    return made.identity


def write_toml(path: Path, told: Policy | StewardFile) -> None:
    """A key that is None is left out."""
    items = msgspec.to_builtins(told).items()
    path.write_bytes(msgspec.toml.encode({name: each for name, each in items if each is not None}))


def start(folder: Path) -> tuple[float, subprocess.Popen]:
    """Seconds until a daemon is connected, and its process."""
    log = folder / "log"
    log.unlink(missing_ok=True)
    began = time.perf_counter()
    with log.open("wb") as stream:
        command = [sys.executable, "-m", "expril", "curator", "serve", str(folder)]
        process = subprocess.Popen(command, stdout=stream, stderr=stream)
    while True:
        events = [json.loads(line)["event"] for line in log.read_text().splitlines(keepends=True) if line[-1] == "\n"]
        if "connected" in events:
            return time.perf_counter() - began, process
        assert process.poll() is None, log.read_text()
        assert time.perf_counter() - began < PATIENCE, log.read_text()
        time.sleep(0.01)


def stop(process: subprocess.Popen) -> None:
    process.terminate()
    assert process.wait(PATIENCE) == 0


def peak(process: subprocess.Popen) -> float:
    """Largest resident size so far, in MiB."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def ask(link: SuperLink, key: SigningKey, identity: bytes) -> None:
    """One study of one question over all attributes."""
    address = SuperLinkAddress(link.address, link.ca.read_bytes(), link.secret.read_bytes())
    with SuperLinkCarrier(address, key, [identity]) as carrier:
        study = Study(Federation({"site": identity}, key, carrier, lambda: int(time.time()), os.urandom))
        planned = PlannedCounts(release="error_correct", partitions=ATTRIBUTES, scale=Rational.of(10))
        study.propose(Plan.of([planned]), "benchmark", list(study.read_cards()))
        body = CountsBody(partitions=bins_of(ATTRIBUTES, BINS), hypothesis=Constant(predicted=1))
        study.ask(dict.fromkeys(study.survivors, body))
        study.close()
        assert len(study.survivors) == 1
