"""How time and memory grow with records, attributes, sites, learners, questions and participants of a secure sum.

Each point is measured in a process of its own, `python -m benchmarks.growth WHAT SIZE`, so that its peak of memory is
its own. Times are seconds of processor. A curve's exponent is the slope of the logarithms between its last two points.
"""

import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.common import (
    NOW,
    Result,
    bins_of,
    federation_of,
    handles_of,
    median,
    open_bench,
    paper_bodies,
    paper_plan,
    schema_of,
    steward_of,
)
from benchmarks.secure_rounds import Curators, group_of, run_round
from benchmarks.timing import Asker
from curator_node.curator import Curator
from curator_node.ledger.places import create_ledger_file, open_ledger_file
from curator_node.policy import LearnerPolicy, Policy
from curator_node.site import Site, assemble_site, hold_records, temporary_site
from learner_node.study.study import Study
from protocol.envelopes import SigningKey
from protocol.hypotheses import Constant
from protocol.kinds.counts import CountsBody
from simulations.carriers.direct import DirectCarrier

ATTRIBUTES, BINS = 22, 10
FEW = 3
"""Repeats of a short time, of which the smallest counts."""
LAST = 50
"""Answers at the end of a ledger."""
STUDY = 500
"""Questions of a study."""
Curve = Callable[[int], dict[str, float]]


def records(size: int) -> dict[str, float]:
    """Taking in 22 attributes in ten bins, and the first answer about them; the second one finds its cells."""
    frame = _frame(size, ATTRIBUTES)
    began = time.process_time()
    curator, key = _curator(frame, ATTRIBUTES)
    taken = time.process_time() - began
    return {"taken in": taken, **_answers(curator, key, ATTRIBUTES)}


def attributes(size: int) -> dict[str, float]:
    """A first answer about 100,000 records, in ten bins of each attribute."""
    return _answers(*_curator(_frame(100_000, size), size), size)


def sites(size: int) -> dict[str, float]:
    """A study of three rounds in simulation, 100 records of five attributes each; sites are made before."""
    key, rng = SigningKey.generate(), np.random.default_rng(0)
    held = [open_bench(f"site{place}", 100, 5, key.public, rng).site for place in range(size)]
    began = time.process_time()
    study = Study(federation_of(held, key, DirectCarrier(handles_of(held))))
    study.propose(paper_plan(5), "benchmark", list(study.read_cards()))
    for body in paper_bodies(5, BINS):
        study.ask(dict.fromkeys(study.survivors, body))
    study.close()
    return {"a study of three rounds": time.process_time() - began}


def learners(size: int) -> dict[str, float]:
    """Each of them enters the policy and has a study open; the time of a question when all have one."""
    keys = [SigningKey.generate() for _ in range(size)]
    curator = _open(_frame(1_000, 1), 1, keys).curator
    askers = [Asker(curator, key, 10, _body(1)) for key in keys]
    return {"a question": _question(askers[-LAST:])}


def questions(size: int) -> dict[str, float]:
    """A ledger on disk with so many answers: an answer at its end, opening it, and its bytes."""
    key, learner = SigningKey.generate(), SigningKey.generate()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ward.ledger"
        create_ledger_file(path, key, now=NOW)
        dataset = hold_records(_frame(1_000, 1), steward_of(schema_of(1), 1_000), _policy([learner]), key)
        with assemble_site(
            dataset, _policy([learner]), key=key, ledger=open_ledger_file(path, key), clock=lambda: NOW
        ) as site:
            asker = None
            times = []
            for number in range(size):
                if number % STUDY == 0:
                    asker = Asker(site.curator, learner, 10 + number // STUDY, _body(1))
                times.append(_question([asker] if asker else []))
        stored = path.stat().st_size
        began = time.process_time()
        open_ledger_file(path, key).close()
        opened = time.process_time() - began
    return {"an answer at the end": median(times[-LAST:]), "opening": opened, "disk": stored / 2**20}


def participants(size: int) -> dict[str, float]:
    """A secure sum of 1,000 values with a tenth colluding and a tenth silent: both sides, over the participants."""
    group, seeds = group_of(size, size // 10, size // 10)
    began = time.process_time()
    run_round(group, Curators(group, seeds, 1_000), 1_000)
    return {"a round, by participant": (time.process_time() - began) / size}


CURVES: dict[str, tuple[Curve, tuple[int, ...]]] = {
    "records": (records, (10_000, 100_000, 1_000_000, 4_000_000)),
    "attributes": (attributes, (5, 20, 80, 320)),
    "sites": (sites, (10, 100, 1_000)),
    "learners": (learners, (10, 100, 1_000)),
    "questions": (questions, (100, 1_000, 10_000)),
    "participants": (participants, (10, 30, 100, 200)),
}


def run() -> list[Result]:
    """See the module."""
    return [result for name, (_, sizes) in CURVES.items() for result in _curve(name, sizes)]


def _curve(name: str, sizes: Sequence[int]) -> list[Result]:
    points = [_point(name, size) for size in sizes]
    results = []
    for what in points[0]:
        unit = "MiB" if what in ("memory", "disk") else "s"
        results += [
            Result(f"{size:,} {name}: {what}", point[what], unit) for size, point in zip(sizes, points, strict=True)
        ]
        (small, less), (large, more) = list(pairwise(zip(sizes, (point[what] for point in points), strict=True)))[-1]
        exponent = math.log(more / less) / math.log(large / small)
        results.append(Result(f"{name}: {what}, exponent", exponent, "", note=f"from {small:,} to {large:,}"))
    return results


def _point(name: str, size: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.growth", name, str(size)]
    done = subprocess.run(command, capture_output=True, check=True, text=True, cwd=Path(__file__).parents[1])
    measured: dict[str, float] = json.loads(done.stdout)
    return measured


def _answers(curator: Curator, key: SigningKey, wide: int) -> dict[str, float]:
    asker = Asker(curator, key, 10, _body(wide))
    first = _question([asker])
    return {"first answer": first, "next answer": min(_question([asker]) for _ in range(FEW))}


def _question(askers: Sequence[Asker]) -> float:
    """The median time of a question by each."""
    times = []
    for asker in askers:
        task = asker.prepare()
        began = time.process_time()
        task()
        times.append(time.process_time() - began)
        asker.settle()
    return median(times)


def _curator(frame: pl.DataFrame, wide: int) -> tuple[Curator, SigningKey]:
    key = SigningKey.generate()
    return _open(frame, wide, [key]).curator, key


def _open(frame: pl.DataFrame, wide: int, keys: Sequence[SigningKey]) -> Site:
    return temporary_site(frame, steward_of(schema_of(wide), len(frame)), _policy(keys), clock=lambda: NOW)


def _policy(keys: Sequence[SigningKey]) -> Policy:
    entries = tuple(
        LearnerPolicy(name=f"learner {n}", key=key.public.hex(), cap="1000000000") for n, key in enumerate(keys)
    )
    return Policy(name="site", cap="1000000000", learners=entries, open_studies=2_000, cache_bytes=2**30)


def _body(wide: int) -> CountsBody:
    return CountsBody(partitions=bins_of(wide, BINS), hypothesis=Constant(predicted=1))


def _frame(size: int, wide: int) -> pl.DataFrame:
    rng = np.random.default_rng(size)
    columns = {f"a{place}": rng.random(size) for place in range(wide)}
    return pl.DataFrame({**columns, "label": np.where(np.arange(size) % 2, "yes", "no")})


if __name__ == "__main__":
    chosen, _ = CURVES[sys.argv[1]]
    points = chosen(int(sys.argv[2]))
    points["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    sys.stdout.write(json.dumps(points))
