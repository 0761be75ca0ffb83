"""Cardiotocograms (CTG): 2126 stretches of foetal heart rate and contractions, from 352 exams.

The workbook has the same 2126 records twice, in the same order. Sheet 'Raw Data' says which exam (FileName)
a record was cut from and holds *counts* of accelerations, movements, contractions and decelerations; sheet
'Data' holds them *per second* (count / (e - b), in full precision though shown rounded) and no exam. The
stretches last from two minutes to an hour, so a count mostly says how long the stretch was: the attributes
are those of 'Data', as in UCI's table of these records, and the exam is taken from 'Raw Data' row by row. A
test verifies the alignment over b, e, the 15 attributes that both sheets share, CLASS, NSP and the six
rates.

The 22 attributes are the 21 of 'Data' and DR (repetitive decelerations), which that sheet leaves out because it
is 0 in every record, as a count and so as a rate. NSP = 1 is normal; suspect and pathologic are 'not normal'.
Both sheets end with rows of column totals and maxima, which are no records.
"""

import hashlib
from typing import Any

import fastexcel
import polars as pl

from simulations.datasets.dataset import SCHEMAS, Dataset
from simulations.datasets.files import DataFile, data_file

ATTRIBUTES = (
    "LB", "AC", "FM", "UC", "DL", "DS", "DP", "DR", "ASTV", "MSTV", "ALTV", "MLTV",
    "Width", "Min", "Max", "Nmax", "Nzeros", "Mode", "Mean", "Median", "Variance", "Tendency",
)  # fmt: skip

NORMAL = 1
"""The NSP code of a normal state; 2 is suspect and 3 pathologic."""
STATES = {1: "normal", 2: "suspect", 3: "pathologic"}


def _read_sheets(content: bytes, **options: Any) -> dict[str, pl.DataFrame]:
    """Sheets 'Data' and 'Raw Data' cell by cell, with the sheet's row and column positions."""
    return pl.read_excel(
        content,
        engine="calamine",
        sheet_name=["Data", "Raw Data"],
        has_header=False,
        drop_empty_rows=False,
        drop_empty_cols=False,
        **options,
    )


def _places(texts: pl.DataFrame, first: str, columns: tuple[str, ...]) -> dict[str, int]:
    """Positions of the named columns, searched from column ``first`` on.

    A header may repeat a name: 'Data' has the counts before the rates.
    """
    for row in texts.iter_rows():
        if first in row:
            return {name: row.index(name, row.index(first)) for name in columns}
    raise ValueError(f"no header row with {first}")


def read_records(content: bytes) -> pl.DataFrame:
    """The workbook's records: exam (String), the 22 attributes and NSP (Float64), in the order of the sheets.

    Raises ValueError: The bytes are no such workbook.
    """
    try:
        # Twice: as text, numbers are rounded as shown (nine decimals); as numbers, text is null.
        texts = _read_sheets(content, infer_schema_length=0)
        numbers = _read_sheets(content, read_options={"dtypes": "float"})
        measured = tuple(name for name in ATTRIBUTES if name != "DR")
        columns = _places(texts["Data"], "b", ("b",)) | _places(texts["Data"], "LB", (*measured, "NSP"))
        rates = numbers["Data"].select(pl.nth(place).cast(pl.Float64).alias(name) for name, place in columns.items())
        places = _places(texts["Raw Data"], "FileName", ("FileName", "DR"))
        exams = texts["Raw Data"].select(pl.nth(places["FileName"]).alias("exam"))
        repetitive = numbers["Raw Data"].select(pl.nth(places["DR"]).cast(pl.Float64).alias("DR"))
        # A row that is filled throughout is a record: header and totals lack b in Data, an exam or DR in Raw Data.
        raw = pl.concat([exams, repetitive], how="horizontal").drop_nulls()
        rates = rates.drop_nulls()
        if rates.height != raw.height:
            raise ValueError(f"{rates.height} records in sheet Data, {raw.height} in sheet Raw Data")
        return pl.concat([raw, rates], how="horizontal").select("exam", *ATTRIBUTES, "NSP")
    except (fastexcel.FastExcelError, pl.exceptions.PolarsError) as error:
        raise ValueError(f"not the CTG workbook: {error}") from error


def workbook_digest(content: bytes) -> str:
    """SHA-256 (hex) over the cells that are used, in a canonical form.

    The form: UTF-8; a line a record, ended by LF; in it, separated by tabs, the exam, the 22 attributes in
    the order of ATTRIBUTES and NSP, each number as ``repr`` of its float (the shortest text that reads back
    as the same double).

    Raises:
        ValueError: The bytes are no such workbook.
    """
    digest = hashlib.sha256()
    for exam, *numbers in read_records(content).iter_rows():
        digest.update(("\t".join([exam, *map(repr, numbers)]) + "\n").encode())
    return digest.hexdigest()


WORKBOOK = DataFile(
    "CTG.xls",
    "https://archive.ics.uci.edu/ml/machine-learning-databases/00193/CTG.xls",
    "c62d9d644d9af167d10a129c19b3136e7be235a166baadf379326791566a95d0",
    workbook_digest,
)


def load_ctg3() -> Dataset:
    """As `load_ctg`, with the three states apart: 1655 normal, 295 suspect, 176 pathologic.

    Raises DataUnavailableError: The workbook is not to be had.
    """
    state = pl.col("NSP").cast(pl.Int64).replace_strict(STATES, return_dtype=pl.String)
    return _dataset("ctg3", state)


def load_ctg_astv() -> Dataset:
    """As `load_ctg`, with ASTV (percentage of time with abnormal short-term variability) for a label, and no NSP.

    Raises DataUnavailableError: The workbook is not to be had.
    """
    return _dataset("ctg-astv", pl.col("ASTV"))


def load_ctg() -> Dataset:
    """2126 records of 352 exams, 22 numeric attributes, label ``state`` (1655 normal), unit ``exam``.

    Raises DataUnavailableError: The workbook is not to be had.
    """
    return _dataset("ctg", pl.when(pl.col("NSP") == NORMAL).then(pl.lit("normal")).otherwise(pl.lit("not normal")))


def _dataset(name: str, label: pl.Expr) -> Dataset:
    column = "ASTV" if name == "ctg-astv" else "state"
    attributes = [attribute for attribute in ATTRIBUTES if attribute != column]
    return Dataset(
        name=name,
        frame=read_records(data_file(WORKBOOK).read_bytes()).select(*attributes, label.alias(column), "exam"),
        label=column,
        unit="exam",
        description="Cardiotocography: foetal heart rate and contractions, and the state of the foetus.",
        licence="CC BY 4.0 (UCI Machine Learning Repository)",
        citation="D. Campos, J. Bernardes (2000). Cardiotocography. "
        "UCI Machine Learning Repository. https://doi.org/10.24432/C51S4N",
        schema_path=SCHEMAS / f"{name}.toml",
    )
