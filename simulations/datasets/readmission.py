"""Readmission after a hospital stay with diabetes: 99,343 encounters of 69,990 patients in 130 US hospitals, 1999-2008.

From UCI's ``diabetic_data.csv`` (101,766 encounters of 71,518 patients). Strack et al. 2014 published these records and
say what they leave out and why. We follow them, or say where we do not:

* Encounters that ended in death or in a hospice are left out, as in their paper (2,423 rows). Nobody is readmitted
  after one, and a model that predicts so is right but useless.
* Strack et al. keep a patient's first encounter, as rows must be independent for their test. Here all encounters stay,
  and the patient is the privacy unit: a curator counts a bounded number of each patient's. A scenario takes the first
  alone with ``first_record = true``.
* ``weight`` is left out, as in their paper, since it is missing in 97 % of the rows.
* Their paper leaves ``payer_code`` out as irrelevant to the outcome. Here it stays, since it costs nothing and a
  learner does not know beforehand what is irrelevant. It is missing in 40 % of the rows, ``medical_specialty`` in 49 %.
* Of 23 drugs, metformin and insulin stay. The others are not given in 87 % of the rows or more.
* Codes are grouped as in Strack et al., Table 2: diagnoses (ICD-9) into nine groups and external causes; sources of
  admission and discharges as below. Rare specialties and payers are "other".

Age is the middle of a decade. A patient's site is the source of admission of the first encounter, as numbered; a
scenario may take each encounter's own instead (column ``admission_source``), and the patient is then at several sites.
"""

import polars as pl

from simulations.datasets.dataset import SCHEMAS, Dataset
from simulations.datasets.files import DataFile, data_file, text_digest, unzipped

CSV = "diabetic_data.csv"
MISSING = ("?", "Unknown/Invalid")
DIED_OR_HOSPICE = (11, 13, 14, 19, 20, 21)
"""Discharge codes after which no readmission is possible."""
HOME = {1: "home", 6: "home care", 8: "home care", 7: "against advice", 18: None, 25: None, 26: None}
"""Discharge codes to home; all others are to another institution."""
ADMITTED = {
    **dict.fromkeys((1, 2, 3), "referral"),
    **dict.fromkeys((4, 5, 6, 10, 18, 22, 25, 26), "transfer"),
    7: "emergency",
}
"""Admission source by code; other codes are "elsewhere" (unknown, court, birth)."""
TYPES = {1: "emergency", 2: "urgent", 3: "elective", 4: "newborn", 7: "trauma", 5: None, 6: None, 8: None}
SPECIALTIES = (
    "InternalMedicine", "Emergency/Trauma", "Family/GeneralPractice", "Cardiology", "Surgery-General", "Nephrology",
    "Orthopedics", "Orthopedics-Reconstructive", "Radiologist", "Pulmonology", "Psychiatry", "Urology",
    "ObstetricsandGynecology", "Surgery-Cardiovascular/Thoracic", "Gastroenterology", "Neurology", "Oncology",
    "Endocrinology", "Pediatrics", "PhysicalMedicineandRehabilitation",
)  # fmt: skip
PAYERS = ("MC", "HM", "SP", "BC", "MD", "CP", "UN", "CM", "OG", "PO")
NUMBERS = (
    "time_in_hospital", "num_lab_procedures", "num_procedures", "num_medications", "number_outpatient",
    "number_emergency", "number_inpatient", "number_diagnoses",
)  # fmt: skip
DIAGNOSES = ("diag_1", "diag_2", "diag_3")
AS_PUBLISHED = ("race", "gender", "max_glu_serum", "A1Cresult", "metformin", "insulin", "change", "diabetesMed")
ATTRIBUTES = (
    "age", *NUMBERS, "race", "gender", "admission_type", "discharge", "admission_source", "medical_specialty",
    "payer_code", *DIAGNOSES, "max_glu_serum", "A1Cresult", "metformin", "insulin", "change", "diabetesMed",
)  # fmt: skip
UNIT, SITE = "patient", "first_source"
NOT_BACK, BACK = "not readmitted", "readmitted"


def csv_digest(content: bytes) -> str:
    """SHA-256 (hex) of the csv, whatever archive it came in, after CRLF -> LF."""
    return text_digest(unzipped(content, CSV))


ARCHIVE = DataFile(
    f"{CSV}.zip",
    "https://archive.ics.uci.edu/static/public/296/diabetes+130-us+hospitals+for+years+1999-2008.zip",
    "da21942c25a10a51a8842907ab01a8530b06232616b17d317441d592a20c4359",
    csv_digest,
)


def load_readmission() -> Dataset:
    """99,343 encounters, 9 numeric and 16 categorical attributes, label ``readmitted`` (whenever later), unit patient.

    Raises DataUnavailableError: The file is not to be had.
    """
    return _dataset("readmission", "readmitted", pl.col("readmitted") != "NO")


def load_readmission_30() -> Dataset:
    """As `load_readmission`, with label ``readmitted_30``: whether within 30 days.

    Raises DataUnavailableError: The file is not to be had.
    """
    return _dataset("readmission-30", "readmitted_30", pl.col("readmitted") == "<30")


def prepare(published: pl.DataFrame) -> pl.DataFrame:
    """Turn the published rows (all text) into attributes, unit and site, as the module says, in order of encounters.

    The column ``readmitted`` stays as published: "NO", ">30" or "<30" days.
    """
    rows = (
        published.with_columns(pl.col("encounter_id", "discharge_disposition_id").cast(pl.Int64))
        .filter(~pl.col("discharge_disposition_id").is_in(DIED_OR_HOSPICE))
        .sort("encounter_id")
    )
    codes = pl.col("admission_source_id").cast(pl.Int64)
    admitted = codes.replace_strict(ADMITTED, default="elsewhere", return_dtype=pl.String)
    discharge = pl.col("discharge_disposition_id")
    kind = pl.col("admission_type_id").cast(pl.Int64)
    return rows.with_columns(
        pl.col("age").str.extract(r"\[(\d+)-").cast(pl.Float64) + 5,
        pl.col(NUMBERS).cast(pl.Float64),
        *(pl.when(~pl.col(name).is_in(MISSING)).then(name).alias(name) for name in AS_PUBLISHED),
        kind.replace_strict(TYPES, return_dtype=pl.String).alias("admission_type"),
        discharge.replace_strict(HOME, default="institution", return_dtype=pl.String).alias("discharge"),
        admitted.alias("admission_source"),
        _or_other("medical_specialty", SPECIALTIES),
        _or_other("payer_code", PAYERS),
        *map(diagnosis_group, DIAGNOSES),
        admitted.first().over("patient_nbr").alias(SITE),
        pl.col("patient_nbr").alias(UNIT),
    ).select(*ATTRIBUTES, UNIT, SITE, "readmitted")


def diagnosis_group(column: str) -> pl.Expr:
    """The group of an ICD-9 code, as in Strack et al., Table 2; missing stays missing."""
    code = pl.col(column)
    chapter = code.cast(pl.Float64, strict=False).floor()
    groups = {
        "diabetes": chapter == 250,
        "circulatory": chapter.is_between(390, 459) | (chapter == 785),
        "respiratory": chapter.is_between(460, 519) | (chapter == 786),
        "digestive": chapter.is_between(520, 579) | (chapter == 787),
        "genitourinary": chapter.is_between(580, 629) | (chapter == 788),
        "injury": chapter.is_between(800, 999),
        "musculoskeletal": chapter.is_between(710, 739),
        "neoplasms": chapter.is_between(140, 239),
        "external": code.str.contains("^[EV]"),
    }
    group = pl.coalesce(pl.when(there).then(pl.lit(name)) for name, there in groups.items())
    return pl.when(~code.is_in(MISSING)).then(group.fill_null("other diagnosis")).alias(column)


def _or_other(column: str, levels: tuple[str, ...]) -> pl.Expr:
    value = pl.col(column)
    level = pl.when(value.is_in(levels)).then(value).otherwise(pl.lit("other"))
    return pl.when(~value.is_in(MISSING)).then(level).alias(column)


def _dataset(name: str, label: str, positive: pl.Expr) -> Dataset:
    published = pl.read_csv(unzipped(data_file(ARCHIVE).read_bytes(), CSV), infer_schema_length=0)
    frame = prepare(published).with_columns(
        pl.when(positive).then(pl.lit(BACK)).otherwise(pl.lit(NOT_BACK)).alias(label)
    )
    return Dataset(
        name=name,
        frame=frame.select(*ATTRIBUTES, label, UNIT, SITE),
        label=label,
        site=SITE,
        unit=UNIT,
        description="Hospital stays of patients with diabetes, and whether they came back.",
        licence="CC BY 4.0 (UCI Machine Learning Repository)",
        citation="J. Clore, K. Cios, J. DeShazo, B. Strack (2014). Diabetes 130-US Hospitals for Years 1999-2008. "
        "UCI Machine Learning Repository. https://doi.org/10.24432/C5230J",
        schema_path=SCHEMAS / f"{name}.toml",
    )
