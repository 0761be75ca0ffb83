"""How networks are trained, as numbers: nothing is loaded that trains."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class TrainingOptions:
    """How networks are trained; see `learner_node.models.networks.train_networks` for the method.

    Raises ValueError: on a value out of its range.
    """

    hidden: tuple[int, ...]  # sizes of the hidden layers; () is logistic regression
    epochs: int = 40  # passes over the records, >= 1
    batch_size: int = 512  # records in a batch at most, >= 1
    learning_rate: float = 1e-2  # of the first step, > 0; falls linearly to a fiftieth
    weight_decay: float = 1e-4  # decoupled decay per step, relative to the rate, >= 0

    def __post_init__(self) -> None:
        if any(size < 1 for size in self.hidden):
            raise ValueError(f"hidden layers must have at least one unit, got {self.hidden}")
        if self.epochs < 1 or self.batch_size < 1:
            raise ValueError(f"epochs and batch_size must be at least 1, got {self.epochs} and {self.batch_size}")
        if not (math.isfinite(self.learning_rate) and self.learning_rate > 0):
            raise ValueError(f"learning_rate must be finite and positive, got {self.learning_rate}")
        if not (math.isfinite(self.weight_decay) and self.weight_decay >= 0):
            raise ValueError(f"weight_decay must be finite and not negative, got {self.weight_decay}")
