"""Breast cancer, Wisconsin (diagnostic): 569 aspirates, 30 measures of the cell nuclei in each image.

The records come with scikit-learn; nothing is downloaded. There is one hospital, hence no site column.
"""

import polars as pl
from sklearn.datasets import load_breast_cancer

from simulations.datasets.dataset import SCHEMAS, Dataset


def load_wdbc() -> Dataset:
    """569 records, 30 numeric attributes, label ``diagnosis``: 357 benign, 212 malignant; none missing."""
    bunch = load_breast_cancer()
    attributes = pl.DataFrame(bunch.data, schema=[str(name) for name in bunch.feature_names])
    diagnosis = pl.Series("diagnosis", [str(bunch.target_names[target]) for target in bunch.target])
    return Dataset(
        name="wdbc",
        frame=attributes.with_columns(diagnosis),
        label="diagnosis",
        description="Breast cancer Wisconsin (diagnostic): measures of cell nuclei in fine needle aspirates.",
        licence="CC BY 4.0 (UCI Machine Learning Repository)",
        citation="W. Wolberg, O. Mangasarian, N. Street, W. Street (1993). "
        "Breast Cancer Wisconsin (Diagnostic). UCI Machine Learning Repository. https://doi.org/10.24432/C5DW2B",
        schema_path=SCHEMAS / "wdbc.toml",
    )
