"""Other processors, as far as a study can tell: what it computes by floats comes out otherwise.

A real processor moves the last digits, and what is trained on them by more. Here everything that a learner draws,
trains or solves before it asks is moved by far more, so that nothing of it can be the same by chance.
"""

from dataclasses import replace

import numpy as np

from learner_node.models import distillation, partitions, source
from learner_node.strategies import additive, base, perspectives
from learner_node.strategies import models as in_site


class Moved:
    """Moves what a learner draws on its source, each time by another random part of itself.

    Args:
        monkeypatch: of the test.
        seed: another one is another processor.
        by: relative error.
        features: whether the coordinates of the source move, too, and with them everything that is fitted. Otherwise
            nothing moves but what is drawn to be asked.
    """

    def __init__(self, monkeypatch, seed, *, by=1e-3, features=True):
        self.rng, self.by = np.random.default_rng(seed), by
        if features:
            monkeypatch.setattr(source, "NumericFeature", self.feature(source.NumericFeature))
            monkeypatch.setattr(base, "train_networks", self.networks(base.train_networks))
        monkeypatch.setattr(source, "KMeans", self.clusters(source.KMeans))
        for module in (source, partitions):
            monkeypatch.setattr(module, "quantiles", self.array(module.quantiles))
        monkeypatch.setattr(distillation, "solve", self.array(distillation.solve))
        if by >= 0.1:
            for module in (additive, in_site):
                monkeypatch.setattr(module, "tied_bins", self.fewer(module.tied_bins))
            monkeypatch.setattr(in_site, "unit_map", self.wider(in_site.unit_map))
            monkeypatch.setattr(perspectives, "tree_leaves", self.lighter(perspectives.tree_leaves))

    def move(self, values):
        """Ascending values stay ascending: they are edges."""
        return values * (1 + self.by * self.rng.uniform(0.5, 1))

    def array(self, function):
        return lambda *args, **how: self.move(function(*args, **how))

    def feature(self, kind):
        return lambda name, offset, factor, filled: kind(name, self.move(offset), self.move(factor), filled)

    def clusters(self, kind):
        class Clusters(kind):
            def fit(this, *args, **how):  # noqa: N805 - of another class
                super().fit(*args, **how)
                this.cluster_centers_ += self.by * self.rng.standard_normal(this.cluster_centers_.shape)
                return this

        return Clusters

    def networks(self, train):
        return lambda data, options: [self.network(each) for each in train(data, options)]

    def network(self, trained):
        return replace(
            trained,
            layers=tuple((self.move(w).astype(np.float32), self.move(b).astype(np.float32)) for w, b in trained.layers),
        )

    @staticmethod
    def fewer(bins_of):
        return lambda source, name, bins: bins_of(source, name, max(bins - 1, 1))

    @staticmethod
    def wider(map_of):
        return lambda source, share: map_of(source, share / 2)

    @staticmethod
    def lighter(leaves_of):
        return lambda *args, weights, **how: leaves_of(*args, weights=weights[::-1], **how)
