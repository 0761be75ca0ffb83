"""One run's records behind real curators, and the studies that a learner makes with them.

Nothing of the protocol is made anew here: the same curator, ledger, learner and messages as in any study, carried by
direct calls (`simulations.direct`) because a round takes less time than a carrier would.
"""

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from curator_node.curator import Curator
from curator_node.dataset import PrivateDataset
from curator_node.ledger import Ledger
from curator_node.ledger_store import MemoryStore
from curator_node.mechanisms import OpenDPNoise
from curator_node.policy import LearnerPolicy, Policy
from curator_node.steward import StewardFile
from learner_node.learn import POOLED, learn
from learner_node.networks import TrainingOptions, TrainingSet
from learner_node.source import coordinates, standardising_map
from learner_node.strategies.base import Trainer, class_probabilities
from learner_node.study import Federation
from protocol.envelopes import LABEL as PRODUCTION
from protocol.envelopes import SigningKey
from protocol.hypotheses import Mlp
from protocol.partitions import FeatureBins, Partition
from protocol.queries.limits import Limits
from protocol.rationals import MOST
from protocol.records import encode_frame
from protocol.release_kinds import RELEASE_KINDS
from protocol.schema import NumericAttribute
from simulations.direct import DirectCarrier
from simulations.reproduction.draws import Draw
from simulations.reproduction.model import Noise
from simulations.seeded_noise import SeededNoise

ORACLE = "oracle"
LABEL_COLUMN, CLASSES = "label", ("0", "1")
BOUND = 32.0
"""Declared bounds of all attributes: the records are standardised by the source, or lie in [0, 1]. A few CTG rows
(12 in 20 draws) have an attribute beyond; it counts as the bound."""
SILENT_SCALE = Fraction(1, 1000)
"""Scale of the noise where none is wanted: a draw beyond 0.03 has a probability below 1e-13."""
Options = dict[str, object]


@dataclass(frozen=True)
class StudySettings:
    """One study of the paper.

    Attributes:
        learner: "C" (cumulative) or "I" (instantaneous).
        noise: which mechanism.
        rounds: T, hypotheses whose errors are asked.
        scale: l, of every query; `noise="none"` replaces it by next to nothing.
        bins: per attribute.
    """

    learner: Literal["C", "I"]
    noise: Noise
    rounds: int
    scale: Fraction
    bins: int


@dataclass(frozen=True)
class StudyFound:
    """What one study gave.

    Attributes:
        accuracies: of h_1 .. h_T on the test records, in [0, 1].
        workloads: the bins of each query, in order.
    """

    accuracies: list[float]
    workloads: list[tuple[FeatureBins, ...]]


class Laboratory:
    """The records of one run: curators that answer from them, the learner's source, and the test records.

    Args:
        draw: the run's records.
        reweight: the learner asks the masses first (Pb. 1).
        options: of the strategy, beside those that `StudySettings` gives: hidden, epochs, batch_size, ...
        seed: of the learner's networks.
        train: trains networks.
        noise_seed: of the curators' noise, for debugging and comparison; None takes OpenDP's.
    """

    def __init__(
        self,
        draw: Draw,
        *,
        reweight: bool,
        options: Options,
        seed: int,
        train: Trainer,
        noise_seed: int | None = None,
    ) -> None:
        self._reweight, self._options, self._seed, self._train = reweight, options, seed, train
        self._steward = _steward(draw)
        frame = _frame(draw, draw.oracle).with_columns(pl.Series(LABEL_COLUMN, draw.oracle_labels).cast(pl.String))
        self._source = encode_frame(_frame(draw, draw.source), self._steward.schema)
        self._private = encode_frame(frame, self._steward.schema)
        self._private_labels = draw.oracle_labels.astype(np.float64)
        self._test = encode_frame(_frame(draw, draw.test), self._steward.schema)
        self._test_labels = draw.test_labels > 0
        self._key = SigningKey.generate()
        dataset = PrivateDataset(frame, self._steward, unit_key=secrets.token_bytes(32), cache_bytes=2**28)
        source = OpenDPNoise() if noise_seed is None else SeededNoise(noise_seed, draw.name)
        self._ledgers = {simulation: Ledger(MemoryStore()) for simulation in (False, True)}
        self._curators = {
            simulation: Curator(
                dataset=dataset,
                ledger=ledger,
                key=SigningKey.generate(),
                policy=_policy(self._key, simulation=simulation or source.seeded, printed=simulation),
                clock=_now,
                noise=source,
            )
            for simulation, ledger in self._ledgers.items()
        }

    def study(self, settings: StudySettings) -> StudyFound:
        """Make one study.

        The valid mechanism is asked of a curator that refuses the printed one and, unless its noise is seeded,
        signs as any curator in use does.
        """
        scale = settings.scale if settings.noise != "none" else SILENT_SCALE
        queries = settings.rounds + self._reweight
        curator = self._curators[settings.noise != "valid"]
        learned = learn(
            Federation(
                curators={ORACLE: curator.identity},
                key=self._key,
                carrier=DirectCarrier({curator.identity: curator.handle}),
                clock=_now,
                entropy=secrets.token_bytes,
                allow_not_private=curator.label != PRODUCTION,
            ),
            lambda _schema: self._source,
            strategy=f"paper-{settings.learner.lower()}",
            options={
                **self._options,
                "rounds": settings.rounds,
                "reweight": self._reweight,
                "bins": settings.bins,
                "printed": settings.noise != "valid",
            },
            epsilon=len(self._steward.attributes) * queries / scale,
            seed=self._seed,
            train=self._train,
        )
        answered = [model for model in learned.models[POOLED] if model is not None]
        return StudyFound(
            [self._accuracy(class_probabilities(model, self._test)[:, 1] > 0.5) for model in answered],
            [_feature_bins(asked.bodies[ORACLE].partitions) for asked in learned.study.rounds],
        )

    def in_site(self) -> float:
        """Test accuracy of h*: the same network, trained on the private records with their labels."""
        features = standardising_map(self._private)
        data = TrainingSet(coordinates(features, self._private), self._private_labels, None, self._seed)
        network = self._train(data, training_options(self._options))
        return self._accuracy(Mlp.of(features, list(network.layers)).predict(self._test))

    def majority(self) -> float:
        """Test accuracy of h0*: the private records' more frequent class."""
        return self._accuracy(np.full(len(self._test), self._private_labels.mean() > 0.5))

    def bin_records(self, workload: Sequence[FeatureBins]) -> list[NDArray[np.int64]]:
        """Exact numbers of private records per bin of each attribute; for a harness's eyes only.

        The bin of missing values is left out: the paper has none, and no record of these data sets is in it.
        """
        return [np.bincount(bins.cells(self._private), minlength=len(bins.edges) + 1) for bins in workload]

    def spent(self, *, simulation: bool) -> Fraction:
        """Exact epsilon that the learner spent at the valid curator, or at the one of the printed mechanism."""
        return self._ledgers[simulation].account.spent.get(self._key.public, Fraction(0))

    def _accuracy(self, predicted: NDArray[np.bool_]) -> float:
        return float(np.mean(predicted == self._test_labels))


def _feature_bins(partitions: Sequence[Partition]) -> tuple[FeatureBins, ...]:
    return tuple(partition for partition in partitions if isinstance(partition, FeatureBins))


def training_options(options: Options) -> TrainingOptions:
    """The training part of a strategy's options."""
    names = ("hidden", "epochs", "batch_size", "learning_rate", "weight_decay")
    return TrainingOptions(**{name: options[name] for name in names if name in options})  # type: ignore[arg-type]


def _policy(learner: SigningKey, *, simulation: bool, printed: bool) -> Policy:
    kinds = tuple(name for name, kind in RELEASE_KINDS.items() if kind.private or printed)
    return Policy(
        name=ORACLE,
        cap=MOST,
        learners=(LearnerPolicy(name="learner", key=learner.public.hex(), cap=MOST),),
        limits=Limits(release_kinds=kinds),
        simulation=simulation,
    )


def _steward(draw: Draw) -> StewardFile:
    """A schema of numeric attributes; the paper takes every row as independent, so the record is the unit."""
    attributes = tuple(NumericAttribute(name=name, lower=-BOUND, upper=BOUND) for name in draw.attributes)
    return StewardFile(label=LABEL_COLUMN, classes=CLASSES, attributes=attributes, round_size=len(draw.oracle))


def _frame(draw: Draw, records: NDArray[np.float64]) -> pl.DataFrame:
    return pl.DataFrame({name: records[:, index] for index, name in enumerate(draw.attributes)})


def _now() -> int:
    return int(time.time())
