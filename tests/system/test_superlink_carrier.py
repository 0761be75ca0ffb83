"""The learner's run at a real SuperLink: what it is handed, what it leaves alone, and what it is refused."""

import secrets
import zipfile
from io import BytesIO

import pytest

from deployed import app_bundle
from learner_fakes import LEARNER, key
from learner_node.carriers import superlink_run
from learner_node.carriers.superlink import SuperLinkCarrier
from learner_node.carriers.superlink_run import SuperLinkAddress, SuperLinkError, empty_app, start_run
from protocol import flower_internals as flower
from protocol.errors import ConfigurationError
from waiting import wait_for


def address(link, **other):
    told = {"ca": link.ca.read_bytes(), "secret": link.secret.read_bytes(), **other}
    return SuperLinkAddress(link.address, **told)


def test_an_app_without_code_is_one_file_and_the_same_bytes():
    assert empty_app("a") == empty_app("a") != empty_app("b")
    assert zipfile.ZipFile(BytesIO(empty_app("a"))).namelist() == ["pyproject.toml"]


def test_a_learner_gets_its_own_task_whatever_else_waits(superlink):
    """A foreign app's task and another learner's are older, and stay where they are."""
    with superlink.control() as control:
        foreign = control.StartRun(flower.StartRunRequest(fab=flower.Fab(content=app_bundle()))).run_id
        other = control.StartRun(flower.StartRunRequest(fab=flower.Fab(content=empty_app("another's")))).run_id
    first, second = start_run(address(superlink)), start_run(address(superlink))

    def online():
        return {number for number, status in superlink.nodes().items() if status == "online"}

    try:
        assert len({first.run_id, second.run_id, foreign, other}) == 4
        wait_for(lambda: first.nodes() == second.nodes() == online(), what="the nodes that are there")
    finally:
        first.finish()
        second.finish()
    sign = flower.SuperExecAuthHttpInterceptor(
        master_secret=superlink.secret.read_bytes(), protected_methods=frozenset({superlink_run.ACQUIRE})
    )
    ca = superlink.ca.read_bytes()
    with flower.RuntimeHttpClient.from_server_address(superlink.address, False, ca, [sign]) as client:
        request, left = flower.AcquireTaskRequest(supported_task_types=["flwr-serverapp"]), []
        while (given := client.AcquireTask(request)).HasField("task"):
            left.append(given.task.run_id)
    assert [run for run in left if run in {foreign, other}] == [foreign, other]


def test_somebody_who_takes_every_task_is_told_of(superlink, monkeypatch):
    monkeypatch.setattr(superlink_run, "TAKEN_SECONDS", 1.0)
    real = flower.AcquireTaskRequest

    def asks_too_late(**fields):
        return real(agentapp_fab_hashes=[secrets.token_hex(32)])

    monkeypatch.setattr(flower, "AcquireTaskRequest", asks_too_late, raising=False)
    with pytest.raises(SuperLinkError, match="another program took the task"):
        start_run(address(superlink))


def test_a_wrong_secret_or_authority_is_said_at_once(superlink, tmp_path):
    with pytest.raises(ConfigurationError, match="does not take the secret"):
        start_run(address(superlink, secret=b"x" * 32))
    from simulations.carriers.superlink import make_certificates

    other = make_certificates(tmp_path).read_bytes()
    with pytest.raises(ConfigurationError, match="certificate"):
        start_run(address(superlink, ca=other))


def test_nobody_there_is_no_reply(superlink):
    curator = key("basel").public
    with SuperLinkCarrier(address(superlink), key(LEARNER), [curator], timeout=1.5) as carrier:
        assert carrier.exchange({curator: b"anything"}) == {}
        assert carrier.exchange({key("bern").public: b"for somebody else"}) == {}


def test_a_superlink_that_is_away_is_waited_for_and_then_told(superlink):
    from simulations.carriers.superlink import free_port

    nowhere = SuperLinkAddress(f"127.0.0.1:{free_port()}", superlink.ca.read_bytes(), b"x")
    said = []
    curator = key("basel").public
    carrier = SuperLinkCarrier(nowhere, key(LEARNER), [curator], patience=1.0, notify=said.append)
    with pytest.raises(SuperLinkError, match="cannot be reached"):
        carrier.exchange({curator: b"anything"})
    assert len(said) == 1
