"""Edited, cut and rolled-back ledgers: what is found, by whom, and what the steward's act restores."""

import dataclasses
import errno
import hmac
import sqlite3
from contextlib import closing
from fractions import Fraction

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from test_ledger import (
    CURATOR,
    LEARNERS,
    THIRTIETH,
    WIDE,
    key_of,
    kinds,
    new_ledger,
    opened_on,
    request_of,
    reservation_of,
    signed,
    spend,
    study,
)

from curator_fakes import key
from curator_node.ledger import Account, Ledger, create_ledger
from curator_node.ledger.branches import POSITION_BYTES, BranchTrace, pack, position_at, stubs_of, unpack
from curator_node.ledger.chain import marked_at_end
from curator_node.ledger.checks import check, load
from curator_node.ledger.marks import FIRST_SLOT, SLOT, Marked, MemoryMark
from curator_node.ledger.places import create_ledger_file, mark_path, open_ledger_file, open_mark, read_ledger_file
from curator_node.ledger.sealing import Sealer
from curator_node.ledger.store import DatabaseStore, MemoryStore, backup, read_only_url, sqlite_url
from protocol.envelopes import digest
from protocol.errors import ConfigurationError, ExprilError, RemoteProtocolError
from protocol.ledger.entries import Entry, EntryKind, LedgerCorruptError, Suspect, decode_entry, encode_entry
from protocol.messages import SEALED_BYTES

TERMS = "each record"


@pytest.fixture
def file(tmp_path):
    return tmp_path / "a.ledger"


def edit(file, *statements):
    with closing(sqlite3.connect(file)) as connection, connection:
        for statement, values in statements:
            connection.execute(statement, values)


def bodies(file):
    with closing(sqlite3.connect(file)) as connection:
        return [row[0] for row in connection.execute("SELECT body FROM entries ORDER BY entry_index")]


def written(file, studies=3):
    """A ledger on disk with a few studies."""
    create_ledger_file(file, CURATOR, now=0)
    ledger = open_ledger_file(file, CURATOR)
    ledger.begin(TERMS, 1)
    for number in range(1, studies + 1):
        spend(ledger, number)
    ledger.settle()
    ledger.close()


@pytest.fixture
def served(file):
    """A ledger on disk with one study."""
    written(file, studies=1)
    return file


def reopened(file):
    """The next process: it holds the ledger against its mark."""
    ledger = open_ledger_file(file, CURATOR)
    ledger.begin(TERMS, 2)
    return ledger


def is_halted(file):
    """Whether the next process finds the ledger halted."""
    with closing(reopened(file)) as ledger:
        return ledger.account.halted


def one_study():
    """A store with one study in it, and its ledger."""
    store = MemoryStore()
    ledger = new_ledger(store)
    spend(ledger, 1)
    return store, ledger


def load_file(file):
    with read_ledger_file(file) as store:
        return load(store)


def checked(file, curator=None):
    with read_ledger_file(file) as store:
        return check(store, curator)


def _edited(body):
    """The same entry with a smaller amount."""
    entry = decode_entry(body)
    return msgspec.msgpack.encode(msgspec.structs.replace(entry, amount="1/31"))


SET = "UPDATE entries SET body = ? WHERE entry_index = ?"
TAMPERING = {
    "edit": (lambda b: [(SET, (_edited(b[4]), 4))], 4),
    "edit the newest": (lambda b: [(SET, (b[-1][:-1] + bytes([b[-1][-1] ^ 1]), len(b) - 1))], 13),
    "garbage": (lambda b: [(SET, (b"\x00garbage", 2))], 2),
    "nothing": (lambda b: [(SET, (b"", 2))], 2),
    "text for bytes": (lambda b: [(SET, ("text", 2))], None),
    "delete the first": (lambda b: [("DELETE FROM entries WHERE entry_index = ?", (0,))], 0),
    "delete one within": (lambda b: [("DELETE FROM entries WHERE entry_index = ?", (3,))], 3),
    "delete and close the gap": (
        lambda b: [
            ("DELETE FROM entries WHERE entry_index = ?", (3,)),
            *[("UPDATE entries SET entry_index = ? WHERE entry_index = ?", (i - 1, i)) for i in range(4, len(b))],
        ],
        3,
    ),
    "insert a copy": (lambda b: [("INSERT INTO entries VALUES (?, ?, x'00')", (len(b), b[1]))], 14),
    "swap": (lambda b: [(SET, (b[3], 2)), (SET, (b[2], 3))], 2),
    "replace by another of this ledger": (lambda b: [(SET, (b[1], 3))], 3),
}


@pytest.mark.parametrize("how", TAMPERING)
def test_tampered_chain_does_not_open_and_the_place_is_named(how, file):
    written(file)
    change, place = TAMPERING[how]
    edit(file, *change(bodies(file)))
    with pytest.raises(LedgerCorruptError) as caught:
        open_ledger_file(file, CURATOR)
    if place is not None:
        assert f"entry {place} " in str(caught.value)
        assert place in [finding.index for finding in checked(file).findings]


@pytest.mark.parametrize("column", ["body", "signature"])
@pytest.mark.parametrize("step", [61, pytest.param(1, marks=pytest.mark.slow)])
def test_every_flipped_bit_of_every_entry_is_found_and_named(served, column, step):
    with closing(sqlite3.connect(served)) as connection:
        rows = connection.execute(f"SELECT entry_index, {column} FROM entries").fetchall()
    store = MemoryStore()
    disk = DatabaseStore(read_only_url(served))
    whole = disk.rows(0)
    for request in disk.replied():
        store._replies[request] = disk.reply(request)
    disk.close()
    for index, value in rows:
        for bit in range(index % step, 8 * len(value), step):
            flipped = bytearray(value)
            flipped[bit // 8] ^= 1 << bit % 8
            changed = dataclasses.replace(whole[index], **{column: bytes(flipped)})
            store._rows = [*whole[:index], changed, *whole[index + 1 :]]
            assert index in [finding.index for finding in check(store).findings], (index, bit)


def test_replies_are_held_against_the_chain(served):
    assert checked(served).findings == ()
    edit(served, ("UPDATE replies SET reply = ? WHERE request = ?", (b"forged", request_of(101))))
    assert [f.text for f in checked(served).findings] == ["the reply of ledger entry 5 was changed"]
    edit(served, ("DELETE FROM replies WHERE request = ?", (request_of(101),)))
    assert [f.text for f in checked(served).findings] == ["the reply of ledger entry 5 is missing"]
    edit(served, ("INSERT INTO replies VALUES (?, ?)", (request_of(7), b"stray")))
    assert [f.index for f in checked(served).findings] == [5, -1]


def test_a_ledger_under_another_key_is_named(served):
    with pytest.raises(ConfigurationError, match="another curator"):
        open_ledger_file(served, key("zurich"), mark=served.with_name("other"))
    assert checked(served, CURATOR.public).findings == ()
    assert "another key" in checked(served, key("zurich").public).findings[0].text


def test_a_chain_that_somebody_else_went_on_with_does_not_open():
    """Whoever holds the database, and not the key, can hash but not sign."""
    store = MemoryStore()
    ledger = new_ledger(store)
    entry = _entry(ledger.account, EntryKind.RESUME, "0", learner=bytes(32), study=bytes(16), sequence=0)
    store.append(signed(1, encode_entry(entry), key("zurich")))
    with pytest.raises(LedgerCorruptError, match="not signed"):
        ledger.refresh(0)
    with pytest.raises(LedgerCorruptError):
        opened_on(store)


def _entry(account, kind, amount, **fields):
    names = {"study": study(1), "learner": LEARNERS[0], "sequence": 1, "request": request_of(9), **fields}
    index, head = account.next_index, account.head
    return Entry(index=index, previous=head, nonce=bytes(16), kind=kind, at=0, amount=amount, **names)


@pytest.mark.parametrize(
    ("kind", "amount", "fields"),
    [
        (EntryKind.CHARGE, "1/29", {}),
        (EntryKind.CHARGE, "1/30", {"study": study(2)}),
        (EntryKind.CHARGE, "1/30", {"learner": LEARNERS[1]}),
        (EntryKind.CHARGE, "1/30", {"sequence": 2}),
        (EntryKind.CHARGE, "1/30", {"sequence": 0}),
        (EntryKind.CHARGE, "1/30", {"request": request_of(1)}),
        (EntryKind.CLOSE, "1/29", {}),
        (EntryKind.EXPIRE, "0", {}),
        (EntryKind.RESERVE, "1/30", {}),
        (EntryKind.RESERVE, "1/30", {"study": study(2)}),
        (EntryKind.ANSWERED, "0", {}),
        (EntryKind.ANSWERED, "0", {"request": request_of(1)}),
        (EntryKind.EVICT, "0", {}),
        (EntryKind.RESUME, "0", {}),
        (EntryKind.OPEN, "0", {}),
    ],
)
def test_entry_that_breaks_a_rule_does_not_open_even_in_a_valid_chain(kind, amount, fields):
    store = MemoryStore()
    ledger = new_ledger(store)
    ledger.reserve(reservation_of(study(1), LEARNERS[0], (THIRTIETH,), request_of(1)), WIDE, 0)
    store.append(signed(2, encode_entry(_entry(ledger.account, kind, amount, **fields))))
    with pytest.raises(LedgerCorruptError):
        load(store)
    assert check(store).findings[0].index == 2


@pytest.mark.parametrize("kind", [EntryKind.ANSWERED, EntryKind.CHARGE, EntryKind.CLOSE, EntryKind.EXPIRE])
def test_what_was_answered_or_has_ended_cannot_go_on_even_in_a_valid_chain(kind):
    store, ledger = one_study()
    again = {"request": request_of(101)}
    if kind is not EntryKind.ANSWERED:
        ledger.close_study(key_of(1), 2, request_of(3), 0)
        again = {"sequence": 3}
    entry = _entry(ledger.account, kind, "0", **again)
    store.append(signed(entry.index, encode_entry(entry)))
    with pytest.raises(LedgerCorruptError, match="answered before" if kind is EntryKind.ANSWERED else None):
        load(store)


def test_account_of_the_chain_does_not_depend_on_the_process_that_reads_it():
    store = MemoryStore()
    writer, reader = new_ledger(store), opened_on(store)
    for number in (1, 2, 3):
        spend(writer, number, learner=LEARNERS[number % 2])
        reader.refresh(0)
    writer.halt(0, "stop")
    reader.refresh(0)
    assert reader.account == writer.account == load(store)
    assert reader.account != Account()


@pytest.mark.slow
def test_a_damaged_file_is_an_error_of_ours_and_no_change_goes_unseen(served):
    """One byte of the served at a time, header, pages and free space."""
    whole = served.read_bytes()
    rows = [(row.index, row.body, row.signature) for row in _rows(served)]
    damaged = served.with_name("damaged")
    outcomes = set()
    for position in range(0, len(whole), 397):
        damaged.write_bytes(whole[:position] + bytes([whole[position] ^ 0x55]) + whole[position + 1 :])
        try:
            found = checked(damaged)
        except ExprilError:
            outcomes.add("refused")
            continue
        if found.findings:
            outcomes.add("found")
            continue
        outcomes.add("unchanged")
        assert [(row.index, row.body, row.signature) for row in _rows(damaged)] == rows
    assert outcomes == {"refused", "found", "unchanged"}


def _rows(file):
    with read_ledger_file(file) as store:
        return store.rows(0)


def test_a_ledger_put_back_to_an_older_state_halts_its_curator(served):
    older = served.read_bytes()
    ledger = reopened(served)
    spend(ledger, 2)
    ledger.settle()
    ledger.close()
    served.write_bytes(older)
    ledger = reopened(served)
    assert ledger.account.halted
    assert ledger.account.suspects[0].position.index == 10
    found = ledger.resume(3, note="restored the backup of Monday")
    assert [item.total for item in found] == [THIRTIETH]
    assert ledger.account.total_spent == 2 * THIRTIETH
    ledger.settle()
    ledger.close()
    assert not is_halted(served)


def test_a_ledger_that_has_grown_under_another_process_is_fine(served):
    other = open_ledger_file(served, CURATOR, mark=served.with_name("second.mark"))
    other.begin(TERMS, 2)
    assert other.account.halted  # a process without a mark cannot know
    other.resume(2, note="a second process")
    spend(other, 2)
    other.settle()
    other.close()
    assert not is_halted(served)


@pytest.mark.parametrize("how", ["absent", "damaged", "of another ledger"])
def test_a_missing_mark_needs_the_steward(served, how):
    mark = mark_path(served)
    if how == "absent":
        mark.unlink()
    elif how == "damaged":
        mark.write_bytes(bytes(len(mark.read_bytes())))
    else:
        other = served.with_name("other.ledger")
        written(other, studies=2)
        mark.write_bytes(mark_path(other).read_bytes())
    ledger = reopened(served)
    assert ledger.account.halted
    ledger.resume(3, note="the disk was replaced")
    ledger.close()
    assert not is_halted(served)


def test_an_absent_ledger_is_never_made_anew(served):
    served.unlink()
    with pytest.raises(ConfigurationError, match=r"no ledger .*One that was there is lost: bring back a backup"):
        open_ledger_file(served, CURATOR)
    assert not served.exists()
    with pytest.raises(ConfigurationError, match=r"a\.mark exists"):
        create_ledger_file(served, CURATOR, now=0)


def test_store_rolled_back_under_a_running_ledger_halts_it():
    store, ledger = one_study()
    saved = list(store._rows)
    spend(ledger, 2)
    store._rows = saved
    ledger.refresh(0)
    assert ledger.account.halted
    assert kinds(store)[-2:] == ["start", "halt"]
    assert [item.total for item in ledger.resume(1)] == [THIRTIETH]
    assert ledger.account.total_spent == 2 * THIRTIETH
    assert load(store) == ledger.account


def test_a_mark_survives_a_torn_write(served):
    mark = open_mark(mark_path(served), CURATOR)
    older, log = mark.read(), mark.log()
    newer = replace(older, position=replace(older.position, index=older.position.index + 1))
    hashes = [*load_file(served).hashes, bytes(32)]
    mark.write(newer, hashes, first=older.position.index + 1)
    serial = mark._serial
    assert mark.log() == log + bytes(8)
    mark.close()
    torn = bytearray(mark_path(served).read_bytes())
    place = FIRST_SLOT + SLOT * (serial % 2)
    for at in range(place, place + 50):
        torn[at] ^= 0xFF
    mark_path(served).write_bytes(bytes(torn))
    mark = open_mark(mark_path(served), CURATOR)
    assert (mark.read(), mark.log()) == (older, log)
    mark.write(newer, hashes, first=older.position.index + 1)
    assert (mark.read().position, mark.log()) == (newer.position, log + bytes(8))
    mark.close()


def test_a_log_that_was_changed_proves_nothing_and_the_mark_still_does(served):
    changed = bytearray(mark_path(served).read_bytes())
    changed[FIRST_SLOT + 2 * SLOT + 12] ^= 1
    mark_path(served).write_bytes(bytes(changed))
    with closing(open_mark(mark_path(served), CURATOR)) as mark:
        assert (mark.read().position.index, mark.log()) == (load_file(served).next_index - 1, b"")


def test_a_mark_of_an_older_program_is_read_and_then_kept_in_the_new_form(served):
    """It had two slots of 4,096 bytes, each with a position alone."""
    position, secret = load_file(served).position(3), CURATOR.derive("ledger mark")
    content = (7).to_bytes(8, "big") + pack(position)
    slot = content + hmac.digest(secret, b"expril/2 mark" + content, "sha256")
    mark_path(served).write_bytes(bytes(4096) + slot.ljust(4096, b"\0"))
    mark = open_mark(mark_path(served), CURATOR)
    assert (mark.read(), mark.log()) == (Marked(position), b"")
    mark.write(Marked(position))
    mark.close()
    assert not any(mark_path(served).read_bytes()[:FIRST_SLOT])
    mark_path(served).write_bytes(mark_path(served).read_bytes()[:FIRST_SLOT])
    with closing(open_mark(mark_path(served), CURATOR)) as damaged:
        assert damaged.read() is None


def test_a_mark_is_held_by_one_process_at_a_time(served):
    first = open_ledger_file(served, CURATOR)
    with pytest.raises(ConfigurationError, match="held by another process"):
        open_ledger_file(served, CURATOR)
    first.close()
    open_ledger_file(served, CURATOR).close()


def test_a_mark_of_another_key_is_none(served):
    with closing(open_mark(mark_path(served), key("zurich"))) as mark:
        assert mark.read() is None


def grown(*, first, lost, starts=()):
    """A ledger with `first` studies; its positions and hashes as it went on for `lost` more; each of a thirtieth."""
    store = MemoryStore()
    create_ledger(store, CURATOR, MemoryMark(), now=0)
    ledger = Ledger(store, key=CURATOR, mark=MemoryMark())
    ledger.begin(TERMS, 0)
    ledger.resume(0)
    for number in range(1, first + 1):
        spend(ledger, number)
    kept = list(store._rows), dict(store._replies)
    positions = []
    for number in range(first + 1, first + lost + 1):
        if number in starts:
            ledger.begin(TERMS, 0)
        spend(ledger, number)
        positions.append(ledger.account.position(ledger.account.next_index - 1))
    back = MemoryStore()
    back._rows, back._replies = kept
    return back, positions, ledger.account


def halted_for(store, *found):
    ledger = opened_on(store)
    ledger.begin(TERMS, 0)
    ledger.resume(0, note="a new process has no mark")
    for lost in found:
        ledger.halt(0, "found", trace=lost)
    return ledger


def receipt_of(position, spent="0", learner=LEARNERS[0]):
    """What a learner's receipt shows, of a request of its own."""
    return BranchTrace(Suspect(position, learner, str(spent), position.head), receipt=digest(position.head))


def mark_of(account, *, log=True):
    """What a process's mark shows of a branch that it served."""
    marked = marked_at_end(account)
    return lambda hashes: marked.branches(stubs_of(account.hashes) if log else b"", hashes)[0]


def amounts(item):
    return item.total, item.by_learner[LEARNERS[0]]


def test_what_a_lost_branch_spent_is_restored_once_and_its_receipts_are_known():
    store, positions, branch = grown(first=5, lost=4)
    ledger = halted_for(store, mark_of(branch)(load(store).hashes))
    assert amounts(ledger.resume(1)[0]) == (4 * THIRTIETH, 4 * THIRTIETH)
    assert ledger.account.total_spent == ledger.account.spent[LEARNERS[0]] == 9 * THIRTIETH
    assert all(ledger.account.knows(receipt_of(each)) for each in positions)


def test_a_receipt_proves_no_other_receipt_but_those_whose_hashes_it_names():
    """Without a mark's log: the entries 1, 2, 4, ... before a position, and the last 24."""
    store, positions, _ = grown(first=5, lost=19)
    newest = positions[-1]
    named = (
        {newest.index - 2**power for power in range(24)} | {newest.index} | {*range(newest.index - 24, newest.index)}
    )
    halted_for(store, receipt_of(newest, 24 * THIRTIETH)).resume(1)
    proven = []
    for position in positions:
        again = MemoryStore()
        again._rows = list(store._rows)
        (item,) = halted_for(again, receipt_of(position)).resume(1)
        proven += [] if item.total else [position]
    assert proven == [position for position in positions if position.index in named]
    assert 0 < len(proven) < len(positions)


def test_a_newer_position_that_goes_on_from_an_older_adds_only_what_is_new():
    store, positions, branch = grown(first=5, lost=4)
    ledger = halted_for(store, receipt_of(positions[0], 6 * THIRTIETH))
    (before,) = ledger.resume(1)
    assert not ledger.account.knows(receipt_of(positions[3]))
    ledger.halt(1, "by a mark", trace=mark_of(branch)(ledger.account.hashes))
    assert amounts(ledger.resume(2)[0]) == (3 * THIRTIETH, 3 * THIRTIETH)
    assert before.total >= THIRTIETH
    assert ledger.account.total_spent >= 9 * THIRTIETH


def test_positions_that_no_hash_puts_on_one_branch_are_two_branches():
    store, positions, branch = grown(first=2, lost=15)
    newest = mark_of(branch, log=False)(())
    older = next(each for each in positions if not newest.holds(each))
    shown = Fraction(older.total) - 2 * THIRTIETH
    ledger = halted_for(store, receipt_of(older), newest)
    ledger.resume(1)
    assert ledger.account.total_spent >= (2 + 15) * THIRTIETH + shown
    assert mark_of(branch)(()).holds(older), "with the log of its mark they would be one"


def test_two_branches_that_go_on_from_one_entry_are_not_one():
    """Each is proven to hold it; which of them is proven to hold the other?"""
    store, positions, branch = grown(first=2, lost=3)
    twin_store = MemoryStore()
    twin_store._rows = list(store._rows)
    twin = opened_on(twin_store)
    twin.begin(TERMS, 0)
    twin.resume(0)
    for number in (50, 51):
        spend(twin, number)
    both = [mark_of(each)(load(store).hashes) for each in (branch, twin.account)]
    ledger = halted_for(store, *both)
    ledger.resume(1)
    assert ledger.account.total_spent >= (2 + 3 + 2) * THIRTIETH
    ledger.halt(2, "again", trace=receipt_of(positions[-1]))
    assert sum(item.total for item in ledger.resume(3)) == 0


def test_two_answers_to_one_request_are_two_branches():
    store, positions, _ = grown(first=2, lost=1)
    one = receipt_of(positions[0], 3 * THIRTIETH)
    other = dataclasses.replace(one, receipt=digest(b"another answer"))
    ledger = halted_for(store, one, other)
    ledger.resume(1)
    assert ledger.account.total_spent >= 4 * THIRTIETH
    assert ledger.account.knows(one)
    assert not ledger.account.knows(dataclasses.replace(one, receipt=digest(b"a third answer")))


def test_a_position_of_an_unknown_ledger_restores_the_whole():
    _, positions, _ = grown(first=5, lost=1)
    other = MemoryStore()
    new_ledger(other)
    ledger = halted_for(other, receipt_of(positions[0], "1/10"))
    assert amounts(ledger.resume(1)[0]) == (6 * THIRTIETH, Fraction(1, 10))


def test_less_than_was_lost_cannot_be_restored_even_by_the_key():
    store, positions, _ = grown(first=5, lost=4)
    ledger = halted_for(store, receipt_of(positions[-1]))
    short = _entry(ledger.account, EntryKind.RESUME, "1/31", learner=bytes(32), study=bytes(16), sequence=0)
    store.append(signed(ledger.account.next_index, encode_entry(short)))
    with pytest.raises(LedgerCorruptError, match="less than was lost"):
        load(store)


@given(first=st.integers(0, 40), lost=st.integers(1, 40), other=st.integers(0, 50), log=st.booleans())
def test_the_last_common_entry_is_never_beyond_the_fork_and_close_to_it(first, lost, other, log):
    """Within twice the distance, whatever the lengths: a stub at every power of two. With a log it is the fork."""

    def hashed(sort, number):
        return digest(bytes([sort]) + number.to_bytes(4, "big"))

    trunk = [hashed(1, n) for n in range(first + 1)]
    one = [*trunk, *(hashed(2, n) for n in range(lost))]
    there = [*trunk, *(hashed(3, n) for n in range(other))]
    position = position_at(len(one) - 1, one, [Fraction(0)] * len(one))
    found = Marked(position).branches(stubs_of(one) if log else b"", there)[0].last_common(there)
    if log:
        assert found == first
    elif found is None:
        assert lost > first + lost - 1 or 2 * lost > len(one) - 1
    else:
        assert found <= first
        assert len(one) - 1 - found < 2 * lost


def test_positions_have_one_length_and_come_back():
    account = load(grown(first=30, lost=1, starts=range(20))[0])
    for index in (0, 1, len(account.hashes) - 1):
        position = account.position(index)
        assert len(pack(position)) == POSITION_BYTES
        assert unpack(pack(position)) == position
    huge = [Fraction(10**9) + Fraction(1, 3**700)] * len(account.hashes)
    long = position_at(len(huge) - 1, account.hashes, huge)
    long = replace(long, index=2**48, named=tuple((2**48 - n, stub) for n, (_, stub) in enumerate(long.named)))
    assert len(pack(long)) == POSITION_BYTES
    assert Fraction(long.total) >= huge[0]
    assert Fraction(long.total) - huge[0] < Fraction(1, 2**60)


def test_a_sealed_position_tells_nothing_and_opens_for_its_curator_alone():
    account = load(grown(first=3, lost=1)[0])
    sealer = Sealer(CURATOR, bytes)
    sealed = [sealer.seal(account.position(index), b"request") for index in range(4)]
    assert {len(each) for each in sealed} == {SEALED_BYTES}
    assert sealer.open(sealed[2], b"request") == account.position(2)
    for data, context, opener in (
        (sealed[2], b"another request", sealer),
        (sealed[2][:-1] + b"\0", b"request", sealer),
        (sealed[2], b"request", Sealer(key("zurich"), bytes)),
    ):
        with pytest.raises(RemoteProtocolError):
            opener.open(data, context)


def test_a_process_that_was_copied_while_it_ran_is_not_trusted_to_have_one_branch():
    """A machine that is restored with its memory goes on under the same START."""
    store, _, branch = grown(first=4, lost=6)
    twin = opened_on(store)
    for number in range(30, 34):
        spend(twin, number)
    fork = len(store.rows(0)) - 4 * 4 - 1
    for log in (True, False):
        assert mark_of(branch, log=log)(twin.account.hashes).last_common(twin.account.hashes) <= fork
    ledger = halted_for(store, mark_of(branch)(twin.account.hashes))
    assert ledger.resume(1)[-1].total >= 6 * THIRTIETH


def test_a_backup_made_while_a_process_serves_is_whole_and_halts_when_it_is_served_from(served, tmp_path):
    ledger = reopened(served)
    spend(ledger, 2)
    copy = tmp_path / "copy.ledger"
    backup(served, copy)
    spend(ledger, 3)
    ledger.settle()
    with pytest.raises(ConfigurationError, match="never overwritten"):
        backup(served, copy)
    ledger.close()
    assert checked(copy).findings == ()
    assert len(load_file(copy).owed) == 0
    assert load_file(copy).total_spent == 2 * THIRTIETH
    for suffix in ("", "-wal", "-shm"):
        served.with_name(served.name + suffix).unlink(missing_ok=True)
    served.write_bytes(copy.read_bytes())
    ledger = reopened(served)
    assert ledger.account.halted
    ledger.resume(3, note="the backup")
    assert ledger.account.total_spent == 3 * THIRTIETH
    ledger.close()


def test_the_file_without_its_log_is_not_the_ledger(served, tmp_path):
    """Why a copy of the served alone is no backup: what was written last is in the log beside it."""
    ledger = reopened(served)
    spend(ledger, 2)
    alone = tmp_path / "alone.ledger"
    alone.write_bytes(served.read_bytes())
    assert len(_rows(alone)) < len(ledger.store.rows(0))
    assert len(_rows(served)) == len(ledger.store.rows(0))
    ledger.close()


def test_reading_writes_nothing_beside_the_ledger(served):
    before = {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in served.parent.iterdir()}
    assert checked(served).findings == ()
    assert {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in served.parent.iterdir()} == before
    assert str(sqlite_url(served)) != str(read_only_url(served))


def test_a_log_that_nobody_serves_is_read_and_left_alone(served, tmp_path):
    """A copy of a served folder on another medium: what stands in the log counts, and nothing appears beside it."""
    ledger = reopened(served)
    spend(ledger, 2)
    (tmp_path / "medium").mkdir()
    copy = tmp_path / "medium" / "copy.ledger"
    for suffix in ("", "-wal"):
        copy.with_name(copy.name + suffix).write_bytes(served.with_name(served.name + suffix).read_bytes())
    entries = len(ledger.store.rows(0))
    ledger.close()
    before = {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in copy.parent.iterdir()}
    assert len(_rows(copy)) == entries
    assert {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in copy.parent.iterdir()} == before


def test_a_ledger_is_made_whole_or_not_at_all(file, monkeypatch):
    """Whatever fails, at the file, at its mark or at the first entry: nothing is there, and it can be made again."""

    def fail(*_args, **_options):
        raise OSError(errno.ENOSPC, "No space left on device")

    def interrupt(*_args, **_options):
        raise KeyboardInterrupt

    for place, fault, raised in (
        ("curator_node.ledger.places.create_ledger", fail, ConfigurationError),
        ("curator_node.ledger.marks.os.pwrite", fail, ConfigurationError),
        ("curator_node.ledger.places.create_ledger", interrupt, KeyboardInterrupt),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(place, fault)
            with pytest.raises(raised):
                create_ledger_file(file, CURATOR, now=0)
        assert list(file.parent.iterdir()) == []
    create_ledger_file(file, CURATOR, now=0)
    assert {path.name for path in file.parent.iterdir()} == {file.name, file.with_suffix(".mark").name}
    with pytest.raises(ConfigurationError, match="never made anew"):
        create_ledger_file(file, CURATOR, now=0)
