"""What signatures and Flower add to a small round of the reproduction: whether 10^5 of them need a direct carrier.

One curator with the records of data set C (5000 x 10, 29 bins), a study of three questions with fixed hypotheses:
counting and noise alone; by direct calls (signatures, ledger in memory, receipts); over a Flower grid in this process,
once opened. The three runs of a pass follow each other. Equality of the releases over both carriers is a test
(tests/system/test_flower.py). Then an envelope and its reply over the pipe by which `--carrier cores` hands them on.
"""

import time
from fractions import Fraction
from multiprocessing import get_context
from multiprocessing.connection import Connection

import numpy as np

from benchmarks.common import (
    Bench,
    Result,
    at_most,
    federation_of,
    handles_of,
    interleaved,
    median,
    open_bench,
    paper_bodies,
    paper_plan,
    spread,
)
from curator_node.mechanisms import Stamp
from curator_node.site import Site
from learner_node.study.federation import Carrier
from learner_node.study.study import Study
from protocol.envelopes import SigningKey
from protocol.noise import DiscreteLaplace
from simulations.carriers.direct import DirectCarrier
from simulations.carriers.in_process import carry

RECORDS, ATTRIBUTES, BINS = 5000, 10, 29
ROUNDS, REPEATS = 3, 40
MANY = 1e5
TABLE_ROUNDS, TABLE_SECONDS = 10_800, 1200
ENVELOPE, HANDED = 4096, 2000
"""Bytes of an envelope, and how many are handed to another process."""


def make_study(sites: list[Site], key: SigningKey, carrier: Carrier, attributes: int, bins: int) -> Study:
    """Cards, plan, three questions, close; every site must have answered every question."""
    study = Study(federation_of(sites, key, carrier))
    study.propose(paper_plan(attributes), "benchmark", list(study.read_cards()))
    for body in paper_bodies(attributes, bins):
        study.ask(dict.fromkeys(study.survivors, body))
    study.close()
    assert len(study.survivors) == len(sites)
    assert len(study.rounds) == len(paper_bodies(attributes, bins))
    return study


def run_bare(bench: Bench) -> None:
    """The same counts and noise without any protocol."""
    for number, body in enumerate(paper_bodies(ATTRIBUTES, BINS)):
        errors, correct = bench.dataset.count(body.partitions, body.hypothesis)
        bench.noise.discrete_laplace(
            correct - errors, ATTRIBUTES, DiscreteLaplace(Fraction(10)), Stamp("learner", 0, number)
        )


def run_pipe() -> list[float]:
    """Seconds of each envelope that another process hands back."""
    context = get_context("spawn")
    pipe, far = context.Pipe()
    worker = context.Process(target=_echo, args=(far,), daemon=True)
    worker.start()
    pipe.send((0, b""))
    pipe.recv()  # the process has started
    taken = []
    for _ in range(HANDED):
        start = time.perf_counter()
        pipe.send((0, bytes(ENVELOPE)))
        pipe.recv()
        taken.append(time.perf_counter() - start)
    pipe.send(None)
    worker.join()
    return taken


def _echo(pipe: Connection) -> None:
    while (request := pipe.recv()) is not None:
        pipe.send(request[1])


def run() -> list[Result]:
    """See the module."""
    key = SigningKey.generate()
    bench = open_bench("site", RECORDS, ATTRIBUTES, key.public, np.random.default_rng(0))
    sites = [bench.site]
    direct = DirectCarrier(handles_of(sites))
    times: list[list[float]] = []

    def work(flower: Carrier) -> None:
        tasks = [
            lambda: run_bare(bench),
            lambda: make_study(sites, key, direct, ATTRIBUTES, BINS),
            lambda: make_study(sites, key, flower, ATTRIBUTES, BINS),
        ]
        times.extend(interleaved(tasks, REPEATS, warm_up=3))

    carry(handles_of(sites), work)
    names = ("counting and noise alone", "direct carrier", "Flower in process")
    results = [
        Result(
            f"a round, {name}",
            median(durations) / ROUNDS * 1e3,
            "ms",
            spread=spread(durations, 1e3 / ROUNDS),
            note=f"{median(durations) / ROUNDS * MANY / 60:.0f} minutes for 1e5 rounds; card, plan and close included",
        )
        for name, durations in zip(names, times, strict=True)
    ]
    bare, plain, flower = (median(durations) for durations in times)
    handed = run_pipe()
    share = plain / ROUNDS * TABLE_ROUNDS / 2 / TABLE_SECONDS
    note = f"Table 2 has {TABLE_ROUNDS} rounds; {TABLE_SECONDS} seconds on two cores"
    return [
        *results,
        Result("Flower over direct calls", flower / plain, "times"),
        Result("direct calls over counting and noise", plain / bare, "times"),
        Result(
            "an envelope and its reply over a pipe to a process",
            median(handed) * 1e3,
            "ms",
            spread=spread(handed, 1e3),
            note=f"{ENVELOPE} bytes each way",
        ),
        at_most("share of Table 2's time, direct calls", share, 0.05, "", note=note),
    ]
