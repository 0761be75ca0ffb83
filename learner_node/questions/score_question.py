"""The question of a validation: a score that every curator evaluates exactly, and bins of it drawn on the source.

Everything here is computed from the source and from earlier releases, so it costs no privacy.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit
from scipy.stats import spearmanr

from learner_node.kinds.counts import limits_of
from learner_node.models.distillation import HEADER_PARAMETERS, distil_score
from learner_node.models.label_model.likelihood import noise_law
from learner_node.models.partitions import score_bins
from learner_node.models.source import standardising_map
from learner_node.scores.performance import RULES
from learner_node.scores.thresholds import PREVALENCE, Rule
from learner_node.strategies.base import NumberModel, class_probabilities
from protocol.errors import ConfigurationError, RemoteProtocolError
from protocol.feature_map import STEPS
from protocol.hypotheses import UNIT_COST, Constant, Mlp
from protocol.limits import ASSUMED_ROUND_SIZE
from protocol.messages import Card
from protocol.partitions import ScoreBins
from protocol.partitions.grid_edges import PRODUCT_STEPS
from protocol.records import Records
from protocol.schema import Schema

Floats = NDArray[np.float64]

FEWEST_BINS, MOST_BINS = 4, 30
DEVIATIONS_A_BIN = 3.0
"""Mean number of the rarer class's records in a bin, in standard deviations of the noise there."""
SOURCE_A_BIN = 5
"""Fewest source records in a bin, on average."""
FEWEST_UNITS, MOST_UNITS = 64, 1024
"""Fewest and most hidden units of a distilled network."""
ROOM = 0.8
"""Share of a curator's work limit that a distilled network may use."""
LEAST_PART = 0.25
"""Smallest gap between a default threshold and the next one, as a share of an average bin's records."""
_NEVER = 1e-9


@dataclass(frozen=True)
class Agreement:
    """Agreement, on the source, between the validated hypothesis and the given model."""

    rank_correlation: float  # Spearman's, of the two scores; NaN where one is constant
    same_class: float  # share of records for which both predict the same class

    def __str__(self) -> str:
        return (
            "The model was distilled into a network that curators evaluate; these figures are that network's "
            "(validation.hypothesis). On the source its score has a rank correlation of "
            f"{self.rank_correlation:.3f} with the model's, and it predicts the same class for "
            f"{self.same_class:.1%} of the records."
        )


def probability_of(hypothesis: Mlp, records: Records) -> Floats:
    """P(class 1) of each record by a network's exact logit: its logistic function, (n,) in [0, 1]."""
    probability: Floats = expit(hypothesis.logits(records) / (STEPS * STEPS))
    return probability


def as_hypothesis(model: Any, source: Records, cards: Mapping[str, Card], *, seed: int) -> tuple[Mlp, Agreement | None]:
    """Return the model as a network of the protocol.

    A network, or a model that has one as `hypothesis`, is returned as it is. Any other classifier of two classes is
    distilled into as many hidden units as all curators' limits allow, up to 1,024.

    Args:
        model: a hypothesis of the protocol, or a model of `learner_node.strategies.base`.
        source: n >= 2 records.
        cards: cards of the curators that may be asked; at least one.
        seed: seed of the distillation.

    Returns:
        The network, and its agreement with the model if it was distilled, else None.

    Raises:
        ConfigurationError: the model has no score, or does not fit the schema.
    """
    network = model if isinstance(model, Mlp | Constant) else getattr(model, "hypothesis", None)
    if isinstance(network, Constant):
        raise ConfigurationError("a constant gives every record one score: there is nothing to validate")
    if isinstance(model, NumberModel):
        raise ConfigurationError("validation is about two classes; this model predicts a number")
    if isinstance(network, Mlp):
        _check(network, source.schema)
        return network, None
    if not (hasattr(model, "probability") or hasattr(model, "probabilities")):
        raise ConfigurationError(
            f"a {type(model).__name__} cannot be validated: pass a fitted ExPriLClassifier, a model of a study, or a "
            "network of the protocol (protocol.hypotheses.Mlp)"
        )
    features = standardising_map(source)

    def probability(records: Records) -> Floats:
        positive: Floats = class_probabilities(model, records)[:, 1]
        return positive

    allowed = [_units_allowed(card, features.width, features.multiply_adds()) for card in cards.values()]
    hidden = int(np.clip(min(allowed), FEWEST_UNITS, MOST_UNITS))
    distilled = distil_score(probability, features, source, hidden=hidden, seed=seed)
    scores, logits = probability(source), distilled.logits(source)
    constant = np.ptp(scores) == 0.0 or np.ptp(logits) == 0.0
    correlation = float("nan") if constant else float(spearmanr(scores, logits).statistic)
    return distilled, Agreement(correlation, float(np.mean((scores > 0.5) == (logits > 0))))


def bin_count(probability: Floats, *, target_size: int, scale: float, noises: float, most: int = MOST_BINS) -> int:
    """Number of bins, 4 to 30, in which the rarer class has about three times as many records as the noise's deviation.

    Args:
        probability: (n,) predictions for the source's records.
        target_size: declared number of private records at all curators.
        scale: scale of one curator's noise.
        noises: number of such noises in each count.
        most: most bins that the curators allow.
    """
    share = float(np.mean(probability))
    rarer = max(min(share, 1.0 - share), 0.01) * target_size
    deviation = np.sqrt(noise_law(scale).variance(noises))
    count = int(np.clip(round(rarer / (DEVIATIONS_A_BIN * deviation)), FEWEST_BINS, MOST_BINS))
    return max(1, min(count, most, max(2, len(probability) // SOURCE_A_BIN)))


def settled_thresholds(rules: Sequence[Rule], probability: Floats, *, bins: int | None = None) -> dict[float, str]:
    """Turn rules for thresholds into edges of bins: edge in units of the logit -> the rules that give it.

    Args:
        rules: "prevalence" gives the mean probability, a share such as "10%" the quantile of the source's records.
        probability: (n,) predictions for the source's records.
        bins: number of bins. Rules get at most half of its edges, the first rules first; a threshold is dropped if too
            few source records lie between it and the next one, or on either side. None keeps all rules.
    """
    names: dict[float, str] = {}
    flagged_by: list[float] = [0.0, 1.0]
    for rule in rules:
        value = rule.value
        if rule.kind == PREVALENCE:
            value = float(np.mean(probability))
        elif rule.kind == "share":
            value = float(np.quantile(probability, 1.0 - rule.value, method="higher"))
        edge = edge_of(min(max(value, _NEVER), 1.0 - _NEVER))
        flagged = float(np.mean(probability >= expit(edge)))
        room = bins is None or (
            len(names) < max(1, (bins - 1) // 2)
            and min(abs(flagged - other) for other in flagged_by) >= LEAST_PART / bins
        )
        if edge in names:
            names[edge] += f"{RULES}{rule.name}"
        elif room:
            names[edge] = rule.name
            flagged_by.append(flagged)
    return names


def validation_bins(hypothesis: Mlp, source: Records, bins: int, required: Collection[float]) -> ScoreBins:
    """Draw bins of the score that hold equal mass of both predicted classes together, with the required edges.

    Half of the mass is the records weighted by P(class 1), half by P(class 0). So if a class is rare, bins are finer
    where it is predicted.

    Args:
        hypothesis: gives the score.
        source: n records.
        bins: number of bins, including those of required edges. Ties may leave fewer; many required edges make more.
        required: edges in units of the logit.
    """
    probability = np.clip(probability_of(hypothesis, source), 1e-12, 1.0 - 1e-12)
    weights = probability / probability.sum() + (1.0 - probability) / (1.0 - probability).sum()
    edges = list(score_bins(hypothesis, source, bins, weights).edges)
    for edge in required:
        if edges:
            edges.remove(min(edges, key=lambda other: abs(other - edge)))
    return ScoreBins(hypothesis=hypothesis, edges=tuple(sorted({*edges, *required})))


def bin_means(bins: ScoreBins, records: Records) -> Floats:
    """Mean probability of the source's records in each bin; an empty bin gets its middle."""
    edges, probability = expit(np.array(bins.edges)), probability_of(bins.hypothesis, records)
    means: Floats = (np.concatenate([[0.0], edges]) + np.concatenate([edges, [1.0]])) / 2
    cells = bins.cells(records)
    counted = np.bincount(cells, minlength=len(means))
    sums = np.bincount(cells, weights=probability, minlength=len(means))
    means[counted > 0] = sums[counted > 0] / counted[counted > 0]
    return means


def edge_of(threshold: float) -> float:
    """The smallest logit on the grid whose probability reaches the threshold; for 1/2 it is above 0."""
    steps = np.ceil(float(logit(threshold)) * PRODUCT_STEPS - 1e-6)
    return float(1.0 if steps == 0 else steps) / PRODUCT_STEPS


def _check(hypothesis: Mlp, schema: Schema) -> None:
    try:
        hypothesis.check(schema, "hypothesis")
    except RemoteProtocolError as error:
        raise ConfigurationError(f"the network does not fit the curators' card: {error.field}: {error.limit}") from None


def _units_allowed(card: Card, width: int, once: int) -> int:
    """Hidden units for which a network stays within a curator's limits of parameters and work."""
    parameters = (limits_of(card).parameters - HEADER_PARAMETERS) // (width + 2)
    per_record = ROOM * card.limits.multiply_adds / (card.round_size or ASSUMED_ROUND_SIZE) - once
    return int(min(parameters, per_record // (width + 2 + UNIT_COST)))
