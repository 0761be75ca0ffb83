"""Daemons as processes, and a learner's run at a SuperLink, as far as a test drives them by hand.

The learner's side is Flower's own, and keeps no rule of ours: an adversary would not either.
"""

import io
import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

from flwr.app import ConfigRecord, Message, RecordDict

from curator_fakes import ROWS, frame_of, policy, steward_file, toml
from curator_node.daemon.settings import DAEMON
from curator_node.records.schema_file import SCHEMA
from curator_node.site import POLICY, open_site
from curator_node.steward.new_site import init_site
from protocol.carriage import FIELD, MESSAGE_TYPE, RECORD
from simulations.carriers.superlink import free_port
from waiting import wait_for

ROOT = Path(__file__).resolve().parents[2]
PYPROJECT = """
[project]
name = "{name}"
version = "1.0.0"
license = "Apache-2.0"
description = "d"
dependencies = []
[tool.flwr.app]
publisher = "tests"
[tool.flwr.app.components]
serverapp = "shipped:server"
clientapp = "shipped:client"
"""


def make_site(folder, link, *, rules=None, steward=None, frame=None, **daemon):
    """A site's folder with records, made by the steward's own command, and let in by the SuperLink."""
    init_site(folder, "basel", superlink=link.address, ca=link.ca)
    (folder / POLICY).write_text(toml(rules or policy()))
    (folder / SCHEMA).write_text(toml(steward or steward_file()))
    (frame_of(ROWS) if frame is None else frame).write_parquet(folder / "records.parquet")
    set_daemon(folder, **{"health_port": free_port(), **daemon})
    link.register(folder / "node.pub")
    return folder


def set_daemon(folder, **settings):
    """Write settings of a site's daemon in place of those that it has."""
    lines = [line for line in (folder / DAEMON).read_text().splitlines() if line.split(" ")[0] not in settings]
    (folder / DAEMON).write_text("\n".join([*lines, *(f"{name} = {value!r}" for name, value in settings.items())]))


class Daemon:
    """`expril curator serve FOLDER` as a process; a context manager that leaves none behind.

    The process is without what the lock of a curator leaves out: so the tests show that it needs none of it.

    Attributes:
        events: of its log so far.
    """

    def __init__(self, folder, *, env=None, command=None):
        self.folder, self.env = Path(folder), env or {}
        self.command = command or [sys.executable, "-m", "expril", "curator", "serve", str(folder)]
        self.log = self.folder.parent / f"{self.folder.name}.log"
        self.process = None

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, *_):
        self.kill()

    def kill(self):
        """End it as a power failure would; harmless where it does not run."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def start(self, *, connected=True):
        """Start, and wait until it is connected."""
        before = len(self.events)
        paths = os.pathsep.join([str(ROOT), str(ROOT / "tests" / "support" / "curators_lock")])
        env = {**os.environ, "PYTHONPATH": paths, "FLWR_TELEMETRY_ENABLED": "0", **self.env}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=env)
        if connected:
            self.wait_for("connected", after=before)

    @property
    def events(self):
        """Every line of its log must be an event; what a test leaves half written is not one yet."""
        if not self.log.exists():
            return []
        text = self.log.read_text()
        return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]

    def wait_for(self, event, *, after=0, **fields):
        """The first event of this kind, with these fields, from a place in the log on."""

        def found():
            for each in self.events[after:]:
                if each["event"] == event and fields.items() <= each.items():
                    return each
            assert self.process.poll() is None or event == "stopped", self.log.read_text()
            return None

        return wait_for(found, what=f"event {event} {fields} of {self.log.read_text()[-2000:]}")

    def stop(self, how=signal.SIGTERM, seconds=60):
        """Signal it; its status."""
        self.process.send_signal(how)
        return self.process.wait(seconds)

    def settings(self):
        import tomllib

        return tomllib.loads((self.folder / DAEMON).read_text())

    def ask(self, page):
        """(status, object) of its health page."""
        import http.client

        connection = http.client.HTTPConnection("127.0.0.1", self.settings()["health_port"], timeout=60)
        try:
            connection.request("GET", page)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    @property
    def identity(self):
        """The curator's public key."""
        return bytes.fromhex(next(each for each in self.events if each["event"] == "started")["curator"])

    @property
    def node(self):
        """Flower's number of it."""
        return next(each for each in reversed(self.events) if each["event"] == "connected")["node"]

    def memory(self):
        """Most resident memory so far, in MiB."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def app_bundle(code="", name="shipped"):
    """A Flower app as `flwr run` ships one: a FAB whose module `shipped` is this code."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as bundle:
        bundle.writestr("pyproject.toml", PYPROJECT.format(name=name))
        bundle.writestr("shipped.py", code)
    return content.getvalue()


class Run:
    """A learner's run, started by the Control API and driven from this process through the Runtime API."""

    def __init__(self, link, bundle=None):
        from flwr.common.serde import context_from_proto, run_from_proto
        from flwr.proto.control_pb2 import StartRunRequest
        from flwr.proto.fab_pb2 import Fab
        from flwr.proto.runtime_pb2 import AcquireTaskRequest, PullTaskInputRequest
        from flwr.supercore.constant import TaskType
        from flwr.supercore.heartbeat import HeartbeatSender, make_task_heartbeat_fn_http
        from flwr.supercore.interceptors import (
            RuntimeTokenHttpInterceptor,
            RuntimeVersionHttpInterceptor,
            SuperExecAuthHttpInterceptor,
        )
        from flwr.supercore.runtime import RuntimeHttpClient
        from flwr.superlink.grid.http_grid import HttpGrid

        ca = link.ca.read_bytes()
        with link.control() as control:
            self.number = control.StartRun(StartRunRequest(fab=Fab(content=bundle or app_bundle()))).run_id
        assert self.number, link.log.read_text()[-3000:]
        auth = SuperExecAuthHttpInterceptor(
            master_secret=link.secret.read_bytes(), protected_methods=frozenset({"/flwr.proto.Runtime/AcquireTask"})
        )
        version = RuntimeVersionHttpInterceptor(component_name="SuperExec")
        with RuntimeHttpClient.from_server_address(link.address, False, ca, [version, auth]) as client:

            def acquired():
                """Another run's task may be older; Flower gives it to somebody else later."""
                task = client.AcquireTask(AcquireTaskRequest(supported_task_types=[TaskType.SERVER_APP]))
                return task.token if task.HasField("task") and task.task.run_id == self.number else ""

            token = wait_for(acquired, what="a task")
        version = RuntimeVersionHttpInterceptor(component_name="flwr-serverapp")
        interceptors = [version, RuntimeTokenHttpInterceptor(token)]
        self.client = RuntimeHttpClient.from_server_address(link.address, False, ca, interceptors)
        self.heart = HeartbeatSender(make_task_heartbeat_fn_http(self.client))
        self.heart.start()
        given = self.client.PullTaskInput(PullTaskInputRequest())
        self.context, run = context_from_proto(given.context), run_from_proto(given.run)
        assert run.run_id == self.number
        self.task = given.task_id
        self._identify()
        self.grid = HttpGrid(link.address, False, ca, token=token)
        self.grid.set_run(run)

    def _identify(self):
        """Flower keeps one run's numbers for the whole process; a test may have several runs."""
        from flwr.supercore.task_identity import TaskIdentity

        TaskIdentity.task_id, TaskIdentity.run_id = self.task, self.number
        TaskIdentity.node_id = self.context.node_id

    def nodes(self, count=1):
        """Numbers of the nodes that are there."""
        return wait_for(lambda: len(found := list(self.grid.get_node_ids())) >= count and found, what="nodes")

    def push(self, node, content, kind=MESSAGE_TYPE, ttl=120.0):
        """Send a message; Flower's number of it."""
        self._identify()
        return next(iter(self.grid.push_messages([Message(content, node, kind, ttl=ttl)])))

    def pull(self, message, seconds=120.0):
        """Its reply."""
        return wait_for(lambda: next(iter(self.grid.pull_messages([message])), None), seconds, "a reply")

    def request(self, node, data):
        """One envelope; the message of its reply."""
        return self.pull(self.push(node, RecordDict({RECORD: ConfigRecord({FIELD: data})})))

    def close(self):
        import httpx
        from flwr.common.constant import SubStatus
        from flwr.common.serde import context_to_proto
        from flwr.proto.runtime_pb2 import PushTaskOutputRequest

        if self.heart.is_running:
            self.heart.stop()
        output = PushTaskOutputRequest(
            context=context_to_proto(self.context), sub_status=SubStatus.COMPLETED, details=""
        )
        try:
            self.client.PushTaskOutput(output)
        except httpx.HTTPError:
            pass  # the SuperLink was restarted, and has forgotten the run
        finally:
            self.grid.close()
            self.client.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Remote:
    """A curator at a node, for whoever takes one with `identity` and `handle`."""

    def __init__(self, run, node, identity):
        self.run, self.node, self.identity = run, node, identity

    def handle(self, data):
        return self.run.request(self.node, data).content[RECORD][FIELD]


def now():
    """The learner's clock: a daemon's is the machine's."""
    return int(time.time())


def ledger_of(folder):
    """The ledger of a site that no process serves, checked."""
    with open_site(folder) as site:
        return site.export()
