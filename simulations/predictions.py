"""What was predicted of each test record, record by record: enough to compute any other score later.

These are records of people, or stand for them: they stay in a run's folder `local`, which no list, report or package
has (`protocol.run_index.LOCAL`).
"""

from collections.abc import Mapping

import numpy as np
import polars as pl

from simulations.federation import Repeat
from simulations.records import sites_of
from simulations.references import Answers

COLUMNS = {
    "repeat": pl.UInt32,
    "learner": pl.String,
    "site": pl.String,
    "part": pl.String,
    "row": pl.UInt32,
}
"""What tells one line from all others; `label`, `predicted` and, of classes, `P(class)` of each class follow."""
PART = "test"


def predictions_of(repeat: Repeat, answers: Mapping[str, Mapping[str, Answers]]) -> pl.DataFrame:
    """One line for each learner and test record of the sites that it asked.

    Args:
        repeat: of which repeat.
        answers: learner -> site -> what its last model says of the site's test records.

    Returns:
        `COLUMNS`, where `row` is the record's place in its file or built-in data set, from 0; then `label` and
        `predicted` (names of classes, or numbers in the label's units), and `P(class)` of each class (float64).
    """
    frames = []
    for outcome in repeat.outcomes:
        asked, _ = sites_of(outcome.learner, repeat.sites)
        for site, said in answers.get(outcome.learner.name, {}).items():
            if site in asked:
                frames.append(_lines(repeat, outcome.learner.name, site, said))
    return pl.concat(frames) if frames else pl.DataFrame(schema=COLUMNS)


def _lines(repeat: Repeat, learner: str, site: str, said: Answers) -> pl.DataFrame:
    part = repeat.sites[site]
    classes = np.array(part.steward.schema.classes)
    told = {"label": said.labels, "predicted": said.predicted}
    if len(classes):
        told = {name: classes[values.astype(np.intp)] for name, values in told.items()}
    if said.probabilities is not None:
        told |= {f"P({name})": column for name, column in zip(classes, said.probabilities.T, strict=True)}
    rows = len(said.labels)
    keys = {
        "repeat": pl.repeat(repeat.number, rows, dtype=pl.UInt32, eager=True),
        "learner": pl.repeat(learner, rows, dtype=pl.String, eager=True),
        "site": pl.repeat(site, rows, dtype=pl.String, eager=True),
        "part": pl.repeat(PART, rows, dtype=pl.String, eager=True),
        "row": pl.Series(part.test_rows, dtype=pl.UInt32),
    }
    return pl.DataFrame([column.alias(name) for name, column in keys.items()]).hstack(
        [pl.Series(name, values.tolist() if values.dtype.kind == "U" else values) for name, values in told.items()]
    )
