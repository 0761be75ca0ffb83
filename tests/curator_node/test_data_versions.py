"""Snapshots of records have random names on the ledger; what recognises them stays in a local file."""

import itertools
import json
import shutil
import threading
from fractions import Fraction

import msgspec
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_site import DECLARED, RULES, toml

from curator_fakes import ROWS, Clock, Learner, dataset, frame_of, hold, key, plan_of, steward_file
from curator_node.ledger.checks import check
from curator_node.site import create_site, open_site, version_of_data
from protocol.errors import ConfigurationError
from protocol.ledger.entries import DATA_VERSION
from protocol.messages import Release

KEY = b"k" * 32
RECORDS, DATA = "records.parquet", "curator.data"


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "ward"
    create_site(made, policy=toml(RULES), schema=toml(DECLARED), records=frame_of(ROWS), clock=Clock())
    return made


def fingerprint(rows=ROWS, **options):
    return dataset(rows, **options).fingerprint(KEY)


def entered(folder):
    """The names on the ledger, in order."""
    with open_site(folder, clock=Clock()) as site:
        return [name for _, name in site.export().account.data]


# --- the keyed digest -------------------------------------------------------------------------------------


def test_a_fingerprint_depends_on_what_answers_depend_on_and_on_nothing_else():
    whole = fingerprint()
    assert {fingerprint(rows) for rows in itertools.islice(itertools.permutations(ROWS), 0, 120, 7)} == {whole}
    assert hold(frame_of(ROWS).with_columns(other=pl.lit(1)), steward_file()).fingerprint(KEY) == whole
    assert dataset().fingerprint(b"x" * 32) != whole
    described = msgspec.structs.replace(
        steward_file(),
        attributes=tuple(msgspec.structs.replace(each, description="told") for each in steward_file().attributes),
    )
    assert hold(frame_of(ROWS), described).fingerprint(KEY) == whole
    changed = [
        ROWS[:-1],
        (*ROWS, ROWS[0]),
        (("p1", 20.5, *ROWS[0][2:]), *ROWS[1:]),
        ((*ROWS[0][:3], "m", "no"), *ROWS[1:]),
        ((*ROWS[0][:4], "yes"), *ROWS[1:]),
        (("p1", None, *ROWS[0][2:]), *ROWS[1:]),
    ]
    assert len({whole, *(fingerprint(tuple(rows)) for rows in changed)}) == 1 + len(changed)
    narrower = msgspec.structs.replace(steward_file(), classes=("yes", "no"))
    assert hold(frame_of(ROWS), narrower).fingerprint(KEY) != whole


def test_missing_and_zero_have_one_form_each():
    frames = [
        frame_of(ROWS).with_columns(dose=pl.Series([value, 0.0, np.nan, None, 2.0], strict=False))
        for value in (0.0, -0.0)
    ]
    frames.append(frames[0].with_columns(pl.col("dose").fill_nan(None)))
    frames.append(frames[0].with_columns(dose=pl.Series(["0", "-0", "?", "", "2.0"])))
    assert len({hold(frame, steward_file()).fingerprint(KEY) for frame in frames}) == 1


def test_records_beyond_a_unit_s_bound_do_not_count():
    alone = fingerprint(ROWS[1:], unit=True)
    both = {fingerprint(ROWS, unit=True), fingerprint(ROWS[:1] + ROWS[2:], unit=True), alone}
    assert len(both) == 2, "of the two records of p1 the same one is kept, whatever else is there"


# --- the file ---------------------------------------------------------------------------------------------


@given(st.lists(st.binary(min_size=32, max_size=32), min_size=1, max_size=8))
def test_a_name_is_drawn_once_for_each_digest(digests):
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "curator.data"
        first = {each: version_of_data(path, each) for each in digests}
        assert {each: version_of_data(path, each) for each in reversed(digests)} == first
        assert len(set(first.values())) == len(set(digests))
        assert all(DATA_VERSION.fullmatch(name) for name in first.values())
        assert path.stat().st_mode & 0o077 == 0


def test_a_line_that_a_crash_cut_short_is_no_line(tmp_path):
    path = tmp_path / "curator.data"
    first = version_of_data(path, b"a" * 32)
    whole = path.read_bytes()
    for cut in (1, 40, 97):
        path.write_bytes(whole + b"b" * cut)
        assert version_of_data(path, b"a" * 32) == first
        second = version_of_data(path, b"b" * 32)
        assert path.read_bytes().count(b"\n") == 2
        assert version_of_data(path, b"b" * 32) == second


def test_a_file_that_is_something_else_or_cannot_be_written_is_told(tmp_path):
    path = tmp_path / "curator.data"
    path.write_text("hello\n")
    with pytest.raises(ConfigurationError, match="no file of names of records"):
        version_of_data(path, b"a" * 32)
    assert path.read_text() == "hello\n"
    with pytest.raises(ConfigurationError, match="let the curator write there"):
        version_of_data(tmp_path / "no" / "folder", b"a" * 32)


def test_processes_that_share_the_file_agree(tmp_path):
    path, found = tmp_path / "curator.data", []
    threads = [threading.Thread(target=lambda: found.append(version_of_data(path, b"a" * 32))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1


# --- the ledger -------------------------------------------------------------------------------------------


def test_the_same_records_keep_their_name_and_others_get_another(folder):
    first = entered(folder)
    assert entered(folder) == first
    frame_of(ROWS[::-1]).write_parquet(folder / RECORDS)
    assert entered(folder) == first
    frame_of(ROWS[1:]).write_parquet(folder / RECORDS)
    both = entered(folder)
    assert len(set(both)) == 2
    frame_of(ROWS).write_parquet(folder / RECORDS)
    assert entered(folder) == [*both, first[0]], "the first records are served again, under their name"
    (folder / DATA).unlink()
    assert len(set(entered(folder))) == 3, "without the file the same records get a new name"


def test_a_new_version_never_refills_a_budget(folder, clock):
    with open_site(folder, clock=clock) as site:
        learner = Learner(site, clock=clock)
        learner.propose(plan_of(1))
        assert isinstance(learner.query(), Release)
    frame_of((*ROWS, ROWS[0])).write_parquet(folder / RECORDS)
    with open_site(folder, clock=clock) as site:
        assert len(site.ledger.account.data) == 2
        refusal = Learner(site, clock=clock, study=b"another").propose(plan_of(1))
        assert (refusal.code, refusal.remaining) == ("over_budget", "0")
        assert site.ledger.account.spent == {key("ann").public: Fraction(1)}


def test_the_digest_is_nowhere_but_in_the_local_file(folder, caplog):
    caplog.set_level(0)
    name = entered(folder)[0]
    digests = [line.split()[0] for line in (folder / DATA).read_text().splitlines()]
    assert len(digests) == 1
    for path in folder.iterdir():
        if path.name != DATA:
            content = path.read_bytes()
            assert bytes.fromhex(digests[0]) not in content
            assert digests[0].encode() not in content
    assert digests[0] not in caplog.text
    assert name not in digests[0]


def test_a_steward_sees_the_names(folder):
    from command_line import run

    names = entered(folder)
    told = json.loads(run("ledger", "show", folder / "curator.ledger", "--json").stdout)
    assert [each["version"] for each in told["data"]] == names
    assert names[0] in run("ledger", "show", folder / "curator.ledger").output


def test_a_copied_folder_knows_the_names_and_a_ledger_without_any_is_in_order(folder, tmp_path):
    names = entered(folder)
    shutil.copyfile(folder / DATA, tmp_path / DATA)
    (folder / DATA).unlink()
    with open_site(folder, data=tmp_path / DATA, clock=Clock()) as site:
        assert [site.data_version] == names
    assert not (folder / DATA).exists()
    other = tmp_path / "other"
    create_site(other, policy=toml(RULES), schema=toml(DECLARED), records=frame_of(ROWS), clock=Clock())
    from curator_node.ledger.places import read_store

    with read_store(other / "curator.ledger") as store:
        assert check(store).findings == ()
        assert check(store).account.data == []
