"""A learner's run on a SuperLink, driven by the learner's own process: none of it is executed anywhere else.

Flower starts a run from an app bundle (FAB), and whoever holds the SuperLink's secret may fetch the run's task. Our
bundle holds a random text and no code, so its hash is unique to this run. A learner fetches the task by that hash, so
it never takes the task of another learner or of a foreign app.
"""

import hashlib
import io
import secrets
import ssl
import threading
import time
import zipfile
from collections import ChainMap, deque
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeVar

import httpx
from flwr.app import ConfigRecord, Message, Metadata, RecordDict

from learner_node.study.federation import UnfinishedError
from protocol import flower_internals as flower
from protocol.carriage import FIELD, MESSAGE_TYPE, MOST_INSIDE, RECORD
from protocol.errors import ConfigurationError, printable

ACQUIRE = "/flwr.proto.Runtime/AcquireTask"
HEARTBEAT_SECONDS = 10.0
"""Seconds between heartbeats. Flower gives a task up after 60 seconds without one."""
TAKEN_SECONDS = 20.0
"""Seconds after which a task that the learner cannot fetch must have been taken by another program."""
SECOND = 1.0
PULLING = {"initial_backoff": 0.02, "backoff_cap": 0.2}
"""Seconds between two tries to fetch a message that was not sent yet. Flower's own first wait is a second."""
MOST_MESSAGES = 10_000
"""Most messages of a run: a SuperLink keeps about two kilobytes of each until the run ends."""
OBJECTS_SECONDS = 1.0
"""Seconds that a node has to answer a message with its content inside, before the objects of that content follow."""
_DENIED = (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN)
_EPOCH = (1980, 1, 1, 0, 0, 0)

Answer = TypeVar("Answer")


class AwayError(Exception):
    """The SuperLink cannot be reached just now."""


class RunLostError(Exception):
    """The SuperLink no longer knows this run: it was restarted, or gave the run up."""


class SuperLinkError(UnfinishedError):
    """The SuperLink does not do what was asked; the text says what to do."""

    kind = "network"


@dataclass(frozen=True)
class SuperLinkAddress:
    """Where a SuperLink is, and what a learner needs there."""

    address: str  # "host:port"
    ca: bytes | None  # PEM of the authority that certifies it; None takes the public ones
    secret: bytes = field(repr=False)  # for fetching the tasks of runs (its `--superexec-auth-secret-file`)


@dataclass(frozen=True)
class Arrival:
    """What came back for a message."""

    message: str  # identity of the message that it answers
    data: bytes | None  # the reply's bytes; None where the node failed, or sent no envelope


def empty_app(nonce: str) -> bytes:
    """An app bundle without code. `nonce` makes its hash unique to this run."""
    text = f"""[build-system]
requires = []
build-backend = "none"

[project]
name = "expril-study"
version = "1.0.0"
description = "Holds no code: the learner drives this run from its own machine. {nonce}"
license = "Apache-2.0"

[tool.flwr.app]
publisher = "expril"

[tool.flwr.app.components]
serverapp = "expril_holds_no_code:app"
clientapp = "expril_holds_no_code:app"

[tool.flwr.app.config]
"""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as bundle:
        bundle.writestr(zipfile.ZipInfo("pyproject.toml", _EPOCH), text)
    return file.getvalue()


class _Form(Enum):
    """How a message's content travels."""

    INSIDE = "inside the message"
    OBJECTS = "in objects, one call each"
    BOTH = "inside, and in objects if its node does not answer soon"


@dataclass
class _Reserve:
    """Messages that were pushed with their content inside, and whose objects follow if the nodes answer nothing."""

    objects: dict[str, dict[str, Any]]  # message -> its objects by name
    receipt: Any
    due: float  # by the monotonic clock


class LearnerRun:
    """A run whose task this process holds. `start_run` makes it; call `finish` at the end.

    A short envelope travels inside its message. A node that is not known to read it there gets its objects a second
    later, as Flower's own nodes need them.

    `run_id` is Flower's number. `lost` is True once the SuperLink said that it no longer knows the task.
    """

    def __init__(self, link: SuperLinkAddress, client: Any, run_id: int, task_id: int, node_id: int) -> None:
        self.run_id = run_id
        self.lost = False
        self._left = MOST_MESSAGES
        self._link = link
        self._client = client
        self._task_id = task_id
        self._node_id = node_id
        self._node = flower.Node(node_id=flower.SUPERLINK_NODE_ID)
        self._unconfirmed: list[str] = []
        self._forms: dict[int, _Form] = {}  # node -> how it is known to read a short request
        self._reserves: list[_Reserve] = []
        self._done = threading.Event()
        self._beats = threading.Thread(target=self._beat, name="superlink heartbeat", daemon=True)
        self._beats.start()

    @property
    def used_up(self) -> bool:
        """Whether another run should take over: a SuperLink keeps a name of each message until the run ends."""
        return self._left <= 0

    def nodes(self) -> set[int]:
        """The nodes that are online."""
        reply = _call(lambda: self._client.GetNodes(flower.GetNodesRequest()))
        return {int(node.node_id) for node in reply.nodes}

    def push(self, envelopes: Sequence[tuple[int, bytes]], *, ttl: float) -> list[str]:
        """Send (node, envelope) pairs; undelivered ones expire after `ttl` seconds.

        Returns the message ids under which replies arrive, "" for a message that the SuperLink did not take. Raises
        AwayError, RunLostError or SuperLinkError: not all were sent.
        """
        messages = [self._message(node, data, ttl) for node, data in envelopes]
        forms = [self._form(node, data) for node, data in envelopes]
        names = _call(lambda: self._push(messages, forms)) if messages else []
        self._left -= len(messages)
        with suppress(AwayError, RunLostError, SuperLinkError):
            _call(self._confirm)  # while the nodes are at work
        return names

    def pull(self, messages: Collection[str]) -> list[Arrival]:
        """Return the replies that have arrived for some messages, each once.

        Raises AwayError, RunLostError or SuperLinkError: nothing could be fetched.
        """
        if not messages:
            return []
        return _call(lambda: self._pull(list(messages)))

    def finish(self) -> None:
        """Report the end of the run; an unreachable SuperLink finds out by itself."""
        self._done.set()
        try:
            output = flower.PushTaskOutputRequest(sub_status=flower.SubStatus.COMPLETED, details="")
            if not self.lost:
                _call(lambda: self._client.PushTaskOutput(output))
                _call(self._clear)
        except (AwayError, RunLostError, SuperLinkError):
            pass
        finally:
            self._beats.join()
            self._client.close()

    def drop(self) -> None:
        """Release a run that is lost."""
        self.lost = True
        self.finish()

    def _message(self, node: int, data: bytes, ttl: float) -> Message:
        metadata = Metadata(
            run_id=self.run_id,
            message_id="",
            src_node_id=self._node_id,
            dst_node_id=node,
            reply_to_message_id="",
            group_id="",
            created_at=time.time(),
            ttl=ttl,
            message_type=MESSAGE_TYPE,
            src_task_id=self._task_id,
        )
        metadata.delivered_at = ""
        return Message(metadata=metadata, content=RecordDict({RECORD: ConfigRecord({FIELD: data})}))

    def _form(self, node: int, data: bytes) -> _Form:
        if len(data) > MOST_INSIDE:
            return _Form.OBJECTS
        return self._forms.get(node, _Form.BOTH)

    def _push(self, messages: list[Message], forms: list[_Form]) -> list[str]:
        with flower.no_object_id_recompute():
            protos, trees = [], []
            objects: dict[str, Any] = {}
            reserve: dict[str, dict[str, Any]] = {}
            for message, form in zip(messages, forms, strict=True):
                name = message.metadata.__dict__["_message_id"] = message.object_id
                bare = flower.remove_content_from_message(message) if form is _Form.OBJECTS else message
                protos.append(flower.message_to_proto(bare))
                if form is _Form.INSIDE:
                    trees.append(flower.ObjectTree(object_id=name))
                    continue
                trees.append(flower.get_object_tree(message))
                parts = flower.get_all_nested_objects(message)
                if form is _Form.OBJECTS:
                    objects |= parts
                else:
                    reserve[name] = parts
            request = flower.PushAppMessagesRequest(messages_list=protos, message_object_trees=trees)
            receipt = self._client.PushMessages(request)
        if reserve:
            self._reserves.append(_Reserve(reserve, receipt, time.monotonic() + OBJECTS_SECONDS))
        self._push_objects(objects, receipt)
        return [str(name) for name in receipt.message_ids]

    def _push_objects(self, objects: dict[str, Any], receipt: Any) -> None:
        """Push those of some messages' objects that the receipt for the messages asks for."""
        send = flower.make_push_object_fn_protobuf(
            push_object_protobuf=self._client.PushObject,
            node=self._node,
            run_id=self.run_id,
            session_id=receipt.session_id,
        )
        if objects:
            with flower.no_object_id_recompute():
                flower.push_objects(objects, send, object_ids_to_push=set(receipt.objects_to_push))

    def _pull(self, messages: list[str]) -> list[Arrival]:
        reply = self._client.PullMessages(flower.PullAppMessagesRequest(message_ids=messages))
        arrived, followed = [], []
        for proto, tree in zip(reply.messages_list, reply.message_object_trees, strict=True):
            node, answered = int(proto.metadata.src_node_id), str(proto.metadata.reply_to_message_id)
            for reserve in self._reserves:
                reserve.objects.pop(answered, None)
            if proto.HasField("error"):
                self._forms.pop(node, None)
                arrived.append(Arrival(answered, None))
            elif proto.content.items:
                self._forms[node] = _Form.INSIDE
                arrived.append(Arrival(answered, _envelope(flower.message_from_proto(proto))))
            else:
                self._forms.setdefault(node, _Form.OBJECTS)  # a long reply says nothing of how requests are read
                followed.append((proto.metadata, [part.object_id for part in flower.iterate_object_tree(tree)]))
        arrived += self._fetch(followed)
        late = [reserve for reserve in self._reserves if reserve.due <= time.monotonic()]
        self._reserves = [reserve for reserve in self._reserves if reserve.objects and reserve not in late]
        for reserve in late:
            self._push_objects(dict(ChainMap(*reserve.objects.values())), reserve.receipt)
        return arrived

    def _fetch(self, replies: list[tuple[Any, list[str]]]) -> list[Arrival]:
        """Pull the objects of replies, given by their metadata and their objects' names."""
        fetch = flower.make_pull_object_fn_protobuf(
            pull_object_protobuf=self._client.PullObject, node=self._node, run_id=self.run_id
        )
        parts: dict[str, bytes] = {}
        with suppress(flower.ObjectPullError):  # one sender died before it had sent all; the others are asked for apart
            parts = flower.pull_objects([name for _, names in replies for name in names], fetch, **PULLING)
        arrived = []
        for metadata, names in replies:
            try:
                contents = (
                    {name: parts[name] for name in names} if parts else flower.pull_objects(names, fetch, **PULLING)
                )
            except flower.ObjectPullError:
                arrived.append(Arrival(metadata.reply_to_message_id, None))
                continue
            message = flower.inflate_object_from_contents(metadata.message_id, contents)
            self._unconfirmed.append(metadata.message_id)
            arrived.append(Arrival(metadata.reply_to_message_id, _envelope(message)))
        return arrived

    def _confirm(self) -> None:
        """Let the SuperLink delete the objects of replies that have arrived."""
        while self._unconfirmed:
            confirmation = flower.ConfirmMessageReceivedRequest(
                node=self._node, run_id=self.run_id, message_object_id=self._unconfirmed.pop()
            )
            self._client.ConfirmMessageReceived(confirmation)

    def _clear(self) -> None:
        """Have the SuperLink clear what it keeps of the run, which it does for whoever reads an ended run's log."""
        request = flower.StreamLogsRequest(run_id=self.run_id, after_timestamp=0.0)
        with flower.ControlHttpClient.from_server_address(self._link.address, False, self._link.ca, ()) as control:
            deque(control.StreamLogs(request), maxlen=0)

    def _beat(self) -> None:
        while not self._done.wait(HEARTBEAT_SECONDS):
            try:
                beat = _call(lambda: self._client.SendTaskHeartbeat(flower.SendTaskHeartbeatRequest()))
                self.lost = not beat.success
            except RunLostError:
                self.lost = True
            except (AwayError, SuperLinkError):
                continue
            if self.lost:
                return


def start_run(link: SuperLinkAddress) -> LearnerRun:
    """Start a run and take its task.

    Raises:
        AwayError: the SuperLink cannot be reached just now.
        ConfigurationError: the SuperLink's certificate or the secret is wrong.
        SuperLinkError: the SuperLink starts no run, or another program takes the run's task.
    """
    bundle = empty_app(secrets.token_hex(16))
    name = hashlib.sha256(bundle).hexdigest()
    with flower.ControlHttpClient.from_server_address(link.address, False, link.ca, ()) as control:
        request = flower.StartRunRequest(fab=flower.Fab(hash_str=name, content=bundle))
        try:
            run_id = int(_call(lambda: control.StartRun(request)).run_id)
        except RunLostError:
            raise SuperLinkError(
                f"the SuperLink {link.address} starts runs for its own accounts only; ask who keeps it for one without "
                "(curators know a learner by its signature)"
            ) from None
    if not run_id:
        raise SuperLinkError(f"the SuperLink {link.address} starts no run; ask who keeps it")
    token = _take(link, run_id, name)
    client = flower.RuntimeHttpClient.from_server_address(
        link.address, False, link.ca, [flower.RuntimeTokenHttpInterceptor(token)]
    )
    try:
        task = _call(lambda: client.PullTaskInput(flower.PullTaskInputRequest()))
    except BaseException:
        client.close()
        raise
    return LearnerRun(link, client, run_id, int(task.task_id), int(task.context.node_id))


def _take(link: SuperLinkAddress, run_id: int, bundle: str) -> str:
    """Fetch the token of the run's task.

    A task of another run is left alone: Flower reassigns it after half a minute unless its input is pulled.
    """
    sign = flower.SuperExecAuthHttpInterceptor(master_secret=link.secret, protected_methods=frozenset({ACQUIRE}))
    request = flower.AcquireTaskRequest(agentapp_fab_hashes=[bundle])
    end = time.monotonic() + TAKEN_SECONDS
    with flower.RuntimeHttpClient.from_server_address(link.address, False, link.ca, [sign]) as client:
        while True:
            try:
                reply = _call(lambda: client.AcquireTask(request))
            except RunLostError:
                raise ConfigurationError(
                    f"the SuperLink {link.address} does not take the secret; ask who keeps it for its "
                    "--superexec-auth-secret-file"
                ) from None
            if reply.HasField("task") and reply.token and reply.task.run_id == run_id:
                return str(reply.token)
            if time.monotonic() > end:
                raise SuperLinkError(
                    f"another program took the task of this study's run on the SuperLink {link.address}; no SuperExec "
                    "may run beside it (flower-superlink --isolation process)"
                )
            time.sleep(0.1)


def _envelope(message: Message) -> bytes | None:
    if message.has_error():
        return None
    data = message.content.get(RECORD, {}).get(FIELD)
    return data if isinstance(data, bytes) else None


def _call(ask: Callable[[], Answer]) -> Answer:
    """Call the SuperLink; Flower's and HTTP's errors become ours."""
    try:
        return ask()
    except httpx.HTTPStatusError as error:
        status = error.response.status_code
        if status in _DENIED:
            raise RunLostError from None
        if status >= httpx.codes.INTERNAL_SERVER_ERROR:
            raise AwayError from None
        raise SuperLinkError(
            f"the SuperLink says no ({status}): {printable(error.response.text)}; both sides need Flower 1.41"
        ) from None
    except httpx.TransportError as error:
        if _not_certified(error):
            raise ConfigurationError(
                "the SuperLink's certificate is not by the authority that was named, or not for this host; ask who "
                "keeps it for its CA file"
            ) from None
        raise AwayError from None


def _not_certified(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        error = error.__cause__ or error.__context__
    return False
