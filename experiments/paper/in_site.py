"""The reference h*: the paper's network, trained in site on the private records with their labels."""

import numpy as np
from numpy.typing import NDArray

from experiments.problems import Options
from learner_node.networks import TrainingSet
from learner_node.source import coordinates, standardising_map
from learner_node.strategies.base import Trainer
from learner_node.strategies.paper import PaperOptions
from protocol.hypotheses import Mlp
from protocol.records import Records


def train_in_site(private: Records, labels: NDArray[np.float64], options: Options, seed: int, train: Trainer) -> Mlp:
    """Train h*.

    Args:
        private: n records; they also standardise the attributes.
        labels: (n,) float64 in {0, 1}.
        options: of the paper's strategies, of which those of networks count.
        seed: of the network.
        train: trains it.
    """
    features = standardising_map(private)
    data = TrainingSet(coordinates(features, private), labels, None, seed)
    network = train(data, PaperOptions(**options).training)  # type: ignore[arg-type]
    return Mlp.of(features, list(network.layers))
