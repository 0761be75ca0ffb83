"""All that ExPriL takes of Flower beyond its public API, in one table: pinned to flwr 1.41, loaded when first used.

Flower promises none of these names. `moved` says which are gone, and a test names them when Flower is updated.
`from protocol.flower_internals import HttpGrid` loads that module of Flower and no other, so a curator never loads what
only a learner needs. Nothing here does anything: what uses these names is in `curator_node` and `learner_node`.
"""

from importlib import import_module
from typing import Any

WHERE = {
    # how a message travels
    "message_from_proto": "flwr.common.serde",
    "message_to_proto": "flwr.common.serde",
    "NodeInfo": "flwr.proto.node_pb2",
    "Run": "flwr.supercore.run",
    "TaskIdentity": "flwr.supercore.task_identity",
    # what a SuperLink is asked by who keeps it
    "ControlHttpClient": "flwr.supercore.control",
    "ListNodesRequest": "flwr.proto.control_pb2",
    "RegisterNodeRequest": "flwr.proto.control_pb2",
}
"""Name -> Flower's module that holds it."""


def moved() -> dict[str, str]:
    """Names that the installed Flower no longer has, and where they were."""
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
