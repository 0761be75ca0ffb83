"""What signatures and Flower add to a small round of the reproduction: whether 10^5 of them need a direct carrier.

One curator with the records of data set C (5000 x 10, 29 bins), a study of three questions with fixed hypotheses:
counting and noise alone; by direct calls (signatures, ledger in memory, receipts); over a Flower grid in this process,
once opened. The three runs of a pass follow each other. Equality of the releases over both carriers is a test
(tests/system/test_flower.py).
"""

from fractions import Fraction

from flwr.app import Context
from flwr.serverapp import Grid

from benchmarks.common import (
    Result,
    Site,
    at_most,
    federation_of,
    flower_nodes,
    interleaved,
    median,
    open_sites,
    paper_bodies,
    paper_plan,
    spread,
)
from curator_node.mechanisms import Stamp
from learner_node.server_app import FlowerCarrier, make_server_app
from learner_node.study import Carrier, Study
from protocol.envelopes import SigningKey
from protocol.noise import DiscreteLaplace
from simulations.carriers.direct import DirectCarrier
from simulations.carriers.in_process import run_in_process

RECORDS, ATTRIBUTES, BINS = 5000, 10, 29
ROUNDS, REPEATS = 3, 40
MANY = 1e5
TABLE_ROUNDS, TABLE_SECONDS = 10_800, 1200


def run_study(sites: list[Site], key: SigningKey, carrier: Carrier) -> None:
    """Card, plan, three questions, close."""
    study = Study(federation_of(sites, key, carrier))
    study.propose(paper_plan(ATTRIBUTES), "benchmark", list(study.read_cards()))
    for body in paper_bodies(ATTRIBUTES, BINS):
        study.ask(dict.fromkeys(study.survivors, body))
    study.close()
    assert len(study.rounds) == ROUNDS


def run_bare(site: Site) -> None:
    """The same counts and noise without any protocol."""
    for number, body in enumerate(paper_bodies(ATTRIBUTES, BINS)):
        errors, correct = site.dataset.count(body.partitions, body.hypothesis)
        site.noise.discrete_laplace(
            correct - errors, ATTRIBUTES, DiscreteLaplace(Fraction(10)), Stamp("learner", 0, number)
        )


def run() -> list[Result]:
    """See the module."""
    key = SigningKey.generate()
    sites = open_sites(1, RECORDS, ATTRIBUTES, key)
    direct = DirectCarrier({site.curator.identity: site.curator.handle for site in sites})
    nodes, addresses = flower_nodes(sites)
    times: list[list[float]] = []

    def main(grid: Grid, _context: Context) -> None:
        flower = FlowerCarrier(grid, addresses)
        tasks = [
            lambda: run_bare(sites[0]),
            lambda: run_study(sites, key, direct),
            lambda: run_study(sites, key, flower),
        ]
        times.extend(interleaved(tasks, REPEATS, warm_up=3))

    run_in_process(make_server_app(main), nodes)
    names = ("counting and noise alone", "direct carrier", "Flower in process")
    found = [
        Result(
            f"a round, {name}",
            median(taken) / ROUNDS * 1e3,
            "ms",
            spread=spread(taken, 1e3 / ROUNDS),
            note=f"{median(taken) / ROUNDS * MANY / 60:.0f} minutes for 1e5 rounds; card, plan, close shared out",
        )
        for name, taken in zip(names, times, strict=True)
    ]
    bare, plain, flower = (median(taken) for taken in times)
    share = plain / ROUNDS * TABLE_ROUNDS / 2 / TABLE_SECONDS
    note = f"Table 2 has {TABLE_ROUNDS} rounds; {TABLE_SECONDS} seconds on two cores"
    return [
        *found,
        Result("Flower over direct calls", flower / plain, "times"),
        Result("direct calls over counting and noise", plain / bare, "times"),
        at_most("share of Table 2's time, direct calls", share, 0.05, "", note=note),
    ]
