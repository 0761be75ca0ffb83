"""Options of the strategies, checked without loading a strategy, so that reading a scenario does not load torch.

Each strategy has a function here that takes its options by name, with their defaults, and returns their values as the
strategy uses them. ValueError or TypeError says what a value must be.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from learner_node.models.training_options import TrainingOptions
from protocol.errors import ConfigurationError
from protocol.plans import MOST_QUERIES
from protocol.rationals import parse_rational

Rounds = tuple[int, tuple[Fraction, ...]]
"""The number of rounds, and each round's share of epsilon."""
LEAST_SQUARES, TILT = "least-squares", "tilt"
"""Ways in which the paper's strategy computes weights."""
Share = int | float | str | Fraction
MOST_NUMBER = 1e12


def names_of(maker: Callable[..., object]) -> list[str]:
    """Option names of a strategy's factory or options class; "**" if it takes any."""
    parameters = inspect.signature(maker).parameters.values()
    return ["**" if parameter.kind is parameter.VAR_KEYWORD else parameter.name for parameter in parameters]


def whole_number(name: str, value: object, least: int = 1, most: int = 100_000) -> int:
    """The value of an option. Raises ValueError unless it is a whole number in that range."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not least <= value <= most:
        raise ValueError(f"{name} must be a whole number from {least} to {most}")
    return int(value)


def whole_or_none(name: str, value: object) -> int | None:
    """The value of an option that may be None; any other value is checked by `whole_number`."""
    return None if value is None else whole_number(name, value)


def number(name: str, value: object) -> float:
    """The value of an option. Raises TypeError unless it is a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not -MOST_NUMBER <= value <= MOST_NUMBER:
        raise TypeError(f"{name} must be a number of at most {MOST_NUMBER:g}")
    return float(value)


def widths(value: object) -> tuple[int, ...]:
    """The option `hidden`. Raises ValueError or TypeError unless it is a list of widths of layers."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise TypeError("hidden must be a list of whole numbers, one width a layer")
    return tuple(whole_number("each width of hidden", width) for width in value)


def texts(name: str, value: object) -> tuple[str, ...]:
    """The value of an option. Raises ValueError or TypeError unless it is a non-empty list of different texts."""
    if isinstance(value, str) or not isinstance(value, Sequence) or not all(isinstance(item, str) for item in value):
        raise TypeError(f'{name} must be a list of names, such as ["age", "sex"]')
    if not value or len(set(value)) < len(value):
        raise ValueError(f"{name} must list at least one name, and none twice")
    return tuple(map(str, value))


def flag(name: str, value: object) -> bool:
    """The value of an option. Raises TypeError unless it is true or false."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be true or false")
    return bool(value)


def part_of_epsilon(name: str, value: object) -> Fraction:
    """An exact share of epsilon in [0, 1). 0 is tested first, as it is not a positive rational."""
    if isinstance(value, bool) or not isinstance(value, Share):
        raise TypeError(f'{name} must be a number at least 0 and below 1, such as 0.1 or "1/10"')
    if value in (0, "0"):
        return Fraction(0)
    try:
        share = parse_rational(value)
    except ConfigurationError as error:
        raise ValueError(f"{name} must be at least 0 and below 1: {error}") from None
    if share >= 1:
        raise ValueError(f"{name} must be at least 0 and below 1")
    return share


def exact_shares(rounds: int, shares: Sequence[Share] | None) -> tuple[Fraction, ...]:
    """Shares of epsilon for each round, positive, with sum exactly 1.

    `shares` has one number per round in any unit, such as [1, 3] or ["1/4", "3/4"]; None is equal shares. Raises
    ValueError: there is not one positive number for each round.
    """
    if shares is None:
        return (Fraction(1, rounds),) * rounds
    listed = isinstance(shares, Sequence) and not isinstance(shares, str)
    if not listed or len(shares) != rounds or not all(isinstance(share, Share) for share in shares):
        raise ValueError(f"shares must be a list of {rounds} positive numbers, one for each round")
    try:
        exact = [parse_rational(share) for share in shares]
    except ConfigurationError as error:
        raise ValueError(f"shares: {error}") from None
    return tuple(share / sum(exact) for share in exact)


QUESTIONS = ("label_total", "squared_error")
"""Ways to ask about a numeric label."""
CHOSEN = 8
"""Default number of attributes that `additive` keeps after a first question."""
HIDDEN = (32, 32)


def rounds_and_shares(rounds: int, shares: Sequence[Share] | None, least: int = 1) -> Rounds:
    """Rounds and shares of a strategy that needs at least `least` rounds."""
    count = whole_number("rounds", rounds, least=least, most=MOST_QUERIES)
    return count, exact_shares(count, shares)


def adaptive_cells(
    *, rounds: int = 2, cells: int | None = None, tree: bool = False, shares: Sequence[Share] | None = None
) -> tuple[Rounds, int | None, bool]:
    """Options of `AdaptiveCellsStrategy`."""
    return rounds_and_shares(rounds, shares, least=2), whole_or_none("cells", cells), flag("tree", tree)


def additive(
    *,
    attributes: Sequence[str] | None = None,
    bins: int | None = None,
    choice_share: Share = 0,
    chosen: int = CHOSEN,
) -> tuple[tuple[str, ...] | None, int | None, Fraction, int]:
    """Options of `AdditiveStrategy`."""
    names = None if attributes is None else texts("attributes", attributes)
    share = part_of_epsilon("choice_share", choice_share)
    values = names, whole_or_none("bins", bins), share, whole_number("chosen", chosen)
    if names is not None and share:
        raise ValueError("with attributes named there is none to choose; leave choice_share out")
    return values


def cells_of_two(
    *, cells: int | None = None, networks: bool = True, same_population: bool = False, mass_share: Share = 0
) -> tuple[int | None, bool, bool, Fraction]:
    """Options of `CellsStrategy`."""
    same, share = flag("same_population", same_population), part_of_epsilon("mass_share", mass_share)
    if same and share:
        raise ValueError("with same_population the masses are known; leave mass_share out")
    return whole_or_none("cells", cells), flag("networks", networks), same, share


def cells_of_number(
    *, cells: int | None = None, error_share: Share | None = None, question: str = QUESTIONS[0]
) -> tuple[int | None, Fraction | None, str]:
    """Options of `CellsNumberStrategy`."""
    if question not in QUESTIONS:
        raise ValueError(f"question must be one of {', '.join(QUESTIONS)}, not {question!r}")
    share = None if error_share is None else part_of_epsilon("error_share", error_share)
    return whole_or_none("cells", cells), share, question


def attributes_chosen(*, chosen: int | None = None) -> int | None:
    """Number of attributes that each curator chooses first, 0 for none; None decides by public facts."""
    return None if chosen is None else whole_number("chosen", chosen, least=0, most=100)


def cells(
    *,
    cells: int | None = None,
    chosen: int | None = None,
    error_share: Share | None = None,
    mass_share: Share = 0,
    networks: bool = True,
    question: str = QUESTIONS[0],
    same_population: bool = False,
) -> None:
    """Check options of `CellsByLabel` that are valid for any label; the card says which label it is."""
    attributes_chosen(chosen=chosen)
    cells_of_two(cells=cells, networks=networks, same_population=same_population, mass_share=mass_share)
    cells_of_number(cells=cells, error_share=error_share, question=question)


def importance(
    *,
    bins: int | None = None,
    hidden: Sequence[int] = HIDDEN,
    epochs: int = 40,
    batch_size: int = 512,
    learning_rate: float = 1e-2,
    weight_decay: float = 1e-4,
) -> tuple[int | None, TrainingOptions]:
    """Options of `ImportanceStrategy`."""
    training = TrainingOptions(
        widths(hidden),
        whole_number("epochs", epochs),
        whole_number("batch_size", batch_size),
        number("learning_rate", learning_rate),
        number("weight_decay", weight_decay),
    )
    return whole_or_none("bins", bins), training


def informative(
    *, pairs: int = 1, bins: int | None = None, shares: Sequence[Share] | None = None
) -> tuple[Rounds, int, int | None]:
    """Options of `InformativeStrategy`."""
    rounds = rounds_and_shares(2, [1, 3] if shares is None else shares)
    return rounds, whole_number("pairs", pairs), whole_or_none("bins", bins)


def new_features(
    *,
    rounds: int = 2,
    cells: int | None = None,
    score: bool = False,
    projections: int = 1,
    learned: bool = True,
    hidden: Sequence[int] = HIDDEN,
    shares: Sequence[Share] | None = None,
) -> tuple[Rounds, int | None, bool, int, bool, TrainingOptions]:
    """Options of `NewFeaturesStrategy`."""
    plan = rounds_and_shares(rounds, shares, least=2), whole_or_none("cells", cells)
    asks = flag("score", score), whole_number("projections", projections, least=0), flag("learned", learned)
    if not (score or projections):
        raise ValueError("ask the score, projections, or both")
    return *plan, *asks, TrainingOptions(widths(hidden))


@dataclass(frozen=True)
class PaperOptions:
    """Options of the paper's strategies, named as in a scenario. Raises ValueError or TypeError for a wrong value."""

    rounds: int = 2  # T, hypotheses whose errors are asked; fixed in advance
    # ask the masses first (Pb. 1). Without it source and target must have the same distribution, and error/correct
    # pairs are asked.
    reweight: bool = True
    # how Pb. 1 is solved: "least-squares" (Eq. 2), or "tilt" for weights of exponential form.
    weighting: str = LEAST_SQUARES
    bins: int | None = None  # bins per attribute; None takes the paper's rule
    # weight of Pb. 2's regularisation towards 1/2, in squared counts, >= 0; None takes it from the variance of noise
    # and sampling.
    label_alpha: float | None = None
    # approach Pb. 2 by so many gradient steps (`descend_labels`), as the paper may have; None solves it.
    label_steps: int | None = None
    soft_labels: bool = False  # train on the relaxed labels of Pb. 2, in [0, 1]; False rounds them.
    # hidden, epochs, batch_size, learning_rate, weight_decay: of the networks, see `TrainingOptions`
    hidden: Sequence[int] = (32, 32)
    epochs: int = 40
    batch_size: int = 512
    learning_rate: float = 1e-2
    weight_decay: float = 1e-4
    printed: bool = False  # use `paper_ratio`, whose claim is wrong; simulations only

    def __post_init__(self) -> None:
        whole_number("rounds", self.rounds, most=MOST_QUERIES - 1)
        if self.weighting not in (LEAST_SQUARES, TILT):
            raise ValueError(f'weighting must be "{LEAST_SQUARES}" or "{TILT}"')
        if self.weighting == TILT and self.printed:
            raise ValueError(f'weighting = "{TILT}" needs counts; the printed mechanism gives none')
        for name in ("bins", "label_steps"):
            whole_or_none(name, getattr(self, name))
        for name in ("epochs", "batch_size"):
            whole_number(name, getattr(self, name))
        for name in ("reweight", "soft_labels", "printed"):
            flag(name, getattr(self, name))
        for name in ("learning_rate", "weight_decay"):
            number(name, getattr(self, name))
        widths(self.hidden)
        if self.label_alpha is not None and number("label_alpha", self.label_alpha) < 0:
            raise ValueError(f"label_alpha must be finite and not negative, not {self.label_alpha}")
        _ = self.training

    @property
    def training(self) -> TrainingOptions:
        """Training options of every network."""
        return TrainingOptions(tuple(self.hidden), self.epochs, self.batch_size, self.learning_rate, self.weight_decay)


def random_subsets(
    *, rounds: int = 2, features: int | None = None, bins: int | None = None, shares: Sequence[Share] | None = None
) -> tuple[Rounds, int | None, int | None]:
    """Options of `RandomSubsetsStrategy`."""
    return rounds_and_shares(rounds, shares), whole_or_none("features", features), whole_or_none("bins", bins)


def selected_cells(
    *,
    features: int = 5,
    share: Share = "1/10",
    weights: Sequence[int] = (1, 1),
    cells: int | None = None,
    networks: bool = True,
) -> tuple[int, Fraction, tuple[int, ...]]:
    """Options of `SelectedCellsStrategy`; those of `cells` are checked, but not returned."""
    cells_of_two(cells=cells, networks=networks)
    count = whole_number("features", features, most=100)
    exact = part_of_epsilon("share", share)
    if not exact:
        raise ValueError("share must be above 0: choosing attributes costs epsilon")
    if len(weights) != 2:
        raise ValueError("weights must be two whole numbers, one a class")
    return count, exact, tuple(whole_number("each of weights", weight, most=1000) for weight in weights)


def site_forest(*, trees: int = 10, depth: int | None = None) -> tuple[int, int | None]:
    """Options of `ForestStrategy`."""
    return whole_number("trees", trees, most=1000), None if depth is None else whole_number("depth", depth, most=12)


def site_kernel_svm(*, frequencies: int | None = None, regulariser: int | None = None) -> tuple[int | None, int | None]:
    """Options of `KernelSvmStrategy`."""
    count = None if frequencies is None else whole_number("frequencies", frequencies, most=2000)
    return count, site_linear_model(regulariser=regulariser)


def site_linear() -> None:
    """Options of `LinearRegressionStrategy`, which takes none."""


def site_linear_model(*, regulariser: int | None = None) -> int | None:
    """Options of `LinearStrategy`."""
    return None if regulariser is None else whole_number("regulariser", regulariser, most=10**9)


def site_naive_bayes(*, bins: int | None = None) -> int | None:
    """Options of `NaiveBayesStrategy`."""
    return whole_or_none("bins", bins)


def varying_bins(
    *, rounds: int = 2, bins: int | None = None, cells: bool = False, shares: Sequence[Share] | None = None
) -> tuple[Rounds, int | None, bool]:
    """Options of `VaryingBinsStrategy`."""
    return rounds_and_shares(rounds, shares), whole_or_none("bins", bins), flag("cells", cells)
