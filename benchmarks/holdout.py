"""What an answer of a holdout takes beyond evaluating its hypothesis, at a million records.

A signed request goes through `Curator.handle`: verified, checked, charged, compared with exact noise, stored, signed.
The hypothesis is a constant, whose evaluation takes next to nothing. What a turn depends on grows with those before it:
the charge looks back, so the last turns of a long holdout are timed, too.
"""

import os
import time
from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.common import NOW, Result, at_most, median, open_bench, spread
from curator_node.ledger import memory_ledger
from curator_node.policy import LearnerPolicy, Policy
from curator_node.site import assemble_site
from learner_node.study.session import Session
from protocol.codec import encode
from protocol.envelopes import SigningKey
from protocol.hypotheses import Constant
from protocol.kinds.holdout import HoldoutBody, PlannedHoldout
from protocol.limits import Limits
from protocol.messages import Release
from protocol.plans import Plan
from protocol.rationals import Rational

RECORDS, ATTRIBUTES, RESOLUTION = 1_000_000, 4, 1000
ASKED, LONG, LAST = 21, 600, 20
LIMIT = 20.0


def run() -> list[Result]:
    """See the module."""
    key = SigningKey.generate()
    bench = open_bench("site", RECORDS, ATTRIBUTES, key.public, np.random.default_rng(0))
    policy = Policy(
        name="site",
        cap="1000000",
        learners=(LearnerPolicy(name="learner", key=key.public.hex(), cap="1000000"),),
        limits=Limits(kinds={"holdout": {}}, multiply_adds=10**12),
    )
    site_key = SigningKey.generate()
    site = assemble_site(
        bench.dataset, policy, key=site_key, ledger=memory_ledger(site_key), clock=lambda: NOW, noise=bench.noise
    )

    def times(turns: int, threshold: int, last: int) -> list[float]:
        session = Session(curator=site.identity, key=key, study=os.urandom(16))
        session.request_card(NOW)
        session.receive(site.handle(session.pending))
        session.propose(Plan.of([_planned(turns, threshold)]), "benchmark", NOW)
        session.receive(site.handle(session.pending))
        spans = []
        for _ in range(turns):
            session.query("holdout", encode(HoldoutBody(Constant(1), RESOLUTION // 2)), NOW)
            replies: list[bytes] = []
            spans.append(_processor(lambda into=replies: into.append(site.handle(session.pending))))  # type: ignore[misc]
            assert isinstance(session.receive(replies[0]), Release)
        return [1e3 * spent for spent in spans[-last:]]

    return [
        _result("close or with counts", times(ASKED, 0, ASKED - 1)),
        _result("close", times(ASKED, RECORDS, ASKED - 1)),
        _result(f"close, turns {LONG - LAST + 1} to {LONG}", times(LONG, RECORDS, LAST)),
    ]


def _processor(task: Callable[[], object]) -> float:
    """Processor seconds of this thread: neighbours on a shared machine are not in it."""
    start = time.thread_time()
    task()
    return time.thread_time() - start


def _planned(turns: int, threshold: int) -> PlannedHoldout:
    """With a threshold of 0 about every second answer ends an instance, with one of all records none does."""
    scale = Rational(100 * RESOLUTION, 1)
    return PlannedHoldout(
        turns=turns,
        answers=turns,
        resolution=RESOLUTION,
        threshold=threshold,
        threshold_scale=scale,
        comparison_scale=scale,
        count_scale=Rational(100, 1),
    )


def _result(name: str, times: Sequence[float]) -> Result:
    return at_most(
        f"answer of a holdout at {RECORDS} records, {name}",
        median(list(times)),
        LIMIT,
        "ms",
        spread=spread(list(times), 1.0),
        note="processor time, median over turns, through Curator.handle",
    )
