"""Made-up outcomes of a comparison, whose means are known, and a made-up problem."""

import numpy as np
import polars as pl

from curator_node.records.schema_file import SchemaFile
from lab.comparison import contestants
from lab.comparison.contestants import Contestant, Outcome
from lab.learning import Answer
from lab.measures import measure
from lab.problems import PROBLEMS
from lab.splits import Site, Split
from protocol.record_frames import encode_frame
from protocol.schema import CategoricalAttribute, NumericAttribute

FAKE_PEERS = ("naive-bayes", "boosting-dp", "regression-dp")
STEWARD = SchemaFile(
    label="sick",
    classes=("no", "yes"),
    attributes=(
        NumericAttribute("age", 0, 100),
        NumericAttribute("dose", 0, 1),
        CategoricalAttribute("sex", ("female", "male")),
    ),
)


def tiny_frame(n, rng):
    age = rng.uniform(0, 100, n)
    return pl.DataFrame(
        {
            "age": age,
            "dose": np.full(n, 0.5),
            "sex": rng.choice(["female", "male"], n),
            "sick": np.where(age > 50, "yes", "no"),
        }
    )


def tiny_split(seed, problem="tiny"):
    """Two sites of 60 records; old people are sick."""
    rng = np.random.default_rng(seed)
    test = tiny_frame(80, rng)
    return Split(
        problem=problem,
        seed=seed,
        schema=STEWARD.schema,
        source=encode_frame(tiny_frame(50, rng), STEWARD.schema),
        sites=tuple(Site.of(name, tiny_frame(60, rng), STEWARD) for name in ("north", "south")),
        test=encode_frame(test, STEWARD.schema),
        test_labels=(test["sick"] == "yes").to_numpy(),
    )


def guess(split, share, seed=0):
    """Probabilities that are right for about that share of the test records."""
    rng = np.random.default_rng([seed, len(split.test)])
    right = rng.random(len(split.test)) < share
    sure = rng.uniform(0.5, 1, len(split.test))
    return np.where(split.test_labels == right, sure, 1 - sure)


def fake_contestant(name, share=0.9, group="ours", **changes):
    """One that needs no curator and no library: right for that share of the records, less so at small epsilon."""

    def solve(split, epsilon):
        kept = share if epsilon is None else 0.5 + (share - 0.5) * float(epsilon) ** 0.1
        return Answer(guess(split, kept, split.seed), epsilon if group == "ours" else None)

    return Contestant(name, f"title of {name}", group, solve, **changes)


def add_fake_peers(monkeypatch):
    for place, name in enumerate(FAKE_PEERS):
        monkeypatch.setitem(contestants.CONTESTANTS, name, fake_contestant(name, 0.8 + place / 50, "peer"))


def made_up(strategy, problem, epsilon, seed, share, **changes):
    """An outcome whose accuracy is about that share."""
    rng = np.random.default_rng([seed, len(strategy), list(PROBLEMS).index(problem)])
    labels = rng.random(400) < 0.5
    sure = rng.uniform(0.5, 1, 400)
    probability = np.where(labels == (rng.random(400) < share), sure, 1 - sure)
    return Outcome(problem, strategy, epsilon, seed, measure(probability, labels), 1.5, **changes)
