"""SmartNoise SQL, run in the environment of audited peers.

One library a file: a process loads what one environment has, and no other. A table of `worker` names this file.

A query takes half a second to plan, so one query draws many outcomes: the table holds `draws` copies of the records,
and the query is grouped by the number of the copy.
"""

import warnings

import numpy as np
import pandas as pd
from snsql import Privacy, from_df

from lab.peers.task import Matrix, Setting

LIBRARIES = ("smartnoise-sql", "opendp")
QUERIES = {
    "count": "COUNT(*) AS n",
    "count-and-sum": "COUNT(*) AS n, SUM(value) AS s",
    "mean": "AVG(value) AS m",
}


def _reader(frame: pd.DataFrame, setting: Setting):  # type: ignore[no-untyped-def]  # noqa: ANN202
    value = {"type": "float", "lower": float(setting["lower"]), "upper": float(setting["upper"])}
    table = {"row_privacy": True, "censor_dims": False, "rows": len(frame), "copy": {"type": "int"}, "value": value}
    privacy = Privacy(epsilon=float(setting["epsilon"]), delta=float(setting["delta"]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return from_df(frame, privacy=privacy, metadata={"": {"d": {"t": table}}})


def query(records: Matrix, setting: Setting, draws: int) -> Matrix:
    """What `SELECT ... GROUP BY copy` gives, (draws, columns)."""
    frame = pd.DataFrame({"copy": np.repeat(np.arange(draws), len(records)), "value": np.tile(records[:, 0], draws)})
    text = f"SELECT copy, {QUERIES[str(setting['query'])]} FROM d.t GROUP BY copy"  # noqa: S608 - a table of ours
    _names, *rows = _reader(frame, setting).execute(text)
    return np.array([row[1:] for row in rows], float)


def cost(records: Matrix, setting: Setting, _draws: int) -> Matrix:
    """The epsilon that the library says one such query costs, (1, 1)."""
    frame = pd.DataFrame({"copy": np.zeros(len(records), int), "value": records[:, 0]})
    epsilon, _delta = _reader(frame, setting).get_privacy_cost(
        f"SELECT {QUERIES[str(setting['query'])]} FROM d.t"  # noqa: S608 - a table of ours
    )
    return np.array([[float(epsilon)]])


RELEASES = {"query": query, "cost": cost}
