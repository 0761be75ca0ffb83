"""Networks of equal shape that take their training steps together; this module alone loads torch.

The training step is written out (forward, backward, AdamW on one flat vector) because for networks this small automatic
differentiation takes two to four times as long; the tests hold it against torch.autograd and torch.optim.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray

from learner_node.models.training_options import TrainingOptions

Matrix32 = NDArray[np.float32]
Layers = tuple[tuple[Matrix32, Matrix32], ...]
TrainingData = tuple[Matrix32, Matrix32, Matrix32]
"""Inputs, targets and weights of a set's records, which are in order."""

_BETA_1, _BETA_2 = 0.9, 0.999
_EPSILON = 1e-8
_FINAL_RATE = 0.02  # relative: a rate of 0 would make the last steps do nothing

_VECTOR = 16  # floats in the widest vector register
# Measured alone and with two processes on two cores (1 MiB of second level cache each, 32 MiB of third shared):
# networks of 2,000 parameters stop gaining between 16 and 32 at a time, those of 75,000 at 2.
_GROUP_BYTES = 4 * 2**20
_GROUP_RECORD_BYTES = 256 * 2**20
_LARGEST_GROUP = 32


def group_size(n: int, columns: int, options: TrainingOptions) -> int:
    """Networks to train at once: as many as stay in the cache between two passes over them, and in memory."""
    parameters = 4 * _length(_shapes(columns, options.hidden))  # values, gradients, two moments
    outputs = min(n, options.batch_size) * (columns + 2 * sum(options.hidden) + 2)  # and the gradients at them
    records = 2 * n * (columns + 2)  # and in the order of the epoch
    fitting = min(_GROUP_BYTES // (4 * (parameters + outputs)), _GROUP_RECORD_BYTES // (4 * records))
    return max(1, min(_LARGEST_GROUP, fitting))


def train_group(
    data: Sequence[TrainingData], seeds: Sequence[int], options: TrainingOptions, *, limit: float
) -> list[Layers]:
    """Train networks of equal shape, each from the seed of its own."""
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    with torch.inference_mode(), plain_arithmetic():
        group = NetworkGroup(data, generators, options)
        group.train(limit)
        return group.to_layers()


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


class NetworkGroup:
    """Networks of equal shape that take their steps together, as slices of the same tensors.

    Parameters and gradients of all layers are views of two flat tensors, so that one call updates them all; layer after
    layer, as bmm loops over results that are not contiguous.
    The weights of hidden layers are kept as (count, inputs, outputs), the faster side for their gradient. The output
    layer works on rows, weights (count, 1, inputs) and logits (count, 1, records): with a column, bmm takes another way
    for a single network than for several, and rounds differently.
    """

    def __init__(
        self, data: Sequence[TrainingData], generators: Sequence[torch.Generator], options: TrainingOptions
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

    def train(self, limit: float) -> None:
        """Take all steps of all epochs, and keep every parameter within a magnitude."""
        options = self._options
        optimiser = _AdamW(self._parameters, options.weight_decay)
        steps, step = options.epochs * len(self._batches), 0
        for _ in range(options.epochs):
            self._shuffle()
            for X, y, w, space in self._batches:
                self._backward(X, y, w, space)
                optimiser.step(self._gradients, options.learning_rate * max(_FINAL_RATE, 1 - step / steps))
                self._parameters.clamp_(-limit, limit)
                step += 1

    def to_layers(self) -> list[Layers]:
        """Layers of each network as they are now."""
        *hidden, output = self._layers
        layers = [*((W.mT.numpy(), b.numpy()) for W, b in hidden), (output[0].numpy(), output[1].numpy())]
        return [
            tuple((np.array(W[index], order="C"), b[index, 0].copy()) for W, b in layers)
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
    """Weights and biases (count, 1, outputs) of each layer in a flat tensor; `NetworkGroup` has the shapes."""
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
