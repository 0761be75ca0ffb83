"""A curator opens from its folder in one call; what is absent or wrong is named, also by the steward's dry run."""

import hashlib
import itertools
import json
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import tomllib
from fractions import Fraction
from pathlib import Path

import msgspec
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from command_line import run
from curator_fakes import (
    ROWS,
    Clock,
    Learner,
    ZeroNoise,
    dataset,
    frame_of,
    hold,
    key,
    opened,
    plan_of,
    policy,
    steward_file,
    toml,
)
from curator_node.daemon.settings import DAEMON, DaemonSettings
from curator_node.key_files import write_key
from curator_node.ledger import memory_ledger
from curator_node.ledger.checks import check
from curator_node.ledger.places import create_ledger_file, read_store
from curator_node.policy import read_policy
from curator_node.records.files import read_records
from curator_node.site import (
    KEY,
    LEDGER,
    POLICY,
    SCHEMA,
    assemble_site,
    create_site,
    hold_records,
    open_site,
    policy_of,
    temporary_site,
    version_of_data,
)
from curator_node.steward.check import check_site
from curator_node.steward.enrolment import LEARNERS
from curator_node.steward.new_site import daemon_template, init_site, policy_template
from protocol.envelopes import SigningKey
from protocol.errors import ConfigurationError
from protocol.ledger.entries import DATA_VERSION, LedgerCorruptError
from protocol.messages import Card, Release
from protocol.schema import NumericAttribute
from simulations.carriers.superlink import make_certificates
from simulations.seeded_noise import SeededNoise

CANARY = "canary-7f3a"
RECORDS, MARK = "records.parquet", "curator.mark"
RULES, DECLARED = policy(), steward_file(round_size=None)


@pytest.fixture
def folder(tmp_path):
    """A new site's folder."""
    path = tmp_path / "ward"
    create_site(path, policy=toml(RULES), schema=toml(DECLARED), records=frame_of(ROWS), clock=Clock())
    return path


def refused(folder, **options):
    """The error of opening, which must leave nothing locked."""
    with pytest.raises(ConfigurationError) as caught:
        open_site(folder, clock=Clock(), **options)
    assert CANARY not in str(caught.value)
    return str(caught.value)


def test_a_site_answers_and_after_a_restart_says_the_same_bytes(folder, clock):
    with open_site(folder, clock=clock) as site:
        assert site.identity == SigningKey.from_pem((folder / KEY).read_bytes()).public
        learner = Learner(site, clock=clock)
        card = learner.card()
        assert isinstance(card, Card)
        assert (card.name, card.schema) == (RULES.name, DECLARED.schema)
        learner.propose(plan_of(30))
        assert isinstance(learner.query(), Release)
        sent, reply = learner.session.transcript.envelopes[-2:]
    with open_site(folder, clock=clock) as again:
        assert again.handle(sent) == reply
        assert again.export().account.spent == {key("ann").public: Fraction(1, 30)}


def test_another_policy_is_served_from_the_next_request_on_and_spending_stays(folder, clock):
    with open_site(folder, clock=clock) as site:
        learner = Learner(site, clock=clock)
        learner.card()
        learner.propose(plan_of(30))
        assert isinstance(learner.query(), Release)
        (folder / POLICY).write_text(toml(msgspec.structs.replace(RULES, learners=(), name="renamed")))
        site.adopt(policy_of(folder))
        assert Learner(site, clock=clock).card().code == "unknown_sender"
        (folder / POLICY).write_text(toml(msgspec.structs.replace(RULES, name="renamed")))
        site.adopt(policy_of(folder))
        assert Learner(site, clock=clock).card().name == "renamed"
        assert site.ledger.account.spent == {key("ann").public: Fraction(1, 30)}


def test_a_policy_that_changes_what_signatures_mean_is_not_adopted_while_serving(folder):
    with open_site(folder, clock=Clock()) as site:
        with pytest.raises(ConfigurationError, match="only when the curator starts"):
            site.adopt(msgspec.structs.replace(RULES, simulation=True))
        assert site.policy == policy_of(folder)


def test_a_folder_holds_what_its_documentation_lists(folder):
    assert {path.name for path in folder.iterdir()} == {POLICY, SCHEMA, KEY, LEDGER, MARK, RECORDS}
    assert (folder / KEY).stat().st_mode & 0o077 == 0


def test_a_folder_may_be_made_by_hand(tmp_path):
    (tmp_path / POLICY).write_text(toml(RULES))
    (tmp_path / SCHEMA).write_text(toml(DECLARED))
    frame_of(ROWS).write_csv(tmp_path / "records.csv")
    public = write_key(tmp_path / KEY)
    create_ledger_file(tmp_path / LEDGER, SigningKey.from_pem((tmp_path / KEY).read_bytes()), now=0)
    with open_site(tmp_path, clock=Clock()) as site:
        assert site.identity.hex() == public


def test_the_ledger_its_mark_and_the_records_may_lie_elsewhere(folder, tmp_path):
    moved = {name: shutil.move(folder / name, tmp_path / name) for name in (LEDGER, MARK, RECORDS)}
    assert "no records" in refused(folder)
    assert "no ledger" in refused(folder, records=moved[RECORDS])
    url = f"sqlite:///{moved[LEDGER]}"
    assert "say where the mark is kept" in refused(folder, records=moved[RECORDS], ledger=url)
    for where in (url, moved[LEDGER]):
        with open_site(folder, records=moved[RECORDS], ledger=where, mark=moved[MARK], clock=Clock()) as site:
            assert not site.export().account.halted
    assert not (folder / LEDGER).exists()


def test_a_ledger_may_be_made_in_another_database(folder, tmp_path):
    url, mark = f"sqlite:///{tmp_path / 'other'}", tmp_path / "mark"
    signing_key = SigningKey.from_pem((folder / KEY).read_bytes())
    with pytest.raises(ConfigurationError, match="say where the mark is kept"):
        create_ledger_file(url, signing_key, now=0)
    create_ledger_file(url, signing_key, now=0, mark=mark)
    mark.unlink()
    with pytest.raises(ConfigurationError, match="never made anew"):
        create_ledger_file(url, signing_key, now=0, mark=mark)
    with open_site(folder, ledger=url, mark=mark, clock=Clock()) as site:
        assert site.export().entries[0].kind == "open"


def test_the_steward_s_warnings_come_with_the_site_and_from_nowhere_else(folder, recwarn):
    frame_of([(*row[:3], "?" if number else CANARY, row[4]) for number, row in enumerate(ROWS * 2)]).with_columns(
        age=pl.lit(999.0)
    ).write_parquet(folder / RECORDS)
    with open_site(folder, clock=Clock()) as site:
        age, sex = site.warnings
    assert age.startswith("more than a tenth of the values of 'age' lie outside")
    assert sex.startswith("more than a tenth of the values of 'sex' are no declared level")
    assert CANARY not in age + sex
    assert not recwarn.list


def test_a_site_is_made_once(folder):
    contents = {path.name: path.read_bytes() for path in folder.iterdir()}
    for gone in ((), (KEY,), (KEY, LEDGER)):
        for name in gone:
            (folder / name).unlink(missing_ok=True)
        with pytest.raises(ConfigurationError, match="exists"):
            create_site(folder, policy=toml(RULES), schema=toml(DECLARED), records=frame_of(ROWS[:1]))
        (folder / KEY).write_bytes(contents[KEY])
        (folder / LEDGER).write_bytes(contents[LEDGER])
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == contents


@pytest.mark.parametrize("wrong", ["policy", "schema"])
def test_no_site_is_made_of_a_wrong_text(tmp_path, wrong):
    texts = {"policy": toml(RULES), "schema": toml(DECLARED)} | {wrong: "nmae = 1"}
    with pytest.raises(ConfigurationError, match=wrong):
        create_site(tmp_path / "new", **texts, records=frame_of(ROWS))
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("name", "what", "remedy"),
    [
        (POLICY, "no policy file", "docs/steward/policy.md"),
        (SCHEMA, "no schema file", "docs/steward/policy.md"),
        (KEY, "no key file", "expril keys"),
        (LEDGER, "no ledger", "expril ledger create"),
        (RECORDS, "no records", "records.csv or records.parquet"),
    ],
)
def test_an_absent_file_is_named_with_what_makes_it(folder, name, what, remedy):
    (folder / name).unlink()
    before = sorted(folder.iterdir())
    text = refused(folder)
    assert what in text
    assert remedy in text
    assert str(folder if name == RECORDS else folder / name) in text
    assert sorted(folder.iterdir()) == before, "opening makes nothing"


def test_the_command_that_a_lost_ledger_s_error_names_is_whole(folder):
    (folder / LEDGER).unlink()
    command = f"expril ledger create {folder / LEDGER} --key {folder / KEY}"
    assert refused(folder).endswith(command)
    assert refused(folder, mark=folder / "x").endswith(f"{command} --mark {folder / 'x'}")


def test_an_absent_folder_is_named(tmp_path):
    assert f"no folder {tmp_path / 'x'}" in refused(tmp_path / "x")


def test_an_absent_mark_halts_the_curator(folder):
    (folder / MARK).unlink()
    with open_site(folder, clock=Clock()) as site:
        halted, data = site.export().entries[-2:]
        assert "mark" in halted.note
        assert (data.kind, data.note) == ("data", site.data_version)
        assert Learner(site).propose().code == "halted"


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        (POLICY, b"nmae = 1", "did you mean 'name'"),
        (POLICY, b"# \xe4", "holds text that is not UTF-8 in line 1; save it as UTF-8 text"),
        (SCHEMA, b"labl = 1", "did you mean 'label'"),
        (SCHEMA, b"[", "not valid TOML"),
        (KEY, b"no key", "make one: expril keys"),
        (LEDGER, b"hello", "bring back a backup"),
        (LEDGER, b"", "bring back a backup"),
        (RECORDS, b"PAR1", "cannot be read as parquet"),
        (RECORDS, b"", "is empty"),
    ],
)
def test_a_wrong_file_is_named(folder, name, content, told):
    (folder / name).write_bytes(content)
    text = refused(folder)
    assert str(folder / name) in text
    assert told in text


def test_records_that_do_not_fit_the_schema_are_named(folder):
    frame = frame_of(ROWS)
    for broken, told in (
        (frame.drop("age"), "'age'"),
        (frame.head(0), "no rows"),
        (frame.with_columns(sick=pl.lit(CANARY)), "row 1"),
    ):
        broken.write_parquet(folder / RECORDS)
        text = refused(folder)
        assert str(folder / RECORDS) in text
        assert told in text


def test_two_files_of_records_are_a_question(folder):
    frame_of(ROWS).write_csv(folder / "records.csv")
    assert "records.csv and records.parquet; keep one" in refused(folder)
    with open_site(folder, records=folder / RECORDS, clock=Clock()):
        pass


def test_another_key_never_carries_a_ledger_on(folder):
    (folder / KEY).unlink()
    write_key(folder / KEY)
    assert f"{folder / LEDGER}: this ledger belongs to another curator's key" in refused(folder)


def test_another_unit_needs_another_ledger(folder):
    open_site(folder, clock=Clock()).close()
    (folder / SCHEMA).write_text(toml(steward_file(unit=True)))
    assert f"{folder / LEDGER}: this ledger was kept for other terms" in refused(folder)


def test_a_ledger_that_was_edited_is_named(folder):
    open_site(folder, clock=Clock()).close()
    data = (folder / LEDGER).read_bytes()
    (folder / LEDGER).write_bytes(data.replace(b"privacy unit: each", b"privacy unit: EACH"))
    with pytest.raises(LedgerCorruptError, match=str(folder / LEDGER)):
        open_site(folder, clock=Clock())


def test_a_site_that_is_open_is_not_opened_again(folder):
    with open_site(folder, clock=Clock()):
        assert f"{folder / MARK} is held by another process" in refused(folder)
    for wrong in (KEY, SCHEMA):  # an opening that failed holds nothing
        content = (folder / wrong).read_bytes()
        (folder / wrong).write_text(key("zurich").to_pem().decode() if wrong == KEY else toml(steward_file(unit=True)))
        assert str(folder / LEDGER) in refused(folder)
        (folder / wrong).write_bytes(content)
    open_site(folder, clock=Clock()).close()


def test_the_password_of_a_ledger_s_url_is_never_told(folder):
    url = f"postgresql+psycopg://steward:{CANARY}@localhost:1/none"
    assert "cannot be opened" in refused(folder, ledger=url, mark=folder / MARK)


def test_a_steward_s_stop_is_kept(folder, clock):
    with open_site(folder, clock=clock) as site:
        learner = opened(site, clock=clock)
        site.halt("we stop here")
        assert learner.query().code == "halted"
    with open_site(folder, clock=clock) as learner.curator:
        assert learner.ask().code == "halted"
        export = learner.curator.export()
    assert export.account.halted
    assert [entry.note for entry in export.entries if entry.kind == "halt"] == ["we stop here"]


def test_an_export_is_checked_anew(folder):
    with open_site(folder, clock=Clock()) as site:
        opened(site)
        assert not site.export().findings
        with site.ledger.store._engine.begin() as connection:
            connection.exec_driver_sql("DELETE FROM replies")
        (finding,) = site.export().findings
    assert "missing" in finding.text


def test_parts_in_memory_give_the_site_that_the_folder_gives(folder):
    signing_key = SigningKey.from_pem((folder / KEY).read_bytes())
    frame = read_records(folder / RECORDS)
    clock, replies = Clock(), []
    with open_site(folder, clock=clock, noise=ZeroNoise()) as site:
        dataset = hold_records(frame, DECLARED, RULES, signing_key)
        ledger = memory_ledger(signing_key)
        for other_site in (
            site,
            assemble_site(dataset, RULES, key=signing_key, ledger=ledger, clock=clock, noise=ZeroNoise()),
            temporary_site(frame, DECLARED, RULES, key=signing_key, clock=clock, noise=ZeroNoise()),
        ):
            assert other_site.identity == signing_key.public
            replies.append(opened(other_site, clock=clock).query().body)
    assert replies[0] == replies[1] == replies[2]


def test_a_temporary_site_has_a_key_of_its_own():
    sites = [temporary_site(frame_of(ROWS), DECLARED, RULES, clock=Clock()) for _ in range(2)]
    assert len({site.identity for site in sites}) == 2


def test_noise_from_a_seed_needs_a_policy_that_says_simulation(folder):
    assert "simulation = true" in refused(folder, noise=SeededNoise(1, "basel"))
    open_site(folder, clock=Clock()).close()


# Snapshots of records have random names on the ledger; what recognises them stays in a local file


DIGEST_KEY = b"k" * 32
DATA = "curator.data"


def fingerprint(rows=ROWS, **options):
    return dataset(rows, **options).fingerprint(DIGEST_KEY)


def entered(folder):
    """The names on the ledger, in order."""
    with open_site(folder, clock=Clock()) as site:
        return [name for _, name in site.export().account.data]


def test_a_fingerprint_depends_on_what_answers_depend_on_and_on_nothing_else():
    of_all = fingerprint()
    assert {fingerprint(rows) for rows in itertools.islice(itertools.permutations(ROWS), 0, 120, 7)} == {of_all}
    assert hold(frame_of(ROWS).with_columns(other=pl.lit(1)), steward_file()).fingerprint(DIGEST_KEY) == of_all
    assert dataset().fingerprint(b"x" * 32) != of_all
    described = msgspec.structs.replace(
        steward_file(),
        attributes=tuple(
            msgspec.structs.replace(attribute, description="told") for attribute in steward_file().attributes
        ),
    )
    assert hold(frame_of(ROWS), described).fingerprint(DIGEST_KEY) == of_all
    changed = [
        ROWS[:-1],
        (*ROWS, ROWS[0]),
        (("p1", 20.5, *ROWS[0][2:]), *ROWS[1:]),
        ((*ROWS[0][:3], "m", "no"), *ROWS[1:]),
        ((*ROWS[0][:4], "yes"), *ROWS[1:]),
        (("p1", None, *ROWS[0][2:]), *ROWS[1:]),
    ]
    assert len({of_all, *(fingerprint(tuple(rows)) for rows in changed)}) == 1 + len(changed)
    narrower = msgspec.structs.replace(steward_file(), classes=("yes", "no"))
    assert hold(frame_of(ROWS), narrower).fingerprint(DIGEST_KEY) != of_all


def test_units_do_not_count_and_a_sentinel_counts_by_what_it_changes():
    """A steward who adds units or a sentinel that no record holds gives the same answers as before."""

    def declared(**keys):
        attributes = tuple(
            msgspec.structs.replace(attribute, **keys) if attribute.name == "dose" else attribute
            for attribute in steward_file().attributes
        )
        return msgspec.structs.replace(steward_file(), attributes=attributes)

    frame = frame_of(ROWS).with_columns(dose=pl.Series([1.0, 0.0, 2.0, 2.0, None]))
    blank = frame.with_columns(dose=pl.Series([1.0, 0.0, None, None, None]))
    plain = hold(frame, steward_file()).fingerprint(DIGEST_KEY)
    assert hold(frame, declared(units="mg")).fingerprint(DIGEST_KEY) == plain
    assert hold(frame, declared(missing=(999,))).fingerprint(DIGEST_KEY) == plain
    assert hold(frame, declared(missing=(2,))).fingerprint(DIGEST_KEY) != plain
    of_blank = hold(blank, steward_file()).fingerprint(DIGEST_KEY)
    assert hold(frame, declared(missing=(2, 999), units="mg")).fingerprint(DIGEST_KEY) == of_blank
    dated = [
        hold(blank.with_columns(dose=pl.lit(None)), declared(days_since=day)) for day in ("2015-01-01", "2016-01-01")
    ]
    assert len({dataset.fingerprint(DIGEST_KEY) for dataset in dated}) == 2


def test_missing_and_zero_have_one_form_each():
    frames = [
        frame_of(ROWS).with_columns(dose=pl.Series([value, 0.0, np.nan, None, 2.0], strict=False))
        for value in (0.0, -0.0)
    ]
    frames.append(frames[0].with_columns(pl.col("dose").fill_nan(None)))
    frames.append(frames[0].with_columns(dose=pl.Series(["0", "-0", "?", "", "2.0"])))
    assert len({hold(frame, steward_file()).fingerprint(DIGEST_KEY) for frame in frames}) == 1


def test_records_beyond_a_unit_s_bound_do_not_count():
    of_the_rest = fingerprint(ROWS[1:], unit=True)
    of_either = {fingerprint(ROWS, unit=True), fingerprint(ROWS[:1] + ROWS[2:], unit=True), of_the_rest}
    assert len(of_either) == 2, "of the two records of p1 the same one is kept, whatever else is there"


@given(st.lists(st.binary(min_size=32, max_size=32), min_size=1, max_size=8))
def test_a_name_is_drawn_once_for_each_digest(digests):
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "curator.data"
        first = {record_digest: version_of_data(path, record_digest) for record_digest in digests}
        assert {record_digest: version_of_data(path, record_digest) for record_digest in reversed(digests)} == first
        assert len(set(first.values())) == len(set(digests))
        assert all(DATA_VERSION.fullmatch(name) for name in first.values())
        assert path.stat().st_mode & 0o077 == 0


def test_a_line_that_a_crash_cut_short_is_no_line(tmp_path):
    path = tmp_path / "curator.data"
    first = version_of_data(path, b"a" * 32)
    content = path.read_bytes()
    for cut in (1, 40, 97):
        path.write_bytes(content + b"b" * cut)
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
    path, names = tmp_path / "curator.data", []
    threads = [threading.Thread(target=lambda: names.append(version_of_data(path, b"a" * 32))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(names) == 8
    assert len(set(names)) == 1


def test_the_same_records_keep_their_name_and_others_get_another(folder):
    first = entered(folder)
    assert entered(folder) == first
    frame_of(ROWS[::-1]).write_parquet(folder / RECORDS)
    assert entered(folder) == first
    frame_of(ROWS[1:]).write_parquet(folder / RECORDS)
    both_names = entered(folder)
    assert len(set(both_names)) == 2
    frame_of(ROWS).write_parquet(folder / RECORDS)
    assert entered(folder) == [*both_names, first[0]], "the first records are served again, under their name"
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
    names = entered(folder)
    ledger = json.loads(run("ledger", "show", folder / "curator.ledger", "--json").stdout)
    assert [snapshot["version"] for snapshot in ledger["data"]] == names
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
    with read_store(other / "curator.ledger") as store:
        assert check(store).findings == ()
        assert check(store).account.data == []


# --- The steward's dry run: it says what would stop a curator, and changes nothing.


@pytest.fixture
def served_folder(tmp_path):
    """A site that would serve."""
    path = tmp_path / "ward"
    (tmp_path / "link").mkdir()
    init_site(path, "basel", superlink="127.0.0.1:9", ca=make_certificates(tmp_path / "link"))
    (path / POLICY).write_text(toml(policy(learner_cap="1/2")))
    (path / SCHEMA).write_text(toml(steward_file(unit=True, round_size=5)))
    frame_of(ROWS).write_parquet(path / "records.parquet")
    return path


def contents(served_folder):
    return {path.name: hashlib.sha256(path.read_bytes()).digest() for path in served_folder.iterdir()}


def findings_at(served_folder, level, **options):
    return {
        (finding.about, finding.text)
        for finding in check_site(served_folder, **options).findings
        if finding.level == level
    }


def test_a_site_that_would_serve_is_checked_without_a_trace(served_folder):
    before = contents(served_folder)
    report = check_site(served_folder, lambda settings: "")
    assert contents(served_folder) == before
    assert not report.stopped
    texts = " ".join(item.text for item in report.findings)
    assert "5 records of 4 units of 'patient'; at most 1 of a unit count, so 4 are kept and 1 (20.0%) are not" in texts
    assert "2 may ask; their caps add up to 1" in texts
    assert report.standing.learners["ann"].left == "1/2"
    assert {item.release for item in report.questions} == {"error_correct"}
    assert not any(item.refused for item in report.questions)


def test_a_learner_whose_keys_were_taken_back_is_not_counted_among_those_who_may_ask(served_folder):
    entry = f'[[keys]]\nkey = "{key("eve").public.hex()}"\n'
    (served_folder / LEARNERS).mkdir()
    file = served_folder / LEARNERS / "eve.toml"
    file.write_text(f'name = "eve"\ncap = "1/4"\n{entry}')
    assert any(text.startswith("3 may ask; their caps add up to 5/4") for _, text in findings_at(served_folder, "look"))
    file.write_text(f'name = "eve"\ncap = "1/4"\n{entry}revoked = 2026-11-01T00:00:00Z\n')
    assert any(text.startswith("2 may ask; their caps add up to 1,") for _, text in findings_at(served_folder, "fine"))


def test_a_new_site_in_which_nobody_may_ask_is_in_order_and_one_in_which_nobody_may_any_more_is_looked_at(
    served_folder,
):
    (served_folder / POLICY).write_text(toml(policy(())))
    report = check_site(served_folder, lambda settings: "")
    assert not report.stopped
    assert not any("may ask" in text for _, text in findings_at(served_folder, "look"))
    (served_folder / LEARNERS).mkdir()
    entry = f'[[keys]]\nkey = "{key("eve").public.hex()}"\nrevoked = 2026-11-01T00:00:00Z\n'
    (served_folder / LEARNERS / "eve.toml").write_text(f'name = "eve"\ncap = "1/4"\n{entry}')
    assert any("nobody may ask any more" in text for _, text in findings_at(served_folder, "look"))


def test_the_check_says_which_units_dates_and_missing_values_are_on_the_card(served_folder):
    steward = steward_file()
    assert any("no number has units" in text for _, text in findings_at(served_folder, "fine"))
    age, dose = (
        msgspec.structs.replace(attribute, **keys)
        for attribute, keys in zip(
            steward.attributes[:2], ({"units": "years", "missing": (999, "unknown")}, {"units": "mg"}), strict=True
        )
    )
    born = NumericAttribute("born", -36_525, 0, days_since="2015-01-01", missing=("1900-01-01",))
    declared = msgspec.structs.replace(steward, attributes=(age, dose, born, *steward.attributes[2:]))
    (served_folder / SCHEMA).write_text(toml(declared))
    texts = {text for about, text in findings_at(served_folder, "fine") if about == "schema"}
    assert texts == {
        "attributes: 2 of numbers, 1 of dates, 1 of levels; the label is 'sick'",
        "units: years (age); mg (dose); days since 2015-01-01 (born)",
        "missing are also: age (999, 'unknown'); born ('1900-01-01')",
    }


def test_an_exact_number_of_records_is_not_published_unseen(served_folder):
    steward = steward_file(round_size=5)
    (served_folder / SCHEMA).write_text(toml(steward))
    assert any("round_size is the exact number" in text for _, text in findings_at(served_folder, "look"))
    (served_folder / SCHEMA).write_text(toml(msgspec.structs.replace(steward, round_size=6)))
    assert not any("round_size is the exact number" in text for _, text in findings_at(served_folder, "look"))


@pytest.mark.parametrize(
    ("name", "content", "about", "text"),
    [
        (POLICY, "cap = ", "policy", "not valid TOML"),
        (SCHEMA, "label = 'sick'", "schema", "attributes"),
        (KEY, "x", "keys", "PEM"),
        ("node.pem", "x", "keys", "OpenSSH"),
        (DAEMON, 'superlink = "x"', "superlink", "host:port"),
        (LEDGER, "x", "ledger", "not a SQLite ledger"),
        ("curator.mark", "x", "ledger", "missing or damaged"),
        ("records.parquet", "x", "records", "cannot be read"),
    ],
)
def test_each_file_that_is_wrong_stops_it_and_is_named(served_folder, name, content, about, text):
    (served_folder / name).write_text(content)
    stops = findings_at(served_folder, "stop")
    assert any(where == about and text in told for where, told in stops), stops


def test_a_site_that_answers_by_post_needs_no_settings_of_a_daemon(served_folder):
    for name in (DAEMON, "node.pem", "ca.crt"):
        (served_folder / name).unlink()
    assert findings_at(served_folder, "stop") == set()
    assert any("no daemon can serve it" in text for _, text in findings_at(served_folder, "look"))


def test_a_ledger_that_was_rolled_back_is_found(served_folder):
    old = (served_folder / LEDGER).read_bytes()
    open_site(served_folder).close()
    (served_folder / LEDGER).write_bytes(old)
    for leftover in served_folder.glob(f"{LEDGER}-*"):
        leftover.unlink()
    assert any("rolled back" in text for _, text in findings_at(served_folder, "stop"))


def test_a_halted_ledger_and_another_unit_are_found(served_folder):
    with open_site(served_folder) as site:
        site.halt("by hand")
    (served_folder / SCHEMA).write_text(toml(steward_file(round_size=5)))
    stops = " ".join(text for _, text in findings_at(served_folder, "stop"))
    assert "is halted" in stops
    assert "was kept for other terms" in stops


def test_what_to_look_at_is_said(served_folder):
    (served_folder / KEY).chmod(0o644)
    limits = {"multiply_adds": 1, "message_bytes": 100}
    lavish = msgspec.convert({**msgspec.to_builtins(policy(cap=200)), "limits": limits}, type(policy()))
    (served_folder / POLICY).write_text(toml(lavish))
    looks = " ".join(text for _, text in findings_at(served_folder, "look", probe=lambda settings: "nobody answers"))
    for part in ("others on this machine may read", "protects nothing", "first come, first served", "nobody answers"):
        assert part in looks
    assert "every question of the default strategy would be refused" in looks


@pytest.mark.parametrize(
    ("written", "level", "text"),
    [
        ("", "look", "no waiting_command"),
        ('waiting_command = ["/absent/tell"]', "look", "no program /absent/tell"),
        ('waiting_command = ["/"]', "look", "no program /"),
        ('waiting_command = ["/bin/sh", "tell"]', "fine", "/bin/sh is run when a study begins to wait"),
    ],
)
def test_who_is_told_of_a_study_that_waits(served_folder, written, level, text):
    assert not any(about == "approval" for about, _ in findings_at(served_folder, "look"))
    (served_folder / POLICY).write_text(toml(policy(approval="manual")))
    (served_folder / DAEMON).write_text(f"{(served_folder / DAEMON).read_text()}\n{written}\n")
    assert any(about == "approval" and text in words for about, words in findings_at(served_folder, level))


def test_what_the_templates_offer_loads_and_changes_nothing_but_the_cap_of_nobody(tmp_path):
    """A line of a template that is taken in as it stands is no mistake."""
    text = policy_template("basel")
    uncommented = re.sub(r"^# (?=[a-z_]+ = )(?!members|least_colluders|name|key|cap)", "", text, flags=re.MULTILINE)
    assert read_policy(uncommented) == msgspec.structs.replace(read_policy(text), approval="manual")
    stated, defaults = re.split(r"^# What is not written here has these values", text, flags=re.MULTILINE)
    assert "approval = " in stated, "it is no default"
    assert "approval = " not in defaults
    settings = tomllib.loads(re.sub(r"^# (?=waiting_command)", "", daemon_template("link:1", 9), flags=re.MULTILINE))
    assert msgspec.convert(settings, DaemonSettings).waiting_command[0].startswith("/")


def test_a_new_site_s_template_stops_it_until_it_is_written(tmp_path):
    init_site(tmp_path / "new", "basel")
    report = check_site(tmp_path / "new")
    assert report.stopped
    assert {finding.about for finding in report.findings if finding.level == "stop"} == {"schema", "records"}
    assert ("fine", "nobody may ask yet") in [
        (finding.level, finding.text.partition(":")[0]) for finding in report.findings
    ]


def test_init_overwrites_nothing_and_makes_all_or_nothing(served_folder, tmp_path):
    before = contents(served_folder)
    with pytest.raises(ConfigurationError, match="there already"):
        init_site(served_folder, "basel")
    assert contents(served_folder) == before
    assert served_folder.stat().st_mode & 0o777 == 0o700
    for wrong in ({"superlink": "no port"}, {"schema": tmp_path / "none"}, {"ca": tmp_path / "none"}):
        with pytest.raises(ConfigurationError):
            init_site(tmp_path / "other", "basel", **wrong)
        assert not (tmp_path / "other").exists() or not list((tmp_path / "other").iterdir())


@pytest.mark.slow
def test_the_command_says_it_and_exits_with_1_where_something_would_stop_it(served_folder):
    command = [sys.executable, "-m", "expril", "curator", "check", str(served_folder), "--json"]
    process = subprocess.run(command, capture_output=True, check=False, text=True)
    report = json.loads(process.stdout)
    assert process.returncode == 0, process.stdout
    assert not report["stopped"]
    assert any("nobody answers" in finding["text"] for finding in report["findings"])
    (served_folder / "curator.mark").unlink()
    assert subprocess.run(command, capture_output=True, check=False).returncode == 1
