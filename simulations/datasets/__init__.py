"""The real records that the simulations run on, each with the schema that its steward would write.

What is out: splitting over curators and parts (``simulations.datasets.splits``), and all that a curator or learner
does.
"""

from collections.abc import Callable
from typing import Any

from simulations.datasets.ctg import load_ctg, load_ctg3, load_ctg_astv
from simulations.datasets.dataset import Dataset
from simulations.datasets.files import DataFile, DataUnavailableError
from simulations.datasets.heart import load_heart
from simulations.datasets.wdbc import load_wdbc

__all__ = ["DATASETS", "DataFile", "DataUnavailableError", "Dataset", "load_dataset"]

DATASETS: dict[str, Callable[..., Dataset]] = {
    "wdbc": load_wdbc,
    "heart": load_heart,
    "ctg": load_ctg,
    "ctg3": load_ctg3,
    "ctg-astv": load_ctg_astv,
}


def load_dataset(name: str, **options: Any) -> Dataset:
    """Load the data set of that name; no data set of today takes options.

    Raises:
        ValueError: No data set has that name.
        TypeError: An option that this data set does not know.
        DataUnavailableError: Its files are neither in ``EXPRIL_DATA_DIR`` nor to be had from the network.
    """
    if name not in DATASETS:
        raise ValueError(f"no data set is called {name!r}; there are {', '.join(DATASETS)}")
    return DATASETS[name](**options)
