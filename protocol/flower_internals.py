"""All names from Flower's internals that ExPriL uses, in one table: pinned to flwr 1.41, loaded when first used.

Flower promises none of these names. A test holds that `moved` is empty, so an update of Flower that moves a name is
noticed. `from protocol.flower_internals import HttpGrid` loads only the module that has `HttpGrid`, so a curator never
loads what only a learner needs.
"""

from importlib import import_module
from typing import Any

WHERE = {
    # how a message travels
    "message_from_proto": "flwr.common.serde",
    "message_to_proto": "flwr.common.serde",
    "NodeInfo": "flwr.proto.node_pb2",
    "ObjectTree": "flwr.proto.message_pb2",
    "Run": "flwr.supercore.run",
    "TaskIdentity": "flwr.supercore.task_identity",
    # a node's side of a SuperLink
    "FLEET_HTTP_PUBLIC_KEY_HEADER": "flwr.supercore.constant",
    "FLEET_HTTP_SIGNATURE_HEADER": "flwr.supercore.constant",
    "FLWR_COMPONENT_NAME_METADATA_KEY": "flwr.supercore.constant",
    "FLWR_PACKAGE_NAME_METADATA_KEY": "flwr.supercore.constant",
    "FLWR_PACKAGE_VERSION_METADATA_KEY": "flwr.supercore.constant",
    "TIMESTAMP_HEADER": "flwr.common.constant",
    "package_name": "flwr.supercore.version",
    "package_version": "flwr.supercore.version",
    "sign_message": "flwr.supercore.primitives.asymmetric",
    "ActivateNodeRequest": "flwr.proto.fleet_pb2",
    "ConfirmMessageReceivedRequest": "flwr.proto.message_pb2",
    "DeactivateNodeRequest": "flwr.proto.fleet_pb2",
    "FleetHttpClient": "flwr.supernode.fleet_http_client",
    "Node": "flwr.proto.node_pb2",
    "PullMessagesRequest": "flwr.proto.fleet_pb2",
    "PullObjectRequest": "flwr.proto.message_pb2",
    "PushMessagesRequest": "flwr.proto.fleet_pb2",
    "PushObjectRequest": "flwr.proto.message_pb2",
    "RegisterNodeFleetRequest": "flwr.proto.fleet_pb2",
    "SendNodeHeartbeatRequest": "flwr.proto.heartbeat_pb2",
    "get_all_nested_objects": "flwr.supercore.inflatable.inflatable_object",
    "get_object_tree": "flwr.supercore.inflatable.inflatable_object",
    "inflate_object_from_contents": "flwr.supercore.inflatable.inflatable_utils",
    "iterate_object_tree": "flwr.supercore.inflatable.inflatable_object",
    "no_object_id_recompute": "flwr.supercore.inflatable.inflatable_object",
    "public_key_to_bytes": "flwr.supercore.primitives.asymmetric",
    "remove_content_from_message": "flwr.app.message",
    # what a SuperLink is asked by who keeps it
    "ControlHttpClient": "flwr.supercore.control",
    "ListNodesRequest": "flwr.proto.control_pb2",
    "RegisterNodeRequest": "flwr.proto.control_pb2",
    # how a learner starts a run and takes its task
    "AcquireTaskRequest": "flwr.proto.runtime_pb2",
    "Fab": "flwr.proto.fab_pb2",
    "GetNodesRequest": "flwr.proto.runtime_pb2",
    "ObjectPullError": "flwr.supercore.inflatable.inflatable_utils",
    "PullAppMessagesRequest": "flwr.proto.runtime_pb2",
    "PullTaskInputRequest": "flwr.proto.runtime_pb2",
    "PushAppMessagesRequest": "flwr.proto.runtime_pb2",
    "PushTaskOutputRequest": "flwr.proto.runtime_pb2",
    "RuntimeHttpClient": "flwr.supercore.runtime",
    "RuntimeTokenHttpInterceptor": "flwr.supercore.interceptors",
    "SUPERLINK_NODE_ID": "flwr.common.constant",
    "SendTaskHeartbeatRequest": "flwr.proto.runtime_pb2",
    "StartRunRequest": "flwr.proto.control_pb2",
    "StreamLogsRequest": "flwr.proto.control_pb2",
    "SubStatus": "flwr.common.constant",
    "SuperExecAuthHttpInterceptor": "flwr.supercore.interceptors",
    # how a message's parts travel over HTTP
    "make_pull_object_fn_protobuf": "flwr.supercore.inflatable.inflatable_protobuf_utils",
    "make_push_object_fn_protobuf": "flwr.supercore.inflatable.inflatable_protobuf_utils",
    "pull_objects": "flwr.supercore.inflatable.inflatable_utils",
    "push_objects": "flwr.supercore.inflatable.inflatable_utils",
}
"""Name -> Flower's module that defines it."""


def moved() -> dict[str, str]:
    """The names that the installed Flower no longer has, each with the module that had it."""
    return {name: module for name, module in WHERE.items() if not _there(name, module)}


def __getattr__(name: str) -> Any:
    if name not in WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(WHERE[name]), name)


def _there(name: str, module: str) -> bool:
    try:
        return hasattr(import_module(module), name)
    except ImportError:
        return False
