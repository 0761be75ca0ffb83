"""Multilayer perceptrons: trained here, handed on as plain numpy arrays.

The only file of the learner that imports torch. The training step is written out (forward, backward, AdamW on one flat
vector) because for networks this small automatic differentiation costs more than the arithmetic; the tests hold it
against torch.autograd and torch.optim. Scaling of inputs, thresholds on labels, and rounding of the weights to what a
curator evaluates exactly are not handled here.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

WEIGHT_LIMIT = 64.0
"""Curators evaluate hypotheses exactly only for weights and biases of at most this magnitude."""

_BETA_1, _BETA_2 = 0.9, 0.999
_EPSILON = 1e-8
_FINAL_RATE = 0.02  # relative: a rate of 0 would make the last steps do nothing

Matrix32 = NDArray[np.float32]


@dataclass(frozen=True)
class _Activation:
    """A nonlinearity and its derivative, the latter in terms of the output."""

    on_tensor: Callable[[torch.Tensor], torch.Tensor]
    on_array: Callable[[Matrix32], Matrix32]
    multiply_derivative_: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def _relu_array(values: Matrix32) -> Matrix32:
    return np.maximum(values, np.float32(0))


def _tanh_array(values: Matrix32) -> Matrix32:
    return np.tanh(values)


_ACTIVATIONS = {
    "relu": _Activation(torch.relu_, _relu_array, lambda gradient, output: gradient.mul_(output > 0)),
    "tanh": _Activation(torch.tanh_, _tanh_array, lambda gradient, output: gradient.mul_(1 - output * output)),
}


@dataclass(frozen=True)
class TrainedNetwork:
    """A classifier with one logit output.

    Attributes:
        layers: (W, b) from input to output, float32, W of shape (outputs, inputs) and b of shape (outputs,); every
            entry within `WEIGHT_LIMIT`. The last layer has one output.
        activation: "relu" or "tanh", after every layer but the last.
    """

    layers: tuple[tuple[Matrix32, Matrix32], ...]
    activation: str

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
        activate = _ACTIVATIONS[self.activation].on_array
        for W, b in self.layers[:-1]:
            values = activate(values @ W.T + b)
        W, b = self.layers[-1]
        logits: Matrix32 = (values @ W.T + b)[:, 0]
        return logits


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
    activation: str = "relu",
) -> TrainedNetwork:
    """Minimise the weighted binary cross-entropy by AdamW with linearly falling rate (Loshchilov and Hutter 2019).

    The loss of a batch is `mean_i w_i (log(1 + exp z_i) - y_i z_i)` with the weights scaled to mean 1 over all records.
    Batches of an epoch differ by at most one record in size. The same arguments give the same network on the same
    machine: torch runs on one thread meanwhile and torch's global generator is neither read nor advanced.

    Args:
        X: (n, d) float, already scaled.
        y: (n,) labels in [0, 1]; soft labels are probabilities of 1.
        hidden: sizes of the hidden layers; () is logistic regression.
        weights: (n,) record weights >= 0, not all 0; None is 1.
        epochs: passes over the records, >= 1.
        batch_size: records in a batch at most, >= 1.
        learning_rate: of the first step, > 0; falls linearly to a fiftieth.
        weight_decay: decoupled decay per step, relative to the rate, >= 0.
        seed: of the first weights and the order of the records.
        activation: "relu" or "tanh". Curators evaluate "relu" only.

    Returns:
        The network after the last step.

    Raises:
        ValueError: on wrong shapes or ranges, non-finite values, or an unknown activation.
    """
    inputs, targets, record_weights = _as_training_data(X, y, weights)
    _check_options(hidden, epochs, batch_size, learning_rate, weight_decay, activation)
    n = len(inputs)
    generator = torch.Generator().manual_seed(seed)
    network = _FlatNetwork(inputs.shape[1], hidden, activation, generator)
    batches = -(-n // batch_size)
    edges = [n * batch // batches for batch in range(batches + 1)]
    steps = epochs * batches
    with torch.no_grad(), _one_thread():
        optimiser = _AdamW(network.parameters, weight_decay)
        for epoch in range(epochs):
            order = torch.randperm(n, generator=generator)
            X_epoch, y_epoch, w_epoch = inputs[order], targets[order], record_weights[order]
            for batch in range(batches):
                rows = slice(edges[batch], edges[batch + 1])
                network.backward(X_epoch[rows], y_epoch[rows], w_epoch[rows])
                done = (epoch * batches + batch) / steps
                optimiser.step(network.gradients, learning_rate * max(_FINAL_RATE, 1 - done))
                network.parameters.clamp_(-WEIGHT_LIMIT, WEIGHT_LIMIT)
    return network.to_numpy()


class _FlatNetwork:
    """The weights and gradients of all layers as views of two flat vectors, so that one call updates them all."""

    def __init__(self, inputs: int, hidden: tuple[int, ...], activation: str, generator: torch.Generator) -> None:
        sizes = (inputs, *hidden, 1)
        shapes = list(zip(sizes[1:], sizes[:-1], strict=True))
        length = sum(rows * columns + rows for rows, columns in shapes)
        self.activation = activation
        self.parameters = torch.empty(length)
        self.gradients = torch.zeros(length)
        self.layers = _views(self.parameters, shapes)
        self.layer_gradients = _views(self.gradients, shapes)
        for W, b in self.layers:
            bound = W.shape[1] ** -0.5
            W.uniform_(-bound, bound, generator=generator)
            b.uniform_(-bound, bound, generator=generator)

    def backward(self, X: torch.Tensor, y: torch.Tensor, weights: torch.Tensor) -> None:
        """Write the gradient of the mean weighted cross-entropy of a batch into `gradients`."""
        activation = _ACTIVATIONS[self.activation]
        outputs = [X]
        for W, b in self.layers[:-1]:
            outputs.append(activation.on_tensor(torch.addmm(b, outputs[-1], W.t())))
        W, b = self.layers[-1]
        logits = torch.addmm(b, outputs[-1], W.t())[:, 0]
        delta = logits.sigmoid_().sub_(y).mul_(weights).div_(len(y))[:, None]
        for index in range(len(self.layers) - 1, -1, -1):
            W_gradient, b_gradient = self.layer_gradients[index]
            torch.mm(delta.t(), outputs[index], out=W_gradient)
            torch.sum(delta, 0, out=b_gradient)
            if index > 0:
                delta = activation.multiply_derivative_(delta @ self.layers[index][0], outputs[index])

    def to_numpy(self) -> TrainedNetwork:
        layers = tuple((W.numpy().copy(), b.numpy().copy()) for W, b in self.layers)
        return TrainedNetwork(layers, self.activation)


class _AdamW:
    """AdamW on one tensor; the arithmetic of torch.optim.AdamW without its bookkeeping."""

    def __init__(self, parameters: torch.Tensor, weight_decay: float) -> None:
        self._parameters = parameters
        self._weight_decay = weight_decay
        self._first = torch.zeros_like(parameters)
        self._second = torch.zeros_like(parameters)
        self._step = 0

    def step(self, gradients: torch.Tensor, rate: float) -> None:
        self._step += 1
        self._parameters.mul_(1 - rate * self._weight_decay)
        self._first.lerp_(gradients, 1 - _BETA_1)
        self._second.mul_(_BETA_2).addcmul_(gradients, gradients, value=1 - _BETA_2)
        correction = (1 - _BETA_2**self._step) ** 0.5
        denominator = self._second.sqrt().div_(correction).add_(_EPSILON)
        self._parameters.addcdiv_(self._first, denominator, value=-rate / (1 - _BETA_1**self._step))


def _views(flat: torch.Tensor, shapes: list[tuple[int, int]]) -> list[tuple[torch.Tensor, torch.Tensor]]:
    views, start = [], 0
    for rows, columns in shapes:
        middle = start + rows * columns
        views.append((flat[start:middle].view(rows, columns), flat[middle : middle + rows]))
        start = middle + rows
    return views


@contextmanager
def _one_thread() -> Iterator[None]:
    """More threads make matrices of this size slower and their sums depend on the machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _as_training_data(
    X: ArrayLike, y: ArrayLike, weights: ArrayLike | None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
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
    return torch.tensor(inputs), torch.tensor(targets, dtype=torch.float32), torch.tensor(scaled)


def _check_options(
    hidden: tuple[int, ...],
    epochs: int,
    batch_size: int,
    learning_rate: float,
    weight_decay: float,
    activation: str,
) -> None:
    if any(size < 1 for size in hidden):
        raise ValueError(f"hidden layers must have at least one unit, got {hidden}")
    if epochs < 1 or batch_size < 1:
        raise ValueError(f"epochs and batch_size must be at least 1, got {epochs} and {batch_size}")
    if not (np.isfinite(learning_rate) and learning_rate > 0):
        raise ValueError(f"learning_rate must be finite and positive, got {learning_rate}")
    if not (np.isfinite(weight_decay) and weight_decay >= 0):
        raise ValueError(f"weight_decay must be finite and not negative, got {weight_decay}")
    if activation not in _ACTIVATIONS:
        raise ValueError(f"unknown activation {activation!r}; known: {', '.join(_ACTIVATIONS)}")
