"""Data sets: published totals, schemas, damaged files; splits; and the populations that a simulation speaks of."""

import csv
import io
import os
import tomllib
import zipfile
from functools import cache, partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from curator_node.records.schema_file import read_schema_file
from learner_node.study.cards import counted
from protocol.errors import ConfigurationError
from protocol.record_frames import encode_frame
from protocol.records import MISSING_CODE
from protocol.run_index import ledger_file, policy_file
from simulations.datasets import DATASETS, SITE_SPLITS, load_dataset
from simulations.datasets.ctg import ATTRIBUTES, WORKBOOK, read_records, workbook_digest
from simulations.datasets.dataset import SCHEMAS, Dataset
from simulations.datasets.files import DATA_DIRECTORY_VARIABLE, DataFile, DataUnavailableError, data_file, text_digest
from simulations.datasets.heart import COLUMNS, FILES
from simulations.datasets.readmission import ADMITTED, ARCHIVE, DIED_OR_HOSPICE, csv_digest, diagnosis_group
from simulations.datasets.splits import split_parts, split_sites
from simulations.datasets.support2 import HOSPITALS, PATIENTS, patients_digest
from simulations.records import load_records, population_notes, sites_of, split_records
from simulations.scenario import fits, load_scenario, matching

ROOT = Path(__file__).parents[2]


@pytest.fixture
def data_directory(monkeypatch):
    """Where the files are; in the workplace ../shared/data. Tests never download."""
    directory = Path(os.environ.get(DATA_DIRECTORY_VARIABLE) or ROOT.parent / "shared" / "data")
    names = [file.name for file in (WORKBOOK, ARCHIVE, PATIENTS, *FILES.values())]
    if not all((directory / name).is_file() for name in names):
        pytest.skip(f"set {DATA_DIRECTORY_VARIABLE} to a folder with {', '.join(names)}")
    monkeypatch.setenv(DATA_DIRECTORY_VARIABLE, str(directory))
    return directory


LARGE = {"readmission", "readmission-30"}


@pytest.fixture(params=[pytest.param(name, marks=[pytest.mark.slow] * (name in LARGE)) for name in sorted(DATASETS)])
def dataset(request):
    if request.param != "wdbc":
        request.getfixturevalue("data_directory")
    return loaded(request.param)


@cache
def loaded(name):
    return load_dataset(name)


def counts(series):
    return dict(series.value_counts().iter_rows())


# --- every data set ---------------------------------------------------------------------------------------


def test_a_schema_names_the_columns_in_order_and_has_no_other_keys(dataset):
    schema = tomllib.loads(dataset.schema_text)

    assert [attribute["name"] for attribute in schema["attributes"]] == dataset.attributes
    assert [outcome["name"] for outcome in schema.get("outcomes", [])] == list(dataset.outcomes)
    assert schema["label"] == dataset.label
    assert schema.get("unit") == dataset.unit
    if "label_bounds" in schema:
        lower, upper = schema["label_bounds"]
        assert dataset.frame[dataset.label].is_between(lower, upper).all()
    else:
        assert set(dataset.frame[dataset.label]) == set(schema["classes"])
    assert ("most_records_per_unit" in schema) == ("unit" in schema)
    keys = {
        "label",
        "classes",
        "label_bounds",
        "label_units",
        "unit",
        "most_records_per_unit",
        "round_size",
        "attributes",
        "outcomes",
        "time_to_event",
    }
    assert schema.keys() <= keys
    for attribute in schema["attributes"] + schema.get("outcomes", []):
        rest = {"numeric": {"lower", "upper"}, "categorical": {"levels"}}[attribute["kind"]]
        assert attribute.keys() - {"units"} == {"name", "kind", "description"} | rest
        assert "units" not in attribute or attribute["kind"] == "numeric"


def test_values_are_levels_or_nearly_all_within_bounds_that_are_not_the_extremes_of_the_records(dataset):
    """Only ends of a documented scale may be reached: 0, vessels, tendency, coma (100), the device's 50 beats."""
    schema = tomllib.loads(dataset.schema_text)
    for attribute in schema["attributes"] + schema.get("outcomes", []):
        values = dataset.frame[attribute["name"]].drop_nulls()
        if attribute["kind"] == "categorical":
            assert values.dtype == pl.String
            assert set(values) <= set(attribute["levels"])
        else:
            assert values.dtype == pl.Float64
            assert attribute["lower"] < attribute["upper"]
            assert values.is_between(attribute["lower"], attribute["upper"]).mean() > 0.99, attribute["name"]
            if attribute["name"] not in {"ca", "Tendency", "scoma"}:
                assert attribute["upper"] != values.max(), attribute["name"]
                assert attribute["lower"] in {0, 50} or attribute["lower"] != values.min(), attribute["name"]


def test_roles_have_no_nulls_and_numbers_are_finite(dataset):
    for role in (dataset.label, dataset.site, dataset.unit):
        if role is not None:
            assert dataset.frame[role].null_count() == 0
    numbers = dataset.frame.select(pl.col(pl.Float64).drop_nulls().is_finite().all())
    assert all(numbers.row(0))


def test_without_unit_drops_only_the_unit(dataset):
    plain = dataset.without_unit()

    assert plain.unit is None
    assert plain.attributes == dataset.attributes
    assert plain.frame.height == dataset.frame.height
    assert dataset.unit not in plain.frame.columns


def test_unknown_name_and_option_are_errors():
    with pytest.raises(ValueError, match="no data set is called 'iris'; there are wdbc, heart, ctg"):
        load_dataset("iris")
    with pytest.raises(TypeError, match="colour"):
        load_dataset("wdbc", colour="red")


# --- published figures --------------------------------------------------------------------------------------


def test_wdbc_classes():
    wdbc = load_dataset("wdbc")

    assert wdbc.frame.shape == (569, 31)
    assert counts(wdbc.frame["diagnosis"]) == {"benign": 357, "malignant": 212}
    assert sum(wdbc.frame.null_count().row(0)) == 0
    # The worst (largest) nuclei are no smaller than the mean one; the larger mean is the malignant class's.
    assert (wdbc.frame["worst radius"] >= wdbc.frame["mean radius"]).all()
    means = dict(wdbc.frame.group_by("diagnosis").agg(pl.col("mean radius").mean()).iter_rows())
    assert means["malignant"] > means["benign"]


def test_heart_classes_are_those_of_the_documentation(data_directory):
    """heart-disease.names, section 10: class 0, and classes 1 to 4 together."""
    heart = load_dataset("heart")

    table = {(site, label): n for site, label, n in heart.frame.group_by("hospital", "disease").len().iter_rows()}
    assert table == {
        ("cleveland", "absent"): 164,
        ("cleveland", "present"): 55 + 36 + 35 + 13,
        ("hungary", "absent"): 188,
        ("hungary", "present"): 37 + 26 + 28 + 15,
        ("switzerland", "absent"): 8,
        ("switzerland", "present"): 48 + 32 + 30 + 5,
        ("long-beach", "absent"): 51,
        ("long-beach", "present"): 56 + 41 + 42 + 10,
    }


def test_heart_missing_values_known_from_publications(data_directory):
    frame = load_dataset("heart").frame
    missing = {
        site: dict(zip(frame.columns, part.null_count().row(0), strict=True))
        for (site,), part in frame.group_by("hospital")
    }

    # UCI: Cleveland lacks 4 ca and 2 thal, nothing else. Switzerland recorded no cholesterol.
    assert {name: n for name, n in missing["cleveland"].items() if n} == {"ca": 4, "thal": 2}
    assert missing["switzerland"]["chol"] == 123
    assert missing["hungary"]["ca"] == 291
    assert missing["long-beach"]["ca"] == 198


def heart_of(hospital, data_directory):
    """A hospital's file, read with the csv module and strings only; and its records."""
    with (data_directory / FILES[hospital].name).open(newline="") as lines:
        rows = [dict(zip(COLUMNS, row, strict=True)) for row in csv.reader(lines)]
    return rows, load_dataset("heart").frame.filter(pl.col("hospital") == hospital)


@pytest.mark.parametrize("hospital", sorted(FILES))
def test_heart_missing_values_are_those_of_the_file(data_directory, hospital):
    rows, frame = heart_of(hospital, data_directory)
    for name in COLUMNS[:-1]:
        codes = {"?", "-9", "-9.0"} | ({"0", "0.0"} if name in {"trestbps", "chol"} else set())
        assert frame[name].is_null().to_list() == [row[name] in codes for row in rows], name


def test_heart_levels_follow_the_documented_codes(data_directory):
    rows, frame = heart_of("cleveland", data_directory)
    for name, code, level in [
        ("sex", "1.0", "male"),
        ("cp", "3.0", "non-anginal"),
        ("cp", "4.0", "asymptomatic"),
        ("fbs", "1.0", "above 120 mg/dl"),
        ("restecg", "2.0", "left ventricular hypertrophy"),
        ("exang", "1.0", "yes"),
        ("slope", "3.0", "downsloping"),
        ("thal", "6.0", "fixed defect"),
        ("thal", "7.0", "reversible defect"),
    ]:
        assert (frame[name] == level).fill_null(value=False).to_list() == [row[name] == code for row in rows], level


def test_ctg_published_figures(data_directory):
    ctg = load_dataset("ctg")

    assert len(ctg.attributes) == 22
    assert ctg.frame.height == 2126
    assert counts(ctg.frame["state"]) == {"normal": 1655, "not normal": 2126 - 1655}
    assert ctg.frame["exam"].n_unique() == 352
    assert ctg.frame.group_by("exam").len()["len"].max() == 34
    assert set(ctg.frame["DR"]) == {0.0}
    assert sum(ctg.frame.null_count().row(0)) == 0


def test_ctg_sheets_hold_the_same_records_in_the_same_order(data_directory):
    """The claim on which the exam of a record of sheet Data rests."""
    as_it_is = {"engine": "calamine", "has_header": False, "drop_empty_rows": False, "drop_empty_cols": False}
    read = partial(pl.read_excel, data_directory / WORKBOOK.name, **as_it_is)
    sheets = read(sheet_name=["Data", "Raw Data"], read_options={"dtypes": "float"})
    headers = {
        name: read(sheet_name=name, infer_schema_length=0).row(row) for name, row in (("Data", 1), ("Raw Data", 0))
    }

    def column(sheet, name, start="b"):
        header = headers[sheet]
        place = header.index(name, header.index(start))
        filled = sheets[sheet].to_series(header.index("b")).is_not_null()
        return sheets[sheet].to_series(place).filter(filled).cast(pl.Float64).to_list()

    rates = ["AC", "FM", "UC", "DL", "DS", "DP"]
    same = [name for name in ATTRIBUTES if name not in rates and name != "DR"]
    assert len(same) == 15
    for name in [*same, "b", "e", "CLASS", "NSP"]:
        start = "b" if name in {"b", "e"} else "LB"
        assert column("Data", name, start) == column("Raw Data", name), name
    seconds = [e - b for b, e in zip(column("Raw Data", "b"), column("Raw Data", "e"), strict=True)]
    records = read_records((data_directory / WORKBOOK.name).read_bytes())
    for name in rates:
        counted = column("Raw Data", name)
        assert column("Data", name) == counted, name  # the first columns of that name hold the counts
        assert records[name].to_list() == [n / s for n, s in zip(counted, seconds, strict=True)], name
    assert column("Data", "DR") == column("Raw Data", "DR") == [0.0] * 2126


# --- files ------------------------------------------------------------------------------------------------------

TEXT = DataFile("notes.data", "https://archive.example/notes.data", text_digest(b"1,2\n3,4\n"))


def refuse(url, target):
    raise ConnectionError(f"no route to {url}")


def deliver(content):
    def download(url, target):
        assert url == TEXT.url
        target.write_bytes(content)

    return download


@pytest.fixture
def given_folder(tmp_path, monkeypatch):
    folder = tmp_path / "given"
    folder.mkdir()
    monkeypatch.setenv(DATA_DIRECTORY_VARIABLE, str(folder))
    return folder


@pytest.mark.parametrize("content", [b"1,2\n3,4\n", b"1,2\r\n3,4\r\n"])
def test_either_line_end_passes(given_folder, tmp_path, content):
    (given_folder / TEXT.name).write_bytes(content)

    assert data_file(TEXT, cache=tmp_path / "cache", download=refuse) == given_folder / TEXT.name


def test_given_file_with_other_content_is_an_error_and_not_replaced(given_folder, tmp_path):
    (given_folder / TEXT.name).write_bytes(b"1,2\n3,5\n")

    with pytest.raises(DataUnavailableError, match=r"notes\.data: checksum mismatch.*EXPRIL_DATA_DIR"):
        data_file(TEXT, cache=tmp_path / "cache", download=deliver(b"1,2\n3,4\n"))


def test_download_is_kept_and_not_repeated(given_folder, tmp_path):
    cache = tmp_path / "a" / "cache"

    first = data_file(TEXT, cache=cache, download=deliver(b"1,2\r\n3,4\r\n"))

    assert first == cache / TEXT.name
    assert data_file(TEXT, cache=cache, download=refuse) == first
    assert list(cache.iterdir()) == [first]


def test_damaged_cache_is_downloaded_again(given_folder, tmp_path):
    (tmp_path / TEXT.name).write_bytes(b"1,2\n3")

    path = data_file(TEXT, cache=tmp_path, download=deliver(b"1,2\n3,4\n"))

    assert path.read_bytes() == b"1,2\n3,4\n"


@pytest.mark.parametrize(
    ("download", "reason"),
    [(refuse, "ConnectionError: no route to"), (deliver(b"<html>"), "ValueError: checksum mismatch")],
)
def test_failed_download_says_what_was_tried_and_what_to_do(monkeypatch, tmp_path, download, reason):
    monkeypatch.delenv(DATA_DIRECTORY_VARIABLE, raising=False)

    with pytest.raises(DataUnavailableError) as caught:
        data_file(TEXT, cache=tmp_path, download=download)

    message = str(caught.value)
    for part in ("notes.data is not available", "EXPRIL_DATA_DIR is not set", "(cache): no such file", reason):
        assert part in message
    assert message.endswith(f"save {TEXT.url} as notes.data in a folder and set EXPRIL_DATA_DIR to that folder")
    assert "\n" not in message
    assert list(tmp_path.iterdir()) == []


def test_unwritable_cache_is_the_same_error(given_folder, tmp_path):
    (tmp_path / "file").write_text("not a folder")

    with pytest.raises(DataUnavailableError, match=r"notes\.data \(EXPRIL_DATA_DIR\): no such file"):
        data_file(TEXT, cache=tmp_path / "file", download=deliver(b"1,2\n3,4\n"))


@pytest.mark.parametrize("content", [b"", b"junk", b"PK\x03\x04 junk"])
def test_junk_is_no_workbook(given_folder, content):
    (given_folder / WORKBOOK.name).write_bytes(content)

    with pytest.raises(DataUnavailableError, match=r"CTG\.xls: not the CTG workbook"):
        load_dataset("ctg")


def test_workbook_with_one_changed_cell_is_refused(data_directory, monkeypatch):
    content = (data_directory / WORKBOOK.name).read_bytes()
    records = read_records(content)
    changed = records.with_columns(MSTV=pl.col("MSTV") + 1e-9 * (pl.int_range(pl.len()) == 7))
    assert workbook_digest(content) == WORKBOOK.sha256

    monkeypatch.setattr("simulations.datasets.ctg.read_records", lambda _: changed)

    with pytest.raises(DataUnavailableError, match="checksum mismatch"):
        load_dataset("ctg")


# --- readmission ------------------------------------------------------------------------------------------


def published_readmissions(data_directory):
    """The csv as published, read without any of our code."""
    with zipfile.ZipFile(data_directory / ARCHIVE.name) as archive:
        return list(csv.DictReader(archive.read("diabetic_data.csv").decode().splitlines()))


@pytest.mark.slow
def test_readmissions_published_figures(data_directory):
    rows = published_readmissions(data_directory)
    assert (len(rows), len({row["patient_nbr"] for row in rows})) == (101_766, 71_518)
    assert counts(pl.Series([row["readmitted"] for row in rows])) == {"NO": 54_864, ">30": 35_545, "<30": 11_357}

    kept = [row for row in rows if row["discharge_disposition_id"] not in {"11", "13", "14", "19", "20", "21"}]
    for name, positive in (("readmission", {"<30", ">30"}), ("readmission-30", {"<30"})):
        dataset = load_dataset(name)
        assert dataset.frame.height == len(kept)
        assert dataset.frame["patient"].n_unique() == len({row["patient_nbr"] for row in kept})
        assert (dataset.frame[dataset.label] == "readmitted").sum() == sum(
            row["readmitted"] in positive for row in kept
        )
        assert len(dataset.attributes) == 25


@pytest.mark.slow
def test_a_readmission_is_prepared_as_documented(data_directory):
    """A sample of encounters, prepared by hand-written rules on the published texts."""
    rows = sorted(published_readmissions(data_directory), key=lambda row: int(row["encounter_id"]))
    kept = [row for row in rows if int(row["discharge_disposition_id"]) not in DIED_OR_HOSPICE]
    frame = load_dataset("readmission").frame
    first = {}
    for row in kept:
        first.setdefault(row["patient_nbr"], ADMITTED.get(int(row["admission_source_id"]), "elsewhere"))
    assert frame["first_source"].to_list() == [first[row["patient_nbr"]] for row in kept]
    for place in range(0, len(kept), 997):
        row, ours = kept[place], frame.row(place, named=True)
        assert ours["patient"] == row["patient_nbr"]
        low = int(row["age"].strip("[)").split("-")[0])
        assert ours["age"] == low + 5
        assert ours["number_inpatient"] == float(row["number_inpatient"])
        assert ours["insulin"] == row["insulin"]
        assert ours["race"] == (None if row["race"] == "?" else row["race"])


CODES = """
label = "readmitted"
classes = ["NO", ">30", "<30"]

[[attributes]]
name = "number_inpatient"
kind = "numeric"
lower = 0
upper = 20

[[attributes]]
name = "race"
kind = "categorical"
levels = ["Caucasian", "AfricanAmerican", "Hispanic", "Asian", "Other"]

[[attributes]]
name = "gender"
kind = "categorical"
levels = ["Female", "Male"]
missing = ["Unknown/Invalid"]

[[attributes]]
name = "admission_type_id"
kind = "categorical"
levels = ["1", "2", "3", "4", "7"]
missing = ["5", "6", "8"]
"""
"""Of the csv as published, with what its code book calls not available, null and not mapped."""


@pytest.mark.slow
def test_a_schema_s_missing_values_are_those_of_rows_prepared_by_hand(data_directory):
    """All encounters: the sentinels of a schema do what `prepare` does in code."""
    rows = sorted(published_readmissions(data_directory), key=lambda row: int(row["encounter_id"]))
    kept = pl.DataFrame([row for row in rows if int(row["discharge_disposition_id"]) not in DIED_OR_HOSPICE])
    dataset = load_dataset("readmission")
    prepared = encode_frame(dataset.frame, read_schema_file(dataset.schema_text).schema)
    published = encode_frame(kept, read_schema_file(CODES).schema)
    names = {"number_inpatient": "number_inpatient", "race": "race", "gender": "gender"}
    for name, ours in (names | {"admission_type_id": "admission_type"}).items():
        assert np.array_equal(published.column(name), prepared.column(ours)), name
    assert np.count_nonzero(published.column("admission_type_id") == MISSING_CODE) == sum(
        code in {"5", "6", "8"} for code in kept["admission_type_id"]
    )


def test_diagnoses_are_grouped_as_published():
    groups = {
        "diabetes": ["250.83"],
        "external": ["V27", "E888"],
        "circulatory": ["428", "785"],
        "respiratory": ["486"],
        "digestive": ["787"],
        "genitourinary": ["599", "788"],
        "injury": ["820"],
        "musculoskeletal": ["715"],
        "neoplasms": ["174"],
        "other diagnosis": ["276", "249.9"],
        None: ["?"],
    }
    codes = pl.DataFrame(
        [(group, code) for group, codes in groups.items() for code in codes], ["group", "diag"], orient="row"
    )
    assert codes.select(diagnosis_group("diag"))["diag"].to_list() == codes["group"].to_list()


def zipped(name, content=b"a,b\r\n1,2\r\n"):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("IDS_mapping.csv", "other")
        archive.writestr(name, content)
    return file.getvalue()


def test_the_csv_passes_in_any_archive_and_alone():
    plain = csv_digest(b"a,b\n1,2\n")
    assert plain == csv_digest(zipped("diabetic_data.csv")) == csv_digest(zipped("folder/diabetic_data.csv"))
    assert csv_digest(zipped("diabetic_data.csv", b"a,b\n1,3\n")) != plain
    with pytest.raises(ValueError, match="holds no"):
        csv_digest(zipped("else.csv"))
    with pytest.raises(ValueError, match="damaged"):
        csv_digest(zipped("diabetic_data.csv")[:40])


# --- support2 ---------------------------------------------------------------------------------------------


def test_support2_published_figures_and_the_cells_of_the_file(data_directory):
    """9,105 patients of eight diagnoses in four classes, as documented; every cell as the csv module reads it."""
    with (data_directory / PATIENTS.name).open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    support2 = load_dataset("support2")
    assert support2.frame.height == len(rows) == 9105
    assert len(support2.attributes) == 27
    outcomes = {"0": "survived", "1": "died"}
    assert support2.frame["hospdead"].to_list() == [outcomes[row["hospdead"]] for row in rows]
    assert support2.frame["hospital"].to_list() == [HOSPITALS[row["dzclass"]] for row in rows]
    # The documentation: ARF/MOSF, COPD/CHF/Cirrhosis, cancer and coma, each of diagnoses of its own.
    assert counts(support2.frame.group_by("hospital").agg(pl.col("dzgroup").n_unique())["dzgroup"]) == {
        2: 2,
        3: 1,
        1: 1,
    }
    assert support2.frame["d.time"].to_list() == [float(row["d.time"]) for row in rows]
    assert support2.frame["death"].to_list() == [{"0": "alive", "1": "died"}[row["death"]] for row in rows]
    # Who died in hospital had died by the end of follow-up; nobody was last heard of within 300 days of entry.
    assert set(support2.frame.filter(pl.col("hospdead") == "died")["death"]) == {"died"}
    assert support2.frame.filter(pl.col("death") == "alive")["d.time"].min() > 300
    for name in support2.attributes:
        column = support2.frame[name]
        texts = [row[name] for row in rows]
        if column.dtype == pl.Float64:
            assert column.to_list() == [float(text) if text else None for text in texts], name
        elif name in {"diabetes", "dementia"}:
            assert column.to_list() == [{"0": "no", "1": "yes"}[text] for text in texts], name
        else:
            assert column.to_list() == [text or None for text in texts], name


def test_copies_of_support2_differ_in_form_and_agree_in_content(data_directory):
    """The number of the patient has another name or none in the header, blanks, more digits, NA, an archive."""
    content = (data_directory / PATIENTS.name).read_bytes()
    first, *lines = content.decode().splitlines()
    spread = "\n".join([first.removeprefix(","), *(line.replace(",", ", ") for line in lines)])
    named = "\n".join(["id" + first, *(line.replace(",7.459961,", ",7.4599609375,") for line in lines)])
    absent = "\n".join([first, *(line.replace(",,,", ",NA,NA,") for line in lines)])
    assert named.count("7.4599609375") > 9
    for copy in (spread.encode(), named.encode(), absent.encode(), zipped("support2.csv", content)):
        assert patients_digest(copy) == PATIENTS.sha256
    assert patients_digest(content.replace(b"7.459961", b"7.469961", 1)) != PATIENTS.sha256


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"", "no column age"), (b"<html>", "no column age"), (b"PK\x03\x04 junk", "damaged"), (b"\xff\xfe", "utf-8")],
)
def test_junk_is_no_file_of_support2(given_folder, content, reason):
    (given_folder / PATIENTS.name).write_bytes(content)

    with pytest.raises(DataUnavailableError, match=rf"support2\.csv: .*{reason}"):
        load_dataset("support2")


SEEDS = st.integers(0, 2**32 - 1)
FRACTIONS = st.lists(st.integers(1, 9), min_size=1, max_size=4).map(
    lambda weights: {f"part {i}": weight / sum(weights) for i, weight in enumerate(weights)}
)


def make(rows, *, site=None, unit=None):
    """Records of (exam, rate, town); ``row`` tells them apart."""
    frame = pl.DataFrame(rows, schema={"exam": pl.String, "rate": pl.Float64, "town": pl.String}, orient="row")
    frame = frame.with_row_index("row").with_columns(pl.lit("ill").alias("state"))
    texts = dict.fromkeys(("description", "licence", "citation"), "")
    return Dataset(
        name="toy", frame=frame, label="state", site=site, unit=unit, schema_path=SCHEMAS / "none.toml", **texts
    )


def shifted(dataset, seed, **options):
    options = {"attribute": "rate", "sites": ("source", "target"), **options}
    return split_sites(dataset, "shift", np.random.default_rng(seed), **options)


ROWS = st.lists(
    st.tuples(st.sampled_from("abcdef"), st.integers(-3, 3).map(float), st.sampled_from(["x", "y"])),
    min_size=1,
    max_size=20,
)
UNITS = st.sampled_from([None, "exam"])


def unit_count(frame, unit):
    return frame.height if unit is None else frame[unit].n_unique()


def check_split(frame, parts, unit):
    """Every record once, whole and in order; none empty; no unit in two."""
    assert all(not part.is_empty() for part in parts.values())
    assert all(part["row"].is_sorted() for part in parts.values())
    assert_frame_equal(pl.concat(parts.values()).sort("row"), frame)
    if unit is not None:
        assert sum(part[unit].n_unique() for part in parts.values()) == frame[unit].n_unique()


@settings(max_examples=50)
@given(ROWS, FRACTIONS, SEEDS, UNITS)
def test_parts_hold_every_record_once(rows, fractions, seed, unit):
    frame = make(rows).frame
    units = unit_count(frame, unit)
    if units < len(fractions):
        with pytest.raises(ValueError, match=f"{units} units cannot fill {len(fractions)} parts"):
            split_parts(frame, fractions, np.random.default_rng(seed), unit)
        return

    parts = split_parts(frame, fractions, np.random.default_rng(seed), unit)

    assert list(parts) == list(fractions)
    check_split(frame, parts, unit)
    again = split_parts(frame, fractions, np.random.default_rng(seed), unit)
    assert all(parts[name].equals(again[name]) for name in parts)


@settings(max_examples=50)
@given(st.integers(1, 200), FRACTIONS, SEEDS)
def test_part_sizes_are_the_fractions_up_to_rounding(height, fractions, seed):
    assume(height * min(fractions.values()) >= 1)
    frame = pl.DataFrame({"row": range(height)})

    parts = split_parts(frame, fractions, np.random.default_rng(seed))

    for name, fraction in fractions.items():
        assert abs(parts[name].height - fraction * height) < 1


@settings(max_examples=50)
@given(ROWS, FRACTIONS, SEEDS, UNITS)
def test_random_sites_hold_every_record_once(rows, fractions, seed, unit):
    dataset = make(rows, unit=unit)
    assume(unit_count(dataset.frame, unit) >= len(fractions))

    sites = split_sites(dataset, "random", np.random.default_rng(seed), fractions=fractions)

    check_split(dataset.frame, sites, unit)


@settings(max_examples=50)
@given(ROWS, SEEDS, UNITS)
def test_shifted_sites_hold_every_record_once(rows, seed, unit):
    dataset = make(rows, unit=unit)
    levels = dataset.frame["rate"] if unit is None else dataset.frame.group_by(unit).agg(pl.col("rate").mean())["rate"]
    assume(levels.max() - levels.min() > 1e-6 or levels.n_unique() == 1)
    if levels.n_unique() == 1:
        with pytest.raises(ValueError, match="nothing to shift by"):
            shifted(dataset, seed)
        return

    sites = shifted(dataset, seed)

    assert list(sites) == ["source", "target"]
    check_split(dataset.frame, sites, unit)
    again = shifted(dataset, seed)
    assert all(sites[name].equals(again[name]) for name in sites)


@settings(max_examples=50)
@given(ROWS)
def test_site_column_splits_as_it_says(rows):
    dataset = make(rows, site="town")

    sites = split_sites(dataset, "site", np.random.default_rng(0))

    check_split(dataset.frame, sites, None)
    assert list(sites) == sorted(set(dataset.frame["town"]))
    assert all(set(part["town"]) == {name} for name, part in sites.items())


@settings(max_examples=50)
@given(ROWS)
def test_site_column_may_not_split_a_unit(rows):
    dataset = make(rows, site="town", unit="exam")
    towns = {}
    for exam, _, town in rows:
        towns.setdefault(exam, set()).add(town)

    if max(map(len, towns.values())) > 1:
        with pytest.raises(ValueError, match="some exam has records at more than one town"):
            split_sites(dataset, "site", np.random.default_rng(0))
    else:
        check_split(dataset.frame, split_sites(dataset, "site", np.random.default_rng(0)), "exam")


def test_extreme_probabilities_follow_the_attribute():
    """With chances 0 and 1 at the ends the extremes have no choice: 8 of 8 seeds agree."""
    dataset = make([("a", 0.0, "x"), ("b", 9.0, "x")])

    for seed in range(8):
        sites = shifted(dataset, seed, sites=("high", "low"), probabilities=(0.0, 1.0))
        assert sites["high"]["rate"].to_list() == [9.0]


def test_shift_keeps_the_stated_chance_at_each_level():
    """4000 records a level: the share has a standard deviation of at most 0.008; 0.048 off has a chance below 1e-8."""
    dataset = make([("a", float(level), "x") for level in (0, 1, 2) for _ in range(4000)])

    source = shifted(dataset, 5)["source"]

    for level, chance in ((0.0, 0.1), (1.0, 0.5), (2.0, 0.9)):
        assert abs((source["rate"] == level).sum() / 4000 - chance) < 0.048


def test_seeds_matter():
    frame = make([("a", 0.0, "x")] * 40).frame
    halves = {"private": 0.5, "test": 0.5}

    first, second = (split_parts(frame, halves, np.random.default_rng(seed)) for seed in (1, 2))

    assert not first["private"].equals(second["private"])


@pytest.mark.parametrize(
    "fractions", [{}, {"a": 0.5}, {"a": 1.0, "b": 0.0}, {"a": 1.5, "b": -0.5}, {"a": float("nan"), "b": 0.5}]
)
def test_bad_fractions(fractions):
    with pytest.raises(ValueError, match="fractions must be positive and add up to 1"):
        split_parts(make([("a", 0.0, "x")] * 9).frame, fractions, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"probabilities": (0.5, 0.5)}, "0 <= low < high <= 1"),
        ({"probabilities": (0.1, 1.1)}, "0 <= low < high <= 1"),
        ({"probabilities": (float("nan"), 0.9)}, "0 <= low < high <= 1"),
        ({"probabilities": (0.0, 1e-12)}, "draws filled both sites"),
        ({"sites": ("one", "one")}, "two names"),
        ({"attribute": "town"}, "town is not numeric"),
        ({"attribute": "holey"}, "missing or infinite"),
        ({"attribute": "endless"}, "missing or infinite"),
    ],
)
def test_bad_shifts(options, message):
    toy = make([("a", 0.0, "x"), ("b", 1.0, "y")])
    holes = toy.frame.with_columns(
        pl.Series("holey", [None, 1.0]), pl.Series("endless", [float("inf"), 1.0], dtype=pl.Float64)
    )
    dataset = Dataset(**{**vars(toy), "frame": holes})

    with pytest.raises(ValueError, match=message):
        shifted(dataset, 0, **options)


def test_records_without_unit_or_site_are_refused():
    dataset = make([(None, 0.0, "x"), ("b", 1.0, None)], site="town", unit="exam")

    with pytest.raises(ValueError, match="1 records have no exam"):
        split_parts(dataset.frame, {"a": 1.0}, np.random.default_rng(0), "exam")
    with pytest.raises(ValueError, match="1 records have no town"):
        split_sites(dataset, "site", np.random.default_rng(0))


def test_unknown_split_and_missing_site_column():
    with pytest.raises(ValueError, match=f"no split is called 'moon'; there are {', '.join(SITE_SPLITS)}"):
        split_sites(make([("a", 0.0, "x")]), "moon", np.random.default_rng(0))
    with pytest.raises(ValueError, match="toy has no site column"):
        split_sites(make([("a", 0.0, "x")]), "site", np.random.default_rng(0))


def test_wdbc_in_three():
    thirds = {"north": 1 / 3, "east": 1 / 3, "south": 1 / 3}

    sites = split_sites(load_dataset("wdbc"), "random", np.random.default_rng(0), fractions=thirds)

    assert sorted(part.height for part in sites.values()) == [189, 190, 190]


SCHEMA = """
label = "back"
classes = ["NO", ">30", "<30"]
unit = "patient"
most_records_per_unit = 1
[[attributes]]
name = "age"
kind = "numeric"
lower = 0
upper = 100
"""
SCENARIO = """
title = "own"
[data]
path = "records.csv"
schema = "schema.toml"
{data}
[data.sites]
{sites}
{curators}
[[learners]]
name = "ada"
[[learners]]
name = "grace"
{learner}
"""


@pytest.fixture
def own(tmp_path):
    """200 encounters of 80 patients at four wards, some patients at two; ward d has two patients."""
    rng = np.random.default_rng(5)
    patient = np.concatenate([np.arange(80), rng.integers(80, size=120)])
    ward = np.where(patient < 2, "d", np.array(["a", "b", "c"])[patient % 3])
    pl.DataFrame(
        {
            "patient": [f"p{number}" for number in patient],
            "age": rng.integers(20, 90, size=200),
            "back": np.array(["NO", ">30", "<30"])[rng.integers(3, size=200)],
            "home": ward,
            "ward": np.where(rng.random(200) < 0.2, "b", ward),
            "row": np.arange(200),
        }
    ).write_csv(tmp_path / "records.csv")
    (tmp_path / "schema.toml").write_text(SCHEMA)
    return tmp_path


def load(folder, sites='how = "site"\ncolumn = "home"\nsmall = "leave out"', data="", curators="", learner=""):
    path = folder / "case.toml"
    path.write_text(SCENARIO.format(sites=sites, data=data, curators=curators, learner=learner))
    scenario = load_scenario(str(path))[0]
    records = load_records(scenario, folder)
    return scenario, records, split_records(scenario, records, 0)


# --- the bound --------------------------------------------------------------------------------------------


@given(units=st.lists(st.integers(0, 9), min_size=1, max_size=60), most=st.integers(1, 6), seed=st.integers(0, 2**32))
def test_a_bounded_frame_has_so_many_of_each_unit_in_their_order(units, most, seed):
    frame = pl.DataFrame({"unit": units, "row": range(len(units))})
    kept = counted(frame, "unit", most, np.random.default_rng(seed))
    assert kept["row"].is_sorted()
    assert {unit: min(most, units.count(unit)) for unit in units} == dict(kept["unit"].value_counts().iter_rows())
    assert counted(frame, None, most, np.random.default_rng(seed)).equals(frame)


@pytest.mark.slow
def test_each_record_of_a_unit_is_as_likely_to_count():
    """3 of 12 records, 4,000 draws: a share is off by 0.05 with a chance of 12 x 2 exp(-2 x 4000 x 0.05^2) < 1e-7.

    Of shares that were twice as likely (0.5) the test would fail for certain.
    """
    frame = pl.DataFrame({"unit": ["a"] * 12, "row": range(12)})
    rng = np.random.default_rng(3)
    draws = [counted(frame, "unit", 3, rng)["row"].to_list() for _ in range(4000)]
    share = np.bincount(np.concatenate(draws), minlength=12) / 4000
    assert np.all(np.abs(share - 0.25) < 0.05)


def test_source_tests_and_regressions_are_bounded_as_curators_count(own):
    _, records, sites = load(own)
    assert set(sites) == {"a", "b", "c"}
    for site in sites.values():
        for part in (site.counted, site.source, site.test):
            assert part["patient"].is_unique().all()
        assert site.counted["patient"].n_unique() == site.private["patient"].n_unique()
        assert site.test["patient"].n_unique() == site.all_tests["patient"].n_unique()
    assert records.steward.most_records_per_unit == 1


def test_the_report_says_how_many_records_the_bound_leaves_out(own):
    scenario, records, sites = load(own)
    notes = [note for note in population_notes(scenario, records, sites) if "of each patient" in note]
    private = sum(site.private.height for site in sites.values())
    beyond = private - sum(site.private["patient"].n_unique() for site in sites.values())
    assert len(notes) == 1
    assert f"leaves out {beyond} of {private} private" in notes[0]


def test_a_scenario_may_have_another_bound(own):
    _, records, sites = load(own, data="most_records_per_unit = 2")
    assert records.steward.most_records_per_unit == 2
    counts = pl.concat([site.counted for site in sites.values()])["patient"].value_counts()["count"]
    assert counts.max() == 2


def test_the_first_record_of_each_unit_alone(own):
    scenario, records, sites = load(own, data="first_record = true")
    everything = pl.read_csv(own / "records.csv")
    first = everything.unique("patient", keep="first", maintain_order=True)["row"].to_list()
    assert records.dataset.frame["row"].cast(pl.Int64).to_list() == first
    assert not [note for note in population_notes(scenario, records, sites) if "of each patient" in note]


# --- sites ------------------------------------------------------------------------------------------------


def test_a_small_site_is_named_with_its_remedy(own):
    with pytest.raises(ConfigurationError, match=r'site d has 2 patients, and 3 are the least.*small = "leave out"'):
        load(own, sites='how = "site"\ncolumn = "home"')


def test_small_sites_are_left_out_or_merged_and_named(own):
    scenario, records, sites = load(own)
    assert "Sites with fewer than 3 patients were left out: d." in population_notes(scenario, records, sites)
    merged = 'how = "site"\ncolumn = "home"\nleast_units = 27\nsmall = "merge"\nmerged = "elsewhere"'
    scenario, records, sites = load(own, sites=merged)
    units = pl.read_csv(own / "records.csv").group_by("home").agg(pl.col("patient").n_unique())
    small = sorted(units.filter(pl.col("patient") < 27)["home"])
    assert set(sites) == ({"a", "b", "c", "d"} - set(small)) | {"elsewhere"}
    notes = population_notes(scenario, records, sites)
    assert f"Sites with fewer than 27 patients were merged into elsewhere: {', '.join(small)}." in notes


def test_units_at_several_sites_need_to_be_said(own):
    with pytest.raises(ConfigurationError, match="units_move = true"):
        load(own, sites='how = "site"\ncolumn = "ward"\nsmall = "leave out"')


def test_a_unit_that_moves_is_private_everywhere_or_nowhere(own):
    scenario, records, sites = load(own, sites='how = "site"\ncolumn = "ward"\nunits_move = true\nsmall = "leave out"')
    parts = {part: set() for part in ("private", "source", "all_tests")}
    at = {}
    for name, site in sites.items():
        for part, units in parts.items():
            units |= set(getattr(site, part)["patient"])
        for unit in set(site.private["patient"]):
            at.setdefault(unit, set()).add(name)
    assert not parts["private"] & parts["all_tests"]
    assert not parts["private"] & parts["source"]
    several = sum(len(names) > 1 for names in at.values())
    (note,) = [note for note in population_notes(scenario, records, sites) if "several sites" in note]
    assert several
    assert note.startswith(f"{several} of {len(at)} patients have private records at several sites")
    assert f"at most {max(map(len, at.values()))} times" in note


def test_equal_sites_by_count_and_pattern(own):
    _, _, sites = load(own, sites='how = "random"\ncount = 12\npattern = "ward {}"')
    assert list(sites) == [f"ward {number:02d}" for number in range(1, 13)]
    units = [
        sum(getattr(site, part)["patient"].n_unique() for part in ("private", "source", "all_tests"))
        for site in sites.values()
    ]
    assert max(units) - min(units) <= 1


@pytest.mark.parametrize(
    ("sites", "message"),
    [
        ('how = "random"', "needs fractions.* or a count of equal sites"),
        ('how = "random"\ncount = 2\nfractions = {a = 0.5, b = 0.5}', "one of the two"),
        ('how = "random"\ncount = 2\npattern = "ward"', "needs one {} where the number"),
        ('how = "random"\ncount = 2\nunits_move = true', "are for sites of a column"),
        ('how = "site"\ncolumn = "home"\nsmall = "leav out"', "small must be one of refuse, leave out, merge"),
        ('how = "site"\ncolumn = "hom"', "no site column 'hom'"),
    ],
)
def test_a_mistake_about_sites_is_named(own, sites, message):
    with pytest.raises(ConfigurationError, match=message):
        load(own, sites=sites)


# --- curators and learners --------------------------------------------------------------------------------


def test_the_longest_pattern_that_fits_a_site_is_its_entry():
    assert fits("ward 07", "ward *")
    assert fits("a[b]?", "a[b]?")
    assert not fits("ward 07", "ward ?7")
    assert matching(["ward 1*", "b"], ["a", "b", "ward 1", "ward 12"]) == ["ward 1", "ward 12", "b"]
    with pytest.raises(ConfigurationError, match=r"unknown site\(s\) x\*; the sites are a"):
        matching(["x*"], ["a"])


def test_entries_by_pattern_and_caps_by_learner(own):
    curators = """
[[curators]]
name = "*"
cap = 5
[[curators]]
name = "ward 0*"
cap = 3
learner_cap = 2
learner_caps = { grace = "1/2" }
"""
    sites = 'how = "random"\ncount = 12\npattern = "ward {}"'
    scenario, _, there = load(own, sites=sites, curators=curators, learner='curators = ["ward 0*"]')
    assert scenario.curator("ward 01").cap == 3
    assert scenario.curator("ward 12").cap == 5
    assert scenario.curator("ward 01").cap_of("ada") == 2
    assert scenario.curator("ward 01").cap_of("grace") == "1/2"
    assert sites_of(scenario.learners[1], there)[0] == [f"ward 0{number}" for number in range(1, 10)]
    with pytest.raises(ConfigurationError, match=r"learner_caps names no learner 'grac'.*grace"):
        load(own, curators=curators.replace("grace", "grac"))


# --- labels -----------------------------------------------------------------------------------------------


def test_levels_of_the_label_are_merged(own):
    data = 'merge_label = { no = ["NO"], yes = ["*"] }'
    _, records, _ = load(own, data=data)
    before = pl.read_csv(own / "records.csv")["back"]
    assert records.steward.classes == ("no", "yes")
    assert records.dataset.frame["back"].to_list() == ["no" if level == "NO" else "yes" for level in before]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ('merge_label = { no = ["NO"], yes = [">30"] }', "does not say what becomes of <30"),
        ('merge_label = { no = ["NO"], yes = ["<3"] }', "the schema has no class '<3'"),
        ('merge_label = { no = ["NO"] }', "two classes or more"),
        ('merge_label = { no = ["NO"], yes = ["NO", "*"] }', "merge_label names the level 'NO' twice"),
        ("unit = false\nfirst_record = true", "need units"),
    ],
)
def test_a_mistake_about_records_is_named(own, data, message):
    with pytest.raises(ConfigurationError, match=message):
        load(own, data=data)


@given(name=st.text(min_size=1, max_size=30))
def test_a_site_may_be_called_anything_and_its_files_have_a_name(name):
    for file, suffix in ((ledger_file(name), ".ledger"), (policy_file(name), ".policy.toml")):
        assert not set(file) & set("/\\\0")
        assert set(name) & set("/\\\0") or file == f"{name}{suffix}"
