"""The real records that simulations run on, each with the schema that its steward would write.

This package does not split them (``simulations.datasets.splits`` does), nor act as curator or learner.
"""

import pkgutil
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simulations.datasets.dataset import Dataset

HERE = "simulations.datasets"
DATASETS = {
    "wdbc": f"{HERE}.wdbc:load_wdbc",
    "heart": f"{HERE}.heart:load_heart",
    "ctg": f"{HERE}.ctg:load_ctg",
    "ctg3": f"{HERE}.ctg:load_ctg3",
    "ctg-astv": f"{HERE}.ctg:load_ctg_astv",
    "readmission": f"{HERE}.readmission:load_readmission",
    "readmission-30": f"{HERE}.readmission:load_readmission_30",
    "support2": f"{HERE}.support2:load_support2",
}
"""Name -> loader as "module:name", so that listing names imports no file-reading library."""
SITE_SPLITS = {
    "site": f"{HERE}.splits:split_as_recorded",
    "random": f"{HERE}.splits:split_at_random",
    "shift": f"{HERE}.splits:split_by_shift",
}
"""Ways to split a data set over curators -> function as "module:name"."""


def load_dataset(name: str, **options: Any) -> "Dataset":
    """Load the data set of that name; no data set of today takes options.

    Raises:
        ValueError: No data set has that name.
        TypeError: The data set does not know an option.
        DataUnavailableError: Its files are neither in ``EXPRIL_DATA_DIR`` nor to be had from the network.
    """
    if name not in DATASETS:
        raise ValueError(f"no data set is called {name!r}; there are {', '.join(DATASETS)}")
    loaded: Dataset = pkgutil.resolve_name(DATASETS[name])(**options)
    return loaded
