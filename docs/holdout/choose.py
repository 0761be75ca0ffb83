"""How many cells, or another strategy? Chosen on real hospitals' records, by one holdout.

`python docs/holdout/choose.py` needs the readmission records (`EXPRIL_DATA_DIR`). The curators run in this process.
"""

import numpy as np
import polars as pl

from curator_node.policy import LearnerPolicy, Policy
from curator_node.records.schema_file import read_schema_file
from curator_node.site import temporary_site
from learner_node.estimator import ExPriLClassifier
from learner_node.questions.selection import select
from learner_node.study.budget import Budget
from protocol.envelopes import SigningKey
from protocol.limits import Limits
from simulations.carriers.direct import direct_federation
from simulations.datasets import load_dataset
from simulations.datasets.splits import split_by_site, split_parts

SEED = 7
PARTS = {"private": 0.5, "source": 0.25, "test": 0.25}
CANDIDATES = {
    "5 cells": ("cells", {"cells": 5, "networks": False}),
    "100 cells": ("cells", {"cells": 100, "networks": False}),
    "additive": ("additive", {}),
}


def main() -> None:
    """Fit each candidate at epsilon 1/4, then choose among them at epsilon 1 at most."""
    dataset = load_dataset("readmission")
    steward, learner = read_schema_file(dataset.schema_text), SigningKey.generate()
    rng = np.random.default_rng(SEED)
    parts = {name: split_parts(frame, PARTS, rng, dataset.unit) for name, frame in split_by_site(dataset).items()}
    sites = {}
    for name, part in parts.items():
        policy = Policy(
            name=name,
            cap=5,
            learners=(LearnerPolicy(name="ada", key=learner.public.hex(), cap=5),),
            limits=Limits(kinds={"counts": {}, "holdout": {}}),
        )
        sites[name] = temporary_site(part["private"], steward, policy)
    federation = direct_federation(sites, learner)
    source, test = (pl.concat(part[which] for part in parts.values()) for which in ("source", "test"))
    # Curators count one encounter of a patient.
    test = test.sample(fraction=1, shuffle=True, seed=SEED).unique(dataset.unit, keep="first", maintain_order=True)
    fitted = {
        name: ExPriLClassifier(federation, strategy=strategy, options=options, epsilon="1/4", random_state=SEED).fit(
            source.drop(dataset.label)
        )
        for name, (strategy, options) in CANDIDATES.items()
    }
    # Additive studies tell nothing of their accuracy: that one is a guess.
    print(select(federation, fitted, Budget(1), expected={"additive": 0.65}, threshold=150).to_text())
    for name, model in fitted.items():
        right = np.mean(model.predict(test) == test[dataset.label].to_numpy())
        print(f"{name}: {right:.3f} of {len(test)} test records, which only this simulation has")


if __name__ == "__main__":
    main()
