"""Four carriers, one behaviour: with noise from a seed, the same releases over all of them, byte for byte."""

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import msgspec
import pytest

from protocol.envelopes import open_envelope
from protocol.errors import ConfigurationError
from protocol.messages import Release
from secure_scenario import FAULTS, SECURE
from simulations.carriers.stages import stage_of
from simulations.records import load_records
from simulations.repeats import run_repeat
from simulations.scenario import Fault, LearnerScenario, load_scenario

ROOT = Path(__file__).parents[2]
PATIENCE = 600.0
"""Seconds that a command may take on a machine that is busy."""
SCENARIO = load_scenario("wdbc-faults")[1]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """(carrier, text) -> folder of a run over it, by the command, in a process of its own; made once."""

    @cache
    def make(carrier, text):
        place = tmp_path_factory.mktemp(carrier)
        (place / "same.toml").write_text(text)
        command = [sys.executable, "-m", "expril", "simulate", place / "same.toml", "--out", place, "--json"]
        done = subprocess.run(
            [*command, "--carrier", carrier],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, done.stderr + done.stdout
        told = json.loads(done.stdout)
        assert told["carrier"] == carrier
        return Path(told["run"])

    return make


def seeded(*, faults):
    head, *_ = SCENARIO.split("[[faults]]")
    text = SCENARIO if faults else head
    lines = [line for line in text.splitlines() if not line.startswith("repeats")]
    return "\n".join(["noise_seed = 7", "repeats = 1", *lines])


def release_bodies(run):
    """(learner, curator, study) -> the bodies of the releases, in order."""
    index = json.loads((run / "transcripts" / "index.json").read_bytes())
    found = {}
    for entry in index["transcripts"]:
        envelopes = msgspec.msgpack.decode((run / "transcripts" / entry["file"]).read_bytes(), type=list[bytes])
        messages = [open_envelope(data)[1] for data in envelopes]
        bodies = [message.body for message in messages if isinstance(message, Release)]
        found[entry["learner"], entry["curator"], entry.get("study", 0)] = bodies
    return found


@pytest.mark.parametrize("fault", ["refuse", "vanish"])
def test_a_learner_for_all_or_none_spends_nothing_where_one_site_does_not_accept(fault):
    """As a scenario says it. The other learner's study goes on without that site."""
    scenario, _, folder = load_scenario("wdbc")
    sites = msgspec.structs.replace(scenario.data.sites, fractions={"north": 0.5, "south": 0.5})
    data = msgspec.structs.replace(scenario.data, sites=sites)
    whole = LearnerScenario(name="whole", all_or_none=True, validate="1/4", options={"networks": False})
    parts = LearnerScenario(name="parts", options={"networks": False})
    faults = (Fault(curator="south", kind=fault, round=0),)
    scenario = msgspec.structs.replace(scenario, curators=(), data=data, learners=(whole, parts), faults=faults)
    repeat = run_repeat(scenario, load_records(scenario, folder), 0)
    first, second = repeat.outcomes
    assert "for all curators or none" in first.failure
    assert f"south: {first.study.fate('south')}" in first.failure
    assert not first.learned
    assert not first.validation_failure
    spent = {name: ledger.account.spent.get(first.key, 0) for name, ledger in repeat.ledgers.items()}
    assert spent == {"north": 0, "south": 0}
    assert second.study.survivors == ["north"]
    assert all(ledger.account.total_reserved == 0 for ledger in repeat.ledgers.values())


def test_an_unknown_carrier_is_named():
    with pytest.raises(ConfigurationError, match=r"no carrier 'rays'.*process, cores, ray, deploy"), stage_of("rays"):
        pass


@pytest.mark.slow
@pytest.mark.parametrize("faults", [False, True], ids=["all is well", "with faults"])
@pytest.mark.parametrize("carrier", ["cores", "ray", "deploy"])
def test_the_same_releases_over_every_carrier(made, carrier, faults):
    text = seeded(faults=faults)
    expected = release_bodies(made("process", text))
    assert sum(map(len, expected.values())) >= 6
    assert release_bodies(made(carrier, text)) == expected


@pytest.mark.slow
@pytest.mark.parametrize("carrier", ["ray", "deploy"])
def test_the_same_secure_sums_over_every_carrier(made, carrier):
    text = SECURE + "validate = 1\n" + FAULTS + '[[curators]]\nname = "*"\ncap = 3\n'
    expected, found = (json.loads((made(name, text) / "report.json").read_bytes()) for name in ("process", carrier))
    (expected,), (found,) = expected["learners"], found["learners"]
    assert found["pooled"] == expected["pooled"]
    assert found["rounds_answered"] == expected["rounds_answered"]
    assert found["validation"] == expected["validation"]
    assert found["pooling"] == "secure"


@pytest.mark.slow
@pytest.mark.parametrize("carrier", ["ray", "deploy"])
def test_a_run_over_any_carrier_is_proven_says_its_carrier_and_is_run_again_by_it(made, carrier):
    run = made(carrier, seeded(faults=True))
    done = subprocess.run(
        [sys.executable, "-m", "expril", "verify", run], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    assert json.loads((run / "again.json").read_bytes())["carrier"] == carrier
    assert f"carrier {carrier}" in (run / "report.html").read_text()
