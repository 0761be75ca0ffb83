"""Membership inference on the results of a study: the released hypothesis, and the synthetic data.

This is the strongest usual attack, a likelihood ratio with shadow studies (Carlini, Chien, Nasr, Song, Terzis and
Tramer, "Membership Inference Attacks From First Principles", 2022). The adversary knows every record, the learner's
source, its seed and its options, but not whether the victim is there. It plays the same study many times with and
without the victim, on curators of its own, and fits a normal law to the results of either case. Then it sees the
attacked study.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import logit

from curator_node.records.schema_file import read_schema_file
from expril.audit.attack.studies.games import (
    INVENTED,
    Guesses,
    Opening,
    Terms,
    half_in,
    in_memory,
    policy_text,
    real_records,
)
from learner_node.models.synthetic import synthetic_frame
from learner_node.strategies.base import class_probabilities
from learner_node.study.budget import Budget
from learner_node.study.federation import Federation
from learner_node.study.learn import Learned, learn
from protocol.envelopes import SigningKey
from protocol.errors import ConfigurationError
from protocol.record_frames import encode_frame
from protocol.schema import NumericAttribute
from simulations.carriers.direct import DirectCarrier

Floats = NDArray[np.float64]

STRATEGY, OPTIONS = "cells", {"cells": 4, "networks": False}
"""The default strategy without its networks, which take two seconds and add no information on the answers."""
OTHERS, SOURCE = 40, 12
"""Private records beside the victim; source records beside the one with the victim's attributes."""
SHADOWS = 24
"""Least number of shadow studies, half of them with the victim; there are at least half as many as attacked studies."""
LEAST_CHANCE = 1e-6
LEAST_SPREAD = 1e-3
_SCHEMA = """
label = "ill"
classes = ["no", "yes"]
round_size = 40
attributes = [
    { name = "ferritin", kind = "numeric", lower = -6, upper = 6 },
    { name = "sodium", kind = "numeric", lower = -6, upper = 6 },
]
"""


@dataclass(frozen=True)
class Setting:
    """The adversary's knowledge in a membership attack."""

    records: pl.DataFrame  # all private records but the victim
    victim: pl.DataFrame  # one row
    source: pl.DataFrame  # the learner's, unlabelled; its last row has the victim's attributes, the worst case
    schema: str  # the steward's file, TOML


def setting_of(records: str) -> Setting:
    """An invented setting, or one of a data set: its most unusual record is the victim.

    Raises:
        ConfigurationError: there are no such records, or they do not have two classes.
        DataUnavailableError: the data set's files are neither here nor can they be fetched.
    """
    return _invented() if records == INVENTED else _real(records)


def play_membership(terms: Terms) -> dict[str, Guesses]:
    """Play shadow studies, then the attacked studies; each takes all of a curator's cap.

    Returns:
        Guesses by what the study released: "hypothesis" and "synthetic".
    """
    setting, opening, epsilon = setting_of(terms.records), terms.opening or in_memory, terms.epsilon
    shadows, inside = half_in(max(SHADOWS, terms.games // 2), terms.rng), half_in(terms.games, terms.rng)
    shadow_views = [_released(setting, epsilon, bool(there), opening) for there in shadows]
    attacked_views = [_released(setting, epsilon, bool(there), opening) for there in inside]
    guesses_by_target = {}
    for place, target in enumerate(("hypothesis", "synthetic")):
        shadows_seen = np.array([release[place] for release in shadow_views])
        guessed = (
            log_ratio(
                shadows_seen[shadows], shadows_seen[~shadows], np.array([release[place] for release in attacked_views])
            )
            > 0
        )
        guesses_by_target[target] = Guesses.of(guessed, inside)
    return guesses_by_target


def log_ratio(present: Floats, absent: Floats, observed: Floats) -> Floats:
    """(n,) log P(observed | in) / P(observed | out), with a normal law fitted to each column of the shadow studies.

    `present`: (s, k) of shadow studies with the victim; `absent`: (s, k) of those without; `observed`: (n, k) of the
    attacked studies.
    """
    return _log_density(present, observed) - _log_density(absent, observed)


def _log_density(fitted: Floats, observed: Floats) -> Floats:
    spread = np.maximum(fitted.std(axis=0, ddof=1), LEAST_SPREAD)
    density: Floats = (-np.log(spread) - 0.5 * ((observed - fitted.mean(axis=0)) / spread) ** 2).sum(axis=1)
    return density


def _released(setting: Setting, epsilon: Fraction, there: bool, opening: Opening) -> tuple[Floats, Floats]:
    """The features that the adversary takes from one study: (1,) of the hypothesis, (2,) of the synthetic data."""
    key = SigningKey.generate()
    private = pl.concat([setting.records, setting.victim]) if there else setting.records
    with opening(private, setting.schema, policy_text({"learner": key}, epsilon)) as curator:
        federation = Federation(
            curators={"attacked": curator.identity},
            key=key,
            carrier=DirectCarrier({curator.identity: curator.handle}),
        )
        learned = learn(federation, setting.source, Budget(epsilon), strategy=STRATEGY, options=OPTIONS, seed=0)
    return _of_hypothesis(setting, learned), _of_synthetic(setting, learned)


def _of_hypothesis(setting: Setting, learned: Learned) -> Floats:
    """The logit of the victim's label under the hypothesis."""
    steward = read_schema_file(setting.schema)
    label = steward.classes.index(setting.victim[steward.label][0])
    victim = encode_frame(setting.victim.drop(steward.label), learned.schema)
    return _logit(class_probabilities(learned.model(), victim)[:, label])


def _of_synthetic(setting: Setting, learned: Learned) -> Floats:
    """Weight of the synthetic record closest to the victim, and the logit of the victim's label there.

    The distance reveals nothing: synthetic records are the learner's own source, whoever is among the private ones.
    """
    steward = read_schema_file(setting.schema)
    (estimate,) = learned.estimates.values()
    frame = synthetic_frame(setting.source, estimate, label=steward.label, classes=np.array(steward.classes))
    positive = float(frame[f"{steward.label}_probability"][-1])
    likely = positive if setting.victim[steward.label][0] == steward.classes[1] else 1.0 - positive
    return np.concatenate([[float(frame["weight"][-1])], _logit(np.array([likely]))])


def _logit(chances: Floats) -> Floats:
    odds: Floats = logit(np.clip(chances, LEAST_CHANCE, 1.0 - LEAST_CHANCE))
    return odds


def _invented() -> Setting:
    """Two groups of patients, and a victim far from both, whose attributes are in the source."""
    rng = np.random.default_rng(2015)
    ill = np.arange(OTHERS + SOURCE) % 2 == 1
    points = rng.normal(0.0, 1.0, (len(ill), 2)) + np.where(ill, 1.0, -1.0)[:, None]
    frame = pl.DataFrame({"ferritin": points[:, 0], "sodium": points[:, 1], "ill": np.where(ill, "yes", "no")})
    victim = pl.DataFrame({"ferritin": [5.0], "sodium": [-5.0], "ill": ["yes"]})
    source = pl.concat([frame[OTHERS:], victim]).drop("ill")
    return Setting(frame[:OTHERS], victim, source, _SCHEMA)


def _real(name: str) -> Setting:
    frame, schema = real_records(name)
    steward = read_schema_file(schema)
    if len(steward.classes) != 2:
        raise ConfigurationError(f"the label of {name} has no two classes; attack other records")
    numeric = [item for item in steward.attributes if isinstance(item, NumericAttribute)]
    scaled = np.column_stack([frame[item.name].to_numpy() / (item.upper - item.lower) for item in numeric])
    unusual = np.nan_to_num(np.abs(scaled - np.nanmedian(scaled, axis=0))).sum(axis=1)
    order = np.random.default_rng(2015).permutation(np.delete(np.arange(frame.height), unusual.argmax()))
    victim = frame[[int(unusual.argmax())]]
    source = pl.concat([frame[order[OTHERS : OTHERS + SOURCE]], victim]).drop(steward.label)
    return Setting(frame[order[:OTHERS]], victim, source, schema)
