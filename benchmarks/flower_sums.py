"""Flower's secure aggregation in process: its workflow and its client mod, between them its own serialisation.

Nothing of it is rewritten. The grid calls the clients one after the other; what they send is fixed, and nobody trains.
"""

import logging
import os
from collections.abc import Callable, Iterable
from typing import Any

os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")

import numpy as np
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.client.mod import secaggplus_mod
from flwr.common import Code, FitIns, FitRes, Status, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.compat.common import recorddict_compat as compat
from flwr.server import LegacyContext, ServerConfig
from flwr.server.workflow import SecAggPlusWorkflow
from flwr.server.workflow.constant import MAIN_CONFIGS_RECORD, MAIN_PARAMS_RECORD, Key
from flwr.serverapp import Grid
from numpy.typing import NDArray

from protocol.flower_internals import TaskIdentity, message_from_proto, message_to_proto

FIRST_NODE = 100


def mean_of(vectors: NDArray[np.float64], threshold: int) -> NDArray[np.float64]:
    """Flower's aggregate of one vector a client, (clients, values) -> (values,), to within its quantisation.

    Args:
        vectors: within -8 to 8.
        threshold: shares that give a secret back.
    """
    logging.getLogger("flwr").setLevel(logging.ERROR)
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1
    context = LegacyContext(_context(1), ServerConfig(), _Strategy(len(vectors)), _Nobody())
    context.state.config_records[MAIN_CONFIGS_RECORD] = ConfigRecord({Key.CURRENT_ROUND: 1})
    start = ndarrays_to_parameters([np.zeros(vectors.shape[1])])
    context.state.array_records[MAIN_PARAMS_RECORD] = compat.parameters_to_arrayrecord(start, keep_input=True)
    grid = _DirectGrid(
        {FIRST_NODE + place: _client(FIRST_NODE + place, vector) for place, vector in enumerate(vectors)}
    )
    SecAggPlusWorkflow(1.0, threshold, max_weight=1.0)(grid, context)
    record = compat.arrayrecord_to_parameters(context.state.array_records[MAIN_PARAMS_RECORD], keep_input=True)
    return parameters_to_ndarrays(record)[0]


class _Strategy:
    """Everybody takes part; the workflow's aggregate is taken as it is."""

    def __init__(self, clients: int) -> None:
        self._clients = clients

    def configure_fit(self, _round: int, parameters: Any, _manager: Any) -> list[tuple[Any, FitIns]]:
        return [(_Proxy(FIRST_NODE + place), FitIns(parameters, {})) for place in range(self._clients)]

    def aggregate_fit(self, _round: int, results: Any, _failures: Any) -> tuple[Any, dict[str, Any]]:
        return results[0][1].parameters, {}


class _Proxy:
    def __init__(self, node_id: int) -> None:
        self.node_id = node_id


class _Nobody:
    def num_available(self) -> int:
        return 0


class _DirectGrid(Grid):
    def __init__(self, clients: dict[int, Callable[[Message], Message]]) -> None:
        self._clients = clients

    def send_and_receive(self, messages: Iterable[Message], **_: object) -> list[Message]:
        return [_carried(self._clients[request.metadata.dst_node_id](_carried(request))) for request in messages]

    run = None
    set_run = create_message = get_node_ids = get_nodes = push_messages = pull_messages = lambda *_: None


def _client(node: int, vector: NDArray[np.float64]) -> Callable[[Message], Message]:
    context = _context(node)

    def fit(message: Message, _context: Context) -> Message:
        result = FitRes(Status(Code.OK, ""), ndarrays_to_parameters([vector]), 1, {})
        return Message(compat.fitres_to_recorddict(result, keep_input=False), reply_to=message)

    return lambda message: secaggplus_mod(message, context, fit)


def _context(node: int) -> Context:
    return Context(run_id=1, node_id=node, node_config={}, state=RecordDict(), run_config={})


def _carried(message: Message) -> Message:
    return message_from_proto(message_to_proto(message))
