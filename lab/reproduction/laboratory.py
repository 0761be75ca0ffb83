"""One run's records behind real curators, and the studies that a learner makes with them.

Nothing of the protocol is made anew here: the same curator, ledger, learner and messages as in any study, carried by
direct calls (`simulations.carriers.direct`) because a round takes less time than a carrier would.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from curator_node.kinds import ANSWERERS
from curator_node.ledger import memory_ledger
from curator_node.site import assemble_site, hold_records
from lab.curators import roomy_policy, spent
from lab.splits import Options, Split
from learner_node.models.networks import TrainingSet
from learner_node.models.source import coordinates, standardising_map
from learner_node.strategies.base import Trainer, class_probabilities
from learner_node.strategies.options import PaperOptions
from learner_node.study.budget import Budget
from learner_node.study.learn import learn
from learner_node.study.pooling import POOLED
from protocol.envelopes import SigningKey
from protocol.hypotheses import Mlp
from protocol.partitions import FeatureBins, Partition
from simulations.carriers.direct import direct_federation
from simulations.kinds import SIMULATED_ANSWERERS
from simulations.seeded_noise import SeededNoise

Noise = Literal["none", "printed", "valid"]
"""No privacy; the paper's mechanism as printed (Eq. 7), whose claim is wrong; the valid mechanism."""
NOISE_TITLES: dict[Noise, str] = {"none": "no privacy", "printed": "printed mechanism", "valid": "valid mechanism"}
ORACLE = "oracle"
SILENT_SCALE = Fraction(1, 1000)
"""Scale of the noise in studies without noise: a draw beyond 0.03 has a probability below 1e-13."""


@dataclass(frozen=True)
class StudySettings:
    """One study of the paper."""

    learner: Literal["C", "I"]  # "C" (cumulative) or "I" (instantaneous)
    noise: Noise  # which mechanism
    rounds: int  # T, hypotheses whose errors are asked
    scale: Fraction  # l, of every query; `noise="none"` replaces it by next to nothing
    bins: int  # per attribute


@dataclass(frozen=True)
class StudyFound:
    """The outcome of one study."""

    accuracies: list[float]  # of h_1 .. h_T on the test records, in [0, 1].
    workloads: list[tuple[FeatureBins, ...]]  # the bins of each query, in order


def train_in_site(split: Split, options: Options, train: Trainer) -> Mlp:
    """Train the reference h*: the paper's network, in site, on the private records with their labels.

    The private records also standardise the attributes; of the strategy's options those of networks count.
    """
    features = standardising_map(split.private)
    labels = split.private_labels.astype(np.float64)
    data = TrainingSet(coordinates(features, split.private), labels, None, split.seed)
    network = train(data, PaperOptions(**options).training)  # type: ignore[arg-type]
    return Mlp.of(features, list(network.layers))


class Laboratory:
    """The records of one run: curators that answer from them, the learner's source, and the test records.

    The split's seed is that of the learner's networks, too. With `reweight` the learner asks the masses first (Pb. 1).
    `options` are the strategy's beside those of `StudySettings`: hidden, epochs, batch_size and others. A noise seed
    is for debugging and comparison; without it noise is a curator's own.
    """

    def __init__(
        self, split: Split, *, reweight: bool, options: Options, train: Trainer, noise_seed: int | None = None
    ) -> None:
        self._split, self._reweight, self._options, self._train = split, reweight, options, train
        self._key = SigningKey.generate()
        (private,) = split.sites
        noise = None if noise_seed is None else SeededNoise(noise_seed, split.problem)
        keys = {printed: SigningKey.generate() for printed in (False, True)}
        policies = {
            printed: roomy_policy(self._key, name=ORACLE, simulation=printed or noise is not None, printed=printed)
            for printed in keys
        }
        dataset = hold_records(private.frame, private.steward, policies[False], keys[False])
        self._sites = {
            printed: assemble_site(
                dataset,
                policies[printed],
                key=key,
                ledger=memory_ledger(key),
                noise=noise,
                answerers=SIMULATED_ANSWERERS if printed else ANSWERERS,
            )
            for printed, key in keys.items()
        }

    def study(self, settings: StudySettings) -> StudyFound:
        """Make one study.

        The valid mechanism is asked of a curator that refuses the printed one and, unless its noise is seeded,
        signs as any curator in use does.
        """
        scale = settings.scale if settings.noise != "none" else SILENT_SCALE
        queries = settings.rounds + self._reweight
        site = self._sites[settings.noise != "valid"]
        learned = learn(
            direct_federation({ORACLE: site}, self._key),
            lambda _schema: self._split.source,
            Budget(len(self._split.schema.attributes) * queries / scale),
            strategy=f"paper-{settings.learner.lower()}",
            options={
                **self._options,
                "rounds": settings.rounds,
                "reweight": self._reweight,
                "bins": settings.bins,
                "printed": settings.noise != "valid",
            },
            seed=self._split.seed,
            train=self._train,
        )
        answered = [model for model in learned.models[POOLED] if model is not None]
        return StudyFound(
            [self._accuracy(class_probabilities(model, self._split.test)[:, 1] > 0.5) for model in answered],
            [_feature_bins(round_.bodies[ORACLE].partitions) for round_ in learned.study.rounds],
        )

    def in_site(self) -> float:
        """Test accuracy of h*: the same network, trained on the private records with their labels."""
        network = train_in_site(self._split, self._options, self._train)
        return self._accuracy(network.predict(self._split.test))

    def majority(self) -> float:
        """Test accuracy of h0*: the private records' more frequent class."""
        return self._accuracy(np.full(len(self._split.test), self._split.private_labels.mean() > 0.5))

    def bin_records(self, workload: Sequence[FeatureBins]) -> list[NDArray[np.int64]]:
        """Exact numbers of private records per bin of each attribute. Only a harness may read them.

        The bin of missing values is left out: the paper has none, and no record of these data sets is in it.
        """
        return [np.bincount(bins.cells(self._split.private), minlength=len(bins.edges) + 1) for bins in workload]

    def spent(self, *, simulation: bool) -> Fraction:
        """Exact epsilon that the learner spent at the valid curator, or at the one of the printed mechanism."""
        return spent(self._sites[simulation], self._key)

    def _accuracy(self, predicted: NDArray[np.bool_]) -> float:
        return float(np.mean(predicted == self._split.test_labels))


def _feature_bins(partitions: Sequence[Partition]) -> tuple[FeatureBins, ...]:
    return tuple(partition for partition in partitions if isinstance(partition, FeatureBins))
