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
from learner_node.study.learn import Learned, learn
from learner_node.study.study import Federation
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
class World:
    """What the adversary knows.

    Attributes:
        others: private records that are there for certain.
        victim: one row.
        source: the learner's, without labels; its last row has the victim's attributes, which is the worst case.
        schema: the steward's file, TOML.
    """

    others: pl.DataFrame
    victim: pl.DataFrame
    source: pl.DataFrame
    schema: str


def world_of(records: str) -> World:
    """An invented world, or one of a data set: its most unusual record is the victim.

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
    world, opening, epsilon = world_of(terms.records), terms.opening or in_memory, terms.epsilon
    shadows, inside = half_in(max(SHADOWS, terms.games // 2), terms.rng), half_in(terms.games, terms.rng)
    known = [_released(world, epsilon, bool(there), opening) for there in shadows]
    seen = [_released(world, epsilon, bool(there), opening) for there in inside]
    found = {}
    for place, target in enumerate(("hypothesis", "synthetic")):
        told = np.array([release[place] for release in known])
        guessed = log_ratio(told[shadows], told[~shadows], np.array([release[place] for release in seen])) > 0
        found[target] = Guesses.of(guessed, inside)
    return found


def log_ratio(present: Floats, absent: Floats, seen: Floats) -> Floats:
    """What log P(seen | in) / P(seen | out) is, under a normal law for each column, fitted to what was seen either way.

    Args:
        present: (s, k) of shadow studies with the victim.
        absent: (s, k) of those without.
        seen: (n, k).

    Returns:
        (n,)
    """
    return _log_density(present, seen) - _log_density(absent, seen)


def _log_density(known: Floats, seen: Floats) -> Floats:
    spread = np.maximum(known.std(axis=0, ddof=1), LEAST_SPREAD)
    density: Floats = (-np.log(spread) - 0.5 * ((seen - known.mean(axis=0)) / spread) ** 2).sum(axis=1)
    return density


def _released(world: World, epsilon: Fraction, there: bool, opening: Opening) -> tuple[Floats, Floats]:
    """What the adversary reads off one study: (1,) of the hypothesis, (2,) of the synthetic data."""
    key = SigningKey.generate()
    private = pl.concat([world.others, world.victim]) if there else world.others
    with opening(private, world.schema, policy_text({"learner": key}, epsilon)) as curator:
        federation = Federation(
            curators={"attacked": curator.identity},
            key=key,
            carrier=DirectCarrier({curator.identity: curator.handle}),
            clock=now,
            entropy=secrets.token_bytes,
        )
        learned = learn(federation, world.source, strategy=STRATEGY, options=OPTIONS, epsilon=epsilon, seed=0)
    return _of_hypothesis(world, learned), _of_synthetic(world, learned)


def _of_hypothesis(world: World, learned: Learned) -> Floats:
    """How sure the hypothesis is of the victim's label, as a logit."""
    steward = read_steward_file(world.schema)
    label = steward.classes.index(world.victim[steward.label][0])
    victim = encode_frame(world.victim.drop(steward.label), learned.schema)
    return _logit(class_probabilities(learned.model(), victim)[:, label])


def _of_synthetic(world: World, learned: Learned) -> Floats:
    """Weight, and likelihood of the victim's label, of the synthetic record closest to the victim.

    The distance to it tells nothing: synthetic records are the learner's own source, whoever is among the private.
    """
    steward = read_steward_file(world.schema)
    (estimate,) = learned.estimates.values()
    frame = synthetic_frame(world.source, estimate, label=steward.label, classes=np.array(steward.classes))
    positive = float(frame[f"{steward.label}_probability"][-1])
    likely = positive if world.victim[steward.label][0] == steward.classes[1] else 1.0 - positive
    return np.concatenate([[float(frame["weight"][-1])], _logit(np.array([likely]))])


def _logit(chances: Floats) -> Floats:
    odds: Floats = logit(np.clip(chances, LEAST_CHANCE, 1.0 - LEAST_CHANCE))
    return odds


def _invented() -> World:
    """Two groups of patients, and one who is far from both and from nobody's source."""
    rng = np.random.default_rng(2015)
    ill = np.arange(OTHERS + SOURCE) % 2 == 1
    points = rng.normal(0.0, 1.0, (len(ill), 2)) + np.where(ill, 1.0, -1.0)[:, None]
    frame = pl.DataFrame({"ferritin": points[:, 0], "sodium": points[:, 1], "ill": np.where(ill, "yes", "no")})
    victim = pl.DataFrame({"ferritin": [5.0], "sodium": [-5.0], "ill": ["yes"]})
    source = pl.concat([frame[OTHERS:], victim]).drop("ill")
    return World(frame[:OTHERS], victim, source, _SCHEMA)


def _real(name: str) -> World:
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
    return World(frame[order[:OTHERS]], victim, source, schema)
