"""NVFlare's filters of weights, run in the environment of audited peers.

One library a file: a process loads what one environment has, and no other. A table of `worker` names this file.

Records are one difference of weights, a row of numbers. Outcomes of `svt` are rounded to `RESOLUTION` of the scale of
its noise, so that a game looks at the law of the noise and not at how floating point holds it.
"""

import logging

import numpy as np
from nvflare.apis.dxo import DXO, DataKind
from nvflare.apis.dxo_filter import DXOFilter
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable
from nvflare.app_common.filters.percentile_privacy import PercentilePrivacy
from nvflare.app_common.filters.svt_privacy import SVTPrivacy

from lab.peers.task import Matrix, Setting, Vector

LIBRARIES = ("nvflare",)
RESOLUTION = 1e-3

logging.disable(logging.CRITICAL)


def _filtered(chosen: DXOFilter, weights: dict[str, Vector]) -> DXO:
    return chosen.process_dxo(DXO(DataKind.WEIGHT_DIFF, data=weights), Shareable(), FLContext())


def svt(records: Matrix, setting: Setting, draws: int) -> Matrix:
    """`SVTPrivacy`, (draws, numbers). Of the row, the last `scalars` numbers are parameters without a dimension."""
    scalars = int(setting.get("scalars", 0))
    row = records[0]
    array, loose = row[: len(row) - scalars], row[len(row) - scalars :]
    chosen = SVTPrivacy()
    step = 2 * chosen.gamma / chosen.noise_var * RESOLUTION

    def release() -> Vector:
        weights = {"w": array.copy(), **{f"s{place}": np.array(value) for place, value in enumerate(loose)}}
        sent = _filtered(chosen, weights).data
        return np.append(np.round(sent["w"] / step) * step, [sent[f"s{place}"] for place in range(scalars)])

    return np.array([release() for _ in range(draws)])


def svt_accountant(_records: Matrix, setting: Setting, _draws: int) -> Matrix:
    """The epsilon that the filter's accountant writes beside one update of so many parameters, (1, 1)."""
    chosen = SVTPrivacy()
    _filtered(chosen, {"w": np.zeros(int(setting["parameters"]), np.float32)})
    return np.array([[chosen.get_privacy_spent()]])


def percentile(records: Matrix, _setting: Setting, draws: int) -> Matrix:
    """`PercentilePrivacy`, (draws, numbers)."""
    return np.array([_filtered(PercentilePrivacy(), {"w": records[0].copy()}).data["w"] for _ in range(draws)])


RELEASES = {"svt": svt, "svt-accountant": svt_accountant, "percentile": percentile}
