"""What CI asks of a run of the tests: that fast ones are fast, that slow ones end in time; and what jitter reached.

Each is a plugin of pytest that an environment variable switches on.
"""

import ctypes
import os
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.load import loop_seconds

BUDGET = "EXPRIL_TEST_BUDGET"
DEADLINE = "EXPRIL_TEST_DEADLINE"
REACHED = "EXPRIL_JITTER_REACHED"
MOST = 0.5
"""Seconds of processor that an unmarked test may take on the machine where the reference loop takes `REFERENCE`.

What neighbours on a busy machine cost is not seen by the loop alone, so four times as much fails.
"""
MOST_OF_PROCESSES = 2.0
"""Likewise, of one that is marked `processes`."""
REFERENCE = 0.04
HEAVY = (
    "torch",
    "torch._dynamo",  # what the first optimiser of a process loads
    "sklearn.cluster",
    "sklearn.linear_model",
    "scipy.stats",
    "polars",
    "flwr.server",
    "opendp.prelude",
    "sqlalchemy.orm",
)
"""What a worker loads once, whichever test comes first."""
GOLDEN = 0.6180339887498949


@contextmanager
def bounded(seconds):
    """Fail what takes more of the processor than so many seconds on the machine where the loop takes `REFERENCE`."""
    began = time.process_time()
    yield
    taken = time.process_time() - began
    if taken > seconds:
        slower = max(REFERENCE, *(loop_seconds() for _ in range(3))) / REFERENCE
        assert taken < seconds * slower, f"{taken:.2f} s of a processor that is {slower:.1f} times slower"


def chosen(environment):
    """The gates that are switched on."""
    if environment.get(BUDGET):
        yield Budget()
    if environment.get(DEADLINE):
        yield Deadline(float(environment[DEADLINE]))
    if environment.get(REACHED):
        yield Reached(Path(environment[REACHED]), ctypes.CDLL(environment["LD_PRELOAD"]))


def kernels():
    """The threads and kernels in force, in a line."""
    import scipy.linalg  # noqa: F401 - loads its BLAS
    import threadpoolctl
    import torch

    blas = {
        f"{each['internal_api']} {each['version']} {each['architecture']} x{each['num_threads']}"
        for each in threadpoolctl.threadpool_info()
        if each["user_api"] == "blas"
    }
    others = f"torch {torch.backends.cpu.get_cpu_capability()} x{torch.get_num_threads()}"
    told = [f"{name}={os.environ[name]}" for name in ("EXPRIL_JITTER", "MKL_CBWR") if name in os.environ]
    return f"kernels: {', '.join([*sorted(blas), others, *told])}"


def mark_families(items):
    """Mark all cases of a test slow but as many as it says, spread evenly."""
    families = {}
    for item in items:
        if item.get_closest_marker("family"):
            families.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for cases in families.values():
        (few,) = cases[0].get_closest_marker("family").args
        fast = {place * len(cases) // few for place in range(few)}
        for place, item in enumerate(cases):
            if place not in fast:
                item.add_marker(pytest.mark.slow)


def processor():
    """Seconds of processor of this process and of those that it waited for."""
    return sum(os.times()[:4])


@settings(max_examples=1, database=None)
@given(st.text())
def any_text(text):
    """In a fresh checkout Hypothesis first writes down which characters there are; the first text pays for that."""


class Budget:
    """Fails an unmarked test that takes too long; what a session or a module shares is not counted."""

    def __init__(self):
        for name in HEAVY:
            __import__(name)
        self.unit = min(loop_seconds() for _ in range(5))
        self.shared = self.taken = 0.0

    def pytest_collection_finish(self):
        any_text()

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef):
        if fixturedef.scope == "function":
            return (yield)
        began = processor()
        try:
            return (yield)
        finally:
            self.shared += processor() - began

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item):
        self.shared = 0.0
        began = processor()
        try:
            return (yield)
        finally:
            self.taken = processor() - began - self.shared

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item):
        self.shared = 0.0
        began = processor()
        result = yield
        taken = self.taken + processor() - began - self.shared
        marks = {mark.name for mark in item.iter_markers()}
        most = 4 * (MOST_OF_PROCESSES if "processes" in marks else MOST)
        if taken > most * self.unit / REFERENCE and "slow" not in marks:
            # A neighbour may have slowed this processor down since.
            unit = max(self.unit, *(loop_seconds() for _ in range(3)))
            if taken > most * unit / REFERENCE:
                pytest.fail(
                    f"took {taken / unit * REFERENCE:.2f} s of processor, as on the reference machine; "
                    f"an unmarked test may take {MOST}: shorten it, or mark it slow"
                )
        return result


class Deadline:
    """Starts no test after a moment, and names those that it left out.

    The order is turned by the number of commits, by the golden ratio, so that whatever one run leaves out stands early
    in another soon after: nothing has to be remembered.
    """

    def __init__(self, moment):
        self.moment = moment

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items):
        counted = subprocess.run(["git", "rev-list", "--count", "HEAD"], capture_output=True, text=True, check=False)
        start = int(len(items) * (int(counted.stdout or 0) * GOLDEN % 1.0))
        items[:] = items[start:] + items[:start]

    def pytest_runtest_setup(self, item):
        if time.time() > self.moment:
            pytest.skip(f"left out, CI's time was up: {item.nodeid}")


class Reached:
    """Writes down the tests in which jitter moved something, in whatever process."""

    def __init__(self, folder, shim):
        name = os.environ.get("PYTEST_XDIST_WORKER", "alone")
        count = folder / f"{name}.count"
        count.write_bytes(bytes(8))
        os.environ["EXPRIL_JITTER_COUNT"] = str(count)
        shim.jitter_count.restype = ctypes.c_uint64
        shim.jitter_count_in(str(count).encode())
        self.count, self.path = shim.jitter_count, folder / f"{name}.tests"

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        before = self.count()
        result = yield
        if self.count() != before:
            with self.path.open("a") as file:
                file.write(f"{item.nodeid}\n")
        return result
