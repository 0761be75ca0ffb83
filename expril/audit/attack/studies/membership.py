"""Membership inference on what a study leaves behind: the released hypothesis, and the synthetic data.

The strongest usual attack: a likelihood ratio with shadow studies (Carlini, Chien, Nasr, Song, Terzis and Tramer,
"Membership Inference Attacks From First Principles", 2022). The adversary knows every record but whether the victim is
there, the learner's source, its seed and its options. So it plays the same study many times with the victim and
without, on curators of its own, and fits a normal law to what comes out either way. Then it sees the attacked study.
"""

import secrets
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import logit

from curator_node.records.schema_file import read_steward_file
from curator_node.site import now
from expril.audit.attack.studies.curators import INVENTED, Opening, in_memory, policy_text, real_records
from expril.audit.attack.studies.games import Guesses, Terms, half_in
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
"""The default strategy. The networks add two seconds and no information: they are trained on the same answers."""
OTHERS, SOURCE = 40, 12
"""Private records beside the victim; source records beside the one that has the victim's attributes."""
SHADOWS = 24
"""Studies that the adversary plays on curators of its own, half of them with the victim: so many at least, and at least
half as many as those in which it guesses."""
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
    """What the adversary knows."""

    records: pl.DataFrame  # private records that are there for certain
    victim: pl.DataFrame  # one row
    # the learner's, without labels; its last row has the victim's attributes, which is the worst case
    source: pl.DataFrame
    schema: str  # the steward's file, TOML


def setting_of(records: str) -> Setting:
    """An invented setting, or one of a data set: its most unusual record is the victim.

    Raises:
        ConfigurationError: no such records, or not of two classes.
        DataUnavailableError: the data set's files are neither here nor to be had.
    """
    return _invented() if records == INVENTED else _real(records)


def play_membership(terms: Terms) -> dict[str, Guesses]:
    """Play the attack: shadow studies first, then the studies in which it guesses; each takes all of a curator's cap.

    Returns:
        Guesses by what was released: "hypothesis" and "synthetic".
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

    Args:
        present: (s, k) of shadow studies with the victim.
        absent: (s, k) of those without.
        observed: (n, k) of the attacked studies.
    """
    return _log_density(present, observed) - _log_density(absent, observed)


def _log_density(fitted: Floats, observed: Floats) -> Floats:
    spread = np.maximum(fitted.std(axis=0, ddof=1), LEAST_SPREAD)
    density: Floats = (-np.log(spread) - 0.5 * ((observed - fitted.mean(axis=0)) / spread) ** 2).sum(axis=1)
    return density


def _released(setting: Setting, epsilon: Fraction, there: bool, opening: Opening) -> tuple[Floats, Floats]:
    """What the adversary reads off one study: (1,) of the hypothesis, (2,) of the synthetic data."""
    key = SigningKey.generate()
    private = pl.concat([setting.records, setting.victim]) if there else setting.records
    with opening(private, setting.schema, policy_text({"learner": key}, epsilon)) as curator:
        federation = Federation(
            curators={"attacked": curator.identity},
            key=key,
            carrier=DirectCarrier({curator.identity: curator.handle}),
            clock=now,
            entropy=secrets.token_bytes,
        )
        learned = learn(federation, setting.source, Budget(epsilon), strategy=STRATEGY, options=OPTIONS, seed=0)
    return _of_hypothesis(setting, learned), _of_synthetic(setting, learned)


def _of_hypothesis(setting: Setting, learned: Learned) -> Floats:
    """How sure the hypothesis is of the victim's label, as a logit."""
    steward = read_steward_file(setting.schema)
    label = steward.classes.index(setting.victim[steward.label][0])
    victim = encode_frame(setting.victim.drop(steward.label), learned.schema)
    return _logit(class_probabilities(learned.model(), victim)[:, label])


def _of_synthetic(setting: Setting, learned: Learned) -> Floats:
    """Weight, and likelihood of the victim's label, of the synthetic record closest to the victim.

    The distance to it tells nothing: synthetic records are the learner's own source, whoever is among the private.
    """
    steward = read_steward_file(setting.schema)
    (estimate,) = learned.estimates.values()
    frame = synthetic_frame(setting.source, estimate, label=steward.label, classes=np.array(steward.classes))
    positive = float(frame[f"{steward.label}_probability"][-1])
    likely = positive if setting.victim[steward.label][0] == steward.classes[1] else 1.0 - positive
    return np.concatenate([[float(frame["weight"][-1])], _logit(np.array([likely]))])


def _logit(chances: Floats) -> Floats:
    odds: Floats = logit(np.clip(chances, LEAST_CHANCE, 1.0 - LEAST_CHANCE))
    return odds


def _invented() -> Setting:
    """Two groups of patients, and one who is far from both and from nobody's source."""
    rng = np.random.default_rng(2015)
    ill = np.arange(OTHERS + SOURCE) % 2 == 1
    points = rng.normal(0.0, 1.0, (len(ill), 2)) + np.where(ill, 1.0, -1.0)[:, None]
    frame = pl.DataFrame({"ferritin": points[:, 0], "sodium": points[:, 1], "ill": np.where(ill, "yes", "no")})
    victim = pl.DataFrame({"ferritin": [5.0], "sodium": [-5.0], "ill": ["yes"]})
    source = pl.concat([frame[OTHERS:], victim]).drop("ill")
    return Setting(frame[:OTHERS], victim, source, _SCHEMA)


def _real(name: str) -> Setting:
    frame, schema = real_records(name)
    steward = read_steward_file(schema)
    if len(steward.classes) != 2:
        raise ConfigurationError(f"the label of {name} has no two classes; attack other records")
    numeric = [item for item in steward.attributes if isinstance(item, NumericAttribute)]
    scaled = np.column_stack([frame[item.name].to_numpy() / (item.upper - item.lower) for item in numeric])
    unusual = np.nan_to_num(np.abs(scaled - np.nanmedian(scaled, axis=0))).sum(axis=1)
    order = np.random.default_rng(2015).permutation(np.delete(np.arange(frame.height), unusual.argmax()))
    victim = frame[[int(unusual.argmax())]]
    source = pl.concat([frame[order[OTHERS : OTHERS + SOURCE]], victim]).drop(steward.label)
    return Setting(frame[order[:OTHERS]], victim, source, schema)
