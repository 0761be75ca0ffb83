"""The data sets: published totals, the stewards' schemas, and files that are missing, damaged or downloaded."""

import csv
import io
import os
import tomllib
import zipfile
from functools import cache, partial
from pathlib import Path

import polars as pl
import pytest

from simulations.datasets import DATASETS, load_dataset
from simulations.datasets.ctg import ATTRIBUTES, WORKBOOK, read_records, workbook_digest
from simulations.datasets.files import DATA_DIRECTORY_VARIABLE, DataFile, DataUnavailableError, data_file, text_digest
from simulations.datasets.heart import COLUMNS, FILES
from simulations.datasets.readmission import ADMITTED, ARCHIVE, DIED_OR_HOSPICE, csv_digest, diagnosis_group

ROOT = Path(__file__).parents[2]


@pytest.fixture
def data_directory(monkeypatch):
    """Where the files are; in the workplace ../shared/data. Tests never download."""
    directory = Path(os.environ.get(DATA_DIRECTORY_VARIABLE) or ROOT.parent / "shared" / "data")
    names = [file.name for file in (WORKBOOK, ARCHIVE, *FILES.values())]
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
    assert schema["label"] == dataset.label
    assert schema.get("unit") == dataset.unit
    if "label_bounds" in schema:
        lower, upper = schema["label_bounds"]
        assert dataset.frame[dataset.label].is_between(lower, upper).all()
    else:
        assert set(dataset.frame[dataset.label]) == set(schema["classes"])
    assert ("most_records_per_unit" in schema) == ("unit" in schema)
    keys = {"label", "classes", "label_bounds", "unit", "most_records_per_unit", "round_size", "attributes"}
    assert schema.keys() <= keys
    for attribute in schema["attributes"]:
        rest = {"numeric": {"lower", "upper"}, "categorical": {"levels"}}[attribute["kind"]]
        assert attribute.keys() == {"name", "kind", "description"} | rest


def test_values_are_levels_or_nearly_all_within_bounds_that_are_not_the_extremes_of_the_records(dataset):
    """Only ends of a documented scale may be reached: 0, vessels, tendency, the device's 50 beats a minute."""
    for attribute in tomllib.loads(dataset.schema_text)["attributes"]:
        values = dataset.frame[attribute["name"]].drop_nulls()
        if attribute["kind"] == "categorical":
            assert values.dtype == pl.String
            assert set(values) <= set(attribute["levels"])
        else:
            assert values.dtype == pl.Float64
            assert attribute["lower"] < attribute["upper"]
            assert values.is_between(attribute["lower"], attribute["upper"]).mean() > 0.99, attribute["name"]
            if attribute["name"] not in {"ca", "Tendency"}:
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
def given(tmp_path, monkeypatch):
    folder = tmp_path / "given"
    folder.mkdir()
    monkeypatch.setenv(DATA_DIRECTORY_VARIABLE, str(folder))
    return folder


@pytest.mark.parametrize("content", [b"1,2\n3,4\n", b"1,2\r\n3,4\r\n"])
def test_either_line_end_passes(given, tmp_path, content):
    (given / TEXT.name).write_bytes(content)

    assert data_file(TEXT, cache=tmp_path / "cache", download=refuse) == given / TEXT.name


def test_given_file_with_other_content_is_an_error_and_not_replaced(given, tmp_path):
    (given / TEXT.name).write_bytes(b"1,2\n3,5\n")

    with pytest.raises(DataUnavailableError, match=r"notes\.data: checksum mismatch.*EXPRIL_DATA_DIR"):
        data_file(TEXT, cache=tmp_path / "cache", download=deliver(b"1,2\n3,4\n"))


def test_download_is_kept_and_not_repeated(given, tmp_path):
    cache = tmp_path / "a" / "cache"

    first = data_file(TEXT, cache=cache, download=deliver(b"1,2\r\n3,4\r\n"))

    assert first == cache / TEXT.name
    assert data_file(TEXT, cache=cache, download=refuse) == first
    assert list(cache.iterdir()) == [first]


def test_damaged_cache_is_downloaded_again(given, tmp_path):
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


def test_unwritable_cache_is_the_same_error(given, tmp_path):
    (tmp_path / "file").write_text("not a folder")

    with pytest.raises(DataUnavailableError, match=r"notes\.data \(EXPRIL_DATA_DIR\): no such file"):
        data_file(TEXT, cache=tmp_path / "file", download=deliver(b"1,2\n3,4\n"))


@pytest.mark.parametrize("content", [b"", b"junk", b"PK\x03\x04 junk"])
def test_junk_is_no_workbook(given, content):
    (given / WORKBOOK.name).write_bytes(content)

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


def test_the_csv_passes_in_any_archive_and_alone():
    def zipped(name, content=b"a,b\r\n1,2\r\n"):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("IDS_mapping.csv", "other")
            archive.writestr(name, content)
        return file.getvalue()

    plain = csv_digest(b"a,b\n1,2\n")
    assert plain == csv_digest(zipped("diabetic_data.csv")) == csv_digest(zipped("folder/diabetic_data.csv"))
    assert csv_digest(zipped("diabetic_data.csv", b"a,b\n1,3\n")) != plain
    with pytest.raises(ValueError, match="holds no"):
        csv_digest(zipped("else.csv"))
    with pytest.raises(ValueError, match="damaged"):
        csv_digest(zipped("diabetic_data.csv")[:40])
