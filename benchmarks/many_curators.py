"""A simulation of many curators: processor time, wall time and memory against their number, and how they grow.

Every curator has records, a ledger, keys and noise from a seed. A learner reads cards, proposes a plan of three rounds,
asks them and closes; then every ledger is exported and checked. Each size runs in a process of its own, with all
curators in it (`process`) or with the curators in one process a core (`cores`). An older commit has the first alone,
which then stands for both, up to 1,000 curators. What no simulation does without is timed alone in the same run: the
signatures, and the modules that each process of curators loads.
"""

import json
import math
import os
import resource
import subprocess
import sys
import time
from collections.abc import Mapping
from functools import cache

import numpy as np
import polars as pl

from benchmarks.common import Result, at_most, paper_bodies, paper_plan, schema_of, steward_of
from curator_node.policy import LearnerPolicy, Policy
from expril.report.provenance import cores
from learner_node.study.federation import Carrier, Federation
from learner_node.study.study import Study
from protocol.envelopes import SigningKey, is_signed
from simulations.carriers import CARRIERS, PROCESS
from simulations.carriers.sites import CuratorFacts, Simulated, SiteOrder
from simulations.carriers.stages import stage_of

RECORDS, ATTRIBUTES, BINS = 20, 4, 20
SIZES = {PROCESS: (100, 300, 1000), "cores": (100, 300, 1000, 3000, 10_000)}
MOST_SECONDS = {1000: 4.0, 10_000: 60.0}
MOST_BYTES, MOST_EXPONENT = 3.0, 1.03
SIGNED = 30
"""Signatures of a curator and its study: six requests, six replies, five receipts and thirteen ledger entries. Each is
checked once, by its reader or at the end."""
FLOOR_OF = 1000
ALONE = "processor time, beside the same run; both cores share it"
MODULES = "import simulations.carriers.cores"


def run() -> list[Result]:
    """See the module."""
    results = []
    for carrier, sizes in SIZES.items():
        if carrier not in CARRIERS:
            sizes = SIZES[PROCESS]  # noqa: PLW2901 - of the way that is there
        measured = {size: _measured(size, carrier if carrier in CARRIERS else PROCESS) for size in sizes}
        for size, numbers in measured.items():
            name = f"{size} curators, three rounds, {carrier}"
            wall, limit = numbers["wall"], MOST_SECONDS.get(size) if carrier == "cores" else None
            results += [
                at_most(name, wall, limit, "s") if limit else Result(name, wall, "s"),
                Result(f"{name}, processor time of all", numbers["processor"], "s"),
                at_most(f"{name}, memory of all", numbers["memory"], MOST_BYTES, "GiB"),
            ]
        first, last = measured[sizes[1]], measured[sizes[-1]]
        exponent = math.log(last["processor"] / first["processor"]) / math.log(sizes[-1] / sizes[1])
        note = f"of processor time, {sizes[1]} to {sizes[-1]} curators"
        results.append(at_most(f"exponent in curators, {carrier}", exponent, MOST_EXPONENT, "", note=note))
    return [
        *results,
        Result(f"{FLOOR_OF} curators, their signatures alone", signatures_alone(FLOOR_OF), "s", note=ALONE),
        Result(f"modules of {cores()} processes of curators alone", _modules_alone(cores()), "s", note=ALONE),
    ]


def signatures_alone(size: int) -> float:
    """Processor seconds of the signatures of so many curators, each made and checked once."""
    key, start = SigningKey.generate(), time.process_time()
    for number in range(size * SIGNED):
        text = number.to_bytes(8, "big") * 100
        assert is_signed(key.public, key.sign(text), text)
    return time.process_time() - start


def _modules_alone(processes: int) -> float:
    """Processor seconds until so many processes can open curators."""
    before = _processor()
    for _ in range(processes):
        subprocess.run([sys.executable, "-c", MODULES], check=True)
    return _processor() - before


@cache
def _measured(size: int, carrier: str) -> dict[str, float]:
    line = [sys.executable, "-m", "benchmarks.many_curators", str(size), carrier]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    numbers: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return numbers


def simulate(size: int, carrier: str) -> dict[str, float]:
    """One simulation in this process: seconds and GiB, once the modules are loaded."""
    key, rng = SigningKey.generate(), np.random.default_rng(0)
    orders = []
    for number in range(size):
        columns = {f"a{i}": rng.random(RECORDS) for i in range(ATTRIBUTES)}
        frame = pl.DataFrame({**columns, "label": np.where(np.arange(RECORDS) % 2, "yes", "no")})
        learner = LearnerPolicy(name="learner", key=key.public.hex(), cap="100")
        policy = Policy(name=f"site{number}", cap="100", learners=(learner,), cache_bytes=2**20, simulation=True)
        steward = steward_of(schema_of(ATTRIBUTES), RECORDS)
        orders.append(SiteOrder(frame, steward, policy, Simulated(noise_seed=1), "a benchmark"))

    def ask(facts: Mapping[str, CuratorFacts], carried: Carrier) -> None:
        names = {name: fact.identity for name, fact in facts.items()}
        federation = Federation(names, key, carried, lambda: int(time.time()), os.urandom, allow_not_private=True)
        study = Study(federation)
        study.propose(paper_plan(ATTRIBUTES), "benchmark", list(study.read_cards()))
        for body in paper_bodies(ATTRIBUTES, BINS):
            study.ask(dict.fromkeys(study.survivors, body))
        study.close()
        assert len(study.survivors) == size

    wall, processor = time.perf_counter(), _processor()
    with stage_of(carrier) as stage:
        ledgers = stage(orders, ask)
    assert not any(ledger.findings for ledger in ledgers.values())
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * (cores() if carrier == "cores" else 0)
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss + children) / 2**20
    return {"wall": time.perf_counter() - wall, "processor": _processor() - processor, "memory": memory}


def _processor() -> float:
    """Seconds of this process and of those that it has waited for."""
    return sum(os.times()[:4])


if __name__ == "__main__":
    print(json.dumps(simulate(int(sys.argv[1]), sys.argv[2])))
