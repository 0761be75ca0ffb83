"""Flower's differential privacy, run in the environment of audited peers, as its own strategies and mods do it.

One library a file: a process loads what one environment has, and no other. A table of `worker` names this file.

Records are updates of a model with one or more numbers: a row a client, whose last column is its number of examples.
Outcomes are rounded to `RESOLUTION` of the noise's deviation, so that a game looks at the law of the noise and not at
how floating point holds it.
"""

import logging
from collections.abc import Callable
from importlib import import_module

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import GaussianPrivacyEvent, NeighboringRelation, PrivacyConfig, RdpAccountant, SamplingMethod

from lab.peers.task import Matrix, Setting, Vector
from protocol.flower_internals import TaskIdentity

LIBRARIES = ("flwr",)
RESOLUTION = 1e-3

mods, strategies = import_module("flwr.clientapp.mod"), import_module("flwr.serverapp.strategy")
logging.getLogger("flwr").setLevel(logging.ERROR)
TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1


def _sent(values: Vector) -> Message:
    return Message(RecordDict({"arrays": _arrays(values)}), dst_node_id=1, message_type=MessageType.TRAIN)


def _arrays(values: Vector) -> ArrayRecord:
    return ArrayRecord({"w": Array(np.array(values))})


def _repeated(release: Callable[[], Vector], draws: int, deviation: float) -> Matrix:
    step = deviation * RESOLUTION
    return np.asarray(np.round(np.array([release() for _ in range(draws)]) / step) * step)


def local(records: Matrix, setting: Setting, draws: int) -> Matrix:
    """`LocalDpMod` on the update of one client from zero weights, (draws, numbers)."""
    clip, sensitivity, epsilon, delta = (float(setting[name]) for name in ("clip", "sensitivity", "epsilon", "delta"))
    mod = mods.LocalDpMod(clip, sensitivity, epsilon, delta)
    context = Context(run_id=1, node_id=1, node_config={}, state=RecordDict(), run_config={})
    update = records[0, :-1]
    message = _sent(np.zeros(len(update)))

    def train(received: Message, _context: Context) -> Message:
        return Message(RecordDict({"arrays": _arrays(update)}), reply_to=received)

    def release() -> Vector:
        return np.asarray(mod(message, context, train).content["arrays"]["w"].numpy())

    return _repeated(release, draws, sensitivity * np.sqrt(2 * np.log(1.25 / delta)) / epsilon)


def central(records: Matrix, setting: Setting, draws: int) -> Matrix:
    """Fixed clipping by the server over FedAvg with all clients, one round from zero weights, (draws, numbers)."""
    clip, noise, clients = float(setting["clip"]), float(setting["noise_multiplier"]), len(records)
    strategy = strategies.DifferentialPrivacyServerSideFixedClipping(strategies.FedAvg(), noise, clip, clients)
    strategy.current_arrays = _arrays(np.zeros(records.shape[1] - 1))
    message = _sent(np.zeros(records.shape[1] - 1))

    def release() -> Vector:
        replies = [
            Message(
                RecordDict({"arrays": _arrays(row[:-1]), "metrics": MetricRecord({"num-examples": int(row[-1])})}),
                reply_to=message,
            )
            for row in records
        ]
        arrays, _ = strategy.aggregate_train(1, replies)
        return np.asarray(arrays["w"].numpy())

    return _repeated(release, draws, noise * clip / clients)


def accountant(_records: Matrix, setting: Setting, _draws: int) -> Matrix:
    """The epsilon that its RDP accountant gives for so many rounds without amplification, (1, 1)."""
    clients, delta = int(setting["clients"]), float(setting["delta"])
    config = PrivacyConfig(delta, clients, NeighboringRelation.ADD_OR_REMOVE_ONE, SamplingMethod.NO_AMPLIFICATION)
    spent = RdpAccountant(config)
    spent.compose(GaussianPrivacyEvent(float(setting["noise_multiplier"]), clients, clients), int(setting["rounds"]))
    return np.array([[spent.get_epsilon(delta)]])


RELEASES = {"local": local, "central": central, "accountant": accountant}
