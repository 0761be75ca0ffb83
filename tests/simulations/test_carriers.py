"""The in-process Grid keeps Flower's contract, and no exception text crosses it; a SuperLink comes and goes."""

import itertools
import logging
import socket
import ssl
import subprocess
import threading
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.supercore.task_identity import TaskIdentity

from curator_node.client_app import NOT_SERVED, make_client_app
from curator_node.daemon.node_key import read_node_key, write_node_key
from learner_node.carriers.flower import FlowerCarrier, make_server_app
from protocol.errors import ConfigurationError
from simulations.carriers import in_process, superlink
from simulations.carriers.in_process import APP_FAILED, SERVER_NODE, UNKNOWN_NODE, InProcessGrid, run_in_process
from simulations.carriers.superlink import SuperLink, make_certificates

SECRET = "patient 4711 has b-negative"
PATIENCE = 60.0
"""Seconds after which a test that waits for an event has failed."""


@pytest.fixture(autouse=True)
def _task(monkeypatch):
    for name, value in {"_run_id": 1, "_node_id": SERVER_NODE, "_task_id": 1}.items():
        monkeypatch.setattr(TaskIdentity, name, value)


def envelope(data: bytes) -> RecordDict:
    return RecordDict({"envelope": ConfigRecord({"bytes": data})})


def message(node: int, data: bytes = b"x", kind: str = "query.expril") -> Message:
    return Message(envelope(data), node, kind)


def payload(reply: Message) -> bytes:
    return reply.content["envelope"]["bytes"]


def app_of(function) -> ClientApp:
    """A ClientApp without the wall of `make_client_app`."""
    app = ClientApp()
    app.query("expril")(function)
    return app


def raise_secret(*_):
    raise ValueError(SECRET)


def node_of(carrier_reply: Message) -> int:
    return carrier_reply.metadata.src_node_id


class Gate:
    """A handler that waits until it is opened."""

    def __init__(self):
        self.entered = threading.Event()
        self.opened = threading.Event()

    def __call__(self, data: bytes) -> bytes:
        self.entered.set()
        assert self.opened.wait(PATIENCE)
        return data


@pytest.fixture
def gate():
    gate = Gate()
    yield gate
    gate.opened.set()


def test_replies_come_once_each_and_answer_their_message():
    with InProcessGrid({7: make_client_app(bytes.upper), 8: make_client_app(lambda data: data * 2)}) as grid:
        ids = grid.push_messages([message(7, b"a"), message(8, b"b"), message(7, b"c")])
        assert len(set(ids)) == 3
        found = {}
        while len(found) < 3:
            for reply in grid.pull_messages(ids):
                assert reply.metadata.reply_to_message_id not in found
                found[reply.metadata.reply_to_message_id] = payload(reply)
        assert found == dict(zip(ids, (b"A", b"bb", b"C"), strict=True))
        assert grid.pull_messages(ids) == []
        assert grid.pull_messages(["never pushed"]) == []


def test_equal_messages_are_delivered_and_answered_each():
    served = []
    with InProcessGrid({7: make_client_app(lambda data: served.append(data) or data)}) as grid:
        same = message(7, b"again")
        assert [payload(reply) for reply in grid.send_and_receive([same, same])] == [b"again"] * 2
    assert served == [b"again"] * 2


def test_a_reply_that_is_not_there_yet_is_pulled_later(gate):
    with InProcessGrid({7: make_client_app(gate)}) as grid:
        (number,) = grid.push_messages([message(7, b"slow")])
        assert gate.entered.wait(PATIENCE)
        assert grid.pull_messages([number]) == []
        gate.opened.set()
        replies = []
        while not replies:
            replies = grid.pull_messages([number])
        assert payload(replies[0]) == b"slow"


@pytest.mark.parametrize(
    ("node", "kind", "code"),
    [(9, "query.expril", UNKNOWN_NODE), (7, "query.other", APP_FAILED), (8, "query.expril", APP_FAILED)],
    ids=["unknown node", "a type that no function serves", "an app that returns no message"],
)
def test_a_message_that_cannot_be_answered_is_answered_by_an_error(node, kind, code):
    with InProcessGrid({7: make_client_app(bytes), 8: app_of(lambda *_: None)}) as grid:
        (reply,) = grid.send_and_receive([message(node, kind=kind)])
    assert reply.has_error()
    assert reply.error.code == code
    assert node_of(reply) == node
    if code == APP_FAILED:
        assert not reply.error.reason


def test_a_failing_app_is_answered_by_an_error_without_its_text(caplog):
    with (
        caplog.at_level(logging.DEBUG),
        InProcessGrid({7: app_of(raise_secret), 8: make_client_app(bytes.upper)}) as grid,
    ):
        failed, served = grid.send_and_receive([message(7), message(8)])
    assert failed.has_error()
    assert (failed.error.code, failed.error.reason or "") == (APP_FAILED, "")
    assert payload(served) == b"X"
    assert SECRET not in caplog.text
    assert "ValueError" in caplog.text


@contextmanager
def time_up_after(looks):
    """The grid's clock stands still for so many looks, and then any patience is at its end, on whatever machine."""
    seen = itertools.count(1)
    clock = SimpleNamespace(monotonic=lambda: 0.0 if next(seen) <= looks else 2 * PATIENCE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(in_process, "time", clock)
        yield


def test_replies_that_miss_the_timeout_are_left_out_and_others_kept(gate):
    with InProcessGrid({7: make_client_app(gate), 8: make_client_app(bytes.upper)}) as grid:
        (served,) = grid.send_and_receive([message(8, b"quick")], timeout=PATIENCE)
        assert payload(served) == b"QUICK"
        assert grid.send_and_receive([message(7)], timeout=0.01) == []
        with time_up_after(2):
            assert [node_of(r) for r in grid.send_and_receive([message(8), message(7)], timeout=PATIENCE)] == [8]
        gate.opened.set()
        (late,) = grid.send_and_receive([message(7, b"now")], timeout=PATIENCE)
        assert payload(late) == b"now"


def test_a_node_serves_one_message_at_a_time():
    inside, two_inside = threading.Semaphore(), threading.Event()

    def handle(data: bytes) -> bytes:
        if inside.acquire(blocking=False):
            two_inside.wait(0.02)
            inside.release()
        else:
            two_inside.set()
        return data

    with InProcessGrid({7: make_client_app(handle)}, workers=8) as grid:
        assert len(grid.send_and_receive([message(7) for _ in range(5)])) == 5
    assert not two_inside.is_set()


def test_two_nodes_serve_at_the_same_time():
    barrier = threading.Barrier(2)

    def handle(data: bytes) -> bytes:
        barrier.wait(PATIENCE)
        return data

    with InProcessGrid({7: make_client_app(handle), 8: make_client_app(handle)}) as grid:
        assert len(grid.send_and_receive([message(7), message(8)], timeout=PATIENCE)) == 2


def test_messages_are_copies_and_share_nothing():
    seen = []

    def answer(received: Message, _context: Context) -> Message:
        content = received.content
        reply = Message(envelope(b"reply"), reply_to=received)
        seen.extend([received, content, reply])
        content["envelope"]["bytes"] = b"changed by the node"
        return reply

    with InProcessGrid({7: app_of(answer)}) as grid:
        sent = message(7, b"mine")
        (reply,) = grid.send_and_receive([sent])
        received, content, returned = seen
        assert received is not sent
        assert content is not sent.content
        assert returned is not reply
        assert payload(sent) == b"mine"
        returned.content["envelope"]["bytes"] = b"changed afterwards"
        assert payload(reply) == b"reply"


def test_no_state_is_kept_between_two_messages():
    states = []

    def answer(received: Message, context: Context) -> Message:
        states.append(dict(context.state))
        context.state["kept"] = ConfigRecord({"n": 1})
        assert not context.run_config
        assert not context.node_config
        return Message(envelope(b""), reply_to=received)

    with InProcessGrid({7: app_of(answer)}) as grid:
        grid.send_and_receive([message(7)])
        grid.send_and_receive([message(7)])
    assert states == [{}, {}]


def test_a_hundred_nodes_answer_in_any_order_of_asking():
    nodes = {1000 + i: make_client_app(lambda data, i=i: data + str(i).encode()) for i in range(100)}
    with InProcessGrid(nodes) as grid:
        assert grid.get_node_ids() == list(nodes)
        assert [info.node_id for info in grid.get_nodes()] == list(nodes)
        forth = {node_of(r): payload(r) for r in grid.send_and_receive([message(node, b"n") for node in nodes])}
        back = {node_of(r): payload(r) for r in grid.send_and_receive([message(n, b"n") for n in reversed(nodes)])}
    assert forth == back == {1000 + i: f"n{i}".encode() for i in range(100)}


def test_create_message_makes_what_push_takes():
    with InProcessGrid({7: make_client_app(bytes.upper)}) as grid:
        made = grid.create_message(envelope(b"made"), "query.expril", 7, "group", ttl=60.0)
        (reply,) = grid.send_and_receive([made])
    assert payload(reply) == b"MADE"
    assert reply.metadata.group_id == "group"


@pytest.mark.parametrize(
    "content",
    [RecordDict(), RecordDict({"envelope": ConfigRecord({})}), RecordDict({"other": ConfigRecord({"bytes": b"x"})})],
)
def test_a_curator_answers_a_message_without_envelope_by_an_error_without_text(content):
    served = []
    with InProcessGrid({7: make_client_app(lambda data: served.append(data) or data)}) as grid:
        (reply,) = grid.send_and_receive([Message(content, 7, "query.expril")])
    assert (reply.error.code, reply.error.reason or "") == (NOT_SERVED, "")
    assert served == []


@pytest.mark.parametrize("returned", [raise_secret, lambda _: None, lambda _: object()])
def test_a_failing_handler_is_answered_by_an_error_without_text(returned, caplog):
    with caplog.at_level(logging.DEBUG), InProcessGrid({7: make_client_app(returned)}) as grid:
        (reply,) = grid.send_and_receive([message(7)])
    assert reply.has_error()
    assert not reply.error.reason
    assert SECRET not in caplog.text


def test_run_in_process_runs_the_server_app_and_raises_what_it_raises():
    replies = {}

    def main(grid, _context):
        replies.update(FlowerCarrier(grid, {b"curator": 7}).exchange({b"curator": b"hello"}))
        raise LookupError("the study failed")

    with pytest.raises(LookupError, match="the study failed"):
        run_in_process(make_server_app(main), {7: make_client_app(bytes.upper)})
    assert replies == {b"curator": b"HELLO"}


def test_a_stock_server_app_runs_on_the_grid():
    app = ServerApp()
    found = []

    @app.main()
    def main(grid, context):
        found.extend([context.run_id, grid.run.run_id, *grid.get_node_ids()])

    run_in_process(app, {7: make_client_app(bytes)})
    assert found == [1, 1, 7]


class ScriptedGrid:
    """Brings back whatever it is told to."""

    def __init__(self, make_replies):
        self._make_replies = make_replies
        self.timeouts = []

    def send_and_receive(self, messages, *, timeout=None):
        self.timeouts.append(timeout)
        return self._make_replies(list(messages))


def test_the_carrier_leaves_out_what_is_no_reply_of_an_asked_curator():
    def reply(sent, content):
        return Message(content, reply_to=sent)

    def garbage(messages):
        by_node = {sent.metadata.dst_node_id: sent for sent in messages}
        stranger = message(99)
        return [
            reply(by_node[1], envelope(b"good")),
            reply(by_node[2], RecordDict()),
            reply(by_node[3], RecordDict({"envelope": ConfigRecord({"other": b"x"})})),
            reply(by_node[4], RecordDict({"envelope": ConfigRecord({"bytes": "text"})})),
            reply(stranger, envelope(b"from nobody")),
        ]

    nodes = {bytes([i]) * 32: i for i in range(1, 6)}
    grid = ScriptedGrid(garbage)
    replies = FlowerCarrier(grid, nodes, timeout=3.0).exchange(dict.fromkeys(nodes, b"request"))
    assert replies == {bytes([1]) * 32: b"good"}
    assert grid.timeouts == [3.0]


def test_the_carrier_leaves_out_errors_unknown_curators_and_late_ones(gate):
    handlers = {7: bytes.upper, 8: raise_secret, 9: gate}
    with InProcessGrid({node: make_client_app(handle) for node, handle in handlers.items()}) as grid:
        carrier = FlowerCarrier(grid, {b"ok": 7, b"fails": 8, b"late": 9, b"gone": 55}, timeout=PATIENCE)
        requests = dict.fromkeys([b"ok", b"fails", b"late", b"gone", b"never heard of"], b"q")
        with time_up_after(3):
            assert carrier.exchange(requests) == {b"ok": b"Q"}
        gate.opened.set()
        assert carrier.exchange({}) == {}


def test_a_certificate_of_the_folder_is_taken_and_no_other(tmp_path):
    ca = make_certificates(tmp_path)
    context = ssl.create_default_context(cafile=ca)
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    assert len(context.get_ca_certs()) == 1
    assert (tmp_path / "server.key").stat().st_mode & 0o077 == 0


def test_a_node_is_registered_by_the_file_that_flower_s_own_command_takes(superlink, tmp_path):
    write_node_key(tmp_path / "node.pem", tmp_path / "node.pub")
    number = superlink.register(tmp_path / "node.pub")
    assert superlink.nodes()[number] == "registered"
    assert (tmp_path / "node.pem").stat().st_mode & 0o077 == 0
    assert read_node_key(tmp_path / "node.pem").curve.name == "secp384r1"
    with pytest.raises(ConfigurationError, match="never overwritten"):
        write_node_key(tmp_path / "node.pem", tmp_path / "node.pub")


def test_a_port_is_given_once(monkeypatch):
    """Of two: a third call takes one elsewhere."""
    monkeypatch.setattr(superlink, "SERVICE_PORTS", range(31_998, 32_000))
    assert len({superlink.free_port() for _ in range(3)}) == 3


@pytest.mark.slow
def test_a_durable_superlink_knows_its_nodes_after_a_restart_on_the_same_port(tmp_path):
    write_node_key(tmp_path / "node.pem", tmp_path / "node.pub")
    link = SuperLink(tmp_path / "link", durable=True)
    with link:
        number = link.register(tmp_path / "node.pub")
        address = link.address
        link.kill()
        link.start()
        assert link.address == address
        assert number in link.nodes()


@pytest.mark.slow
def test_a_superlink_that_cannot_start_says_where_to_read(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other, pytest.raises(ConfigurationError, match=r"superlink\.log"):
        SuperLink(tmp_path, port=other.getsockname()[1]).start()


@pytest.mark.slow
def test_no_process_is_left(tmp_path):
    link = SuperLink(tmp_path)
    link.start()
    process = link._process
    link.stop()
    link.stop()
    assert isinstance(process, subprocess.Popen)
    assert process.poll() is not None
