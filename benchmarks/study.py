"""A whole study in process over Flower, without training: cards, plan, masses, twice the signed error, close."""

import time
from functools import partial

from benchmarks.common import (
    Result,
    at_most,
    federation_of,
    handles_of,
    median,
    open_sites,
    paper_bodies,
    paper_plan,
    seconds,
    spread,
)
from curator_node.site import Site
from learner_node.study.study import Carrier, Study
from protocol.envelopes import SigningKey
from simulations.carriers.in_process import carry

CURATORS, RECORDS, ATTRIBUTES, BINS = 3, 700, 22, 10
REPEATS = 20


def run_study(sites: list[Site], key: SigningKey) -> Study:
    """One study with all sites over a fresh grid; every curator must have answered every round."""
    studies: list[Study] = []

    carry(handles_of(sites), lambda carrier: studies.append(make_study(sites, key, carrier, ATTRIBUTES, BINS)))
    return studies[0]


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
        cold.append(seconds(partial(run_study, sites, key)))
        warm += [seconds(partial(run_study, sites, key)) for _ in range(REPEATS)]
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
