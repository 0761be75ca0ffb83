"""What the time of an answer tells: of the number of records, their content, the noise, and other learners' questions.

Only `Curator.handle` is timed, by the processor time of its thread, with the ledger in memory: no disk, no network and
no neighbour on the machine hides these times. That is the best that an observer can do. The workload is the paper's: 22
attributes in ten bins, signed errors.

How many answers tell two cases apart at 95 %: with medians d apart and a spread s (from the quartiles), the mean of
(2 x 1.645 s / d)^2 answers lies on the wrong side of the middle in one of twenty cases, if errors are independent and
about normal. Where d is within its own error, d plus two errors stands for it, and the number is a lower bound.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl

from benchmarks.common import NOW, Result, median, schema_of, spread, steward_of
from curator_node.curator import Curator
from curator_node.policy import LearnerPolicy, Policy
from curator_node.site import temporary_site
from protocol.codec import encode
from protocol.envelopes import SigningKey, digest, open_envelope, seal
from protocol.hypotheses import Constant
from protocol.kinds.counts import CountsBody, PlannedCounts
from protocol.messages import NO_DIGEST, Query, Release, StudyProposal
from protocol.partitions import FeatureBins
from protocol.plans import MOST_QUERIES, Plan
from protocol.rationals import Rational

ATTRIBUTES, BINS = 22, 10
SIZES = (1_000, 4_000, 16_000, 64_000)
SCALES = (1, 10, 100, 1_000)
FEW, MANY = 100, 990
RECORDS = 700
NORMAL_QUARTILES = 1.349
"""Between the quartiles of a standard normal law."""
Z = 1.645


class Asker:
    """One learner's study, whose next request is signed before the clock runs."""

    def __init__(
        self, curator: Curator, key: SigningKey, scale: int, body: CountsBody, queries: int = MOST_QUERIES
    ) -> None:
        self._curator, self._key = curator, key
        self._study = digest(encode([key.public, scale]))[:16]
        planned = PlannedCounts(
            release="signed_error", partitions=len(body.partitions), scale=Rational.of(Fraction(scale))
        )
        self._body, self._sequence, self._last = encode(body), 0, NO_DIGEST
        plan = Plan.of((planned,) * queries)
        self._accept(StudyProposal(**self._header(), plan=plan, purpose="", newest_receipt=b""))

    def prepare(self, body: CountsBody | None = None) -> Callable[[], None]:
        """The next query, signed; calling it has it answered."""
        self._sequence += 1
        data = self._body if body is None else encode(body)
        request = seal(Query(**self._header(), kind="counts", body=data), self._key)

        def answered() -> None:
            self._reply = self._curator.handle(request)

        return answered

    def settle(self) -> None:
        """Take the reply in, untimed."""
        if not isinstance(open_envelope(self._reply)[1], Release):
            raise TypeError("the query was refused")
        self._last = digest(self._reply)

    def _accept(self, message: StudyProposal) -> None:
        self._last = digest(self._curator.handle(seal(message, self._key)))

    def _header(self) -> dict[str, Any]:
        return {
            "study": self._study,
            "sender": self._key.public,
            "recipient": self._curator.identity,
            "sequence": self._sequence,
            "answers": self._last,
            "expires_at": NOW + 600,
        }


@dataclass(frozen=True)
class Parties:
    """Two learners and a curator of some records."""

    learners: tuple[SigningKey, SigningKey]
    curator: Curator


def run() -> list[Result]:
    """See the module."""
    return [*_by_size(), *_by_scale(), *_by_content(), *_by_cache()]


def _by_size() -> list[Result]:
    results = []
    for name, cache_bytes, repeats in (("cached", 2**28, FEW), ("not cached", 0, FEW // 3)):
        askers = [_asker(_open(_frame(size), cache_bytes)) for size in SIZES]
        times = _answers(askers, repeats)
        per_record = [
            (median(t) - median(times[0])) / (n - SIZES[0]) for t, n in zip(times[1:], SIZES[1:], strict=True)
        ]
        slope = float(np.polyfit(SIZES, [median(t) for t in times], 1)[0])
        results.append(
            Result(
                f"time of an answer, per record, workload {name}",
                slope * 1e6,
                "us",
                spread=spread(per_record, 1e6),
                note=f"least squares over {', '.join(map(str, SIZES))} records; the spread is that of the differences",
            )
        )
        results.append(Result(f"time of an answer, {SIZES[0]} records, workload {name}", median(times[0]) * 1e3, "ms"))
    return results


def _by_scale() -> list[Result]:
    parties = _open(_frame(RECORDS))
    times = _answers([_asker(parties, scale=scale) for scale in SCALES], FEW * 3)
    return [
        Result(f"time of an answer, noise of scale {scale}", median(t) * 1e3, "ms", spread=_quartiles(t, 1e3))
        for scale, t in zip(SCALES, times, strict=True)
    ]


def _by_content() -> list[Result]:
    full = _frame(RECORDS)
    variants = {
        "without one record": full[1:],
        "with all records equal": pl.concat([full[:1]] * RECORDS),
        "with twice the records": pl.concat([full, full]),
    }
    results = []
    for name, other in variants.items():
        repeats = MANY if name == "without one record" else FEW * 3
        first, second = _answers([_asker(_open(frame)) for frame in (full, other)], repeats)
        # Answers are taken in turn: what drifts as the ledger grows drops out of the pairs' differences.
        pairs = [two - former for former, two in zip(first, second, strict=True)]
        apart, deviation = median(pairs), _deviation(pairs) / math.sqrt(2)
        error = 1.2533 * deviation * math.sqrt(2 / repeats)
        clear = abs(apart) > 2 * error
        wide = abs(apart) if clear else abs(apart) + 2 * error
        results += [
            Result(
                f"answer {name}, difference of medians",
                apart * 1e6,
                "us",
                spread=((apart - 2 * error) * 1e6, (apart + 2 * error) * 1e6),
                note=f"{repeats} answers each of {RECORDS} records in turn; the spread is two standard errors each way",
            ),
            Result(
                f"answer {name}, answers that tell the two apart at 95 %",
                math.ceil((2 * Z * deviation / wide) ** 2),
                "answers",
                note=f"spread of an answer {deviation * 1e6:.0f} us; {'measured' if clear else 'a lower bound'}",
            ),
        ]
    return results


def _by_cache() -> list[Result]:
    times: dict[str, list[float]] = {"first": [], "second": []}
    parties = _open(_frame(10_000))
    askers = [_asker(parties, learner=number) for number in (0, 1)]
    for number in range(FEW):
        body = _body(shift=number * 1e-3)
        for asker, name in zip(askers, times, strict=True):
            durations = _processor(asker.prepare(body))
            asker.settle()
            times[name].append(durations)
    return [
        Result(
            f"the {name} learner to ask with a partition, 10,000 records",
            median(durations) * 1e3,
            "ms",
            spread=_quartiles(durations, 1e3),
            note="the spread is between the quartiles",
        )
        for name, durations in times.items()
    ]


def _answers(askers: list[Asker], repeats: int) -> list[list[float]]:
    """Times of every asker's answers, in turn; the first of each is not counted."""
    times: list[list[float]] = [[] for _ in askers]
    for number in range(repeats + 1):
        for asker, durations in zip(askers, times, strict=True):
            spent = _processor(asker.prepare())
            asker.settle()
            if number:
                durations.append(spent)
    return times


def _processor(task: Callable[[], None]) -> float:
    start = time.thread_time()
    task()
    return time.thread_time() - start


def _open(frame: pl.DataFrame, cache_bytes: int = 2**28) -> Parties:
    steward = steward_of(schema_of(ATTRIBUTES), RECORDS)
    learners = (SigningKey.generate(), SigningKey.generate())
    entries = tuple(
        LearnerPolicy(name=f"learner {n}", key=key.public.hex(), cap=10**9) for n, key in enumerate(learners)
    )
    policy = Policy(name="site", cap=10**9, learners=entries, open_studies=100, cache_bytes=cache_bytes)
    return Parties(learners, temporary_site(frame, steward, policy, clock=lambda: NOW).curator)


def _asker(parties: Parties, *, scale: int = 10, learner: int = 0) -> Asker:
    return Asker(parties.curator, parties.learners[learner], scale, _body())


def _body(shift: float = 0.0) -> CountsBody:
    edges = tuple(float(edge) + shift for edge in np.linspace(0, 0.9, BINS)[1:])
    bins = tuple(FeatureBins(attribute=f"a{i}", edges=edges) for i in range(ATTRIBUTES))
    return CountsBody(partitions=bins, hypothesis=Constant(predicted=1))


def _frame(size: int) -> pl.DataFrame:
    rng = np.random.default_rng(size)
    columns = {f"a{i}": rng.random(size) for i in range(ATTRIBUTES)}
    return pl.DataFrame({**columns, "label": np.where(np.arange(size) % 2, "yes", "no")})


def _deviation(times: list[float]) -> float:
    low, high = np.quantile(times, [0.25, 0.75])
    return float(high - low) / NORMAL_QUARTILES


def _quartiles(times: list[float], factor: float) -> tuple[float, float]:
    low, high = np.quantile(times, [0.25, 0.75])
    return float(low) * factor, float(high) * factor
