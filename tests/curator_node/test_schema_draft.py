"""A schema drafted from names of columns and a data dictionary: what is taken, what stays open, what is never read."""

import builtins
import csv
import datetime as dt
import io
import os
import tomllib
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curator_node.records import files, public_values, schema_draft
from curator_node.records.dictionaries import Entry, read_dictionary, split_levels
from curator_node.records.files import read_columns
from curator_node.records.public_values import rounded_bounds
from curator_node.records.schema_draft import draft_schema
from curator_node.records.schema_file import read_schema_file
from gates import bounded
from protocol.errors import ConfigurationError

EXAMPLES = Path(__file__).parents[2] / "docs" / "schema"
SECRET = "Wilhelmina"
LONG = (
    "Variable / Field Name,Form Name,Section Header,Field Type,Field Label,"
    '"Choices, Calculations, OR Slider Labels",Field Note,Text Validation Type OR Show Slider Number,'
    "Text Validation Min,Text Validation Max,Identifier?\n"
)
SHORT = (
    "field_name,form_name,section_header,field_type,field_label,select_choices_or_calculations,field_note,"
    "text_validation_type_or_show_slider_number,text_validation_min,text_validation_max,identifier\n"
)
FIELDS = """\
record_id,visit,,text,Record,,,,,,
first_name,visit,,text,First name,,,,,,y
born,visit,,text,"<b>Date</b> of
birth",,,date_mdy,1900-01-01,today,
sex,visit,,radio,Sex,"1, Male | 2, Female | 9, Unknown",,,,,
smoker,visit,,yesno,Smokes,,,,,,
alive,visit,,truefalse,Alive,,,,,,
illnesses,visit,,checkbox,Illnesses,"a, Asthma, or other | -1, Stroke | B2, Other",,,,,
pain,visit,,slider,Pain,none | | worst,,number,,,
bmi,visit,,calc,Body mass index,[weight]/[height]^2,,,,,
weight,visit,,text,Weight,,kg,"number_1dp_comma_decimal","20,5","250,5",
children,visit,,text,Children,,,integer,0,[most],
ward,visit,,sql,Ward,select 1,,,,,
mail,visit,,text,Mail,,,email,,,
woken,visit,,text,Woken at,,,time,,,
remark,visit,,notes,Remark,,,,,,
scan,visit,,file,Scan,,,,,,
heading,visit,,descriptive,Read this,,,,,,
other,visit,,text,Other,,,,,,
"""


def write(folder, text, name="dictionary.csv"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def entries_of(folder, text):
    return {entry.name: entry for entry in read_dictionary(write(folder, text)).entries}


def records(folder, names, rows=(), name="records.csv"):
    lines = io.StringIO()
    csv.writer(lines, lineterminator="\n").writerows([names, *rows])
    return write(folder, lines.getvalue(), name)


def attributes_of(draft):
    return {table["name"]: table for table in tomllib.loads(draft.text)["attributes"]}


# --- REDCap -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("heading", [LONG, SHORT])
def test_every_type_of_field_of_redcap(tmp_path, heading):
    book = read_dictionary(write(tmp_path, heading + FIELDS))
    fields = {entry.name: entry for entry in book.entries}
    assert (book.form, book.unused) == ("REDCap", ())
    assert {name: entry.kind for name, entry in fields.items() if not entry.left_out} == {
        "born": "date",
        "sex": "categorical",
        "smoker": "categorical",
        "alive": "categorical",
        "illnesses___a": "categorical",
        "illnesses____1": "categorical",
        "illnesses___b2": "categorical",
        "pain": "numeric",
        "bmi": "numeric",
        "weight": "numeric",
        "children": "numeric",
        "ward": "categorical",
    }
    assert (fields["born"].lower, fields["born"].upper) == (dt.date(1900, 1, 1), None)
    assert fields["born"].description == "Date of birth"
    assert "'today' for upper" in fields["born"].notes[0]
    assert fields["sex"].levels == ("1", "2", "9")
    assert fields["sex"].meanings == {"1": "Male", "2": "Female", "9": "Unknown"}
    assert "if 9 means a missing value" in fields["sex"].notes[0]
    assert fields["smoker"].levels == ("0", "1")
    assert fields["smoker"].meanings["1"] == "Yes"
    assert fields["alive"].meanings == {"0": "False", "1": "True"}
    assert fields["illnesses___a"].description == "Illnesses: Asthma, or other"
    assert fields["illnesses___a"].levels == ("0", "1")
    assert (fields["pain"].lower, fields["pain"].upper) == (0, 100)
    assert (fields["weight"].lower, fields["weight"].upper) == (20.5, 250.5)
    assert fields["weight"].likely_units == "kg"
    assert "decimal comma" in fields["weight"].notes[0]
    assert (fields["children"].lower, fields["children"].upper) == (0, None)
    assert not fields["ward"].levels
    reasons = {name: entry.left_out for name, entry in fields.items() if entry.left_out}
    assert "identifier" in reasons.pop("first_name")
    assert "REDCap's first field" in reasons.pop("record_id")
    assert "email" in reasons.pop("mail")
    assert "time of day" in reasons.pop("woken")
    assert reasons.keys() == {"remark", "scan", "heading", "other", "visit_complete"}


def test_what_redcap_adds_to_an_export_is_told_from_a_column_that_nobody_documents(tmp_path):
    names = [
        "record_id",
        "redcap_event_name",
        "redcap_repeat_instance",
        "sex",
        "visit_complete",
        "visit_timestamp",
        "x",
    ]
    draft = draft_schema(records(tmp_path, names), write(tmp_path, LONG + FIELDS))
    assert draft.attributes == ("sex",)
    assert draft.undocumented == ("x",)
    assert "redcap_event_name" in draft.unit_note
    assert 'unit = "record_id"' in draft.text
    assert not draft_schema(records(tmp_path, names), tmp_path / "dictionary.csv", unit="record_id").unit_note
    assert {"born", "weight"} <= set(draft.absent)
    assert "visit_complete" not in draft.absent


# --- a plain table --------------------------------------------------------------------------------------------


PLAIN = {
    "commas": """\
name,kind,levels,lower,upper,units,description,missing
sex,categorical,1=male;2=female,,,,Sex,9
sbp,numeric,,60,260,mm Hg,Pressure,999;-1
""",
    "semicolons": """\
Variable;Type;Codes;Min;Max;Unit;Label;Missing values
sex;factor;"1: male, 2: female";;;;Sex;9
sbp;Continuous;;60;260;mm Hg;Pressure;999, -1
""",
    "tabs": """\
UPPER LIMIT\tLower limit\tVARNAME\tvardesc\tUnits of measurement\tTYPE\tMissing code\tPermitted values
\t\tsex\tSex\t\tInteger, encoded value\t9\t1, male | 2, female
260\t60\tsbp\tPressure\tmm Hg\tdecimal(5,1)\t999 | -1\t
""",
    "line breaks": """\
\ufeffFIELD_NAME,field label,value type,values,unit of measure,maximum,minimum,sentinel\r
sex,Sex,Categorical (single),"1 = male
2 = female",,,,9\r
sbp,Pressure,int,,mm Hg,260,60,999;-1\r
""",
}


@pytest.mark.parametrize("text", PLAIN.values(), ids=PLAIN)
def test_a_plain_dictionary_has_its_columns_in_any_order_under_many_names(tmp_path, text):
    fields = entries_of(tmp_path, text)
    assert fields["sex"].kind == "categorical"
    assert fields["sex"].levels == ("1", "2")
    assert fields["sex"].meanings == {"1": "male", "2": "female"}
    assert fields["sex"].missing == ("9",)
    assert (fields["sbp"].kind, fields["sbp"].lower, fields["sbp"].upper) == ("numeric", 60, 260)
    assert fields["sbp"].units == "mm Hg"
    assert fields["sbp"].missing == ("999", "-1")
    assert fields["sbp"].description == "Pressure"


@pytest.mark.parametrize(
    ("cell", "levels"),
    [
        ("a, b,c", [("a", ""), ("b", ""), ("c", "")]),
        ("under $11k; $11-$25k; >$50k", [("under $11k", ""), ("$11-$25k", ""), (">$50k", "")]),
        ("1=Yes, always, 2=No", [("1", "Yes, always"), ("2", "No")]),
        ("-9 = unknown; 1 = yes", [("-9", "unknown"), ("1", "yes")]),
        ("0, No | 1, Yes, but late", [("0", "No"), ("1", "Yes, but late")]),
        ("['a', \"b\"]", [("a", ""), ("b", "")]),
        ("1: low\n2: high", [("1", "low"), ("2", "high")]),
        ("adl>=4 (>=5 if sur)|SIP>=30", [("adl>=4 (>=5 if sur)", ""), ("SIP>=30", "")]),
        ('"a, b", c', [("a, b", ""), ("c", "")]),
        (" ", []),
    ],
)
def test_levels_in_one_cell(cell, levels):
    assert split_levels(cell) == levels


@pytest.mark.parametrize("cell", ["0-100", "0 to 100", "[0, 100]", "0..100", "0 – 100", "0::100"])
def test_a_range_in_one_cell(tmp_path, cell):
    entry = entries_of(tmp_path, f'name,type,values\nx,integer,"{cell}"\n')["x"]
    assert (entry.kind, entry.lower, entry.upper, entry.levels) == ("numeric", 0, 100, ())


def test_levels_go_on_under_no_heading_as_in_dbgap(tmp_path):
    text = "VARNAME,VARDESC,TYPE,UNITS,MIN,MAX,VALUES,,\nsex,Sex,encoded value,,,,1=male,2=female,3=other\n"
    assert entries_of(tmp_path, text)["sex"].levels == ("1", "2", "3")


def test_shapes_of_dictionaries_as_people_write_them(tmp_path):
    """Each was seen in a public repository; the words are ours."""
    fields = entries_of(tmp_path, "variable,role\nage,continuous\nsex,categorical\nrow,identifier\nwho,predictor\n")
    assert [fields[name].kind for name in ("age", "sex", "who")] == ["numeric", "categorical", ""]
    assert fields["row"].left_out
    assert not fields["who"].notes

    fields = entries_of(
        tmp_path,
        "Column Name ,Type ,Data Type ,Values,Value Labels\n"
        "share ,Main data ,percent ,,\n"
        'zone ,Main data ,categorical int ,"0,1","0=Low, 1=High"\n'
        'season ,Other ,str ,"Spring, Summer",\n',
    )
    assert [entry.kind for entry in fields.values()] == ["numeric", "categorical", "categorical"]
    assert fields["zone"].meanings == {"0": "Low", "1": "High"}
    assert fields["season"].levels == ("Spring", "Summer")

    fields = entries_of(
        tmp_path,
        "name,type,range/categories\n"
        "status,Categorical,0 = censored / 1 = died / 2 = lost\n"
        "urgent,Binary,FALSE/TRUE\n"
        "a1c,Numeric (%),Observed range: 1.2-21.7\n"
        "score,Categorical,\"['High' 'N/A, not\n done' nan 'Low']\"\n",
    )
    assert fields["status"].levels == ("0", "1", "2")
    assert fields["urgent"].levels == ("FALSE", "TRUE")
    assert (fields["a1c"].kind, fields["a1c"].lower) == ("numeric", None)
    assert fields["score"].levels == ("High", "N/A, not done", "Low")


def test_the_column_that_has_the_names_of_the_records_is_the_one_of_names(tmp_path):
    text = "Variable,Variable name in data,Variable type\nAge at entry,age,Numeric\nSex at birth,sex_f,Binary\n"
    draft = draft_schema(records(tmp_path, ["age", "sex_f", "y"]), write(tmp_path, text))
    assert draft.attributes == ("age", "sex_f")
    assert draft.unused == ("Variable",)


def test_of_several_outcomes_the_chosen_one_is_the_label_and_no_other_is_an_attribute(tmp_path):
    book = write(tmp_path, "name,role,type,values\nx,feature,int,0-1\na,outcome,binary,0;1\nb,outcome,binary,0;1\n")
    path = records(tmp_path, ["x", "a", "b"])
    assert draft_schema(path, book).label_needs.startswith("the label is not named")
    draft = draft_schema(path, book, label="b")
    assert draft.attributes == ("x",)
    assert draft.left_out == {"a": "another outcome, says the dictionary"}
    assert read_schema_file(draft.text).label == "b"


def test_roles_and_identifiers_of_a_plain_dictionary(tmp_path):
    text = (
        "name,role,type,missing_values,phi,notes\n"
        "id,ID,Integer,no,,\n"
        "age,Feature,Integer,yes,no,\n"
        "died,Target,Binary,no,,\n"
        "later,Other,Integer,no,,\n"
        "town,Feature,Categorical,no,yes,\n"
        "person,Subject,Integer,no,,\n"
    )
    draft = draft_schema(records(tmp_path, ["id", "age", "died", "later", "town", "person"]), write(tmp_path, text))
    file = tomllib.loads(draft.text)
    assert (file["label"], file["unit"]) == ("died", "person")
    assert draft.attributes == ("age",)
    assert set(draft.left_out) == {"id", "later", "town"}
    assert draft.unused == ("notes",)
    assert "missing" not in file["attributes"][0], "yes only says that there are some"


@pytest.mark.parametrize(("kind", "phi"), [("integer", "yes"), ("identifier", "no"), ("identifier", "yes")])
def test_who_is_the_subject_is_the_unit_though_an_identifier(tmp_path, kind, phi):
    start = "name,role,type,phi\nage,feature,integer,no\n"
    book = write(tmp_path, f"{start}person,subject,{kind},{phi}\n")
    draft = draft_schema(records(tmp_path, ["person", "age", "other"]), book)
    assert tomllib.loads(draft.text)["unit"] == "person"
    assert draft.attributes == ("age",)
    assert set(draft.left_out) == {"other"}
    both = write(tmp_path, f"{start}person,subject,{kind},{phi}\nother,subject,{kind},{phi}\n")
    draft = draft_schema(records(tmp_path, ["person", "age", "other"]), both)
    assert "unit" not in tomllib.loads(draft.text)
    assert draft.attributes == ("age",), "of two that are named neither is chosen, and neither is published"


def test_numbers_with_listed_values_are_codes_where_they_are_explained(tmp_path):
    text = (
        "name,type,values,min,max\n"
        "stage,integer,1=early; 2=late,,\n"
        'vessels,integer,"0, 1, 2, 3",,\n'
        "pressure,integer,999=not measured,60,260\n"
        "mystery,quux,,,\n"
        "back,continuous,,9,3\n"
    )
    fields = entries_of(tmp_path, text)
    assert fields["stage"].kind == "categorical"
    assert (fields["vessels"].kind, fields["vessels"].lower, fields["vessels"].upper) == ("numeric", 0, 3)
    assert fields["pressure"].kind == "numeric"
    assert "999=not measured" in fields["pressure"].notes[0]
    assert fields["mystery"].kind == ""
    assert "quux" in fields["mystery"].notes[0]
    assert (fields["back"].lower, fields["back"].upper) == (None, None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no column of names"),
        ("a,b\n1,2\n", "no column of names"),
        ("name,type\n", "names no column"),
        ("name,type\nx,int\nx,int\n", "two rows about 'x'"),
        (f"name,type\n{'y' * 200_000},int\n", "cannot be read as csv"),
    ],
)
def test_what_is_no_dictionary_is_told_in_one_sentence(tmp_path, text, message):
    with pytest.raises(ConfigurationError, match=message):
        read_dictionary(write(tmp_path, text))


CELL = st.text(st.sampled_from("abc019 ,;|=:-\"'\n?<>[]{}\\#é\x00\t…"), max_size=12) | st.sampled_from(
    ["1, Male | 2, Female", "0=no;1=yes", "numeric", "date", "999", "0-100", "nan", "1e400", "2020-01-01", "y", "?"]
)
HEADING = st.sampled_from(
    ["name", "Variable", "type", "values", "min", "max", "units", "label", "missing", "role", "phi", "", "else"]
)


@settings(max_examples=150, deadline=None)
@given(
    heading=st.lists(HEADING | CELL, max_size=8).map(lambda rest: ["name", *rest])
    | st.lists(HEADING | CELL, max_size=8)
    | st.sampled_from([next(csv.reader([LONG])), SHORT.strip().split(",")]),
    rows=st.lists(st.lists(CELL, max_size=9), max_size=6),
    names=st.lists(st.text("ab-_ .;é?", min_size=1, max_size=5).map(lambda name: f"x{name}"), min_size=1, unique=True),
)
def test_any_table_gives_a_draft_that_is_toml_or_a_users_error(tmp_path_factory, heading, rows, names):
    """And the names of the columns are the first cells of its rows, so that they are found."""
    folder = tmp_path_factory.mktemp("any")
    table = [heading or ["name"], *([name, *row] for name, row in zip(names, rows, strict=False))]
    book = records(folder, table[0], table[1:], "dictionary.csv")
    try:
        draft = draft_schema(records(folder, [*names, "label"]), book, label="label")
    except ConfigurationError:
        return
    file = tomllib.loads(draft.text)
    assert [table["name"] for table in file["attributes"]] == list(draft.attributes)
    with pytest.raises(ConfigurationError):
        read_schema_file(draft.text)  # the label is open


@settings(max_examples=60, deadline=None)
@given(text=st.text(max_size=80), name=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=9))
def test_whatever_a_text_holds_the_file_is_toml(text, name):
    """Of a description, a level, a note and a name: quotes, line ends of every kind, control characters."""
    entry = Entry(
        name,
        kind="categorical",
        levels=(text or "x",),
        meanings={text: text},
        description=text,
        notes=(text,),
        missing=(text,),
    )
    draft = "\n".join(schema_draft._attribute_lines(entry))
    (table,) = tomllib.loads(draft)["attributes"]
    assert table["name"] == name
    assert table["levels"] == [text or "x"]


# --- the draft ------------------------------------------------------------------------------------------------


def fill(text, bounds):
    """The draft with each open bound of an attribute from a table, as a steward would write them."""
    lines, name = [], ""
    for line in text.split("\n"):
        if line.startswith("name = "):
            name = tomllib.loads(line)["name"]
        for key, bound in zip(("lower", "upper"), bounds.get(name, ()), strict=False):
            if line == f'{key} = "?"':
                lines.append(f"{key} = {bound}")
                break
        else:
            lines.append(line)
    return "\n".join(lines)


@pytest.mark.parametrize(("dictionary", "dots"), [("dictionary.csv", "."), ("redcap.csv", "_")])
def test_27_attributes_are_drafted_and_need_only_bounds(tmp_path, dictionary, dots):
    """SUPPORT2's two dictionaries; with the bounds of the built-in schema they are finished."""
    import simulations.datasets.dataset

    path = simulations.datasets.dataset.SCHEMAS / "support2.toml"
    builtin = {a["name"].replace(".", dots): a for a in tomllib.loads(path.read_text())["attributes"]}
    names = ["record_id", *builtin, "hospdead"]
    draft = draft_schema(records(tmp_path, names), EXAMPLES / dictionary, label="hospdead")

    assert draft.attributes == tuple(builtin)
    numbers = [name for name, attribute in builtin.items() if attribute["kind"] == "numeric"]
    assert draft.need_bounds == tuple(name for name in numbers if name != "scoma")
    assert len(draft.need_bounds) == 19
    assert (draft.need_levels, draft.need_kind, draft.label_needs) == ((), (), "")
    with pytest.raises(ConfigurationError) as caught:
        read_schema_file(draft.text)
    listed = ", ".join(draft.need_bounds)
    assert f"is unfinished: 19 attributes need bounds ({listed}); write them" in str(caught.value)

    bounds = {name: (a["lower"], a["upper"]) for name, a in builtin.items() if name in draft.need_bounds}
    schema = read_schema_file(fill(draft.text, bounds)).schema
    assert [attribute.name for attribute in schema.attributes] == list(builtin)
    assert schema.classes == ("0", "1")
    if dictionary == "dictionary.csv":
        assert {a.name: a.measure for a in schema.attributes if a.name in bounds} == {
            name: builtin[name].get("units", "") for name in bounds
        }
    for attribute in draft.need_bounds:  # half filled is not filled
        rest = {name: pair for name, pair in bounds.items() if name != attribute}
        for part in (rest, rest | {attribute: bounds[attribute][:1]}):
            with pytest.raises(ConfigurationError, match=rf"1 attribute needs bounds \({attribute}\)"):
                read_schema_file(fill(draft.text, part))


def test_without_a_dictionary_everything_but_the_names_is_open(tmp_path):
    draft = draft_schema(records(tmp_path, ["a", "b c", "d"]), label="d", unit=None)
    assert draft.need_kind == ("a", "b c")
    assert draft.label_needs
    assert not draft.finished
    with pytest.raises(ConfigurationError) as caught:
        read_schema_file(draft.text)
    assert "the label needs classes; 2 attributes need a kind (a, b c)" in str(caught.value)
    kinds = draft.text.replace('kind = "?"', 'kind = "numeric"').replace('["?", "?"]', '["no", "yes"]')
    with pytest.raises(ConfigurationError, match=r"2 attributes need bounds \(a, b c\)"):
        read_schema_file(kinds)
    finished = kinds.replace("# lower", "lower").replace("# upper", "upper")
    assert [a.name for a in read_schema_file(finished).attributes] == ["a", "b c"]


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ('kind = "numeric"\nlower = 0\nupper = "?"', "1 attribute needs bounds (x)"),
        (
            'kind = "numeric"\nlower = 0\nupper = 1\nlevels = ["?"]',
            "x is numeric and has no levels: take that line out",
        ),
        ('kind = "categorical"\nlevels = ["a"]\nlower = "?"', "x is categorical and has no lower"),
        ('kind = "categorical"\nlevels = "?"', "1 attribute needs levels (x)"),
        ('kind = "numeric"\nlower = 0\nupper = 9\ndays_since = "?"', "1 attribute needs a day for days_since (x)"),
    ],
)
def test_nothing_open_passes(lines, words):
    text = f'label = "y"\nclasses = ["no", "yes"]\n[[attributes]]\nname = "x"\n{lines}\n'
    with pytest.raises(ConfigurationError) as caught:
        read_schema_file(text)
    assert words in str(caught.value)


def test_label_bounds_are_open_as_long_as_one_is():
    text = 'label = "y"\nlabel_bounds = [0, "?"]\n[[attributes]]\nname = "x"\nkind = "numeric"\nlower = 0\nupper = 1\n'
    with pytest.raises(ConfigurationError, match="the label needs label_bounds"):
        read_schema_file(text)


def test_one_wrong_key_is_still_told_by_its_name():
    """The list is of what is open; a mistake in a finished file is explained as ever."""
    text = 'label = "y"\nclasses = ["no", "yes"]\n[[attributes]]\nname = "x"\nkind = "numeric"\nlower = 0\n'
    with pytest.raises(ConfigurationError, match="attribute 'x': the key upper is missing"):
        read_schema_file(text)
    with pytest.raises(ConfigurationError, match="this text means a missing value"):
        read_schema_file(f'{text[: text.index("kind")]}kind = "categorical"\nlevels = ["a", "?"]\n')


@pytest.mark.parametrize(
    ("row", "label", "note"),
    [
        ("y,binary,1=Yes;0=No,,", {"classes": ["0", "1"]}, "'1' (Yes) is taken"),
        ("y,binary,alive;dead,,", {"classes": ["alive", "dead"]}, "'dead' is taken"),
        ("y,binary,dead;alive,,", {"classes": ["alive", "dead"]}, "'dead' is taken"),
        ("y,categorical,a;b;c,,", {"classes": ["a", "b", "c"]}, ""),
        ("y,numeric,,0,7.5", {"label_bounds": [0, 7.5], "label_units": "mm"}, ""),
    ],
)
def test_the_label_is_taken_from_the_dictionary(tmp_path, row, label, note):
    book = write(tmp_path, f"name,type,values,min,max,units\nx,int,,0,1,\n{row},{'mm' * ('numeric' in row)}\n")
    draft = draft_schema(records(tmp_path, ["x", "y"]), book, label="y")
    file = tomllib.loads(draft.text)
    assert {key: file[key] for key in label} == label
    assert note in draft.label_note
    assert bool(draft.label_note) == bool(note)
    assert draft.finished
    assert read_schema_file(draft.text).label == "y"


def test_dates_are_days_and_sentinels_are_declared(tmp_path):
    book = write(
        tmp_path,
        "name,type,values,min,max,missing\n"
        "seen,date,,2015-01-01,2024-12-31,1900-01-01\n"
        "dose,numeric,,0,5,999;9.0;9;none given\n"
        "smoker,factor,no;yes;77,,,77;?\n"
        "y,binary,0;1,,,\n",
    )
    draft = draft_schema(records(tmp_path, ["seen", "dose", "smoker", "y"]), book, label="y")
    seen, dose, smoker = read_schema_file(draft.text).attributes
    assert (seen.days_since, seen.lower, seen.missing) == ("2000-01-01", 5479.0, ("1900-01-01",))
    assert dose.missing == (999.0, 9.0, "none given")
    assert (smoker.levels, smoker.missing) == (("no", "yes"), ("77",))


def test_codes_that_no_schema_can_declare_are_left_out_of_the_draft(tmp_path):
    """NaN is missing in any case, and infinity is refused in records."""
    book = write(tmp_path, "name,type,min,max,missing\ndose,numeric,0,5,NAN;Inf;1e400;-9;1_000\ny,binary,0,1,\n")
    draft = draft_schema(records(tmp_path, ["dose", "y"]), book, label="y")
    text = draft.text.replace('classes = ["?", "?"]', 'classes = ["0", "1"]')
    (dose,) = read_schema_file(text).attributes
    assert dose.missing == (-9.0, "1_000")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"label": "hospdea"}, "no column 'hospdea' for the label; did you mean 'hospdead'"),
        ({"unit": "patient"}, "no column 'patient' for the unit"),
        ({"label": "age", "unit": "age"}, "cannot be both"),
    ],
)
def test_a_column_that_is_not_there_is_named(tmp_path, options, message):
    with pytest.raises(ConfigurationError, match=message):
        draft_schema(records(tmp_path, ["age", "hospdead"]), **options)


def test_a_dictionary_of_many_tables_may_repeat_what_the_records_do_not_have(tmp_path):
    book = write(tmp_path, "table,name,type\na,row,int\nb,row,int\nb,age,int\n")
    assert draft_schema(records(tmp_path, ["age", "y"]), book, label="y").attributes == ("age",)
    with pytest.raises(ConfigurationError, match="two rows about 'row'"):
        draft_schema(records(tmp_path, ["age", "row"]), book)


def test_a_long_list_of_levels_is_on_several_lines(tmp_path):
    levels = [f"level number {number}" for number in range(40)]
    book = write(tmp_path, f"name,type,values\nx,factor,{'; '.join(levels)}\ny,factor,{'; '.join(levels)}\n")
    draft = draft_schema(records(tmp_path, ["x", "y"]), book, label="y")
    assert max(map(len, draft.text.splitlines())) < 130
    schema = read_schema_file(draft.text).schema
    assert list(schema.attributes[0].levels) == list(schema.classes) == levels


def test_a_workbook_is_to_be_saved_as_csv(tmp_path):
    (tmp_path / "book.xlsx").write_bytes(b"PK")
    with pytest.raises(ConfigurationError, match="is a workbook; save its sheet"):
        read_dictionary(tmp_path / "book.xlsx")


def test_names_are_found_whatever_their_case_unless_two_differ_in_it_alone(tmp_path):
    book = read_dictionary(write(tmp_path, "name\nAGE\nX\nx\n"))
    assert book.find("age").name == "age"
    assert book.find("x").name == "x"
    assert book.find("X").name == "X"
    assert book.find("y") is None


def test_a_dictionary_of_other_records_is_refused_without_quoting_a_column(tmp_path):
    """What is taken for names may be a record of a file without names."""
    with pytest.raises(ConfigurationError, match="none of the 2 columns is in the data dictionary") as caught:
        draft_schema(records(tmp_path, [SECRET, "male"]), EXAMPLES / "dictionary.csv")
    assert SECRET not in str(caught.value)


# --- what is never read -----------------------------------------------------------------------------------------


def test_of_a_csv_the_first_line_alone_is_read(tmp_path, monkeypatch):
    """Its body is broken in every way that `read_records` refuses, and holds a name."""
    path = tmp_path / "records.csv"
    head = b'\xef\xbb\xbf"age","sex, at birth"\r\n'
    path.write_bytes(head + f'1\n"{SECRET},\n\n'.encode() + b"\xff\x00\r,,,,")
    copies = []
    opened = Path.open

    def watched(self, *arguments, **options):
        file = opened(self, *arguments, **options)
        copies.append(os.dup(file.fileno()))  # has the same place in the file, also after that is closed
        return file

    monkeypatch.setattr(Path, "open", watched)
    monkeypatch.setattr(Path, "read_bytes", None)
    monkeypatch.setattr(builtins, "open", None)
    assert read_columns(path) == ["age", "sex, at birth"]
    (copy,) = copies
    assert os.lseek(copy, 0, os.SEEK_CUR) == len(head)
    os.close(copy)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_no_value_is_in_what_is_written_or_said(tmp_path, suffix, monkeypatch):
    frame = pl.DataFrame({"age": [77_123, 4], "name": [SECRET, "b"], "sex": ["male", "intersex"]})
    path = tmp_path / f"records.{suffix}"
    frame.write_csv(path) if suffix == "csv" else frame.write_parquet(path)
    monkeypatch.setattr(schema_draft, "read_records", None)
    monkeypatch.setattr(public_values, "with_values", None)
    draft = draft_schema(path, write(tmp_path, "name,type\nage,int\nsex,factor\nplace,factor\n"), label="sex")
    for value in ("77123", SECRET, "intersex"):
        assert value not in repr(draft)
    assert draft.undocumented == ("name",)
    assert draft.absent == ("place",)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\n\n", "no names of columns"),
        (b"71,male,1\n72,female,0\n", "begins with a record"),
        (b"2020-01-01,NA,f\n", "begins with a record"),
        (b"7,7,7\n", "begins with a record"),
        (b"a;b\n1;2\n", "semicolon"),
        (b"a,a\n", "more than once"),
        (b"2020-01-01,71 x,71 x,f,no\n", "begins with a record"),
        (b'a,"b\n', "quoted field"),
        ("a,b\n".encode("utf-16"), "UTF-16"),
        (b"a\x00b,c\n1,2\n", "a NUL byte, in the header"),
        (b"a,b\r71,2\r", "carriage return"),
    ],
)
def test_a_first_line_that_names_no_columns_is_refused(tmp_path, content, message):
    path = tmp_path / "records.csv"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=message) as caught:
        read_columns(path)
    assert "71" not in str(caught.value).replace(str(path), "")


def test_very_many_columns_are_read_in_a_moment(tmp_path):
    """Each name compared with each other took minutes."""
    names = [f"c{place}" for place in range(30_000)]
    (tmp_path / "records.csv").write_text(",".join(names) + "\n")
    with bounded(4):
        assert read_columns(tmp_path / "records.csv") == names


@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf"])
def test_a_first_line_that_does_not_end_is_refused(tmp_path, monkeypatch, start):
    monkeypatch.setattr(files, "_LONGEST_HEADER", 10)
    (tmp_path / "records.csv").write_bytes(start + b"age,sex,place\n")
    with pytest.raises(ConfigurationError, match="first line does not end"):
        read_columns(tmp_path / "records.csv")


# --- public records ---------------------------------------------------------------------------------------------


def test_public_records_give_what_the_dictionary_leaves_open(tmp_path):
    rows = [[n, 20 + n % 60, "fm"[n % 2], 999 if n % 9 == 0 else 60 + n % 80, f"20{n % 20:02}-03-04", f"{n} x", 7]
            for n in range(1, 200)]  # fmt: skip
    names = ["number", "age", "sex", "sbp", "seen", "remark", "code"]
    path = records(tmp_path, [*names, "y"], [[*row, row[0] % 2] for row in rows])
    book = write(tmp_path, "name,type,min,max,units\nage,int,18,,years\nsex,factor,,,\ny,binary,,,\n" + "".join(
        f"{name},,,,\n" for name in ("number", "sbp", "seen", "remark", "code")
    ))  # fmt: skip
    draft = draft_schema(path, book, label="y", public=True)
    assert draft.finished
    tables = attributes_of(draft)
    assert (tables["age"]["lower"], tables["age"]["upper"]) == (18, 80)
    assert tables["sex"]["levels"] == ["f", "m"]
    assert tables["seen"]["upper"] == dt.date(2019, 12, 31)
    assert (tables["sbp"]["lower"], tables["sbp"]["upper"]) == (50, 1000)
    assert "missing" not in tables["sbp"], "a sentinel is suggested, not declared"
    assert "# if 999 means a missing value: missing = [999]" in draft.text
    assert tables["code"]["levels"] == ["7"]
    assert "whole number in every record" in draft.left_out["number"]
    assert "many values" in draft.left_out["remark"]
    assert "from the values that occur" in draft.text
    assert "said to be public" in draft.text
    assert read_schema_file(draft.text).classes == ("0", "1")


@given(least=st.floats(-1e9, 1e9), span=st.floats(1e-6, 1e9))
def test_rounded_bounds_hold_the_values_and_are_not_far(least, span):
    most = least + span
    lower, upper = rounded_bounds(least, most)
    slack = 1e-9 * max(1, abs(least), abs(most))
    assert lower <= least + slack
    assert upper >= most - slack
    assert lower < upper
    assert upper - lower <= 2 * (most - least) + 2 + slack
