"""The learner's run at a real SuperLink: what it is handed, what it leaves alone, and what it is refused."""

import secrets
import zipfile
from contextlib import contextmanager
from io import BytesIO

import pytest

from curator_node.daemon.fleet import Fleet, Link
from curator_node.daemon.node_key import write_node_key
from deployed import app_bundle
from learner_fakes import LEARNER, key
from learner_node.carriers import superlink_run
from learner_node.carriers.superlink import SuperLinkCarrier
from learner_node.carriers.superlink_run import SuperLinkAddress, SuperLinkError, empty_app, start_run
from protocol import flower_internals as flower
from protocol.carriage import MOST_INSIDE
from protocol.errors import ConfigurationError
from simulations.carriers.superlink import SuperLink
from waiting import wait_for

LONG = bytes(MOST_INSIDE + 1)


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


# --- how a message's content travels ----------------------------------------------------------------------


class Node(Fleet):
    """A node of this process that answers with what `answer` makes of a request; `old` reads no content in a message.

    Attributes:
        calls: the names of its and its learner's calls so far.
    """

    def __init__(self, link, folder, answer, *, old=False):
        self.old, self.calls = old, []
        write_node_key(folder / "node.pem", folder / "node.pub")
        link.register(folder / "node.pub")
        super().__init__(Link(link.address, link.ca, folder / "node.pem"), answer, most_bytes=2 * MOST_INSIDE)
        self.enter()
        self.count(self._client)

    def count(self, client):
        real = client._unary_unary

        def counted(*, path, **rest):
            self.calls.append(path.removeprefix("/v1/"))
            return real(path=path, **rest)

        client._unary_unary = counted

    def pull(self):
        parcel = super().pull()
        if parcel is not None and self.old:
            parcel.inside, parcel.message = False, flower.remove_content_from_message(parcel.message)
        return parcel

    def serve(self):
        """Answer the next message; False where it is not all there."""
        parcel = wait_for(self.pull, what="a message")
        if not self.fetch(parcel):
            self.waiting = parcel
            return False
        self.send(parcel, self.app_reply(parcel), patience=lambda: False)
        return True


@contextmanager
def meeting(link, folder, answer, **how):
    """A node and a learner's run whose calls it counts."""
    node = Node(link, folder, answer, **how)
    run = start_run(address(link))
    node.count(run._client)
    try:
        yield node, run
    finally:
        run.finish()
        node.leave()
        node.close()


def asked(node, run, data):
    """(reply, calls) to one request."""
    node.calls.clear()
    sent = run.push([(node.node, data)], ttl=60.0)
    assert node.serve()
    return run.pull(sent)[0].data, [call for call in node.calls if not call.endswith("heartbeat")]


FEWEST = ["runtime/push-messages", "fleet/pull-messages", "fleet/push-messages", "runtime/pull-messages"]


def check_forms(link, folder):
    with meeting(link, folder, lambda data: data[:1] + data) as (node, run):
        assert asked(node, run, b"a") == (b"aa", FEWEST), "a node that nobody knows yet"
        assert asked(node, run, b"b") == (b"bb", FEWEST)
        reply, calls = asked(node, run, LONG)
        assert reply == b"\0" + LONG
        assert [calls.count(f"{who}/{what}-object") for who in ("runtime", "fleet") for what in ("push", "pull")] == [
            3
        ] * 4, "what is long follows in objects"
        reply, calls = asked(node, run, LONG[:-1])
        assert reply == b"\0" + LONG[:-1]
        assert "runtime/push-object" not in calls
        assert calls.count("fleet/push-object") == 3, "the reply is long"
        reply, calls = asked(node, run, b"c")
        assert (reply, [call for call in calls if "confirm" not in call]) == (b"cc", FEWEST)


def test_a_short_envelope_is_inside_its_message_and_a_long_one_follows_in_objects(superlink, tmp_path):
    check_forms(superlink, tmp_path)


@pytest.mark.slow
def test_a_superlink_with_a_database_carries_the_same_and_keeps_nothing_of_a_run(tmp_path):
    import sqlite3

    with SuperLink(tmp_path / "link", durable=True) as link:
        check_forms(link, tmp_path)
        with sqlite3.connect(link.database) as database:
            kept = [
                database.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
                for table in ("objects", "object_push_sessions", "message_ins", "message_res")
            ]
    assert kept == [0] * 4


def test_a_node_that_reads_no_content_in_a_message_gets_its_objects(superlink, tmp_path, monkeypatch):
    with meeting(superlink, tmp_path, bytes.upper, old=True) as (node, run):
        sent = run.push([(node.node, b"a")], ttl=60.0)
        assert not node.serve()
        assert run.pull(sent) == []
        assert not node.fetch(node.waiting), "it has a second to answer"
        monkeypatch.setattr(run._reserves[0], "due", 0.0)
        assert run.pull(sent) == []
        assert node.fetch(node.waiting)
        node.send(node.waiting, node.app_reply(node.waiting), patience=lambda: False)
        assert [arrival.data for arrival in run.pull(sent)] == [b"A"]
        reply, calls = asked(node, run, b"b")
        assert reply == b"B"
        assert calls.count("runtime/push-object") == 3, "now it is known"


def test_a_run_is_followed_by_another_before_the_superlink_keeps_much_of_it(superlink, tmp_path, monkeypatch):
    monkeypatch.setattr(superlink_run, "MOST_MESSAGES", 2)
    with meeting(superlink, tmp_path, bytes.upper) as (node, run):
        asked(node, run, b"a")
        assert not run.used_up
        asked(node, run, b"b")
        assert run.used_up
