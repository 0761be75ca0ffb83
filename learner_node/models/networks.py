"""Multilayer perceptrons: trained here, handed on as plain numpy arrays.

The training step is written out (forward, backward, AdamW on one flat vector) because for networks this small automatic
differentiation takes two to four times as long; the tests hold it against torch.autograd and torch.optim. Scaling of
inputs, thresholds on labels, and rounding of the weights to what a curator evaluates exactly are not handled here.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from learner_node.models.training_options import TrainingOptions

WEIGHT_LIMIT = 64.0
"""Curators evaluate hypotheses exactly only for weights and biases of at most this magnitude."""

_BETA_1, _BETA_2 = 0.9, 0.999
_EPSILON = 1e-8
_FINAL_RATE = 0.02  # relative: a rate of 0 would make the last steps do nothing

Matrix32 = NDArray[np.float32]


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
    """
    data = [_checked(index, sets) for index in range(len(sets))]
    by_shape: dict[tuple[int, ...], list[int]] = {}
    for index, (inputs, _, _) in enumerate(data):
        by_shape.setdefault(inputs.shape, []).append(index)
    trained: dict[int, TrainedNetwork] = {}
    for (n, columns), indices in by_shape.items():
        groups = -(-len(indices) // _group_size(n, columns, options))
        size = -(-len(indices) // groups)
        for start in range(0, len(indices), size):
            chunk = indices[start : start + size]
            generators = [torch.Generator().manual_seed(sets[index].seed) for index in chunk]
            with torch.inference_mode(), plain_arithmetic():
                group = _Group([data[index] for index in chunk], generators, options)
                group.train()
                trained.update(zip(chunk, group.to_networks(), strict=True))
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


_TrainingData = tuple[Matrix32, Matrix32, Matrix32]
_VECTOR = 16  # floats in the widest vector register
# Measured alone and with two processes on two cores (1 MiB of second level cache each, 32 MiB of third shared):
# networks of 2,000 parameters stop gaining between 16 and 32 at a time, those of 75,000 at 2.
_GROUP_BYTES = 4 * 2**20
_GROUP_RECORD_BYTES = 256 * 2**20
_LARGEST_GROUP = 32


def _group_size(n: int, columns: int, options: TrainingOptions) -> int:
    """Networks to train at once: as many as stay in the cache between two passes over them, and in memory."""
    parameters = 4 * _length(_shapes(columns, options.hidden))  # values, gradients, two moments
    outputs = min(n, options.batch_size) * (columns + 2 * sum(options.hidden) + 2)  # and the gradients at them
    records = 2 * n * (columns + 2)  # and in the order of the epoch
    fitting = min(_GROUP_BYTES // (4 * (parameters + outputs)), _GROUP_RECORD_BYTES // (4 * records))
    return max(1, min(_LARGEST_GROUP, fitting))


def _shapes(inputs: int, hidden: tuple[int, ...]) -> list[tuple[int, int]]:
    """(inputs, outputs) of each layer."""
    return list(zip((inputs, *hidden), (*hidden, 1), strict=True))


def _length(shapes: list[tuple[int, int]]) -> int:
    return sum(rows * columns + columns for rows, columns in shapes)


class _Workspace:
    """Outputs of the layers and the gradients at them for batches of one size, reused by every step."""

    def __init__(self, count: int, rows: int, hidden: tuple[int, ...]) -> None:
        self.outputs = [torch.empty(count, rows, columns) for columns in hidden]
        self.deltas = [torch.empty(count, rows, columns) for columns in hidden]
        self.logits = torch.empty(count, 1, rows)
        # Rows apart: torch rounds the sigmoid of the last few numbers of a run differently, so runs must be networks.
        self.errors = torch.empty(count, 1, rows + 1)[..., :rows]


class _Group:
    """Networks of equal shape that take their steps together, as slices of the same tensors.

    Parameters and gradients of all layers are views of two flat tensors, so that one call updates them all; layer after
    layer, as bmm loops over results that are not contiguous.
    The weights of hidden layers are kept as (count, inputs, outputs), the faster side for their gradient. The output
    layer works on rows, weights (count, 1, inputs) and logits (count, 1, records): with a column, bmm takes another way
    for a single network than for several, and rounds differently.
    """

    def __init__(
        self, data: Sequence[_TrainingData], generators: Sequence[torch.Generator], options: TrainingOptions
    ) -> None:
        self._options = options
        self._generators = generators
        count, (n, inputs) = len(data), data[0][0].shape
        self._n = n
        shapes = _shapes(inputs, options.hidden)
        # Whole vectors, as AdamW rounds the last few numbers of a tensor differently.
        length = -(-count * _length(shapes) // _VECTOR) * _VECTOR
        self._parameters = torch.zeros(length)
        self._gradients = torch.zeros(length)
        self._layers = _views(self._parameters, count, shapes)
        self._layer_gradients = _views(self._gradients, count, shapes)
        for index, generator in enumerate(generators):
            for W, b in self._layers[:-1]:
                _draw(W[index].t(), b[index, 0], generator)
            _draw(self._layers[-1][0][index], self._layers[-1][1][index, 0], generator)
        self._epoch = torch.empty(count, n, inputs), torch.empty(count, n), torch.empty(count, n)
        self._copies = [
            [(torch.tensor(array), tensor[index]) for array, tensor in zip(arrays, self._epoch, strict=True)]
            for index, arrays in enumerate(data)
        ]
        batches = -(-n // options.batch_size)
        edges = [n * batch // batches for batch in range(batches + 1)]
        spaces = {rows: _Workspace(count, rows, options.hidden) for rows in set(np.diff(edges).tolist())}
        X, y, w = self._epoch
        self._batches = [(X[:, a:b], y[:, None, a:b], w[:, None, a:b], spaces[b - a]) for a, b in pairwise(edges)]
        self._shares = 1 / torch.tensor(np.repeat(np.diff(edges), np.diff(edges)), dtype=torch.float32)

    def train(self) -> None:
        options = self._options
        optimiser = _AdamW(self._parameters, options.weight_decay)
        steps, step = options.epochs * len(self._batches), 0
        for _ in range(options.epochs):
            self._shuffle()
            for X, y, w, space in self._batches:
                self._backward(X, y, w, space)
                optimiser.step(self._gradients, options.learning_rate * max(_FINAL_RATE, 1 - step / steps))
                self._parameters.clamp_(-WEIGHT_LIMIT, WEIGHT_LIMIT)
                step += 1

    def to_networks(self) -> list[TrainedNetwork]:
        *hidden, output = self._layers
        layers = [*((W.mT.numpy(), b.numpy()) for W, b in hidden), (output[0].numpy(), output[1].numpy())]
        return [
            TrainedNetwork(tuple((np.array(W[index], order="C"), b[index, 0].copy()) for W, b in layers))
            for index in range(len(self._generators))
        ]

    def _shuffle(self) -> None:
        """Write the records in the order of the next epoch, and their weights as shares of a batch's mean."""
        for generator, pairs in zip(self._generators, self._copies, strict=True):
            order = torch.randperm(self._n, generator=generator)
            for source, target in pairs:
                torch.index_select(source, 0, order, out=target)
        self._epoch[2].mul_(self._shares)

    def _backward(self, X: torch.Tensor, y: torch.Tensor, weights: torch.Tensor, space: _Workspace) -> None:
        """Write the gradient of the weighted cross-entropy of a batch, summed over records, into `_gradients`."""
        last = len(space.outputs)
        inputs = [X, *space.outputs]
        for index, (W, b) in enumerate(self._layers[:-1]):
            torch.relu_(torch.baddbmm(b, inputs[index], W, out=space.outputs[index]))
        W, b = self._layers[last]
        torch.baddbmm(b, W, inputs[last].mT, out=space.logits)
        delta = torch.sigmoid(space.logits, out=space.errors).sub_(y).mul_(weights)
        W_gradient, b_gradient = self._layer_gradients[last]
        torch.bmm(delta, inputs[last], out=W_gradient)
        torch.sum(delta, 2, keepdim=True, out=b_gradient)
        delta, W_transposed = delta.mT, W
        for index in range(last - 1, -1, -1):
            delta = torch.bmm(delta, W_transposed, out=space.deltas[index])
            torch.ops.aten.threshold_backward.grad_input(delta, space.outputs[index], 0, grad_input=delta)
            W_gradient, b_gradient = self._layer_gradients[index]
            torch.bmm(inputs[index].mT, delta, out=W_gradient)
            torch.sum(delta, 1, keepdim=True, out=b_gradient)
            W_transposed = self._layers[index][0].mT


class _AdamW:
    """AdamW on one tensor: the kernel of torch.optim.AdamW without its bookkeeping."""

    def __init__(self, parameters: torch.Tensor, weight_decay: float) -> None:
        self._parameters = parameters
        self._weight_decay = weight_decay
        self._first = torch.zeros_like(parameters)
        self._second = torch.zeros_like(parameters)
        self._step = torch.zeros(())

    def step(self, gradients: torch.Tensor, rate: float) -> None:
        self._step += 1
        torch._fused_adamw_(
            [self._parameters],
            [gradients],
            [self._first],
            [self._second],
            [],
            [self._step],
            lr=rate,
            beta1=_BETA_1,
            beta2=_BETA_2,
            weight_decay=self._weight_decay,
            eps=_EPSILON,
            amsgrad=False,
            maximize=False,
        )


def _draw(W: torch.Tensor, b: torch.Tensor, generator: torch.Generator) -> None:
    """Fill the weights (outputs, inputs) and biases (outputs,) of a layer as torch.nn.Linear does."""
    bound = W.shape[1] ** -0.5
    W.copy_(torch.empty(W.shape).uniform_(-bound, bound, generator=generator))
    b.copy_(torch.empty(b.shape).uniform_(-bound, bound, generator=generator))


def _views(flat: torch.Tensor, count: int, shapes: list[tuple[int, int]]) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Weights and biases (count, 1, outputs) of each layer in a flat tensor; `_Group` has the shapes."""
    views, start = [], 0
    for rows, columns in shapes:
        middle = start + count * rows * columns
        end = middle + count * columns
        views.append((flat[start:middle].view(count, rows, columns), flat[middle:end].view(count, 1, columns)))
        start = end
    W, b = views[-1]
    return [*views[:-1], (W.view(count, 1, -1), b)]


@contextmanager
def plain_arithmetic() -> Iterator[None]:
    """A context with one thread and without denormal numbers.

    More threads make matrices of this size slower and their sums depend on the machine. First moments of dead units
    decay into denormal numbers and stay there, which makes AdamW three times slower.
    """
    threads, flushing = torch.get_num_threads(), float(torch.tensor(1e-40)) == 0
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.set_flush_denormal(flushing)


def _checked(index: int, sets: Sequence[TrainingSet]) -> _TrainingData:
    try:
        return _as_training_data(sets[index].X, sets[index].y, sets[index].weights)
    except ValueError as error:
        if len(sets) == 1:
            raise
        raise ValueError(f"set {index}: {error}") from error


def _as_training_data(X: ArrayLike, y: ArrayLike, weights: ArrayLike | None) -> _TrainingData:
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
