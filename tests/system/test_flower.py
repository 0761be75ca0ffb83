"""The same study over Flower and by plain calls: with noise from a seed, the same releases."""

from functools import cache

import msgspec
import pytest

from protocol.envelopes import LABEL, NOT_PRIVATE_LABEL, open_envelope, verify
from protocol.errors import RemoteProtocolError
from protocol.messages import Release
from protocol.transcript import replay
from protocol.transitions import State
from secure_scenario import FAULTS, SECURE
from simulations.carriers import direct, in_process
from simulations.carriers.stages import here
from simulations.records import load_records
from simulations.repeats import run_repeat
from simulations.scenario import load_scenario


def prepared(**changes):
    """The scenario and its records; nobody asks what is learnt, so no network is trained."""
    scenario, _, folder = load_scenario("wdbc-faults")
    ada, grace = scenario.learners
    ada = msgspec.structs.replace(ada, options={"networks": False})
    scenario = msgspec.structs.replace(scenario, learners=(ada, grace), **changes)
    return scenario, load_records(scenario, folder)


@cache
def called():
    """By plain calls, with noise from seed 7."""
    scenario, records = prepared(noise_seed=7)
    return run_repeat(scenario, records, 0, stage=here(direct.carry))


def release_bodies(repeat):
    found = {}
    for outcome in repeat.outcomes:
        for name, session in outcome.study.sessions.items():
            messages = [open_envelope(data)[1] for data in session.transcript.envelopes]
            found[outcome.learner.name, name] = [m.body for m in messages if isinstance(m, Release)]
    return found


def test_flower_and_direct_calls_give_the_same_releases_from_one_seed():
    scenario, records = prepared(noise_seed=7)
    bodies = release_bodies(run_repeat(scenario, records, 0, stage=here(in_process.carry)))
    assert bodies == release_bodies(called())
    assert sum(map(len, bodies.values())) >= 4


def test_flower_and_direct_calls_open_the_same_sum_from_one_seed(tmp_path):
    """Keys and masks are new each time, so the releases are others: what they open is the same."""
    (tmp_path / "secure.toml").write_text(SECURE + FAULTS)
    scenario, _, folder = load_scenario(str(tmp_path / "secure.toml"))
    records = load_records(scenario, folder)
    found = [run_repeat(scenario, records, 0, stage=here(way.carry)) for way in (in_process, direct)]
    sums = [repeat.outcomes[0].study.rounds[0] for repeat in found]
    assert (sums[0].pooled.values == sums[1].pooled.values).all()
    assert {done.took_part for done in sums} == {("north", "east", "south", "west")}
    assert release_bodies(found[0]).keys() == release_bodies(found[1]).keys()
    assert release_bodies(found[0])["ada", "north"] != release_bodies(found[1])["ada", "north"]
    for repeat in found:
        assert repeat.outcomes[0].study.survivors == ["north", "east", "south"]
        assert {ledger.account.total_spent for ledger in repeat.ledgers.values()} == {1}


def test_another_noise_seed_gives_other_releases():
    scenario, records = prepared(noise_seed=8)
    other = release_bodies(run_repeat(scenario, records, 0, stage=here(direct.carry)))
    assert other["ada", "north"] != release_bodies(called())["ada", "north"]


def test_real_noise_differs_between_two_runs():
    scenario, records = prepared(faults=())
    scenario = msgspec.structs.replace(scenario, learners=scenario.learners[:1])
    runs = [release_bodies(run_repeat(scenario, records, 0, stage=here(direct.carry))) for _ in range(2)]
    assert runs[0]["ada", "north"] != runs[1]["ada", "north"]


def test_seeded_releases_never_verify_as_production():
    repeat = called()
    session = next(iter(repeat.outcomes[0].study.sessions.values()))
    envelope, message = open_envelope(session.transcript.envelopes[-1])
    verify(envelope, message.sender, label=NOT_PRIVATE_LABEL)
    with pytest.raises(RemoteProtocolError):
        verify(envelope, message.sender, label=LABEL)


def test_faults_over_flower_leave_a_provable_transcript_and_a_true_ledger():
    scenario, records = prepared()
    repeat = run_repeat(scenario, records, 0)
    ada, grace = repeat.outcomes
    assert ada.study.outcomes["north"] == ["release"], "the late reply was asked for again"
    assert grace.study.outcomes["east"] == ["release", "no reply"]
    assert grace.study.outcomes["west"] == ["refusal:over_budget"]
    assert grace.study.survivors == ["north", "south"]
    for outcome in repeat.outcomes:
        for name, session in outcome.study.sessions.items():
            proof = replay(session.transcript.envelopes, session.curator, outcome.key)
            assert proof.epsilon_spent == outcome.study.spent(name)
            if name in ("north", "south"):
                assert proof.state is State.CLOSED
                account = repeat.ledgers[name].account
                assert account.spent[outcome.key] == proof.epsilon_spent
                assert account.reserved[outcome.key] == 0
