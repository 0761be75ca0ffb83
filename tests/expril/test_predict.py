"""`expril predict`: the same numbers as in Python, in a table for its owner alone; what is wrong is one plain line."""

import base64
import json
import math
import sqlite3
import stat
from dataclasses import replace

import msgspec
import numpy as np
import polars as pl
import pytest
import safetensors
import safetensors.numpy
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits

import expril
from command_line import run
from learner_node.models.files import METADATA, StudyModel
from learner_node.models.predictions import Site, predictions_of
from learner_node.scores.performance import Interval
from learner_node.scores.recalibration import Recalibration
from learner_node.strategies.paper import NetworkModel
from protocol.errors import ConfigurationError
from protocol.schema import CategoricalAttribute
from study_models import (
    MAKERS,
    a_number,
    additive,
    by_site,
    people,
    perceptron,
    schema,
    three_classes,
    two_classes,
    written,
)

ROWS = 40


def recalibrated(*, factor=5.0):
    by = Recalibration(Interval(0.5, 0.1, 0.9), Interval(1.5, 1.1, 1.9), factor)
    return replace(two_classes(3), recalibration=by)


@pytest.fixture(autouse=True)
def _one_thread():
    """As the command computes: with several, the last digits may differ."""
    with threadpool_limits(1):
        yield


@pytest.fixture
def records(tmp_path):
    """A file of records, with ids; and what they are."""
    table = people(ROWS, 5).with_columns(pl.Series("patient", [f"p{row:03}" for row in range(ROWS)]))
    table.write_csv(tmp_path / "records.csv")
    return tmp_path / "records.csv", table


def predicted(model, records, *options, code=0):
    """The table that the command makes of these records, and what it printed."""
    path, out = records[0], records[0].parent / "predictions.csv"
    done = run("predict", written(model, path.parent), path, "--out", out, *options, code=code)
    return pl.read_csv(out, infer_schema_length=None) if out.exists() else None, done


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_the_command_writes_what_python_predicts(make, records):
    model = make(3)
    mixed = () if "" in model.models else ("--mixed",)
    frame, _ = predicted(model, records, "--id", "patient", *mixed)
    loaded = expril.load(records[0].parent / "model.safetensors")
    assert frame["patient"].to_list() == records[1]["patient"].to_list()
    assert frame["predicted"].to_list() == loaded.predict(records[1]).tolist()
    chances = [f"P({name})" for name in model.schema.classes]
    assert frame.columns == ["patient", "predicted", *chances, "unforeseen"]
    if chances:
        assert np.array_equal(frame.select(chances).to_numpy(), loaded.predict_proba(records[1]))


def plain_values(path):
    """The state of the only model in a file, read without our code: arrays as nested lists, all else as in the JSON."""
    with safetensors.safe_open(path, framework="numpy") as file:
        (stored,) = json.loads(file.metadata()[METADATA])["models"].values()
        arrays = {name: file.get_tensor(name).tolist() for name in file.offset_keys()}

    def filled(value):
        if isinstance(value, dict):
            return arrays[value["array"]] if "array" in value else {key: filled(item) for key, item in value.items()}
        return value

    return filled(stored["state"])


LEVELS = {"red": 0, "green": 1, "blue": 2, None: 3}  # "blue" is no declared level: other; None is missing


def test_an_additive_model_s_prediction_by_hand(records):
    """Log-odds summed over bins, their variance averaged over as MacKay (1992, Eq. 10): from the file's numbers."""
    frame, _ = predicted(additive(3), records)
    state = plain_values(records[0].parent / "model.safetensors")
    fit, edges = state["fit"], state["partitions"][0]["edges"]
    for row, person in enumerate(records[1].to_dicts()):
        x = None if person["x"] is None else min(max(person["x"], -3.0), 3.0)
        bins = [5 if x is None else sum(x >= edge for edge in edges), 6 + LEVELS[person["colour"]]]
        log_odds = fit["intercept"] + sum(fit["contributions"][place] for place in bins)
        places = [0, *(1 + place for place in bins)]
        variance = sum(fit["covariance"][i][j] for i in places for j in places)
        by_hand = 1 / (1 + math.exp(-log_odds / math.sqrt(1 + math.pi / 8 * variance)))
        assert frame["P(yes)"][row] == pytest.approx(by_hand, abs=1e-12)


def test_a_network_s_prediction_by_hand(records):
    """Features on the source's scale, one hidden layer of ReLU, a logistic: up to the grid that curators compute on."""
    of = schema()
    model = StudyModel(of, {"": NetworkModel(perceptron(np.random.default_rng(3), of))}, {"": 1.0})
    frame, _ = predicted(model, records)
    hypothesis = plain_values(records[0].parent / "model.safetensors")["hypothesis"]
    x, colour = hypothesis["features"]["features"]
    layers = safetensors.numpy.load(base64.b64decode(hypothesis["weights"]))
    for row, person in enumerate(records[1].to_dicts()):
        number = x["imputation"] if person["x"] is None else min(max(person["x"], -3.0), 3.0)
        level = LEVELS[person["colour"] or (colour["imputation"] or "blue")]
        inputs = [(number - x["offset"]) * x["factor"], *(colour["factor"] * (level == at) for at in range(3))]
        hidden = [
            max(b + sum(map(float.__mul__, map(float, w), inputs)), 0.0)
            for w, b in zip(layers["0.weight"], map(float, layers["0.bias"]), strict=True)
        ]
        logit = float(layers["1.bias"][0]) + sum(map(float.__mul__, map(float, layers["1.weight"][0]), hidden))
        assert frame["P(yes)"][row] == pytest.approx(1 / (1 + math.exp(-logit)), abs=2e-3)


def test_a_predicted_number_is_headed_by_its_units(records):
    model = a_number(3)
    units = msgspec.structs.replace(model.schema, label_units="mm Hg")
    frame, _ = predicted(replace(model, schema=units), records)
    assert frame.columns == ["row", "predicted (mm Hg)", "unforeseen"]
    assert frame["predicted (mm Hg)"].to_list() == model.predict(records[1]).tolist()


def test_rows_are_numbered_where_no_column_is_kept(records):
    frame, _ = predicted(two_classes(3), records)
    assert frame["row"].to_list() == list(range(1, ROWS + 1))


def test_a_row_s_values_that_the_schema_does_not_foresee_are_named_in_it(records):
    frame, done = predicted(two_classes(3), records)
    said = [
        "; ".join(
            name
            for name, strange in (("x", abs(person["x"] or 0) > 3), ("colour", person["colour"] == "blue"))
            if strange
        )
        for person in records[1].to_dicts()
    ]
    assert {"", "x", "colour"} <= set(said)
    assert [text or "" for text in frame["unforeseen"]] == said
    assert "more than a tenth of the values of 'colour'" in done.stderr
    assert "'unforeseen' says where" in done.stderr


def test_only_their_owner_reads_predictions_and_nothing_is_replaced_unasked(records):
    out = records[0].parent / "predictions.csv"
    predicted(two_classes(3), records)
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    before = out.read_bytes()
    _, done = predicted(two_classes(4), records, code=2)
    assert "exists; predictions are replaced only with --overwrite" in done.stderr
    assert out.read_bytes() == before
    predicted(two_classes(4), records, "--overwrite")
    assert out.read_bytes() != before
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    model = written(two_classes(3), records[0].parent)
    content = records[0].read_bytes()
    assert "made from" in run("predict", model, records[0], "--out", records[0], "--overwrite", code=2).stderr
    assert records[0].read_bytes() == content
    own = records[0].with_name("own.csv")
    own.write_bytes(content)
    same = ("--score", "--own", own, "--out", own, "--overwrite")
    assert "made from" in run("predict", model, records[0], *same, code=2).stderr
    assert own.read_bytes() == content


def test_parquet_in_and_out_and_lists_are_not_for_a_csv(tmp_path):
    table = people(5).with_columns(visits=pl.Series([[1], [2, 3], [], None, [4]]), patient=pl.Series(range(5)))
    table.write_parquet(tmp_path / "r.parquet")
    model, ids = written(two_classes(3), tmp_path), ("--id", "visits", "--id", "patient")
    out = tmp_path / "p.parquet"
    run("predict", model, tmp_path / "r.parquet", "--out", out, *ids)
    made = pl.read_parquet(out)
    assert made.select("visits", "patient").equals(table.select("visits", "patient"))
    assert made["P(yes)"].to_list() == expril.load(model).predict_proba(table)[:, 1].tolist()
    said = run("predict", model, tmp_path / "r.parquet", "--out", tmp_path / "p.csv", *ids, code=2).stderr
    assert "'visits' cannot be written as .csv" in said.replace("column(s) ", "")
    assert "must end in .csv or .parquet" in run("predict", model, out, "--out", tmp_path / "p.xlsx", code=2).stderr


def test_risks_are_recalibrated_where_the_answers_favour_it(records):
    frame, done = predicted(recalibrated(), records)
    loaded = expril.load(records[0].parent / "model.safetensors")
    assert frame["P(yes)"].to_list() == loaded.recalibrated_.predict_proba(records[1])[:, 1].tolist()
    assert frame["predicted"].to_list() == loaded.recalibrated_.predict(records[1]).tolist()
    assert "risks recalibrated" in done.stdout
    frame, done = predicted(recalibrated(), records, "--as-fitted", "--overwrite")
    assert frame["P(yes)"].to_list() == loaded.predict_proba(records[1])[:, 1].tolist()
    assert "risks recalibrated" not in done.stdout
    frame, done = predicted(recalibrated(factor=0.5), records, "--overwrite")
    assert frame["P(yes)"].to_list() == loaded.predict_proba(records[1])[:, 1].tolist()
    assert "risks recalibrated" not in done.stdout


def test_of_models_by_site_one_is_chosen_by_name_by_column_or_by_mixing(records):
    path, table = records
    sites = ["north", "söuth/1"] * (ROWS // 2)
    table = table.with_columns(ward=pl.Series(sites))
    table.write_csv(path)
    north, _ = predicted(by_site(3), records, "--site", "north")
    south, _ = predicted(by_site(3), records, "--site", "söuth/1", "--overwrite")
    both, _ = predicted(by_site(3), records, "--site-column", "ward", "--overwrite")
    assert north["P(yes)"].to_list() != south["P(yes)"].to_list()
    expected = [{"north": north, "söuth/1": south}[name]["P(yes)"][row] for row, name in enumerate(sites)]
    # Twenty rows and forty may pass through different kernels: the same arithmetic, rounded otherwise.
    np.testing.assert_allclose(both["P(yes)"], expected, rtol=0, atol=1e-9)
    assert np.abs(np.array(north["P(yes)"]) - np.array(south["P(yes)"])).max() > 1e-3
    (path.parent / "predictions.csv").unlink()
    for options, said in (
        ((), "say which one predicts"),
        (("--site", "north", "--mixed"), "choose it in one way"),
        (("--site", "west"), "no model of a curator 'west'"),
        (("--site-column", "patient"), "names no site of the model in row 1, header not counted"),
        (("--site-column", "wart"), "lack the column of sites, 'wart'"),
    ):
        frame, done = predicted(by_site(3), records, *options, code=2)
        assert said in done.stderr
        assert "p000" not in done.stderr
        assert frame is None
    assert "no site is to be chosen" in predicted(two_classes(3), records, "--mixed", code=2)[1].stderr


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda table: table.rename({"x": "X ", "colour": "color"}),
            "'x' (did you mean 'X '?), 'colour' (did you mean",
        ),
        (lambda table: table.select("patient"), "no declared column is there"),
        (
            lambda table: table.with_columns(x=pl.Series(["1.5", "secret", *["2"] * (ROWS - 2)])),
            "column 'x' is declared numeric but holds text in row 2, header not counted",
        ),
        (lambda table: table.clear(), "has no rows"),
    ],
)
def test_records_that_do_not_fit_the_schema_are_refused_without_a_value(records, change, said):
    path, table = records
    change(table).write_csv(path)
    frame, done = predicted(two_classes(3), records, code=2)
    assert said in done.stderr
    assert "secret" not in done.stderr + done.stdout
    assert frame is None


def test_records_come_from_a_database_too(records):
    path, table = records
    with sqlite3.connect(path.parent / "ward.db") as database:
        database.execute("create table people (x real, colour text, patient text)")
        database.executemany("insert into people values (?, ?, ?)", table.rows())
    source = path.parent / "source.toml"
    source.write_text('url = "sqlite:///ward.db"\nquery = "select * from people order by patient"\n')
    frame, _ = predicted(two_classes(3), (source, table), "--id", "patient")
    assert frame["patient"].to_list() == table["patient"].to_list()
    assert frame["P(yes)"].to_list() == two_classes(3).predict_proba(table)[:, 1].tolist()


def test_a_column_to_keep_must_be_there_and_not_be_needed(records):
    path, table = records
    assert "did you mean 'patient'?" in predicted(two_classes(3), records, "--id", "patent", code=2)[1].stderr
    table.rename({"patient": "P(yes)"}).write_csv(path)
    assert "'P(yes)' cannot be kept" in predicted(two_classes(3), records, "--id", "P(yes)", code=2)[1].stderr


def test_a_folder_s_model_is_chosen_by_its_learner(records):
    path, table = records
    folder = path.parent / "run" / "models"
    folder.mkdir(parents=True)
    for name, seed in (("ada", 1), ("bo", 2)):
        written(replace(two_classes(seed), about={"learner": name, "repeat": "0"}), folder).rename(
            folder / f"{name}.safetensors"
        )
    out = path.parent / "p.csv"
    said = run("predict", folder.parent, path, "--out", out, code=2).stderr
    assert "say whose (learner=..., --learner): ada in repeat 0, bo in repeat 0" in said
    run("predict", folder.parent, path, "--out", out, "--learner", "bo")
    expected = expril.load(folder / "bo.safetensors").predict_proba(table)
    assert pl.read_csv(out)["P(yes)"].to_list() == expected[:, 1].tolist()
    said = run("predict", folder.parent, path, "--out", out, "--overwrite", "--learner", "cy", code=2).stderr
    assert "no such model; it holds those of ada" in said


def test_the_folder_of_a_learner_s_study_is_that_of_its_result(records):
    path, table = records
    models = path.parent / "study" / "result" / "models"
    models.mkdir(parents=True)
    written(three_classes(1), models)
    out = path.parent / "p.csv"
    run("predict", path.parent / "study", path, "--out", out)
    assert pl.read_csv(out)["P(c)"].to_list() == expril.load(models.parent).predict_proba(table)[:, 2].tolist()


def test_what_is_wrong_with_a_model_is_said_and_nothing_is_made(records):
    path, _ = records
    model, out = written(two_classes(3), path.parent), path.parent / "p.csv"
    assert "no model" in run("predict", path.parent / "nowhere", path, "--out", out, code=2).stderr
    assert "holds no models" in run("predict", path.parent / "..", path, "--out", out, code=2).stderr
    assert "is no model file" in run("predict", path, path, "--out", out, code=2).stderr
    model.write_bytes(model.read_bytes()[:-9])
    assert "or is damaged" in run("predict", model, path, "--out", out, code=2).stderr
    newer = {**msgspec.to_builtins(schema()), "moods": 1}
    text = json.dumps({"format": 1, "models": {}, "schema": newer})
    model.write_bytes(safetensors.numpy.save({}, metadata={METADATA: text}))
    said = run("predict", model, path, "--out", out, code=2).stderr
    assert "is damaged, or of a newer ExPriL" in said
    assert "moods" in said
    text = json.dumps({"format": 2})
    model.write_bytes(safetensors.numpy.save({}, metadata={METADATA: text}))
    assert "not of format 1, the one that this ExPriL reads" in run("predict", model, path, "--out", out, code=2).stderr
    assert not out.exists()


def test_a_site_s_own_sentinels_are_missing_by_its_schema_file(records):
    path, table = records
    text = """
        label = "sick"
        classes = ["no", "yes"]
        attributes = [{ name = "colour", kind = "categorical", levels = ["red", "green"] },
                      { name = "x", kind = "numeric", lower = -3, upper = UPPER, missing = [999] }]
    """
    own = path.parent / "own.toml"
    own.write_text(text.replace("UPPER", "3"))
    table.with_columns(pl.col("x").fill_null(999.0)).write_csv(path)
    frame, _ = predicted(two_classes(3), records, "--schema", own)
    expected = two_classes(3).predict_proba(table)[:, 1]
    assert frame["P(yes)"].to_list() == expected.tolist()
    frame, _ = predicted(two_classes(3), records, "--overwrite")
    assert frame["P(yes)"].to_list() != expected.tolist()
    own.write_text(text.replace("UPPER", "4"))
    said = predicted(two_classes(3), records, "--schema", own, "--overwrite", code=2)[1].stderr
    assert "the schema differs from the model's in 'x'" in said


def test_a_model_is_scored_on_the_terminal_of_who_owns_the_labels_alone(records):
    path, table = records
    labels = np.where(np.arange(ROWS) % 3 == 0, "yes", "no")
    table.with_columns(sick=pl.Series(labels)).write_csv(path)
    frame, done = predicted(two_classes(3), records, "--score")
    shown = {cells[0]: cells for line in done.stdout.splitlines() if (cells := line.split())}
    assert shown["accuracy"][1] == f"{(labels == 'no').mean():.3f}"
    assert f" {(frame['predicted'].to_numpy() == labels).mean():.3f} (" in " ".join(shown["accuracy"])
    assert f" {roc_auc_score(labels == 'yes', frame['P(yes)']):.3f} (" in " ".join(shown["AUC"])
    assert "without noise: for you alone" in done.stderr
    assert "take newer patients" in done.stdout
    ward = path.parent / "ward.csv"
    people(60, 9).with_columns(sick=pl.Series(["no", "yes"] * 30)).write_csv(ward)
    _, done = predicted(two_classes(3), records, "--score", "--own", ward, "--overwrite")
    assert "learnt from the records of --own alone" in done.stdout
    assert "--own is of --score" in predicted(two_classes(3), records, "--own", ward, "--overwrite", code=2)[1].stderr
    said = predicted(two_classes(3), records, "--score", "--json", "--overwrite", code=2)[1]
    assert "leave one out" in said.stderr
    table.write_csv(path)
    said = predicted(two_classes(3), records, "--score", "--overwrite", code=2)[1].stderr
    assert "the records lack the label's column 'sick'" in said


def test_json_names_columns_and_holds_nothing_of_the_records(records):
    frame, done = predicted(recalibrated(), records, "--json", "--id", "patient")
    assert frame["unforeseen"].null_count() < len(frame)  # without --json a note says so
    assert "schema declares" not in done.stderr
    said = json.loads(done.stdout)
    assert said == {
        "predictions": str(records[0].parent / "predictions.csv"),
        "columns": ["patient", "predicted", "P(no)", "P(yes)", "unforeseen"],
        "label": "sick",
        "classes": ["no", "yes"],
        "recalibrated": True,
    }


def test_blocks_of_many_records_are_predicted_as_each_alone(monkeypatch):
    """More records than fit one block, of every kind of model."""
    monkeypatch.setattr("learner_node.models.files._BLOCK", 7)
    for make in MAKERS:
        model, table = make(3), people(25, 2)
        site = None if "" in model.models else Site(mixed=True)
        whole = predictions_of(model, table, site=site).frame.drop("row")
        rows = [predictions_of(model, table[row : row + 1], site=site).frame.drop("row") for row in range(25)]
        numbers = [name for name, kind in whole.schema.items() if kind.is_float()]
        apart = pl.concat(rows)
        np.testing.assert_allclose(whole.select(numbers), apart.select(numbers), rtol=1e-6)
        assert whole["unforeseen"].equals(apart["unforeseen"], null_equal=True)


def test_a_table_in_memory_is_predicted_without_a_file():
    table = people(3)
    attribute = two_classes(3).schema.find("colour")
    assert isinstance(attribute, CategoricalAttribute)
    with pytest.raises(ConfigurationError, match="lack the declared column"):
        predictions_of(two_classes(3), table.drop("colour"))
    assert predictions_of(two_classes(3), table).frame.height == 3
