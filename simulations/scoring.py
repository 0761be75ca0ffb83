"""What a run is worth: accuracies on test records, beside the majority and what training in place would give.

Only the harness can compute these: it owns all records. A learner cannot, and prints none of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from learner_node.learn import POOLED, Learned
from learner_node.source import coordinates, standardising_map
from protocol.records import Records, encode_frame, encode_labels
from simulations.federation import Site

Labels = NDArray[np.bool_]


@dataclass(frozen=True)
class Reference:
    """Per test record: whether the majority class and the non-private model are right."""

    majority: Labels
    ceiling: Labels


@dataclass(frozen=True)
class LabelledRecords:
    """Encoded records with their labels."""

    records: Records
    labels: Labels


def labelled(frame: pl.DataFrame, site: Site) -> LabelledRecords:
    """Encode a frame of a site by its steward's schema."""
    steward = site.steward
    labels = encode_labels(frame[steward.label], steward.classes).astype(np.bool_)
    return LabelledRecords(encode_frame(frame, steward.schema), labels)


def references(sites: Mapping[str, Site]) -> tuple[dict[str, Reference], dict[str, Reference]]:
    """Majority class and non-private logistic regression, scored on each site's test records.

    The regression is learnt from the site's private records alone, or from all sites'. The majority is that of the
    site's test records, or of all sites': the strongest constant, so never below one half where it is counted.

    Returns:
        Site -> reference of its own; site -> reference from all sites.
    """
    private = {name: labelled(site.private, site) for name, site in sites.items()}
    tests = {name: labelled(site.test, site) for name, site in sites.items()}
    first = next(iter(private.values()))
    everything = LabelledRecords(
        Records(
            first.records.schema,
            np.concatenate([part.records.numeric for part in private.values()]),
            np.concatenate([part.records.categorical for part in private.values()]),
        ),
        np.concatenate([part.labels for part in private.values()]),
    )
    common = bool(np.concatenate([test.labels for test in tests.values()]).mean() > 0.5)
    own = {name: _reference(private[name], test, bool(test.labels.mean() > 0.5)) for name, test in tests.items()}
    pooled = {name: _reference(everything, test, common) for name, test in tests.items()}
    return own, pooled


def correct_by_round(learned: Learned, sites: Mapping[str, Site]) -> list[dict[str, Labels]]:
    """Per round: site -> whether each test record is classified correctly by the model of that round.

    A round without a model, and a site without one, is left out.
    """
    rounds: list[dict[str, Labels]] = []
    tests = {name: labelled(site.test, site) for name, site in sites.items()}
    for number in range(max((len(models) for models in learned.models.values()), default=0)):
        found = {}
        for name, test in tests.items():
            models = learned.models.get(POOLED) or learned.models.get(name) or []
            model = models[number] if number < len(models) else None
            if model is not None:
                found[name] = (model.probability(test.records) > 0.5) == test.labels
        rounds.append(found)
    return rounds


def share(correct: Mapping[str, Labels]) -> float | None:
    """Accuracy over all records of all sites; None where there is none."""
    joined = np.concatenate(list(correct.values())) if correct else np.empty(0, np.bool_)
    return float(joined.mean()) if len(joined) else None


def _reference(train: LabelledRecords, test: LabelledRecords, majority: bool) -> Reference:
    always = test.labels == majority
    if train.labels.all() or not train.labels.any():
        return Reference(always, test.labels == train.labels[0])
    features = standardising_map(train.records)
    model = LogisticRegression(max_iter=2000).fit(coordinates(features, train.records), train.labels)
    predicted = model.predict(coordinates(features, test.records)).astype(np.bool_)
    return Reference(always, predicted == test.labels)
