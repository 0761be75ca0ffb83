"""Hypotheses as data: a constant, or a named network architecture with safetensors weights. Never code.

Curator and learner both call the evaluation here. Weights and activations are bounded and lie on grids of 2^-12, so
every layer is a sum of whole numbers below 2^53, and a prediction does not depend on the batch that a record is in
(PRIVACY rule 7). The only activation is ReLU, which is exact. tanh may differ in the last bit between positions in a
vector.
"""

from typing import Annotated, Literal

import msgspec
import numpy as np
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

from protocol.errors import RemoteProtocolError
from protocol.feature_map import STEPS, FeatureMap
from protocol.limits import BYTE_ONCE, CALL_ONCE
from protocol.records import LABEL_STEPS, Records
from protocol.refusals import RefusalCode
from protocol.schema import Schema

MOST_WEIGHT = 64.0
MOST_ACTIVATION = 256.0
MOST_FAN_IN = 4096
"""Most inputs of a layer. 2^12 inputs x 2^18 steps of weight x 2^20 steps of activation = 2^50, which is below 2^53."""
MOST_LAYERS = 16
UNIT_COST = 60
"""Work (see `protocol.limits`) of rounding and clipping, per record and hidden unit."""
NETWORK_ONCE = 40 * CALL_ONCE
LAYER_ONCE = 15 * CALL_ONCE

Layer = tuple[NDArray[np.float32], NDArray[np.float32]]
"""Weight (out, in) and bias (out,)."""


class Constant(msgspec.Struct, frozen=True, tag="constant", forbid_unknown_fields=True):
    """The hypothesis that predicts one class for every record; the paper's h_0 is class 1.

    For a numeric label, 0 predicts the lower bound and 1 the upper.
    """

    predicted: Literal[0, 1]

    def check(self, schema: Schema, field: str) -> None:
        """Do nothing: the type checks all that there is."""

    def parameter_count(self) -> int:
        """Number of parameters."""
        return 0

    def multiply_adds(self) -> int:
        """Work for each record."""
        return 0

    def multiply_adds_once(self) -> int:
        """Work whatever the number of records."""
        return 0

    def predict(self, records: Records) -> NDArray[np.bool_]:
        """Predicted classes, shape (n,)."""
        return np.full(len(records), bool(self.predicted))

    def predict_number(self, records: Records) -> NDArray[np.int64]:
        """Predicted numeric labels in steps of 2^-12 of their range: the lower bound for 0, the upper for 1."""
        return np.full(len(records), self.predicted * LABEL_STEPS, np.int64)


class Mlp(msgspec.Struct, frozen=True, tag="mlp", forbid_unknown_fields=True):
    """A ReLU network with one logit; it predicts class 1 if the logit is above 0.

    For a numeric label, the logit is the prediction, from 0 (lower bound) to 1 (upper bound), and is clipped to that
    range. `weights` is a safetensors file of float32 tensors "0.weight" (out, in), "0.bias" (out,), "1.weight", ...
    Values are rounded to the grid when the network is evaluated; each must lie within +-64.
    """

    features: FeatureMap
    weights: Annotated[bytes, msgspec.Meta(min_length=1)]

    @classmethod
    def of(cls, features: FeatureMap, layers: list[Layer]) -> "Mlp":
        """Make a network from float arrays; `check` refuses values beyond +-64."""
        tensors = {}
        for index, (weight, bias) in enumerate(layers):
            tensors[f"{index}.weight"] = np.ascontiguousarray(weight, np.float32)
            tensors[f"{index}.bias"] = np.ascontiguousarray(bias, np.float32)
        return cls(features=features, weights=safetensors.numpy.save(tensors))

    def check(self, schema: Schema, field: str) -> None:
        """Raise RemoteProtocolError(BAD_QUERY) unless the map fits and `weights` hold such a network, within +-64."""
        self.features.check(schema, f"{field}.features")
        layers = self._layers(f"{field}.weights")
        width = self.features.width
        for index, (weight, bias) in enumerate(layers):
            where = f"{field}.weights.{index}"
            outputs = 1 if index == len(layers) - 1 else len(bias)
            if weight.shape != (outputs, width) or bias.shape != (outputs,) or not 1 <= width <= MOST_FAN_IN:
                shape = f"weight (out, in) with in = {width} at most {MOST_FAN_IN}, bias (out,), last out = 1"
                raise RemoteProtocolError(RefusalCode.BAD_QUERY, where, shape)
            for values in (weight, bias):
                if not (np.isfinite(values).all() and (np.abs(values) <= MOST_WEIGHT).all()):
                    raise RemoteProtocolError(RefusalCode.BAD_QUERY, where, f"finite, within +-{MOST_WEIGHT:g}")
            width = outputs

    def parameter_count(self) -> int:
        """Upper bound on the number of parameters, from the number of bytes."""
        return len(self.weights) // 4

    def multiply_adds(self) -> int:
        """Work of a checked network for one record: the map, the products with weights, and the hidden units.

        The units take most of the time in a workload of many narrow networks.
        """
        units = sum(len(bias) for _, bias in self._layers("weights")[:-1])
        return len(self.weights) // 4 + self.features.multiply_adds() + UNIT_COST * units

    def multiply_adds_once(self) -> int:
        """Work of reading, checking and preparing a checked network."""
        layers = LAYER_ONCE * len(self._layers("weights"))
        return self.features.multiply_adds_once() + NETWORK_ONCE + layers + BYTE_ONCE * len(self.weights)

    def logits(self, records: Records) -> NDArray[np.float64]:
        """Exact logits in steps of 2^-24, shape (n,)."""
        layers = [
            (np.rint(weight.astype(np.float64).T * STEPS), np.rint(bias.astype(np.float64) * STEPS * STEPS))
            for weight, bias in self._layers("weights")
        ]
        logits = np.empty(len(records))
        for block, points in self.features.blocks(records, max(len(bias) for _, bias in layers)):
            sums = points
            for index, (weight, bias) in enumerate(layers):
                sums = sums @ weight
                sums += bias
                if index < len(layers) - 1:
                    sums /= STEPS
                    np.rint(sums, out=sums)
                    np.clip(sums, 0.0, MOST_ACTIVATION * STEPS, out=sums)
            logits[block] = sums[:, 0]
        return logits

    def predict(self, records: Records) -> NDArray[np.bool_]:
        """Predicted classes, shape (n,): 1 if the logit is above 0, else 0."""
        return self.logits(records) > 0

    def predict_number(self, records: Records) -> NDArray[np.int64]:
        """Predicted numeric labels in steps of 2^-12 of their range, shape (n,), in 0 .. 4096.

        Each logit is rounded to the grid (halves to even), and then clipped to [0, 1].
        """
        steps = np.rint(self.logits(records) / (STEPS * STEPS / LABEL_STEPS))
        return np.clip(steps, 0, LABEL_STEPS).astype(np.int64)

    def _layers(self, field: str) -> list[Layer]:
        try:
            tensors = dict(safetensors.deserialize(self.weights))  # type: ignore[no-untyped-call]
        except safetensors.SafetensorError:
            raise RemoteProtocolError(RefusalCode.BAD_QUERY, field, "a safetensors file") from None
        count = len(tensors) // 2
        names = {f"{index}.{part}" for index in range(count) for part in ("weight", "bias")}
        if set(tensors) != names or not 1 <= count <= MOST_LAYERS:
            rule = f"'0.weight', '0.bias', ... and nothing else, at most {MOST_LAYERS} layers"
            raise RemoteProtocolError(RefusalCode.BAD_QUERY, field, rule)
        if any(tensor["dtype"] != "F32" for tensor in tensors.values()):
            raise RemoteProtocolError(RefusalCode.BAD_QUERY, field, "float32 tensors")
        for name, tensor in tensors.items():
            # Before numpy sees the shape: it raises for 65 dimensions, and for a giant one beside a zero.
            if len(tensor["shape"]) != (2 if name.endswith("weight") else 1) or 0 in tensor["shape"]:
                raise RemoteProtocolError(RefusalCode.BAD_QUERY, field, "weight (out, in), bias (out,), none empty")
        arrays = {
            name: np.frombuffer(tensor["data"], "<f4").reshape(tensor["shape"]) for name, tensor in tensors.items()
        }
        return [(arrays[f"{index}.weight"], arrays[f"{index}.bias"]) for index in range(count)]


Hypothesis = Constant | Mlp

HYPOTHESIS_KINDS: dict[str, type[Hypothesis]] = {"constant": Constant, "mlp": Mlp}
