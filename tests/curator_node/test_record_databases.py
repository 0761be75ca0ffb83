"""Records from a database: what a column becomes, what is refused and how it is told, that nothing can be written."""

import datetime as dt
import sqlite3
from contextlib import closing

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_site import DECLARED, RULES

from curator_fakes import ROWS, Clock, frame_of, toml
from curator_node.records.databases import read_database
from curator_node.records.files import read_records
from curator_node.site import RECORDS, create_site, open_site
from protocol.errors import ConfigurationError
from protocol.record_frames import column_texts

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


# --- what is read -----------------------------------------------------------------------------------------


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
    import tempfile
    from pathlib import Path

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
    kinds = {type(value) for value in values} - {type(None)}
    if kinds == {str}:
        assert large.to_list() == values
    if kinds == {int}:
        assert large.to_list() == values


# --- what is refused --------------------------------------------------------------------------------------

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


# --- a site -----------------------------------------------------------------------------------------------


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
    assert pl.DataFrame({"a": [1]}).height
