"""A whole study in process over Flower, without training: cards, plan, masses, twice the signed error, close."""

import time

from flwr.app import Context
from flwr.serverapp import Grid

from benchmarks.common import (
    Result,
    Site,
    at_most,
    federation_of,
    flower_nodes,
    median,
    open_sites,
    paper_bodies,
    paper_plan,
    seconds,
    spread,
)
from learner_node.server_app import FlowerCarrier, make_server_app
from learner_node.study import Study
from protocol.envelopes import SigningKey
from simulations.carriers.in_process import run_in_process

CURATORS, RECORDS, ATTRIBUTES, BINS = 3, 700, 22, 10
REPEATS = 20


def run_study(sites: list[Site], key: SigningKey) -> Study:
    """One study with all sites over a fresh grid; every curator must have answered every round."""
    nodes, addresses = flower_nodes(sites)
    studies: list[Study] = []

    def main(grid: Grid, _context: Context) -> None:
        study = Study(federation_of(sites, key, FlowerCarrier(grid, addresses)))
        studies.append(study)
        study.propose(paper_plan(ATTRIBUTES), "benchmark", list(study.read_cards()))
        for body in paper_bodies(ATTRIBUTES, BINS):
            study.ask(dict.fromkeys(study.survivors, body))
        study.close()

    run_in_process(make_server_app(main), nodes)
    assert len(studies[0].survivors) == len(sites)
    assert len(studies[0].rounds) == len(paper_bodies(ATTRIBUTES, BINS))
    return studies[0]


def run() -> list[Result]:
    """See the module."""
    key = SigningKey.generate()
    opening = []
    warm: list[float] = []
    cold: list[float] = []
    for number in range(3):
        start = time.perf_counter()
        sites = open_sites(CURATORS, RECORDS, ATTRIBUTES, key, number)
        opening.append(time.perf_counter() - start)
        cold.append(seconds(lambda to=sites: run_study(to, key)))
        warm += [seconds(lambda to=sites: run_study(to, key)) for _ in range(REPEATS)]
    size = f"{CURATORS} curators x {RECORDS} records x {ATTRIBUTES} attributes x {BINS} bins, 3 rounds, OpenDP noise"
    return [
        at_most("study in process", median(warm) * 1e3, 100, "ms", spread=spread(warm, 1e3), note=size),
        Result(
            "study in process, first of new curators",
            median(cold) * 1e3,
            "ms",
            spread=spread(cold, 1e3),
            note="workloads are encoded; the slowest is the first of the process",
        ),
        Result("opening the curators", median(opening) * 1e3, "ms", spread=spread(opening, 1e3)),
    ]
