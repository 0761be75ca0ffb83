"""Private records from files and databases: errors name file, column and row, never a value."""

import csv
import datetime as dt
import io
import itertools
import sqlite3
import tempfile
import warnings
from contextlib import closing
from pathlib import Path

import msgspec
import numpy as np
import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from test_site import DECLARED, RULES

from curator_fakes import (
    ROWS,
    UNIT_KEY,
    Clock,
    Learner,
    error_body,
    frame_of,
    mass_body,
    open_curator,
    plan_of,
    steward_file,
    toml,
)
from curator_node.records import databases, dataset
from curator_node.records.databases import read_database
from curator_node.records.dataset import PrivateDataset, StewardWarning
from curator_node.records.files import read_columns, read_records
from curator_node.site import RECORDS, create_site, open_site
from protocol.errors import ConfigurationError
from protocol.messages import Card, Release, StudyAccepted, StudyClosed
from protocol.partitions import FeatureBins
from protocol.record_frames import column_texts, encode_frame
from protocol.schema import NumericAttribute, Schema

# five records: a single undeclared level is more than a tenth
pytestmark = [
    pytest.mark.filterwarnings("ignore:more than a tenth:curator_node.records.dataset.StewardWarning"),
    pytest.mark.filterwarnings("ignore:the declared round_size:curator_node.records.dataset.StewardWarning"),
]

CANARY = "canary-7f3a"
HEADER = "patient,age,dose,sex,sick"
CSV = f"""{HEADER}
1,20,-1.5,f,no
1,44.0,0,m,yes
2,,?,m,yes
3, 71 ,4.9,,no
4,NA,2,other,no
"""


def write(tmp_path, text, name="records.csv"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def load(path, steward=None, **options):
    return PrivateDataset(read_records(path), steward or steward_file(**options), unit_key=UNIT_KEY, cache_bytes=10**6)


def fails(path, match, **options):
    with pytest.raises(ConfigurationError, match=match) as caught:
        load(path, **options)
    assert CANARY not in str(caught.value)
    assert CANARY not in repr(caught.value.__cause__)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def counts(data):
    workload = tuple(
        FeatureBins(attribute=name, edges=edges) for name, edges in (("age", (30.0,)), ("dose", (0.0,)), ("sex", ()))
    )
    return [part.tolist() for part in data.count(workload, None)]


def test_absent_file_and_folder(tmp_path):
    fails(tmp_path / "none.csv", "no file")
    fails(tmp_path, "is a folder; name a file in it")


FAULTY_FILES = (
    *((f"records{end}", CSV, r"read from \.csv or \.parquet") for end in (".xlsx", "", ".csv.gz", ".json")),
    *(("records.csv", text, "no rows") for text in (HEADER, f"{HEADER}\n", f"\n\n{HEADER}\n")),
    *(("records.csv", text, r"records\.csv is empty") for text in ("", "\n", "\r\n\r\n", b"\xef\xbb\xbf")),
    ("records.parquet", b"", r"records\.parquet is empty"),
    ("records.parquet", b"PAR1", "cannot be read as parquet"),
    ("records.parquet", b"PAR1" + b"\x00" * 100 + b"PAR1", "cannot be read as parquet"),
    ("records.parquet", CSV.encode(), "cannot be read as parquet"),
    ("records.parquet", b"PAR1" + CANARY.encode() * 50, "cannot be read as parquet"),
    ("records.csv", f"{HEADER}\n1,2,3,f,no,{CANARY},7\n", "cannot be read as csv"),
    ("records.csv", f"{HEADER}\n1,2,3,f\xff,{CANARY}\n".encode("latin-1"), "cannot be read as csv"),
    ("records.csv", HEADER.encode("utf-16"), "cannot be read as csv"),
    ("records.csv", f"{HEADER},{'x' * 200_000}{CANARY}\n1,2,3,f,no,1\n", "cannot be read as csv"),
    ("records.csv", "age,dose,sex,sick,age,dose\n1,2,f,no,3,4\n", r"'age', 'dose' more than once"),
)


@pytest.mark.parametrize(("name", "content", "match"), FAULTY_FILES, ids=itertools.count())
def test_a_file_that_is_no_table_of_records_is_refused_with_the_reason(tmp_path, name, content, match):
    fails(write(tmp_path, content, name), match)


@pytest.mark.parametrize(("sign", "named"), [(";", "semicolon"), ("\t", "tab")])
def test_another_separator_than_the_comma_is_named(tmp_path, sign, named):
    text = CSV.replace(",", sign).replace("other", CANARY)
    for start in ("", "\n", "\ufeff"):
        fails(write(tmp_path, start + text), f"holds a {named}: separate columns by commas")
    fails(write(tmp_path, f"{CANARY}{sign}1\n2{sign}3\n"), f"holds a {named}")


def test_separators_within_a_column_of_several_are_nobody_s_business(tmp_path):
    text = "\n".join(f"{line},1" for line in CSV.replace("other", "a;b").strip().splitlines())
    assert counts(load(write(tmp_path, text.replace("sick,1", "sick,dose;mg\tdaily")))) == counts(
        load(write(tmp_path, CSV))
    )


def test_a_parquet_file_without_rows_or_without_its_end(tmp_path):
    path, frame = tmp_path / "records.parquet", pl.read_csv(io.StringIO(CSV))
    frame.clear().write_parquet(path)
    fails(path, "no rows")
    frame.write_parquet(path)
    content = path.read_bytes()
    for end in range(1, len(content), 97):
        fails(write(tmp_path, content[:end], "records.parquet"), "cannot be read as parquet")


def test_header_behind_a_byte_order_mark_is_read(tmp_path):
    text = CSV.replace("patient,age", "age,patient")
    marked = write(tmp_path, b"\xef\xbb\xbf" + CSV.encode())
    assert counts(load(marked)) == counts(load(write(tmp_path, CSV)))
    twice = write(tmp_path, b"\xef\xbb\xbf" + text.replace("patient", "age").encode())
    fails(twice, "'age' more than once")


QUOTED = "a quoted field that does not end on its line"
WITHIN = "a quote within a field that does not begin with one"
AFTER = "text after a closing quote"
RAGGED = "another number of fields than in the header"


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        (f'3,"{CANARY},0,m,yes', QUOTED),
        (f'3,20,0,"{CANARY}""', QUOTED),
        (f'3,20,0,{CANARY}","yes"', WITHIN),
        (f'3,20,0, "{CANARY}",yes', WITHIN),
        (f'3,20,0,"m"{CANARY},yes', AFTER),
        (f'3,20,0,"m" ,{CANARY}', AFTER),
        (f"3,20,0,{CANARY}", RAGGED),
        (f"3,20,0,m,yes,{CANARY}", RAGGED),
        (f'3,20,0,m,"yes,{CANARY}"\n', "a blank line"),
        (f"3,20,0,m,yes\n  \n{CANARY}", "a blank line"),
        (f"3,20,0,{CANARY}\0,yes", "a NUL byte"),
        (f"3,20,0,{CANARY}\r4,20,0,m,yes", "a carriage return that ends no line"),
        (b"3,20,0,caf\xe9,yes", "text that is not UTF-8"),
        (f"3,20,0,{CANARY * 20_000},yes", "a field of more than 131072 characters"),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_broken_row_is_refused_by_its_number(tmp_path, row, fault, end):
    row = row if isinstance(row, bytes) else row.encode()
    number = 5 if fault == "a blank line" or b"\n  " in row else 4
    for start in ("", "\n\n", "\ufeff", "\ufeff\n"):
        text = start + HEADER + "\n1,20,-1.5,f,no" * 3 + "\n"
        lines = (text.encode() + row + b"\n5,20,0,m,no\n").replace(b"\n", end.encode())
        fails(write(tmp_path, lines), rf"csv: {fault}.*, in row {number}, header not counted; [a-z]")


@pytest.mark.parametrize(("header", "fault"), [(HEADER.replace("age", 'a"ge'), WITHIN), (f'"{HEADER}', QUOTED)])
def test_a_broken_header_is_refused(tmp_path, header, fault):
    fails(write(tmp_path, CSV.replace(HEADER, header)), rf"csv: {fault}.*, in the header; correct that line$")


@pytest.mark.parametrize("end", ["", "\n", "\n\n\n", "\r\n\r\n", "\n  \n\t"])
def test_blank_lines_after_the_last_record_are_no_rows(tmp_path, end):
    assert read_records(write(tmp_path, CSV.rstrip() + end)).equals(read_records(write(tmp_path, CSV)))


def test_a_blank_line_of_a_table_with_one_column_may_be_a_record_and_is_refused(tmp_path):
    fails(write(tmp_path, "age\n20\n\n"), "a blank line, in row 2, header not counted")


def test_a_break_within_quotes_is_refused_as_two_stray_quotes_are(tmp_path):
    fails(write(tmp_path, CSV.replace("3, 71 ", '3,"7\n1"')), f"{QUOTED}.*, in row 4,")
    stray = [f"{number},{number % 90},0,m,no" for number in range(50)]
    stray[9], stray[39] = '9,9,0,"m,no', '39,39,0,m",no'
    fails(write(tmp_path, "\n".join([HEADER, *stray])), f"{QUOTED}.*, in row 10,")
    stray[39] = '39,39,0,"m",no'
    fails(write(tmp_path, "\n".join([HEADER, *stray])), f"{QUOTED}.*, in row 10,")


def test_names_and_values_in_quotes_are_those_that_python_reads(tmp_path):
    path = write(tmp_path, '"a ""b""","c,d",""\r\n"x ""y""",",",""\n1, 2 ,"3"\r\n')
    with path.open(newline="") as file:
        header, *rows = csv.reader(file, strict=True)
    frame = read_records(path)
    assert frame.columns == header == ['a "b"', "c,d", ""]
    assert list(map(list, frame.rows())) == rows


def strict_fields(line):
    """The fields of one line by RFC 4180, one character at a time, or None: the oracle of the tests below."""
    fields, state = [""], "start"
    for sign in line:
        if state == "quoted":
            if sign == '"':
                state = "closed"
            else:
                fields[-1] += sign
        elif sign == ",":
            fields.append("")
            state = "start"
        elif sign == '"':
            if state == "plain":
                return None
            if state == "closed":
                fields[-1] += sign
            state = "quoted"
        else:
            if state == "closed":
                return None
            fields[-1] += sign
            state = "plain"
    return None if state == "quoted" else fields


def strict_rows(lines, width):
    rows = [strict_fields(line) for line in lines]
    regular = all(row is not None and len(row) == width for row in rows)
    return rows if regular and all(lines) and not any("\r" in line for line in lines) else None


def read_rows(text):
    """What `read_records` makes of a text; None where it refuses."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            frame = read_records(write(Path(folder), text))
        except ConfigurationError:
            return None
    return [[value or "" for value in row] for row in frame.rows()]


@st.composite
def broken_tables(draw):
    """Width, end of line, and the lines after the header, in which quotes may have come and gone."""
    width, end = draw(st.integers(1, 3)), draw(st.sampled_from(["\n", "\r\n"]))
    values = st.text(alphabet='a1", ;\u2028\x0bé', max_size=4)
    if draw(st.integers(0, 3)) == 0:
        values |= st.sampled_from(["a\nb", "a\r\nb", "a\rb"])
    table = draw(st.lists(st.lists(values, min_size=width, max_size=width), min_size=1, max_size=5))
    text = io.StringIO()
    quoting = draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
    csv.writer(text, lineterminator=end, quoting=quoting).writerows(table)
    text = text.getvalue()
    for place in draw(st.lists(st.integers(0, len(text) - len(end)), max_size=3)):
        text = text[:place] + draw(st.sampled_from(['"' + text[place : place + 1], ""])) + text[place + 1 :]
    return width, end, text.replace("\r\n", "\n").removesuffix("\n").split("\n")


@given(broken_tables())
@example((2, "\n", ['a,"b', 'c,d"']))
@example((2, "\r\n", ["a,b", '"",""', ',"c,""d"""']))
@example((1, "\n", ['""', "a", '""']))
def test_a_file_is_refused_or_read_as_line_by_line(table):
    width, end, lines = table
    header = ",".join(f"c{column}" for column in range(width))
    assert read_rows(end.join([header, *lines, ""])) == strict_rows(lines, width)


@given(broken_tables())
def test_a_line_less_changes_no_other_row(table):
    width, end, lines = table
    header = ",".join(f"c{column}" for column in range(width))
    rows = read_rows(end.join([header, *lines, ""]))
    for number in range(len(lines)):
        without = read_rows(end.join([header, *lines[:number], *lines[number + 1 :], ""]))
        if rows is not None and without is not None:
            assert without == rows[:number] + rows[number + 1 :]


def test_lines_with_stray_quotes_move_counts_by_their_own_record_only(tmp_path):
    """Any two odd lines of fifty, one of them removed: both files are read, or one is refused."""
    forms = ['"m', 'm"', '"m"', 'say ""m""', '"', '""', '"""', '"m","f"', 'm"f', '"m" f']
    read = 0
    for first, second in itertools.product(forms, forms):
        lines = [f"{number},{number},0,m,no" for number in range(50)]
        lines[10], lines[40] = f"10,10,0,{first},no", f"40,40,0,{second},no"
        rows = read_rows("\n".join([HEADER, *lines]))
        without = read_rows("\n".join([HEADER, *lines[:40], *lines[41:]]))
        if rows is not None and without is not None:
            read += 1
            assert (len(rows), len(without)) == (50, 49)
            assert rows[:40] + rows[41:] == without
    assert read == 4  # '"m"' and '""', each beside each


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        *[
            (column, "zzzz", f"lack the declared column.*'{column}'; the columns are .*'zzzz'")
            for column in ("age", "dose", "sex", "sick")
        ],
        ("patient", "person", "'patient'"),
        *[("m,yes\n3", f"m,{blank}\n3", "'sick' is empty in row 3, header not") for blank in ("", "?", "NA", "  ")],
        ("m,yes\n3", f"m,{CANARY}\n3", "other than the declared classes 'no' and 'yes' in row 3, header not counted"),
        ("44.0", CANARY, "'age' is declared numeric but holds text in row 2, header not counted"),
        ("44.0", '"1,5"', "'age' is declared numeric but holds text in row 2, header not counted"),
        ("3, 71", ", 71", "unit column 'patient' is empty in row 4, header"),
    ],
)
def test_a_fault_of_the_records_is_told_by_column_and_row_and_not_by_value(tmp_path, old, new, match):
    fails(write(tmp_path, CSV.replace(old, new).replace("other", CANARY)), match, unit="patient" in match)


def test_every_absent_column_is_named_with_the_nearest_that_is_there(tmp_path):
    text = CSV.replace(HEADER, "patients,Age,doze,sex, sick").replace("other", CANARY)
    fails(
        write(tmp_path, text),
        r"'sick' \(did you mean ' sick'\?\), 'patient' \(did you mean 'patients'\?\), 'age' \(did you mean 'Age'\?\), "
        r"'dose' \(did you mean 'doze'\?\); the columns are 'patients', 'Age', 'doze', 'sex', ' sick'$",
        unit=True,
    )


def test_first_record_of_a_file_without_header_is_not_shown(tmp_path):
    fails(write(tmp_path, f"1,{CANARY},-1.5,f,no\n2,20,1,m,yes\n"), "does the first row hold the column names")
    with pytest.raises(ConfigurationError) as caught:
        load(write(tmp_path, "sicker,20,dosed,f,no\n2,20,1,m,yes\n"))
    assert not any(value in str(caught.value) for value in ("sicker", "20", "dosed", "'f'", "'no'"))


def test_number_of_another_type_is_told(tmp_path):
    path = tmp_path / "records.parquet"
    pl.read_csv(io.StringIO(CSV), infer_schema=False).with_columns(age=pl.date(2020, 1, 1)).write_parquet(path)
    fails(path, "'age' is declared numeric but has type Date")


@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("typed", [False, True])
def test_csv_and_parquet_of_the_same_records_are_the_same(tmp_path, unit, typed):
    from_csv = load(write(tmp_path, CSV), unit=unit)
    frame = pl.read_csv(io.StringIO(CSV), infer_schema=False)
    if typed:
        frame = frame.with_columns(
            pl.col("patient").cast(pl.Int64),
            pl.col("age").str.strip_chars().cast(pl.Float64, strict=False),
            pl.col("dose").cast(pl.Float64, strict=False),
            pl.col("sex").cast(pl.Categorical),
        )
    for name in ("records.parquet", "records.pq", "RECORDS.PARQUET"):
        frame.write_parquet(tmp_path / name)
        other = load(tmp_path / name, unit=unit)
        assert np.array_equal(other._records.numeric, from_csv._records.numeric, equal_nan=True)
        assert np.array_equal(other._records.categorical, from_csv._records.categorical)
        assert np.array_equal(other._labels, from_csv._labels)
        assert counts(other) == counts(from_csv)
    assert len(from_csv._labels) == (4 if unit else 5)


def test_labels_as_numbers_are_read_from_both(tmp_path):
    steward = msgspec.structs.replace(steward_file(), classes=("0", "1"))
    text = CSV.replace(",no", ",0").replace(",yes", ",1")
    path = tmp_path / "records.parquet"
    for kind in (pl.Int8, pl.Float64, pl.String):
        pl.read_csv(io.StringIO(text), infer_schema=False).with_columns(pl.col("sick").cast(kind)).write_parquet(path)
        assert np.array_equal(load(path, steward)._labels, load(write(tmp_path, text), steward)._labels)


def test_columns_that_nobody_declared_are_ignored(tmp_path):
    text = "\n".join(f"{line},{CANARY}" for line in CSV.strip().splitlines())
    assert counts(load(write(tmp_path, text))) == counts(load(write(tmp_path, CSV)))


def test_one_class_warns_the_steward_only_and_the_curator_serves(tmp_path):
    path = write(tmp_path, CSV.replace("yes", "no"))
    with pytest.warns(StewardWarning, match="one class; the curator serves normally"):
        records = load(path)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        learner = Learner(open_curator(records=records))
        assert isinstance(learner.card(), Card)
        assert isinstance(learner.propose(plan_of(30, 30, release="error_correct")), StudyAccepted)
        assert isinstance(learner.query(error_body()), Release)
        assert isinstance(learner.query(error_body()), Release)
        assert isinstance(learner.close(), StudyClosed)
        learner = Learner(open_curator(records=records))
        learner.propose(plan_of(30))
        assert isinstance(learner.query(mass_body()), Release)
    assert heard == []


def test_how_a_label_differs_from_a_class_is_in_no_error_of_a_curator_that_serves(tmp_path):
    with pytest.raises(ConfigurationError) as caught:
        load(write(tmp_path, CSV.replace(",yes", ",Yes", 1)))
    assert "but for" not in str(caught.value)
    assert type(caught.value)("records.csv: told again").args == (
        "records.csv: told again",
    )  # as a site names the file


# --- Records from a database: what a column becomes, what is refused and how it is told, that nothing can be written.

SECRET = "canary-7f3a"
FILLED = (
    "CREATE TABLE stays (a INTEGER, b NUMERIC(12, 2), c VARCHAR(40), d DATE)",
    f"INSERT INTO stays VALUES (1, 2.50, '{SECRET}', '2020-01-31'), (NULL, 3, 'y', NULL), (3, NULL, NULL, NULL)",
)


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request, tmp_path, monkeypatch):
    """(URL, statement -> rows) of a database with a table."""
    if request.param == "sqlite":

        def execute(statement):
            with closing(sqlite3.connect(tmp_path / "a.db")) as connection, connection:
                return connection.execute(statement).fetchall()

        url = "sqlite:///a.db"
    else:
        server = request.getfixturevalue("postgres")
        name = server.new_database()
        monkeypatch.setenv("PGPASSWORD", server.password)
        url = server.url(name).replace(f":{server.password}", "")

        def execute(statement):
            return server.execute(statement, database=name)

    for statement in FILLED:
        execute(statement)
    return url, execute


def source(folder, url, query, **more):
    path = folder / "source.toml"
    lines = [f"url = '{url}'", f"query = '''{query}'''", *(f"{key} = {value}" for key, value in more.items())]
    path.write_text("\n".join(lines))
    return path


def refused(path):
    with pytest.raises(ConfigurationError) as caught:
        read_records(path)
    text = str(caught.value)
    assert SECRET not in text
    assert caught.value.__cause__ is None
    return text


def test_names_of_columns_are_read_without_a_row(database, tmp_path, monkeypatch):
    url, _ = database
    frames, frame_of = [], databases._frame
    monkeypatch.setattr(databases, "_frame", lambda *given: frames.append(frame_of(*given)) or frames[-1])
    for query in (
        "SELECT a AS x, b FROM stays ORDER BY c -- all; of them",
        "WITH s AS (SELECT * FROM stays) SELECT a AS x, b FROM s LIMIT 1;",
        "(SELECT a AS x, b FROM stays)" if url.startswith("postgresql") else "SELECT a AS x, b FROM stays",
    ):
        assert read_columns(source(tmp_path, url, query)) == ["x", "b"]
    assert [frame.height for frame in frames] == [0, 0, 0]


def test_columns_are_what_a_schema_reads_in_batches_of_any_size(database, tmp_path):
    url, _ = database
    for rows in (1, 2, 10_000):
        frame = read_records(
            source(tmp_path, url, "SELECT a, b, c, d FROM stays ORDER BY c DESC -- all; of them", fetch_rows=rows)
        )
        expected = sorted(
            map(tuple, zip(*(column_texts(frame[name]).to_list() for name in frame.columns), strict=True)), key=str
        )
        assert expected == sorted(
            [("1", "2.5", SECRET, "2020-01-31"), (None, "3", "y", None), ("3", None, None, None)], key=str
        )


def test_dates_of_a_database_are_days(database, tmp_path):
    url, _ = database
    born = NumericAttribute("d", -9000.0, 9000.0, days_since="2020-02-01")
    schema = Schema((born,), "c", ("no", "yes"))
    for query, day in (
        ("SELECT d FROM stays ORDER BY a", -1.0),
        ("SELECT CAST(d AS VARCHAR(10)) AS d FROM stays ORDER BY a", -1.0),
        ("SELECT '2020-01-31 18:00:00+00' AS d FROM stays", -0.25),
    ):
        values = encode_frame(read_records(source(tmp_path, url, query)), schema).column("d")
        assert set(values[~np.isnan(values)]) == {day}


def test_times_of_postgresql_are_days_in_utc(postgres, tmp_path, monkeypatch):
    monkeypatch.setenv("RECORDS_URL", postgres.url(postgres.new_database()))
    (tmp_path / "source.toml").write_text("url_env = 'RECORDS_URL'\nquery_file = 'q.sql'\n")
    (tmp_path / "q.sql").write_text("SELECT timestamptz '2020-01-01 01:00+13' AS d, timestamp '2020-01-01 06:00' AS e")
    frame = read_database(tmp_path / "source.toml")
    attributes = (NumericAttribute(name, -9.0, 9.0, days_since="2020-01-01") for name in "de")
    assert encode_frame(frame, Schema(tuple(attributes), "c", ("no", "yes"))).numeric.tolist() == [[-0.5, 0.25]]


def test_types_of_postgresql_keep_every_digit(postgres, tmp_path):
    name = postgres.new_database()
    query = """SELECT true AS yes, 12345678901234567890 AS long, 0.10::numeric(8, 4) AS cents, 'NaN'::float8 AS nan,
        date '2020-02-29' AS day, timestamptz '2020-01-01 01:00+01' AS at, time '10:30' AS hour, NULL AS none,
        'b0f2a2ee-7b0f-4f3a-8f2c-0a1b2c3d4e5f'::uuid AS id, 'ab'::char(5) AS padded, 7::bigint AS whole,
        '50 %' AS share"""
    (tmp_path / "source.toml").write_text("url_env = 'RECORDS_URL'\nquery_file = 'q.sql'\n")
    (tmp_path / "q.sql").write_text(query + ";\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RECORDS_URL", postgres.url(name))
        frame = read_database(tmp_path / "source.toml")
    assert frame.row(0) == (
        True,
        "12345678901234567890",
        "0.1",
        pytest.approx(float("nan"), nan_ok=True),
        dt.date(2020, 2, 29),
        dt.datetime(2020, 1, 1),  # noqa: DTZ001 - told in UTC
        dt.time(10, 30),
        None,
        "b0f2a2ee-7b0f-4f3a-8f2c-0a1b2c3d4e5f",
        "ab   ",
        7,
        "50 %",
    )


VALUES = st.one_of(
    st.none(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), st.text("ab1.? ", max_size=4)
)


@pytest.mark.slow
@given(st.lists(VALUES, min_size=1, max_size=12), st.integers(1, 5))
def test_a_column_of_mixed_types_is_the_same_in_batches_of_any_size(values, rows):
    """SQLite keeps a type for each value."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        with closing(sqlite3.connect(folder / "a.db")) as connection, connection:
            connection.execute("CREATE TABLE t (x)")
            connection.executemany("INSERT INTO t VALUES (?)", [(value,) for value in values])
        small, large = (
            read_records(source(folder, "sqlite:///a.db", "SELECT x FROM t ORDER BY rowid", fetch_rows=size))["x"]
            for size in (rows, 1000)
        )
    assert small.dtype == large.dtype
    assert column_texts(small).to_list() == column_texts(large).to_list()
    if {type(value) for value in values} - {type(None)} in ({str}, {int}):
        assert large.to_list() == values


WRITES = (
    "DELETE FROM stays",
    "WITH gone AS (SELECT 1 AS one) DELETE FROM stays",
    "SELECT a FROM stays; DELETE FROM stays",
    "SELECT '--' AS a FROM stays; DELETE FROM stays",
    "SELECT '$' AS a FROM stays WHERE '; DELETE FROM stays' = ''",
    "/* SELECT */ UPDATE stays SET a = 0",
    "SELECT a INTO other FROM stays",
    "ATTACH DATABASE 'x.db' AS x",
    "PRAGMA query_only = OFF",
    "",
)


@pytest.mark.parametrize("query", WRITES)
def test_a_query_that_writes_fails_and_changes_nothing(database, tmp_path, query):
    url, execute = database
    refused(source(tmp_path, url, query))
    assert execute("SELECT COUNT(*) FROM stays") == [(3,)]
    assert {path.name for path in tmp_path.iterdir()} <= {"a.db", "source.toml"}


@pytest.mark.parametrize(
    "query",
    [
        "WITH gone AS (DELETE FROM stays RETURNING *) SELECT * FROM gone",
        "SELECT nextval('numbers')",
        "SELECT set_config('transaction_read_only', 'off', false)",
        "SELECT a FROM stays FOR UPDATE",
    ],
)
def test_what_only_postgresql_could_write_fails_too(postgres, tmp_path, query, monkeypatch):
    name = postgres.new_database()
    for statement in (*FILLED, "CREATE SEQUENCE numbers"):
        postgres.execute(statement, database=name)
    monkeypatch.setenv("PGPASSWORD", postgres.password)
    refused(source(tmp_path, postgres.url(name).replace(f":{postgres.password}", ""), query))
    assert postgres.execute("SELECT COUNT(*) FROM stays", database=name) == [(3,)]
    assert postgres.execute("SELECT nextval('numbers')", database=name) == [(1,)]


@pytest.mark.parametrize(
    ("query", "told"),
    [
        (f"SELECT {SECRET.replace('-', '_')} FROM stays WHERE c = '{SECRET}'", "cannot be read from"),
        (f"SELECT a FROM nowhere WHERE c = '{SECRET}'", "cannot be read from"),
        ("SELEC a FROM stays", "begins with another word"),
        ("SELECT a, a FROM stays", "column(s) 'a' more than once"),
        (f"SELECT a FROM stays WHERE c = '{SECRET}!'", "finds no rows"),
    ],
)
def test_what_is_wrong_with_a_query_is_told_without_its_text(database, tmp_path, query, told):
    assert told in refused(source(tmp_path, database[0], query))


def test_values_that_no_record_holds_are_named_by_column_and_type(postgres, tmp_path, monkeypatch):
    monkeypatch.setenv("PGPASSWORD", postgres.password)
    url = postgres.new_url().replace(f":{postgres.password}", "")
    for query, message in (
        (f"SELECT ARRAY['{SECRET}'] AS lists", "column 'lists' has values of type list"),
        (f"SELECT '{SECRET}'::bytea AS raw", "column 'raw' has values of type bytes"),
        ("SELECT date 'infinity' AS d", "a date that never ends"),
        (f"SELECT CAST('{SECRET}' AS INTEGER) AS a", "DataError, code 22P02"),
    ):
        assert message in refused(source(tmp_path, url, query))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("url = 'postgresql://u:hunter2@h/n'\nquery = 'SELECT 1'", "holds a password"),
        ("url = 'postgresql://h/n?password=hunter2'\nquery = 'SELECT 1'", "holds a password"),
        ("url = 'mysql://h/n'\nquery = 'SELECT 1'", "PostgreSQL and SQLite are spoken"),
        ("url = 'hunter2'\nquery = 'SELECT 1'", "no URL of a database"),
        ("url = 'sqlite:///absent.db'\nquery = 'SELECT 1'", "no file"),
        ("url = 'sqlite://'\nquery = 'SELECT 1'", "PostgreSQL or from a SQLite file"),
        ("url_env = 'EXPRIL_NOT_SET'\nquery = 'SELECT 1'", "EXPRIL_NOT_SET is not set"),
        ("query = 'SELECT 1'", "either url or url_env"),
        ("url = 'sqlite:///a'\nurl_env = 'A'\nquery = 'SELECT 1'", "either url or url_env"),
        ("url = 'sqlite:///a'", "either query or query_file"),
        ("url = 'sqlite:///a'\nquery_file = 'absent.sql'", "no query file"),
        ("url = 'sqlite:///a'\nqery = 'SELECT 1'", "did you mean 'query'"),
        ("url = 'sqlite:///a'\nquery = 'SELECT 1'\nfetch_rows = 0", "fetch_rows"),
    ],
)
def test_a_source_file_that_is_wrong_is_one_sentence(tmp_path, text, told):
    (tmp_path / "source.toml").write_text(text)
    error = refused(tmp_path / "source.toml")
    assert told in error
    assert "hunter2" not in error


def test_a_database_that_is_no_database_is_told(tmp_path):
    (tmp_path / "a.db").write_text("hello " * 100)
    assert "it is no SQLite database" in refused(source(tmp_path, "sqlite:///a.db", "SELECT 1 FROM stays"))


def test_a_site_reads_its_records_from_a_database_as_from_a_file(tmp_path):
    folder = tmp_path / "ward"
    create_site(folder, policy=toml(RULES), schema=toml(DECLARED), records=frame_of(ROWS), clock=Clock())
    with open_site(folder, clock=Clock()) as site:
        by_file = site.data_version
    with closing(sqlite3.connect(folder / "a.db")) as connection, connection:
        connection.execute("CREATE TABLE stays (patient, age, dose, sex, sick)")
        connection.executemany("INSERT INTO stays VALUES (?, ?, ?, ?, ?)", ROWS)
    source(folder, "sqlite:///a.db", "SELECT * FROM stays ORDER BY age")
    with pytest.raises(ConfigurationError, match=r"holds records.parquet and source.toml; keep one"):
        open_site(folder, clock=Clock())
    (folder / RECORDS[1]).unlink()
    with open_site(folder, clock=Clock()) as site:
        assert site.data_version == by_file, "the same records, wherever they come from"
    with open_site(folder, records=folder / "source.toml", clock=Clock()) as site:
        assert site.data_version == by_file


# --- A schema that does not fit its records raises no error; its steward, and nobody else, is told which column.

CANARY = "canary-7f3a"
N = 40
GOOD = {
    "patient": [str(row) for row in range(N)],
    "age": [float(20 + row) for row in range(N)],
    "dose": [0.5] * N,
    "sex": ["f", "m"] * (N // 2),
    "sick": ["no", "yes"] * (N // 2),
}


def heard(steward=None, **columns):
    """What the steward hears, and the dataset."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        data = PrivateDataset(
            pl.DataFrame({**GOOD, **columns}),
            steward or steward_file(round_size=N),
            unit_key=UNIT_KEY,
            cache_bytes=10**6,
        )
    assert all(warning.category is StewardWarning for warning in caught)
    assert all(warning.filename == __file__ for warning in caught)
    return [str(warning.message) for warning in caught], data


def mixed(bad, good, count):
    return [bad] * count + [good] * (N - count)


def test_records_that_fit_are_no_news():
    assert heard()[0] == []


@pytest.mark.parametrize("bad", [-0.001, 120.001, 1e300, -1e300])
def test_more_than_a_tenth_beyond_the_bounds_is_told(bad):
    assert heard(age=mixed(bad, 50.0, N // 10))[0] == []
    (text,) = heard(age=mixed(bad, 50.0, N // 10 + 1))[0]
    assert text.startswith("more than a tenth of the values of 'age' lie outside the declared bounds")
    assert "check the bounds" in text


def test_a_sentinel_is_hinted_at_and_no_news_once_it_is_declared():
    sentinels = mixed(999.0, 50.0, N // 2)
    (text,) = heard(age=sentinels)[0]
    assert "if a value stands for a missing one, declare it: missing = [...]" in text
    assert "999" not in text
    texts = mixed("unknown", "f", N // 2)
    assert "if a text stands for a missing value, declare it: missing = [...]" in heard(sex=texts)[0][0]
    plain = steward_file(round_size=N)
    codes = {"age": (999,), "sex": ("unknown",)}
    attributes = (
        msgspec.structs.replace(attribute, missing=codes.get(attribute.name, msgspec.UNSET))
        for attribute in plain.attributes
    )
    declared = msgspec.structs.replace(plain, attributes=tuple(attributes))
    assert heard(declared, age=sentinels, sex=texts)[0] == []


def test_values_on_the_bounds_are_within():
    assert heard(age=[0.0, 120.0] * (N // 2), dose=["-5", "5.0"] * (N // 2))[0] == []


def test_numbers_written_as_text_are_compared_as_numbers():
    (text,) = heard(dose=mixed(" 5.1", "0", 5))[0]
    assert "'dose'" in text


@pytest.mark.parametrize("bad", ["F", "female", CANARY])
def test_more_than_a_tenth_of_undeclared_levels_is_told(bad):
    assert heard(sex=mixed(bad, "f", N // 10))[0] == []
    (text,) = heard(sex=mixed(bad, "f", N // 10 + 1))[0]
    assert text.startswith("more than a tenth of the values of 'sex' are no declared level")
    assert "spelling and case of the levels" in text


def test_the_tenth_is_of_what_is_not_missing():
    few = [None] * (N - 10)
    assert heard(age=[*few, 200.0, *[50.0] * 9], sex=[*few, "F", *"fmfmfmfmf"])[0] == []
    texts, _ = heard(age=[*few, 200.0, *[50.0] * 8, None], sex=[*few, "F", *"fmfmfmfm", "?"])
    assert [name for text in texts for name in ("'age'", "'sex'") if name in text] == ["'age'", "'sex'"]


@pytest.mark.parametrize("missing", [None, "", "?", "NA"])
def test_an_attribute_that_is_missing_in_every_record_is_told_and_in_all_but_one_is_not(missing):
    nothing = pl.Series([missing] * N, dtype=pl.String)
    texts, _ = heard(age=nothing, sex=nothing)
    assert [text.split(";")[0] for text in texts] == [
        f"{name} is missing in every record" for name in ("'age'", "'sex'")
    ]
    assert heard(age=mixed(missing, "50", N - 1), sex=mixed(missing, "f", N - 1))[0] == []


def test_records_are_judged_before_units_are_bounded():
    one_unit = ["p"] * (N - 1) + ["q"]
    texts, data = heard(steward_file(unit=True, round_size=2), patient=one_unit, age=mixed(200.0, 50.0, 5))
    assert len(data._labels) == 2
    assert "'age'" in texts[0]


@pytest.mark.parametrize("declared", [N // 2, N, 2 * N, None])
def test_a_round_size_within_a_factor_of_two_is_no_news(declared):
    assert heard(steward_file(round_size=declared))[0] == []


@pytest.mark.parametrize("declared", [1, N // 2 - 1, 2 * N + 1, 2**40])
def test_a_round_size_that_is_far_off_is_told_without_a_number(declared):
    (text,) = heard(steward_file(round_size=declared))[0]
    assert "round_size" in text
    assert not any(letter.isdigit() for letter in text)


def test_the_round_size_is_compared_with_the_records_that_count():
    few = ["p"] * (N - 10) + list("abcdefghij")
    assert heard(steward_file(unit=True, round_size=11), patient=few)[0] == []
    (text,) = heard(steward_file(unit=True, round_size=N), patient=few)[0]
    assert "records that count" in text


def test_more_records_than_are_assumed_ask_for_a_round_size(monkeypatch):
    monkeypatch.setattr(dataset, "ASSUMED_ROUND_SIZE", N - 1)
    assert heard(steward_file(round_size=N))[0] == []
    (text,) = heard(steward_file(round_size=None))[0]
    assert "declare it" in text


def test_no_value_and_no_number_is_told():
    texts, _ = heard(age=mixed(31_337.25, 50.0, 17), sex=mixed(CANARY, "f", 23), dose=[None] * N, sick=["no"] * N)
    assert len(texts) == 4
    for text in texts:
        assert CANARY not in text
        assert not any(letter.isdigit() for letter in text)


def test_a_learner_hears_nothing():
    texts, data = heard(age=[500.0] * N, sex=[CANARY] * N, dose=[None] * N)
    assert len(texts) == 3
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        told = Learner(open_curator(records=data))
        usual = Learner(open_curator(records=heard()[1]))
        kinds = []
        for learner in (told, usual):
            replies = [learner.card(), learner.propose(plan_of(30, 30, release="error_correct"))]
            replies += [learner.query(error_body()), learner.query(error_body())]
            assert isinstance(replies[1], StudyAccepted)
            assert isinstance(replies[2], Release)
            assert not any(word in repr(reply) for reply in replies for word in (CANARY, "tenth", "every record"))
            kinds.append([type(reply) for reply in replies])
    assert kinds[0] == kinds[1]
    assert caught == []
