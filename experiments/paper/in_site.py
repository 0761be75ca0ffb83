"""The reference h*: the paper's network, trained in site on the private records with their labels."""

import numpy as np
from numpy.typing import NDArray

from learner_node.networks import TrainingOptions, TrainingSet
from learner_node.source import coordinates, standardising_map
from learner_node.strategies.base import Trainer
from protocol.hypotheses import Mlp
from protocol.records import Records

Options = dict[str, object]


def training_options(options: Options) -> TrainingOptions:
    """The training part of a strategy's options."""
    names = ("hidden", "epochs", "batch_size", "learning_rate", "weight_decay")
    return TrainingOptions(**{name: options[name] for name in names if name in options})  # type: ignore[arg-type]


def train_in_site(
    private: Records, labels: NDArray[np.float64], options: TrainingOptions, seed: int, train: Trainer
) -> Mlp:
    """Train h*.

    Args:
        private: n records; they also standardise the attributes.
        labels: (n,) float64 in {0, 1}.
        options: of the network.
        seed: of the network.
        train: trains it.
    """
    features = standardising_map(private)
    network = train(TrainingSet(coordinates(features, private), labels, None, seed), options)
    return Mlp.of(features, list(network.layers))
