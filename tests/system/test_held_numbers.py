"""Behaviour held still: what the code computes is what tests/system/held says (see `held_numbers`, which writes it).

Exact: every byte of a counts study, every amount of epsilon, every outcome. Floats follow the kernels of the processor
and of its BLAS, so they are held within tolerances, each some times what the kernels for SkylakeX, Haswell and Nehalem
(torch's plain ones with it) were seen to change. `EXPRIL_HELD_EXACT=1` holds them to the last recorded digit: for a
change of code that is judged on the machine that wrote the files.
"""

import os
from pathlib import Path

import pytest

from held_numbers import FITS, HELD, LEARNERS, OF_NUMBERS, STUDIES, held, learner, scenario, wire
from learner_node.strategies import STRATEGIES
from protocol.release_kinds import RELEASE_KINDS
from simulations.datasets.ctg import WORKBOOK
from simulations.datasets.files import DATA_DIRECTORY_VARIABLE
from simulations.datasets.heart import FILES

pytestmark = pytest.mark.numerical

EXACT = bool(os.environ.get("EXPRIL_HELD_EXACT"))
SLOW = {"ctg-rows"}
SMOOTH = {"three classes", "number", "quote", "comparison", "random-subsets", "varying-bins", "additive"}
"""Learners without networks or searches that rounding could turn elsewhere: they were seen to move by 5e-5 at most."""


def differences(then, now, tolerance, path=()):
    """Where two values differ: floats by more than `tolerance(path)`, all else at all."""
    where = "/".join(map(str, path))
    if isinstance(then, dict) and isinstance(now, dict):
        found = [f"{where}: keys {sorted(then.keys() ^ now.keys())}"] if then.keys() != now.keys() else []
        shared = [(name, then[name], now[name]) for name in then if name in now]
    elif isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        found, shared = [], [(place, *pair) for place, pair in enumerate(zip(then, now, strict=True))]
    elif type(then) is float and type(now) is float:
        same = then == now or (not EXACT and abs(then - now) <= tolerance(path))
        return [] if same else [f"{where}: held {then}, now {now}"]
    else:
        return [] if (type(then), then) == (type(now), now) else [f"{where}: held {then!r}, now {now!r}"]
    return found + [line for name, *pair in shared for line in differences(*pair, tolerance, (*path, name))]


def exactly(path):
    return 0.0


# --- bytes ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def messages():
    return wire()


def test_every_release_kind_is_held():
    assert {each.release for asked in STUDIES.values() for each in asked} == set(RELEASE_KINDS)


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_says_the_same_bytes(messages, name):
    assert not differences(held("wire")["studies"][name], messages["studies"][name], exactly)


@pytest.mark.parametrize("name", STUDIES)
def test_a_card_says_the_same(messages, name):
    assert not differences(held("wire")["cards"][name], messages["cards"][name], exactly)


def test_cards_have_the_same_limits(messages):
    assert held("wire")["limits"] == messages["limits"]


# --- scenarios --------------------------------------------------------------------------------------------


def of_scenarios(path):
    """Kernels may decide a test record otherwise, but not many.

    Nehalem's decided one otherwise of a site's 87, 92 or 106, and moved an expected accuracy by 0.003; the regression
    and the majority follow no decision.
    """
    if path[0] == "ctg-astv" or path[-1] == "majority":
        return 1e-6
    return 0.03 if "expected" in path else 0.025 if "sites" in path else 0.015


@pytest.fixture
def data(request):
    """The records of all but wdbc are files; see test_datasets."""
    if request.param.startswith("wdbc"):
        return request.param
    folder = os.environ.get(DATA_DIRECTORY_VARIABLE)
    wanted = [file.name for file in (WORKBOOK, *FILES.values())]
    if not folder or not all((Path(folder) / name).is_file() for name in wanted):
        pytest.skip(f"set {DATA_DIRECTORY_VARIABLE} to a folder with {', '.join(wanted)}")
    return request.param


@pytest.mark.parametrize(
    "data",
    [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in HELD],
    indirect=True,
)
def test_a_scenario_scores_the_same(data):
    assert not differences(held("scenarios")[data], scenario(data), of_scenarios, (data,))


# --- learners ---------------------------------------------------------------------------------------------


def of_learners(path):
    """Records: 0.1 of hundreds (seen: 0.024); percents of Table 2: 0.5 (seen: 0.18); shares: 0.015 (seen: 0.007).

    What networks and searches find hangs on rounding, and so do the intervals around it.
    """
    if path[0] == "quote" and path[-1] == "beats_majority":
        return 1.0  # a share of three problems, of which one is nearly a tie: Haswell's kernels decide it otherwise
    if path[0] in SMOOTH:
        return 1e-3
    if path[0] == "table 2":
        return 1e-6 if path[-1].startswith("epsilon") else 0.005 if path[-1] == "ratio" else 0.5
    return 0.1 if "weight" in path or "sums" in path else 0.015


def test_every_strategy_is_held():
    assert set(STRATEGIES) - OF_NUMBERS == {strategy for strategy, _ in FITS.values()}


@pytest.mark.parametrize("name", LEARNERS)
def test_a_learner_computes_the_same(name):
    assert not differences(held("learners")[name], learner(name), of_learners, (name,))


# --- power ------------------------------------------------------------------------------------------------


def test_what_differs_is_found():
    then = {"spent": "1/2", "scores": [0.5, None], "n": 3}
    assert not differences(then, {"spent": "1/2", "scores": [0.5, None], "n": 3}, exactly)
    for now in (
        {**then, "spent": "1/3"},
        {**then, "scores": [0.5 + 1e-9, None]},
        {**then, "scores": [0.5, 0.0]},
        {**then, "scores": [0.5]},
        {**then, "n": 3.0},
        {"spent": "1/2", "scores": [0.5, None]},
    ):
        assert len(differences(then, now, exactly)) == 1
