"""What the benchmarks share: timing, results as JSON, and a small federation over Flower in process."""

import gc
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")

import numpy as np
import polars as pl

from benchmarks.load import Load
from curator_node import mechanisms
from curator_node.ledger import memory_ledger
from curator_node.mechanisms import NoiseSource
from curator_node.policy import LearnerPolicy, Policy
from curator_node.records.dataset import PrivateDataset
from curator_node.records.schema_file import SchemaFile
from curator_node.site import Site, assemble_site, hold_records
from learner_node.study.federation import Carrier, Federation
from protocol.envelopes import SigningKey
from protocol.hypotheses import Constant
from protocol.kinds.counts import CountsBody, PlannedCounts
from protocol.partitions import FeatureBins
from protocol.plans import Plan
from protocol.rationals import Rational
from protocol.schema import NumericAttribute, Schema
from simulations.carriers import Handle

RESULTS = Path(__file__).parent / "results"
LIBRARIES = ("numpy", "scipy", "torch", "flwr", "opendp", "cryptography", "msgspec", "sqlalchemy", "polars")
NOW = 1_700_000_000


@dataclass(frozen=True)
class Result:
    """One measured number."""

    name: str  # what was measured
    value: float  # the number
    unit: str  # of the number
    target: str = ""  # what was asked for, as text; empty where nothing was
    met: bool | None = None  # whether it was met; None without a target
    spread: tuple[float, float] | None = None  # smallest and largest value of the repeats, where there are several
    note: str = ""  # how to read the number


def at_most(
    name: str, value: float, limit: float, unit: str, *, spread: tuple[float, float] | None = None, note: str = ""
) -> Result:
    """A result whose target is an upper limit."""
    return Result(name, value, unit, f"<= {limit:g} {unit}", value <= limit, spread, note)


def at_least(
    name: str, value: float, limit: float, unit: str, *, spread: tuple[float, float] | None = None, note: str = ""
) -> Result:
    """A result whose target is a lower limit."""
    return Result(name, value, unit, f">= {limit:g} {unit}", value >= limit, spread, note)


def seconds(task: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    task()
    return time.perf_counter() - start


def command_seconds(module: str, *arguments: str) -> tuple[float, float, int]:
    """Wall seconds of `python -m module arguments`, processor seconds of all its processes, and its exit status."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", module, *arguments], capture_output=True, check=False)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, done.returncode


def interleaved(tasks: Sequence[Callable[[], object]], repeats: int, *, warm_up: int = 1) -> list[list[float]]:
    """Wall times of several tasks, run in turn so that a noisy neighbour hits all of them alike."""
    for _ in range(warm_up):
        for task in tasks:
            task()
    times: list[list[float]] = [[] for _ in tasks]
    gc.collect()
    for _ in range(repeats):
        for task, durations in zip(tasks, times, strict=True):
            durations.append(seconds(task))
    return times


def median(values: Sequence[float]) -> float:
    """The median."""
    return statistics.median(values)


def spread(values: Sequence[float], factor: float = 1.0) -> tuple[float, float]:
    """Smallest and largest."""
    return min(values) * factor, max(values) * factor


def write_results(name: str, results: Sequence[Result], load: Load | None = None) -> None:
    """Write `results/<name>.json`: what a benchmark measured, and what else the machine did meanwhile."""
    about = {
        "command": f"python -m benchmarks {name}",
        "versions": {"python": platform.python_version(), **{library: _version(library) for library in LIBRARIES}},
        "machine": machine() | (load.measured() if load else {}),
    }
    write_rows(name, [{**_tidy(result), **about} for result in results])


def stored_rows(name: str) -> list[dict[str, Any]]:
    """The rows of `results/<name>.json`; none without the file."""
    path = RESULTS / f"{name}.json"
    return list(json.loads(path.read_bytes())) if path.exists() else []


def write_rows(name: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Replace `results/<name>.json`."""
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


def print_table(name: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Print rows for people, with another commit's values if they have them."""
    based = any("base" in row for row in rows)
    for row in rows:
        met = {True: "met", False: "MISSED", None: ""}[row["met"]]
        between = " [{:.4g} .. {:.4g}]".format(*row["spread"]) if "spread" in row else ""
        old = f"{row['base']['value']:10.4g} ->" if "base" in row else " " * 13 if based else ""
        print(f"{name:16} {row['name']:60} {old}{row['value']:10.4g} {row['unit']}{between}  {row['target']} {met}")


def machine() -> dict[str, float]:
    """Cores that this process may use, and memory."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {"cores": cores, "memory_gib": round(memory, 1)}


def peak_memory() -> float:
    """The most MiB that this process has held; what `getrusage` tells includes its parent's, from the fork."""
    try:
        told = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return int(told.partition("VmHWM:")[2].split()[0]) / 1024


def schema_of(attributes: int) -> Schema:
    """Numeric attributes a0, a1, ... within 0 .. 1, two classes."""
    columns = tuple(NumericAttribute(name=f"a{i}", lower=0.0, upper=1.0) for i in range(attributes))
    return Schema(attributes=columns, label="label", classes=("no", "yes"))


def bins_of(attributes: int, bins: int) -> tuple[FeatureBins, ...]:
    """Even bins of every attribute."""
    edges = tuple(float(edge) for edge in np.linspace(0, 1, bins + 1)[1:-1])
    return tuple(FeatureBins(attribute=f"a{i}", edges=edges) for i in range(attributes))


def steward_of(schema: Schema, records: int) -> SchemaFile:
    """The file of a steward who declares a size."""
    return SchemaFile(
        label=schema.label, classes=schema.classes, attributes=schema.attributes, round_size=max(1, records)
    )


def own_noise() -> NoiseSource:
    """What a curator draws by default; an older commit's packages have OpenDP's alone."""
    names = vars(mechanisms)
    noise: NoiseSource = (names.get("ExactNoise") or names["OpenDPNoise"])()
    return noise


@dataclass(frozen=True)
class Bench:
    """A site, and the two parts of it that are measured on their own."""

    site: Site
    dataset: PrivateDataset
    noise: NoiseSource


def open_bench(name: str, records: int, attributes: int, learner: bytes, rng: np.random.Generator) -> Bench:
    """A site with drawn records and its ledger in memory."""
    columns = {f"a{i}": rng.random(records) for i in range(attributes)}
    frame = pl.DataFrame({**columns, "label": np.where(np.arange(records) % 2, "yes", "no")})
    policy = Policy(
        name=name,
        cap="1000000",
        learners=(LearnerPolicy(name="learner", key=learner.hex(), cap="1000000"),),
        cache_bytes=2**24,
    )
    key, noise = SigningKey.generate(), own_noise()
    dataset = hold_records(frame, steward_of(schema_of(attributes), records), policy, key)
    site = assemble_site(dataset, policy, key=key, ledger=memory_ledger(key), clock=lambda: NOW, noise=noise)
    return Bench(site, dataset, noise)


def handles_of(sites: Sequence[Site]) -> dict[bytes, Handle]:
    """What a carrier needs of sites."""
    return {site.identity: site.handle for site in sites}


def federation_of(sites: Sequence[Site], key: SigningKey, carrier: Carrier) -> Federation:
    """The sites as a learner sees them."""
    return Federation(
        curators={f"site{i}": site.identity for i, site in enumerate(sites)},
        key=key,
        carrier=carrier,
        clock=lambda: NOW,
        entropy=os.urandom,
    )


def paper_plan(attributes: int, scale: Fraction = Fraction(10)) -> Plan:
    """The masses, then twice the signed error: three rounds."""
    kinds = ("mass", "signed_error", "signed_error")
    return Plan.of(PlannedCounts(release=kind, partitions=attributes, scale=Rational.of(scale)) for kind in kinds)


def paper_bodies(attributes: int, bins: int) -> list[CountsBody]:
    """The bodies of `paper_plan`, with a fixed hypothesis in place of a trained one."""
    partitions = bins_of(attributes, bins)
    return [
        CountsBody(partitions=partitions, hypothesis=None),
        CountsBody(partitions=partitions, hypothesis=Constant(predicted=1)),
        CountsBody(partitions=partitions, hypothesis=Constant(predicted=0)),
    ]


def _tidy(result: Result) -> dict[str, object]:
    row = asdict(result)
    row["value"] = float(f"{result.value:.4g}")
    if result.spread is None:
        del row["spread"]
    else:
        row["spread"] = [float(f"{value:.4g}") for value in result.spread]
    if not result.note:
        del row["note"]
    return row


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return "absent"
