"""Settings that every test shares, and the gates of CI."""

import gc
import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

import gates
import trees

os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")

# Real records lie beside a developer's checkout; elsewhere the tests that need them skip and say so.
_BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"
if _BESIDE.is_dir():
    os.environ.setdefault("EXPRIL_DATA_DIR", str(_BESIDE))

settings.register_profile("expril", deadline=None, derandomize=True)
settings.load_profile("expril")


def pytest_configure(config):
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell leaves what it runs in the background
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        gc.disable()  # until all is imported
        for gate in gates.chosen(os.environ):
            config.pluginmanager.register(gate)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    gates.mark_families(items)


def pytest_collection_finish():
    gc.collect()
    gc.freeze()  # what was imported stays; to look at it again and again costs seconds
    gc.enable()


def pytest_sessionstart(session):
    if not hasattr(session.config, "workerinput"):
        session.config.get_terminal_writer().line(gates.kernels())


@pytest.fixture(scope="session")
def parsed():
    """All modules of ours, parsed: the first test that reads them all pays for it here."""
    for path in trees.FILES:
        trees.nodes_of(path)


@pytest.fixture(scope="session")
def postgres():
    """A PostgreSQL server that runs; a test that stops it starts it again."""
    from postgres import postgres_server

    with postgres_server() as server:
        yield server


@pytest.fixture(scope="session")
def superlink(tmp_path_factory):
    """A real SuperLink in memory, on a free port.

    It takes seconds to start, so all tests share it: nodes and runs of others may be there. A test that stops one makes
    a `SuperLink` of its own.
    """
    from simulations.carriers.superlink import SuperLink

    with SuperLink(tmp_path_factory.mktemp("superlink")) as running:
        yield running


@pytest.fixture(scope="session")
def browser():
    """A headless Chromium; a test opens tabs of its own. Tests that ask for it are skipped where there is none."""
    from browser import NAMES, Browser, find_browser

    if find_browser() is None:
        pytest.skip(f"install chromium: none of {', '.join(NAMES)} is on PATH")
    with Browser() as running:
        yield running


@pytest.fixture(scope="session")
def honest_run(tmp_path_factory):
    """The folder of a run of one repeat, and what its learners hold; who changes it copies it."""
    from run_forger import make_run

    return make_run(tmp_path_factory.mktemp("honest"), repeats=1)
