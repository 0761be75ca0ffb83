"""A curator's node at a SuperLink: Flower's Fleet API, spoken without Flower's SuperNode.

This file has no call that fetches an app, so an app that somebody sends cannot run. Only data is fetched: a Flower
message whose one bytes value goes to the installed ClientApp. A short one has that value inside, and is answered in the
same way, by two calls in all. Any other message follows in three objects. Each answer of the SuperLink is read only
up to the length that such an answer may have.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from flwr.app import Context, Error, Message, RecordDict

from curator_node.client_app import NOT_SERVED, make_client_app
from curator_node.daemon.calls import (
    CALL_SECONDS,
    GoneError,
    NotLetInError,
    Sender,
    SuperLinkDownError,
    TooLargeError,
    call_for_message,
    call_for_node,
    retry,
    tls_context,
)
from curator_node.daemon.node_key import read_node_key
from protocol.carriage import FIELD, MOST_INSIDE, RECORD
from protocol.flower_internals import (
    ActivateNodeRequest,
    ConfirmMessageReceivedRequest,
    DeactivateNodeRequest,
    FleetHttpClient,
    Node,
    ObjectTree,
    PullMessagesRequest,
    PullObjectRequest,
    PushMessagesRequest,
    PushObjectRequest,
    RegisterNodeFleetRequest,
    SendNodeHeartbeatRequest,
    get_all_nested_objects,
    get_object_tree,
    inflate_object_from_contents,
    iterate_object_tree,
    message_from_proto,
    message_to_proto,
    no_object_id_recompute,
    public_key_to_bytes,
    remove_content_from_message,
)

HEARTBEAT_SECONDS = 10.0
"""The promised interval between beats, Flower's least. A node that stays silent twice as long counts as gone."""
RUN_SECONDS = 600.0
"""Seconds after a run's last message when this node asks whether the run has ended."""
MOST_OBJECTS = 8
"""A message of ours has three objects: message, record dictionary, record."""
ROOM = 64 * 1024
"""The most bytes that Flower adds to an envelope, and the longest answer that carries no envelope."""


@dataclass
class Parcel:
    """A message on its way in."""

    tree: Any  # of its objects' names
    message: Any  # without content until all objects are there
    until: float  # after which nobody waits for the reply, by `time.time`
    objects: dict[str, bytes] = field(default_factory=dict)  # those that are there
    size: int = 0  # bytes of these
    inside: bool = False  # whether the content came inside the message, without objects

    @property
    def name(self) -> str:
        """Flower's name of the message."""
        return str(self.tree.object_id)

    @property
    def run(self) -> int:
        """Flower's number of the learner's run."""
        return int(self.message.metadata.run_id)

    @property
    def payload(self) -> object:
        """The request's bytes; None if the message holds none at the expected place."""
        try:
            return self.message.content[RECORD][FIELD]
        except (KeyError, TypeError, ValueError):
            return None


class Link(NamedTuple):
    """How a SuperLink is reached."""

    address: str  # "host:port"
    ca: Path | None  # file of the authority that certifies it; None speaks without TLS, on this machine only
    key: Path  # file of this node's private key


class Fleet:
    """One node of a SuperLink. Several threads may fetch and answer, but only one may enter, pull and beat.

    Args:
        link: how the SuperLink is reached.
        handle: a curator's `handle(bytes) -> bytes`.

    Attributes:
        most_bytes: length of the longest envelope that is read; it may be changed.
        node: Flower's number of this node; 0 before it was let in.

    Raises:
        ConfigurationError: key or certificate cannot be read.
    """

    def __init__(self, link: Link, handle: Callable[[bytes], bytes], *, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.node = 0
        self._app = make_client_app(handle)
        self._runs: dict[int, tuple[Parcel, float]] = {}
        private = read_node_key(link.key)
        self._public = public_key_to_bytes(private.public_key())
        verify = tls_context(link.ca) if link.ca is not None else False
        self._http = httpx.Client(verify=verify, timeout=CALL_SECONDS, follow_redirects=False, trust_env=False)
        base = f"{'http' if link.ca is None else 'https'}://{link.address}"
        sender = Sender(self._http, private, self._limit)
        self._client = FleetHttpClient(base, interceptors=[sender], verify=verify, timeout=CALL_SECONDS)

    def enter(self, last: int = 0) -> int:
        """Have the SuperLink let this node in. Returns the node's number.

        Args:
            last: the number of this node's previous process; 0 if it is not known. The SuperLink believes for a while
                that a killed process is alive; its successor with the same key may go on under its number.

        Raises:
            NotLetInError, SuperLinkDownError: the node is not let in now.
        """
        request = ActivateNodeRequest(public_key=self._public, heartbeat_interval=HEARTBEAT_SECONDS)
        try:
            self.node = int(call_for_node(self._client.ActivateNode, request).node_id)
        except NotLetInError:
            if last and self._beat_as(last):
                self.node = last
            elif self._register():
                self.node = int(call_for_node(self._client.ActivateNode, request).node_id)
            else:
                raise
        return self.node

    def beat(self) -> None:
        """Tell the SuperLink that this node is alive; due every `HEARTBEAT_SECONDS`.

        A call about a run that has ended, even by a learner's crash, has the SuperLink clear what it keeps of the run.

        Raises:
            NotLetInError, SuperLinkDownError: the SuperLink did not take it.
        """
        request = SendNodeHeartbeatRequest(node=Node(node_id=self.node), heartbeat_interval=HEARTBEAT_SECONDS)
        if not call_for_node(self._client.SendNodeHeartbeat, request).success:
            raise NotLetInError("heartbeat")
        now = time.monotonic()
        for parcel, since in list(self._runs.values()):
            if now - since > RUN_SECONDS:
                del self._runs[parcel.run]
                with suppress(GoneError):
                    self._confirm(parcel)

    def pull(self) -> Parcel | None:
        """The next message for this node, without its content; None where there is none.

        Raises:
            NotLetInError, SuperLinkDownError: nothing can be pulled now.
            TooLargeError: the message has too many parts. The SuperLink will not hand it out again.
        """
        response = call_for_node(self._client.PullMessages, PullMessagesRequest(node=Node(node_id=self.node)))
        if not response.messages_list or not response.message_object_trees:
            return None
        message = message_from_proto(response.messages_list[0])
        until = message.metadata.created_at + message.metadata.ttl
        inside = message.has_content() and bool(message.content)
        parcel = Parcel(response.message_object_trees[0], message, until, inside=inside)
        self._runs[parcel.run] = replace(parcel, message=remove_content_from_message(message)), time.monotonic()
        return parcel

    def fetch(self, parcel: Parcel) -> bool:
        """Fetch what a message still lacks; True once all of it is there.

        Raises:
            TooLargeError: the message has more, or larger, objects than a request of ours.
            GoneError: the SuperLink has lost the message, or its run has ended.
            SuperLinkDownError: nothing can be fetched now.
        """
        if parcel.inside:
            parcel.size = len(parcel.payload) if isinstance(parcel.payload, bytes) else 0
            if parcel.size > self.most_bytes:
                raise TooLargeError
            return True
        names = dict.fromkeys(tree.object_id for tree in iterate_object_tree(parcel.tree))
        if len(names) > MOST_OBJECTS:
            raise TooLargeError
        try:
            if not all(self._fetch_object(parcel, name) for name in names):
                return False
        except TooLargeError:
            with suppress(GoneError, SuperLinkDownError):
                self._confirm(parcel)
            raise
        self._confirm(parcel)
        content = inflate_object_from_contents(parcel.name, parcel.objects)
        if content.has_content():
            parcel.message.content = content.content
        return True

    def app_reply(self, parcel: Parcel) -> Any:
        """The installed ClientApp's reply to a whole message.

        Raises:
            Exception: the app does not serve messages of this type, or Flower fails.
        """
        context = Context(run_id=parcel.run, node_id=self.node, node_config={}, state=RecordDict(), run_config={})
        return self._app(parcel.message, context)

    @staticmethod
    def error_reply(parcel: Parcel) -> Any:
        """A reply that is an error without text."""
        return Message(Error(NOT_SERVED, ""), reply_to=parcel.message)

    def send(self, parcel: Parcel, reply: Any, *, patience: Callable[[], bool]) -> None:
        """Send the reply to a message, again and again until it is taken, as long as there is patience.

        The reply does not say how long the app took, which could depend on the records.

        Raises:
            GoneError: nobody waits for the reply any more.
            SuperLinkDownError: the reply could not be sent in time.
        """
        node = Node(node_id=self.node)
        reply.metadata.__dict__["_message_id"] = reply.object_id  # as Flower's own SuperNode does
        with no_object_id_recompute():
            if parcel.inside and _length(reply) <= MOST_INSIDE:
                tree, objects, sent = ObjectTree(object_id=reply.object_id), {}, reply
            else:
                tree, objects = get_object_tree(reply), get_all_nested_objects(reply)
                sent = remove_content_from_message(reply) if reply.has_content() else reply
            push = PushMessagesRequest(
                node=node,
                messages_list=[message_to_proto(sent)],
                message_object_trees=[tree],
                clientapp_runtime_list=[0.0],
            )
            response = retry(lambda: call_for_message(self._client.PushMessages, push), patience)
            lacking = set(response.objects_to_push)
            for name, content in objects.items():
                if name not in lacking:
                    continue
                request = PushObjectRequest(
                    node=node,
                    run_id=parcel.run,
                    object_id=name,
                    object_content=content.deflate(),
                    session_id=response.session_id,
                )
                push_object = partial(call_for_message, self._client.PushObject, request)
                if not retry(push_object, patience).stored:
                    raise GoneError("session")

    def leave(self) -> None:
        """Sign this node off, so that it can come back at once. A second call does no harm."""
        if self.node:
            try:
                call_for_node(self._client.DeactivateNode, DeactivateNodeRequest(node_id=self.node))
            except SuperLinkDownError:
                return

    def close(self) -> None:
        """Release the connections."""
        self._client.close()
        self._http.close()

    def _fetch_object(self, parcel: Parcel, name: str) -> bool:
        """Fetch one object; True if it is there. Raises as `fetch`."""
        if name in parcel.objects:
            return True
        request = PullObjectRequest(node=Node(node_id=self.node), run_id=parcel.run, object_id=name)
        response = call_for_message(self._client.PullObject, request)
        if not response.object_found:
            raise GoneError("object")
        if not response.object_available:
            return False
        parcel.objects[name] = response.object_content
        parcel.size += len(response.object_content)
        if parcel.size > self.most_bytes + ROOM:
            raise TooLargeError
        return True

    def _confirm(self, parcel: Parcel) -> None:
        """Tell the SuperLink that it need not keep a message's objects; raises as `fetch`."""
        request = ConfirmMessageReceivedRequest(
            node=Node(node_id=self.node), run_id=parcel.run, message_object_id=parcel.name
        )
        call_for_message(self._client.ConfirmMessageReceived, request)

    def _beat_as(self, last: int) -> bool:
        self.node = last
        try:
            self.beat()
        except NotLetInError:
            return False
        return True

    def _register(self) -> bool:
        """Register this node, if the SuperLink lets any node in. Otherwise a person registers it."""
        try:
            call_for_node(self._client.RegisterNode, RegisterNodeFleetRequest(public_key=self._public))
        except NotLetInError:
            return False
        return True

    def _limit(self, message: object) -> int:
        if isinstance(message, PullObjectRequest):
            return self.most_bytes + ROOM
        return MOST_INSIDE + ROOM if isinstance(message, PullMessagesRequest) else ROOM


def _length(reply: Any) -> int:
    """Bytes of a reply's envelope; 0 for an error."""
    return len(reply.content[RECORD][FIELD]) if reply.has_content() else 0
