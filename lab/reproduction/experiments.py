"""Table 2, also with one setting changed, and Figure 1: the studies of each run, and the numbers it keeps of them.

Among them is what the mechanism that the paper prints (Eq. 7) really costs; add or remove one record. It divides by the
exact number of records, which is private: noise of scale l on U becomes noise of scale l / n on U / n. The proof in the
paper (section 3.5) forgets the factor between the two densities, and the empty bin. Only a harness that owns the
records can compute these numbers; they depend on them.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lab.problems import PAPER_DATASETS
from lab.reproduction.laboratory import Laboratory, Noise, StudySettings
from lab.splits import Options, PaperDataset, split_of
from learner_node.models.source import paper_bin_count
from learner_node.strategies.base import Trainer
from learner_node.strategies.paper import SHRINKAGE


def error_ratio_epsilon(records: ArrayLike, scale: Fraction | float) -> NDArray[np.float64]:
    """Privacy loss of `clip((U + Laplace(l)) / n, 0, 1)` between n and n + 1 records in the bin.

    `max(1 / l, ln(1 + 1 / n) + n / ((n + 1) l))`, infinite at n = 0. It has the shape of
    `records`, whole numbers >= 0; the scale l is > 0.
    """
    n = np.asarray(records, dtype=np.float64)
    noise = float(scale)
    with np.errstate(divide="ignore"):
        return np.maximum(1 / noise, np.log1p(1 / n) + n / ((n + 1) * noise))


def loss_at_bins(bins: Sequence[ArrayLike], scale: Fraction | float) -> float:
    """Loss of one error query at a data set whose bins hold these numbers of records.

    A record is in one bin of each feature, so per feature the worst bin counts, and features add up. Adding a record
    to a bin of n costs epsilon(n), taking one away epsilon(n - 1): infinite where a bin holds 0 or 1 records.
    """
    return math.fsum(
        float(np.max(error_ratio_epsilon(np.maximum(np.concatenate([n, n - 1]), 0), scale)))
        for n in (np.asarray(feature, dtype=np.int64) for feature in bins)
    )


def mass_ratio_epsilon(bins: Sequence[ArrayLike], scale: Fraction | float) -> float:
    """Loss of one mass query, `clip((n_k + Laplace(l)) / N, 0, 1)` for every bin k, at these bins and their neighbours.

    One record more changes N, and with it the released ratios of *all* q bins of a feature, not of one. For a
    neighbour with one record more in bin j, the largest log-ratio of the densities is, per feature and by direction,

    * q / l: towards ratios at the ends of [0, 1], where each clipped tail, or the density beside it, moves by 1 / l;
    * q ln(1 + 1 / N) + (2 (N - n_j) / (N + 1)) / l: at the centres of the noise.

    All features' numbers of records have the same sum N.

    Returns the sum over features of the larger one, over all bins j, with one record more or one fewer; infinite for N
    of 0 or 1.
    """
    noise = float(scale)
    total = 0.0
    for n in (np.asarray(feature, dtype=np.int64) for feature in bins):
        size = int(n.sum())
        if size < 2:
            return math.inf
        fewest = int(n[n > 0].min())  # a record can only be taken from a bin that has one
        total += max(_mass_loss(len(n), size, int(n.min()), noise), _mass_loss(len(n), size - 1, fewest - 1, noise))
    return total


def _mass_loss(bins: int, records: int, least: int, noise: float) -> float:
    """The loss between N records and N + 1, where the bin that gains one has `least`."""
    centres = bins * math.log1p(1 / records) + 2 * (records - least) / ((records + 1) * noise)
    return max(bins / noise, centres)


EPSILON = Fraction(1)
PLAN_LENGTHS = range(1, 11)
FIXED_QUERIES = 3  # section 4.2 sets the noise for three queries, whatever the number of rounds
MOST_ROUNDS = 10
MOST_BINS = 1000  # far above what the rule gives here; the default of other studies would cut data set A's 110 bins
LEARNERS: tuple[Literal["C", "I"], ...] = ("C", "I")


@dataclass(frozen=True)
class Setup:
    """One data set of one experiment, as it is run."""

    problem: PaperDataset  # the data set and its networks
    queries: int  # that set the scale l = d queries / epsilon of Table 2
    ratio: float = 4.0  # records per bin over the noise's standard deviation (section 4.2)
    silent_bins: int = 16  # least bins per attribute without noise, which the ratio does not bound
    options: Options = field(default_factory=dict)  # of the strategy, beside the problem's
    noise_seed: int | None = None  # of the curators' noise; None takes exact noise

    @classmethod
    def of(cls, name: str, noise_seed: int | None = None) -> "Setup":
        """The setup of a row of Table 1."""
        problem = PAPER_DATASETS[name]
        return cls(problem, problem.queries, noise_seed=noise_seed)

    @property
    def all_options(self) -> Options:
        """All options of the strategy."""
        return self.problem.network | self.options

    def scale(self, queries: int) -> Fraction:
        """The scale l = d queries / epsilon (Eq. 14)."""
        return self.problem.dimensions * queries / EPSILON

    def bins(self, scale: Fraction, noise: Noise) -> int:
        """Bins per attribute: n' / (q sqrt(2) l) near 4 (section 4.2); without noise at least `silent_bins`."""
        bins = paper_bin_count(self.problem.target_size, scale, ratio=self.ratio, most=MOST_BINS)
        return max(bins, self.silent_bins) if noise == "none" else bins

    def laboratory(self, run: int, seed: int, train: Trainer) -> Laboratory:
        """The records and curators of one run."""
        return Laboratory(
            split_of(self.problem.draw(seed + run), seed + run, self.problem),
            reweight=self.problem.reweight,
            options=self.all_options,
            train=train,
            noise_seed=None if self.noise_seed is None else self.noise_seed + run,
        )

    def described(self) -> dict[str, str]:
        """Settings as a report shows them."""
        scale = self.scale(self.queries)
        options = {name: str(value) for name, value in self.all_options.items()}
        return {
            "attributes": str(self.problem.dimensions),
            "private records": str(self.problem.target_size),
            "hypotheses T": str(self.problem.rounds),
            "masses asked": "yes" if self.problem.reweight else "no",
            "scale l": str(scale),
            "bins": f"{self.bins(scale, 'printed')}, without privacy {self.bins(scale, 'none')}",
            "label regularisation (ours, the paper has none)": f"{SHRINKAGE} x variance of noise and sampling",
            **options,
        }


def table_studies(setup: Setup) -> dict[str, StudySettings]:
    """Column -> study, for one run of Table 2."""
    scale = setup.scale(setup.queries)
    prefixes: tuple[tuple[str, Noise], ...] = (("", "none"), ("1DP-", "printed"), ("valid-1DP-", "valid"))
    return {
        f"{prefix}{learner}-ExPriL": StudySettings(
            learner, noise, setup.problem.rounds, scale, setup.bins(scale, noise)
        )
        for prefix, noise in prefixes
        for learner in LEARNERS
    }


def table_run(laboratory: Laboratory, setup: Setup) -> dict[str, float]:
    """The columns of Table 2 for one run: accuracies in percent, `ratio` and the epsilons as plain numbers."""
    accuracies = {"h_star": 100 * laboratory.in_site(), "h0_star": 100 * laboratory.majority()}
    workloads = {}
    for column, settings in table_studies(setup).items():
        answer = laboratory.study(settings)
        accuracies[column] = 100 * answer.accuracies[-1]
        workloads[column] = [laboratory.bin_records(workload) for workload in answer.workloads]
    ratio = (accuracies["h_star"] - accuracies["C-ExPriL"]) / accuracies["h_star"]
    printed, scale = workloads["1DP-C-ExPriL"], setup.scale(setup.queries)
    return accuracies | {
        "ratio": ratio,
        # What each of the two valid studies spent by its curator's ledger.
        "epsilon_claimed": float(laboratory.spent(simulation=False) / len(LEARNERS)),
        "epsilon_printed_worst": math.inf,
        "epsilon_printed_at_data": math.fsum(loss_at_bins(bins, scale) for bins in printed),
        "epsilon_printed_masses": mass_ratio_epsilon(printed[0], scale) if setup.problem.reweight else 0.0,
    }


def printed_run(laboratory: Laboratory, setup: Setup) -> dict[str, float]:
    """The columns of Table 2 that a setting may change and the paper has, for one run: accuracies in percent."""
    numbers = {"h_star": 100 * laboratory.in_site()}
    for column, settings in table_studies(setup).items():
        if settings.noise != "valid":
            numbers[column] = 100 * laboratory.study(settings).accuracies[-1]
    return numbers


@dataclass(frozen=True)
class CurveKey:
    """Names one curve of Figure 1; its text is the name of its numbers in the store."""

    learner: Literal["C", "I"]
    noise: Noise
    fixed: bool

    def __str__(self) -> str:
        return f"{self.learner} {self.noise} {'fixed' if self.fixed else 'plan'}"


_KINDS: tuple[tuple[Noise, bool], ...] = (("none", False), ("printed", False), ("valid", False), ("printed", True))
CURVES = tuple(CurveKey(learner, noise, fixed) for noise, fixed in _KINDS for learner in LEARNERS)


def curve_scale(setup: Setup, key: CurveKey, rounds: int) -> Fraction:
    """L of a study of T rounds: d (T + 1) / epsilon, or the fixed 3 d / epsilon."""
    return setup.scale(FIXED_QUERIES if key.fixed else rounds + 1)


def curve_epsilon(setup: Setup, key: CurveKey, rounds: int) -> Fraction:
    """The cost that h_T claims: queries times d / l. The printed mechanism's claim is wrong."""
    queries = rounds + setup.problem.reweight
    return queries * setup.problem.dimensions / curve_scale(setup, key, rounds)


def curve_studies(setup: Setup) -> Iterator[tuple[CurveKey, StudySettings]]:
    """The studies of one run of Figure 1.

    With a scale that fits the plan, each length T is a study of its own, and its last hypothesis gives the point.
    Without noise, or with a fixed scale, h_t does not depend on T: one study gives all points.
    """
    for key in CURVES:
        if key.fixed or key.noise == "none":
            scale = setup.scale(FIXED_QUERIES if key.fixed else setup.queries)
            yield key, StudySettings(key.learner, key.noise, MOST_ROUNDS, scale, setup.bins(scale, key.noise))
            continue
        for rounds in PLAN_LENGTHS:
            scale = curve_scale(setup, key, rounds)
            yield key, StudySettings(key.learner, key.noise, rounds, scale, setup.bins(scale, key.noise))


def curve_run(laboratory: Laboratory, setup: Setup) -> dict[str, float]:
    """`"<curve> <t>"` -> acc(h_t) - acc(h*) in percentage points, for one run."""
    reference = laboratory.in_site()
    numbers = {}
    for key, settings in curve_studies(setup):
        accuracies = laboratory.study(settings).accuracies
        shared = key.fixed or key.noise == "none"
        points = enumerate(accuracies, 1) if shared else [(settings.rounds, accuracies[-1])]
        for rounds, accuracy in points:
            numbers[f"{key} {rounds}"] = 100 * (accuracy - reference)
    return numbers


METHOD = ("C-ExPriL", "I-ExPriL", "1DP-C-ExPriL", "1DP-I-ExPriL")


@dataclass(frozen=True)
class Setting:
    """One thing that the paper leaves open, changed."""

    title: str  # for people, what is changed
    change: Callable[[Setup], Setup]  # a setup -> the changed setup
    published: Mapping[str, int]  # data set -> runs in docs/results/reproduction
    of_training: bool = False  # it changes h* too

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of Table 2 that it changes and the paper has."""
        return ("h_star", *METHOD) if self.of_training else METHOD


def changed(setup: Setup, **options: object) -> Setup:
    """The setup with options of the strategy changed."""
    return replace(setup, options={**setup.options, **options})


def _epochs(setup: Setup, factor: float) -> Setup:
    return changed(setup, epochs=round(setup.problem.training.epochs * factor))


def _finer(setup: Setup, factor: float) -> Setup:
    """The setup with `factor` times the bins, with and without noise."""
    floor = max(2, round(setup.silent_bins * factor))
    return replace(setup, ratio=setup.ratio / factor, silent_bins=floor)


ALL = tuple(PAPER_DATASETS)
SETTINGS = {
    "descent-1": Setting(
        "labels after 1 diagonally scaled gradient step",
        lambda setup: changed(setup, label_steps=1),
        dict.fromkeys("ABCDE", 20),
    ),
    "descent-3": Setting(
        "labels after 3 diagonally scaled gradient steps",
        lambda setup: changed(setup, label_steps=3),
        dict.fromkeys(ALL, 20),
    ),
    "descent-10": Setting(
        "labels after 10 diagonally scaled gradient steps", lambda setup: changed(setup, label_steps=10), {}
    ),
    "unshrunk": Setting(
        "labels with next to no regularisation", lambda setup: changed(setup, label_alpha=1e-3), dict.fromkeys(ALL, 20)
    ),
    "weakly-shrunk": Setting(
        "labels with a weak regularisation", lambda setup: changed(setup, label_alpha=80.0), {"CTG-A": 40}
    ),
    "rule-bins": Setting(
        "bins by the rule for noise also without it", lambda setup: replace(setup, silent_bins=2), {"CTG-A": 40}
    ),
    "longer-training": Setting(
        "a third more epochs", lambda setup: _epochs(setup, 4 / 3), {"E": 50, "CTG-B": 50}, of_training=True
    ),
    "shorter-training": Setting(
        "a quarter fewer epochs", lambda setup: _epochs(setup, 3 / 4), {"D": 50}, of_training=True
    ),
    "fine-bins": Setting(
        "four times the bins, next to no regularisation",
        lambda setup: changed(_finer(setup, 4), label_alpha=1e-3),
        dict.fromkeys(ALL, 20),
    ),
}
"""Name -> what is changed, to see what closes a gap."""


@dataclass(frozen=True)
class Experiment:
    """The runs of one file of cells."""

    measure: Callable[[Laboratory, Setup], dict[str, float]]  # the numbers of one run
    networks: Callable[[Setup], int]  # how many that trains
    published: Mapping[str, int]  # data set -> runs in docs/results/reproduction
    setting: str = ""  # key of `SETTINGS`; "" for the paper's own

    def setups(self, noise_seed: int | None = None) -> dict[str, Setup]:
        """The setup of each data set."""
        plain = {name: Setup.of(name, noise_seed) for name in ALL}
        return {name: SETTINGS[self.setting].change(setup) for name, setup in plain.items()} if self.setting else plain


def _networks(studies: Iterable[StudySettings]) -> int:
    return 1 + sum(study.rounds for study in studies)


TABLE, FIGURE = "table2", "figure1"
EXPERIMENTS = {
    TABLE: Experiment(table_run, lambda setup: _networks(table_studies(setup).values()), dict.fromkeys(ALL, 100)),
    **{
        f"{TABLE}-{name}": Experiment(
            printed_run,
            lambda setup: _networks(study for study in table_studies(setup).values() if study.noise != "valid"),
            setting.published,
            name,
        )
        for name, setting in SETTINGS.items()
    },
    FIGURE: Experiment(
        curve_run, lambda setup: _networks(study for _, study in curve_studies(setup)), dict.fromkeys(ALL, 5)
    ),
}
"""Name, of its file of cells and in the provenance -> what it is."""
