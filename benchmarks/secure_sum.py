"""Secure sums beside Flower's SecAgg+, a thousand sites in one machine, and bytes a site against the number of sites.

Both run in process, one client after the other, over the same number of values, with shares for everybody and the same
threshold, and with all messages encoded. Ours has signatures besides, on key cards and on the survivor list; the
curators of a process check each once. Three of ten may fall silent. Flower's clients train nothing, ours draw no noise.
Then the same where every curator checks every signature itself, as those of a deployment do.
"""

import os
import resource
import time
from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from benchmarks.common import Result, at_least, at_most, interleaved, median, seconds, spread
from benchmarks.flower_sums import mean_of
from benchmarks.secure_rounds import NONCE, QUESTION, Curators, Spread, group_of, run_round
from protocol.codec import encode
from protocol.envelopes import SigningKey, is_signed
from protocol.kinds.secure_counts import (
    Agreement,
    MaskedCounts,
    OpenSum,
    ProposeSurvivors,
    RelayCards,
    RelayShares,
    Revealed,
    SealedShares,
)
from protocol.secure_sum import masks
from protocol.secure_sum.graph import Graph
from protocol.secure_sum.group import Group, KeyCard
from protocol.secure_sum.participant import SEALED_SHARES, round_graph
from protocol.secure_sum.shamir import SHARE

VALUES = 1000
BESIDE = ((10, 5, 5), (30, 3, 40))
"""(sites, repeats, how many times as fast)."""
MANY, MOST_SECONDS, PROCESSES = 1000, 8, 2
TOLERATED = Fraction(1, 10)
"""Of the sites collude, and as many fall silent."""
FLOOR = "what no round of this protocol takes less than, with the library's own functions"
SITES = (2, 3, 4, 5, 7, 10, 15, 20, 30, 50, 70, 100, 101, 150, 200, 300, 500, 700)


def run() -> list[Result]:
    """See the module."""
    results = []
    for sites, repeats, times in BESIDE:
        results += _beside(sites, repeats, times)
    group, keys = group_of(MANY, *_tolerated(MANY))
    before = _processor()
    wall = _many(group, keys)
    spent = _processor() - before
    began = time.process_time()
    _agree(group)
    agreed = time.process_time() - began
    began = time.process_time()
    _primitives(group)
    least = time.process_time() - began
    results += [
        at_most(
            f"{MANY} sites x {VALUES} values, {PROCESSES} processes",
            wall,
            MOST_SECONDS,
            "s",
            note="a tenth may collude, a tenth fall silent; curators of one process check each signature once",
        ),
        Result(f"{MANY} sites x {VALUES} values, processor time of all", spent, "s"),
        Result(f"{MANY} sites, key agreements alone, processor time", agreed, "s", note=FLOOR),
        Result(f"{MANY} sites, its cryptography alone, processor time", least, "s", note=FLOOR),
    ]
    return results + [_bytes(sites) for sites in (*SITES, MANY)]


def _beside(sites: int, repeats: int, times: float) -> list[Result]:
    group, keys = group_of(sites, 1, 3 * sites // 10)
    threshold = (sites + group.colluders) // 2 + 1
    vectors = np.random.default_rng(sites).uniform(-1, 1, (sites, VALUES))

    def ours() -> None:
        total, survivors, traffic = run_round(group, Curators(group, keys, VALUES), VALUES)
        assert (total == sum(survivors)).all()
        assert traffic.most == traffic_of(group, round_graph(group, bytes(32), range(sites)), VALUES)

    def apart() -> None:
        run_round(group, Curators(group, keys, VALUES, is_signed), VALUES)

    def theirs() -> None:
        assert np.allclose(mean_of(vectors, threshold), vectors.mean(axis=0), atol=1e-4)

    tasks = (ours, apart, theirs, lambda: _primitives(group), lambda: _verify(group))
    mine, alone, flower, floor, signatures = interleaved(tasks, repeats, warm_up=sites < 30)
    name = f"{sites} sites x {VALUES} values"
    note, everybody = "ratio of the medians, run in turn", "every signature checked by everybody"
    return [
        Result(f"{name}, ExPriL", median(mine), "s", spread=spread(mine), note="each signature checked once"),
        Result(f"{name}, ExPriL, {everybody}", median(alone), "s", spread=spread(alone)),
        Result(f"{name}, Flower's SecAgg+", median(flower), "s", spread=spread(flower)),
        Result(f"{name}, its cryptography alone", median(floor), "s", spread=spread(floor), note=FLOOR),
        Result(f"{name}, checks of signatures by everybody alone", median(signatures), "s", spread=spread(signatures)),
        at_least(f"{name}, times as fast", median(flower) / median(mine), times, "", note=note),
        at_least(f"{name}, times as fast, {everybody}", median(flower) / median(alone), times, "", note=note),
    ]


def _agree(group: Group) -> None:
    """The key agreements of a round: both ends of every edge, for each of two keys."""
    graph, key, other = round_graph(group, bytes(32), range(group.sites)), os.urandom(32), masks.public_of(bytes(32))
    for node in range(group.sites):
        for _ in range(2):
            masks.exchange(key, [other] * len(graph.neighbours(node)))


def _primitives(group: Group) -> None:
    """The key agreements of a round, and what every edge of its graph takes besides, at both ends.

    Keys of shares and a seed are derived, shares are sealed and opened, a mask is made; each site has a mask of itself.
    """
    _agree(group)
    graph, secret, context = round_graph(group, bytes(32), range(group.sites)), os.urandom(32), bytes(80)
    for node in range(group.sites):
        masks.stream(secret, VALUES)
        for _ in graph.neighbours(node):
            keys = masks.derive(secret, b"shares", context[:48], keys=2)
            masks.unseal(keys[:32], masks.seal(keys[:32], bytes(2 * SHARE), bytes(12)))
            masks.stream(masks.derive(secret, b"pair mask", context), VALUES)


def _verify(group: Group) -> None:
    """The checks of a round's signatures: everybody's of all other cards and of enough agreements."""
    key = SigningKey.generate()
    signature = key.sign(QUESTION)
    for _ in range(group.sites * (group.sites + group.signatures)):
        assert is_signed(key.public, signature, QUESTION)


def _bytes(sites: int) -> Result:
    """What the site with most neighbours is sent and sends, from messages of the sizes that a round has."""
    group, _ = group_of(sites, *_tolerated(sites))
    value = traffic_of(group, round_graph(group, bytes(32), range(sites)), VALUES)
    return Result(f"{sites} sites x {VALUES} values, bytes a site", value, "B")


def traffic_of(group: Group, graph: Graph, length: int) -> int:
    """Bytes of the bodies and releases of the participant with most neighbours, where nobody falls silent.

    The question itself and the envelopes are not counted: any query has them.
    """
    everybody = tuple(range(group.sites))
    peers = max((graph.neighbours(node) for node in everybody), key=len)
    card = KeyCard(bytes(32), bytes(32), bytes(32), bytes(64))
    sealed = tuple((index, bytes(SEALED_SHARES)) for index in peers)
    signers = everybody if len(peers) < group.sites - 1 else everybody[: group.signatures]
    messages = (
        card,
        RelayCards(tuple((index, card) for index in everybody)),
        SealedShares(sealed),
        RelayShares(everybody, sealed, b"", NONCE),
        MaskedCounts(bytes(8 * length)),
        ProposeSurvivors(everybody),
        Agreement(bytes(64)),
        OpenSum(everybody, tuple((index, bytes(64)) for index in signers)),
        Revealed(tuple((index, bytes(SHARE)) for index in sorted((*peers, everybody[-1])))),
    )
    return sum(len(encode(message)) for message in messages)


def _tolerated(sites: int) -> tuple[int, int]:
    """(colluders, dropouts) that a group of this size can bear; at least one colluder."""
    tenth = int(sites * TOLERATED)
    return max(1, tenth), tenth


def _processor() -> float:
    """Seconds of processor time of this process and of those that it has waited for."""
    return sum(resource.getrusage(who).ru_utime for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def _many(group: Group, keys: Mapping[int, bytes]) -> float:
    """Seconds of a round of which a part falls silent after it has dealt."""
    curators, silent = Spread(group, keys, VALUES, PROCESSES), range(0, group.sites, int(1 / TOLERATED))

    def round_of_all() -> None:
        total, survivors, _ = run_round(group, curators, VALUES, silent=silent)
        assert len(survivors) == group.sites - len(silent)
        assert (total == sum(survivors)).all()

    wall = seconds(round_of_all)
    curators.close()
    return wall
