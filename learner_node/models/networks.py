"""Multilayer perceptrons as plain numpy arrays, and their training by `network_training`, which needs torch.

Scaling of inputs, thresholds on labels, and rounding of the weights to what a curator evaluates exactly are not handled
here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
from numpy.typing import ArrayLike, NDArray

from learner_node.models.training_options import TrainingOptions

WEIGHT_LIMIT = 64.0
"""Curators evaluate hypotheses exactly only for weights and biases of at most this magnitude."""

Matrix32 = NDArray[np.float32]
TrainingData = tuple[Matrix32, Matrix32, Matrix32]
"""Inputs, targets and weights of a set's records, which are in order."""


@dataclass(frozen=True)
class TrainedNetwork:
    """A classifier with one logit output and rectified linear units, the only ones that curators evaluate."""

    # (W, b) from input to output, float32, W of shape (outputs, inputs) and b of shape (outputs,); every entry within
    # `WEIGHT_LIMIT`. The last layer has one output.
    layers: tuple[tuple[Matrix32, Matrix32], ...]

    def logits(self, X: ArrayLike) -> Matrix32:
        """Evaluate in float32.

        Args:
            X: (n, d) inputs, scaled like the training inputs.

        Returns:
            (n,) logits; positive predicts 1.

        Raises:
            ValueError: when X has not d columns.
        """
        values = np.asarray(X, dtype=np.float32)
        inputs = self.layers[0][0].shape[1]
        if values.ndim != 2 or values.shape[1] != inputs:
            raise ValueError(f"X must have shape (n, {inputs}), got {values.shape}")
        for W, b in self.layers[:-1]:
            values = np.maximum(values @ W.T + b, np.float32(0))
        W, b = self.layers[-1]
        logits: Matrix32 = (values @ W.T + b)[:, 0]
        return logits


@dataclass(frozen=True)
class TrainingSet:
    """The records of one network; checked by `train_networks`."""

    X: ArrayLike  # (n, d) float, already scaled, n, d >= 1
    y: ArrayLike  # (n,) labels in [0, 1]; soft labels are probabilities of 1
    weights: ArrayLike | None  # (n,) record weights >= 0, not all 0; None is 1
    seed: int  # of the first weights and the order of the records


def require_torch() -> None:
    """Raise ModuleNotFoundError where no network can be trained, before a study asks anything."""
    if find_spec("torch") is None:
        raise ModuleNotFoundError("No module named 'torch'", name="torch")


def train_networks(sets: Sequence[TrainingSet], options: TrainingOptions) -> list[TrainedNetwork]:
    """Minimise the weighted binary cross-entropy by AdamW with linearly falling rate (Loshchilov and Hutter 2019).

    The loss of a batch is `mean_i w_i (log(1 + exp z_i) - y_i z_i)` with the weights scaled to mean 1 over all records.
    Batches of an epoch differ by at most one record in size. Sets of equal shape are trained several at a time, which
    is where the speed comes from. Each keeps its own generator, so a network depends on its own set only, up to float
    rounding (none was seen with MKL and hidden sizes that are multiples of 16). torch runs on one thread
    meanwhile, and its global generator is neither read nor advanced. Memory holds all sets in float32, and one group at
    a time.

    Args:
        sets: the records of each network; n and d may differ.
        options: shared by all.

    Returns:
        The networks after the last step, in the order of the sets.

    Raises:
        ValueError: on wrong shapes or ranges or non-finite values, before anything is trained.
        ModuleNotFoundError: there is no torch.
    """
    from learner_node.models.network_training import group_size, train_group  # noqa: PLC0415 - loads torch

    data = [_checked(index, sets) for index in range(len(sets))]
    by_shape: dict[tuple[int, ...], list[int]] = {}
    for index, (inputs, _, _) in enumerate(data):
        by_shape.setdefault(inputs.shape, []).append(index)
    trained: dict[int, TrainedNetwork] = {}
    for (n, columns), indices in by_shape.items():
        groups = -(-len(indices) // group_size(n, columns, options))
        size = -(-len(indices) // groups)
        for start in range(0, len(indices), size):
            chunk = indices[start : start + size]
            seeds = [sets[index].seed for index in chunk]
            layers = train_group([data[index] for index in chunk], seeds, options, limit=WEIGHT_LIMIT)
            trained.update(zip(chunk, map(TrainedNetwork, layers), strict=True))
    return [trained[index] for index in range(len(sets))]


def train_network(
    X: ArrayLike,
    y: ArrayLike,
    *,
    hidden: tuple[int, ...],
    weights: ArrayLike | None = None,
    epochs: int = 40,
    batch_size: int = 512,
    learning_rate: float = 1e-2,
    weight_decay: float = 1e-4,
    seed: int,
) -> TrainedNetwork:
    """Train one network: `train_networks` of one `TrainingSet`, whose arguments and errors it shares.

    The same arguments give the same network on the same machine.
    """
    options = TrainingOptions(hidden, epochs, batch_size, learning_rate, weight_decay)
    return train_networks([TrainingSet(X, y, weights, seed)], options)[0]


def _checked(index: int, sets: Sequence[TrainingSet]) -> TrainingData:
    try:
        return _as_training_data(sets[index].X, sets[index].y, sets[index].weights)
    except ValueError as error:
        if len(sets) == 1:
            raise
        raise ValueError(f"set {index}: {error}") from error


def _as_training_data(X: ArrayLike, y: ArrayLike, weights: ArrayLike | None) -> TrainingData:
    with np.errstate(over="ignore"):
        inputs = np.asarray(X, dtype=np.float32)
    if inputs.ndim != 2 or inputs.size == 0:
        raise ValueError(f"X must have shape (n, d) with n, d >= 1, got {inputs.shape}")
    n = len(inputs)
    targets = np.asarray(y, dtype=np.float64)
    record_weights = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
    for name, values in (("y", targets), ("weights", record_weights)):
        if values.shape != (n,):
            raise ValueError(f"{name} must have shape ({n},), got {values.shape}")
    for name, array in (("X", inputs), ("y", targets), ("weights", record_weights)):
        if not np.all(np.isfinite(array)):
            raise ValueError(f"{name} must be finite in single precision")
    if np.any((targets < 0) | (targets > 1)):
        raise ValueError("y must lie between 0 and 1")
    if np.any(record_weights < 0) or not np.any(record_weights > 0):
        raise ValueError("weights must not be negative, nor all 0")
    scaled = (record_weights / record_weights.mean()).astype(np.float32)
    return inputs, targets.astype(np.float32), scaled
