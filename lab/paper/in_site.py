"""The reference h*: the paper's network, trained in site on the private records with their labels."""

import numpy as np

from lab.splits import Options, Split
from learner_node.networks import TrainingSet
from learner_node.source import coordinates, standardising_map
from learner_node.strategies.base import Trainer
from learner_node.strategies.checked import PaperOptions
from protocol.hypotheses import Mlp


def train_in_site(split: Split, options: Options, train: Trainer) -> Mlp:
    """Train h*.

    Args:
        split: its private records, which also standardise the attributes, their labels, and its seed.
        options: of the paper's strategies, of which those of networks count.
        train: trains it.
    """
    features = standardising_map(split.private)
    labels = split.private_labels.astype(np.float64)
    data = TrainingSet(coordinates(features, split.private), labels, None, split.seed)
    network = train(data, PaperOptions(**options).training)  # type: ignore[arg-type]
    return Mlp.of(features, list(network.layers))
