"""A ledger replayed from its bytes: honest histories add up, every change has a place; losses of plans, notes."""

import itertools
import math
import random
import re
from fractions import Fraction
from io import BytesIO

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from curator_fakes import NOW, Learner, ZeroNoise, altered, dataset, key, ledger_over, policy
from curator_node.ledger import Reservation, StudyKey
from curator_node.ledger.checks import load
from curator_node.ledger.exports import export_ledger
from curator_node.ledger.store import MemoryStore
from curator_node.site import assemble_site
from expril.audit.kinds import AUDITED_KINDS
from expril.audit.kinds.kind_audit import AuditedKinds, KindAudit
from expril.audit.recompute import recompute
from expril.audit.recompute.bounds import Bounds
from expril.audit.recompute.entries import ZERO, ReadEntry, ReadStatefulEntry, Study, price_of, read_entry
from expril.audit.recompute.ledger import audit_ledger
from expril.audit.recompute.losses import Losses, add_losses, discrete_laplace, rounded_up
from expril.audit.recompute.replay import Replayed
from expril.audit.recompute.sums import Sum
from expril_conformance import vectors
from histories import ACTS, CAPS, LEARNERS, History, a_study, resigned
from protocol.codec import encode
from protocol.envelopes import digest, open_envelope, request_digest
from protocol.errors import ConfigurationError, RemoteProtocolError
from protocol.hypotheses import Constant
from protocol.kinds import QUERY_KINDS
from protocol.kinds.counts import COUNTS, PlannedCounts
from protocol.kinds.holdout import HoldoutBody, PlannedHoldout
from protocol.ledger.entries import Entry, EntryKind, LedgerCorruptError, StatefulEntry, decode_entry, encode_entry
from protocol.ledger.exports import FORMAT, ExportReader, LedgerExport, decode_export, encode_export
from protocol.limits import Limits
from protocol.messages import NOBODY, Query, Release
from protocol.noise import DiscreteLaplace
from protocol.plans import Plan
from protocol.rationals import Rational
from protocol.transcript import replay

HISTORIES = st.lists(st.tuples(st.sampled_from(ACTS), st.integers(0, 2**10)), min_size=3, max_size=40)
QUIET = settings(
    deadline=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
FEW = settings(QUIET, max_examples=12)


def lived(acts, bound=1):
    history = History(bound)
    for act, number in acts:
        history.do(act, number)
    return history


def audited(path, content, **options):
    file = path / "ward.export"
    file.write_bytes(content)
    return audit_ledger(file, kinds=AUDITED_KINDS, **options)


def texts(audit):
    return "\n".join(audit.findings.texts())


# Honest histories


@QUIET
@given(acts=HISTORIES, bound=st.integers(1, 3))
def test_every_history_adds_up_as_its_curator_says(acts, bound, tmp_path):
    """The curator's own sum is the oracle: it was written apart from this one."""
    history = lived(acts, bound)
    account = load(history.store)
    audit = audited(tmp_path, history.export())
    replayed = audit.replayed
    assert audit.findings == []
    assert (len(replayed), replayed.head, replayed.total) == (account.next_index, account.head, account.total_spent)
    assert (replayed.terms, replayed.keys, replayed.data) == (account.terms, account.curators, account.data)
    assert (replayed.halted, replayed.purses.bound) == (account.halted, account.bound)
    newest = account.next_index - 1
    for learner in LEARNERS:
        for index in (newest, newest // 2, newest // 3):
            assert replayed.purses.by_learner(learner, index) == account.spent_at(learner, index)
    for study, theirs in account.studies.items():
        ours = replayed.studies[tuple(study)]
        assert (ours.spent, ours.remaining, ours.sequence) == (theirs.spent, theirs.reserved, theirs.sequence)
    assert {request for request, made in replayed.requests.items() if made.evicted} == account.evicted
    assert {request for request, made in replayed.requests.items() if made.lost} == set(account.lost_requests)
    for index in range(account.next_index):
        assert replayed.totals.at(index) == account.totals[index]


@QUIET
@given(acts=HISTORIES)
def test_sums_by_learner_version_and_unit_are_all_that_was_spent(acts, tmp_path):
    history = lived(acts)
    (tmp_path / "ward.export").write_bytes(history.export())
    result = recompute(tmp_path / "ward.export", delta=None)
    account = history.ledger.account
    (everybody,) = [one for one in result.sums if not one.learner and not one.version]
    assert everybody.spent == account.total_spent
    alone = [one for one in result.sums if one.learner and not one.version]
    assert sum(one.spent for one in alone) == account.total_spent
    for one in alone:
        keys = [bytes.fromhex(each) for each in one.keys]
        if keys:
            assert one.spent == account.spent_by(keys[0])
        versions = [each.spent for each in result.sums if each.version and each.learner == one.learner]
        assert not versions or sum(versions) == one.spent
    (unit,) = result.units
    assert (unit.unit, unit.apart, unit.shared) == ("each record", account.total_spent, account.total_spent)


@QUIET
@given(data=st.data())
def test_the_auditors_reader_takes_what_the_format_says_and_nothing_else(data, honest):
    """Beside the protocol's own reader, on whole and on damaged entries."""
    assert ReadEntry.__struct_fields__ == Entry.__struct_fields__
    assert ReadStatefulEntry.__struct_fields__ == StatefulEntry.__struct_fields__
    body = bytearray(data.draw(st.sampled_from(honest.pairs()))[0])
    for _ in range(data.draw(st.integers(0, 2))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    read = []
    for reader in (decode_entry, read_entry):
        try:
            read.append(msgspec.structs.asdict(reader(bytes(body))))
        except LedgerCorruptError:
            read.append(None)
    assert read[0] == read[1]


@pytest.mark.parametrize("text", ["", "01", "1/0", "-1", "1/2/3", "1.5", "1/30\n", " 1", "1" * 5000])
def test_an_amount_in_another_form_is_no_entry(text, honest):
    for fields in ({"amount": text}, {"learner_amount": text}, {"costs": (text,)}):
        entry = msgspec.structs.replace(decode_entry(honest.pairs()[1][0]), **fields)
        for reader in (decode_entry, read_entry):
            with pytest.raises(LedgerCorruptError):
                reader(encode_entry(entry))


# Changes that anybody can make


@pytest.fixture(scope="module")
def honest():
    history = History()
    history.do("enrol", 0)
    history.do("data", 3)
    a_study(history)
    history.do("rotate", 0)
    a_study(history, 1, queries=2)
    return history


@QUIET
@given(data=st.data())
def test_a_flipped_byte_is_named(data, honest, tmp_path):
    pairs = honest.pairs()
    place = data.draw(st.integers(0, len(pairs) - 1))
    part = data.draw(st.integers(0, 1))
    changed = bytearray(pairs[place][part])
    changed[data.draw(st.integers(0, len(changed) - 1))] ^= data.draw(st.integers(1, 255))
    pair = (bytes(changed), pairs[place][1]) if part == 0 else (pairs[place][0], bytes(changed))
    audit = audited(tmp_path, honest.export([*pairs[:place], pair, *pairs[place + 1 :]]))
    assert f"ledger entry {place} " in texts(audit)


@QUIET
@given(data=st.data())
def test_a_dropped_entry_is_named(data, honest, tmp_path):
    pairs = honest.pairs()
    place = data.draw(st.integers(0, len(pairs) - 2))
    audit = audited(tmp_path, honest.export([*pairs[:place], *pairs[place + 1 :]]))
    assert f"ledger entry {place} is missing" in texts(audit)
    assert len(audit.replayed) == place


@QUIET
@given(data=st.data())
def test_entries_in_another_order_are_named(data, honest, tmp_path):
    pairs = honest.pairs()
    first, second = sorted(data.draw(st.lists(st.integers(0, len(pairs) - 1), min_size=2, max_size=2, unique=True)))
    pairs[first], pairs[second] = pairs[second], pairs[first]
    text = texts(audited(tmp_path, honest.export(pairs)))
    which = f"entries {first} to {second - 1} are" if second > first + 1 else f"entry {first} is"
    assert f"ledger {which} missing: entry {second} stands in this place" in text


@QUIET
@given(data=st.data())
def test_an_entry_that_was_put_in_is_named(data, honest, tmp_path):
    """A repeated one, or a new one that nobody signed."""
    pairs = honest.pairs()
    place = data.draw(st.integers(1, len(pairs)))
    copied = data.draw(st.integers(0, place - 1))
    strange = data.draw(st.booleans())
    entry = msgspec.structs.replace(decode_entry(pairs[copied][0]), index=place, nonce=bytes(16))
    pair = (msgspec.msgpack.encode(entry), pairs[copied][1]) if strange else pairs[copied]
    text = texts(audited(tmp_path, honest.export([*pairs[:place], pair, *pairs[place:]])))
    assert f"ledger entry {place} " in text


def test_any_byte_of_the_file_is_named(honest, tmp_path):
    """Of the export itself: heads, lengths, digests of blocks, replies."""
    content = honest.export()
    rng = random.Random(1)
    for place in [*range(120), *rng.sample(range(len(content)), 60), *range(len(content) - 20, len(content))]:
        changed = bytearray(content)
        changed[place] ^= rng.randrange(1, 256)
        (tmp_path / "ward.export").write_bytes(bytes(changed))
        result = recompute(tmp_path / "ward.export", delta=None)
        said = "\n".join([*result.wrong, *result.unread])
        assert re.search(r"byte \d|truncated|at `|field `|block \d|ledger entry \d|replies|no ledger|format 1", said), (
            place,
            said,
        )


def read_at_once_and_in_parts(content):
    """What two readers of one form make of an export: one holds it whole, the other a block at a time."""
    try:
        whole = decode_export(content)
    except RemoteProtocolError:
        whole = None
    try:
        reader = ExportReader(BytesIO(content))
        return whole, LedgerExport(FORMAT, tuple(reader.blocks()), tuple(reader.replies()))
    except RemoteProtocolError:
        return whole, None


@FEW
@given(data=st.data(), count=st.sampled_from([0, 1, 15, 16, 300]))
def test_a_reader_by_blocks_takes_what_a_reader_of_the_whole_takes(data, count):
    """Bytes that are changed, left out, or put in; lengths of every width."""
    pairs = [(bytes([1]) * size, bytes(64)) for size in (3, 200, 300)] * 10
    content = encode_export(pairs, [(digest(bytes([i % 256, i // 256])), bytes(32)) for i in range(count)])
    assert read_at_once_and_in_parts(content) == (decode_export(content),) * 2
    place = data.draw(st.integers(0, len(content) - 1) | st.integers(0, 60).map(lambda last: len(content) - 1 - last))
    end = data.draw(st.integers(place, min(len(content), place + 80)))
    changed = content[:place] + data.draw(st.binary(max_size=6)) + content[end:]
    whole, parts = read_at_once_and_in_parts(changed)
    assert whole == parts
    heads = b"\xdc\x00\x02", b"\xdd\x00\x00\x00\x02", b"\xc5\x00\x20", b"\xdd\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff"
    for head in heads:  # longer than needed, and promises that no file keeps
        whole, parts = read_at_once_and_in_parts(content[:place] + head + content[place + 1 :])
        assert whole == parts


def test_a_block_that_was_changed_has_all_its_signatures_checked(tmp_path, monkeypatch):
    """Long ledgers: few signatures are checked, and a byte in any other is found by its block."""
    monkeypatch.setattr("expril.audit.recompute.ledger.MOST_ALL", 10)
    monkeypatch.setattr("expril.audit.recompute.ledger.SAMPLE", 2)
    monkeypatch.setattr("protocol.ledger.exports.BLOCK", 8)
    monkeypatch.setattr("expril.audit.recompute.ledger.BLOCK", 8)
    history = History()
    for _ in range(4):
        a_study(history)
    content = history.export()
    whole = audited(tmp_path, content)
    assert whole.findings == []
    assert whole.checked < len(history.pairs()) == whole.entries
    for place in (3, 17, len(history.pairs()) - 1):
        signature = history.pairs()[place][1]
        text = texts(audited(tmp_path, content.replace(signature, signature[:-1] + bytes([signature[-1] ^ 1]))))
        assert f"block {place // 8 + 1} of the export (entries {place // 8 * 8} to " in text
        assert f"ledger entry {place} is not signed by the curator" in text
    assert audited(tmp_path, content, every_signature=True).checked == whole.entries


# Changes that only the curator can make


def state_of(audit):
    """All that a replay knows of a ledger, without the identities of its objects."""
    replayed = audit.replayed
    effects = [
        (request, [getattr(made, name) for name in made.__slots__ if name != "study"], made.study.study)
        for request, made in replayed.requests.items()
    ]
    studies = [
        {name: getattr(study, name) for name in study.__slots__ if name not in ("shape", "price")}
        for study in replayed.studies.values()
    ]
    return (
        audit.findings,
        (replayed.broken, replayed.head, [*replayed.hashes], audit.checked, audit.entries, audit.unproven),
        (effects, studies, replayed.total, [replayed.totals.at(index) for index in range(len(replayed))]),
        {key: [replayed.purses.by_learner(key, index) for index in range(len(replayed))] for key in LEARNERS},
        [{cell: tally.total for cell, tally in sums.items()} for sums in (replayed.cells, replayed.integrals)],
        (replayed.under, replayed.provisos, replayed.restored, replayed.remarks.by_request, replayed.remarks.by_answer),
        [(charge.entry, charge.amount, charge.due) for charge in replayed.charges],
    )


@FEW
@given(acts=HISTORIES, data=st.data())
def test_the_short_way_of_plain_entries_finds_what_all_rules_find(acts, data, tmp_path, monkeypatch):
    """On ledgers whose entries take fields of each other, chained and signed anew or not."""
    history = lived(acts)
    for number in range(3):
        a_study(history, number)
    entries = [decode_entry(body) for body, _ in history.pairs()]
    plain = [entry.index for entry in entries if entry.kind in (EntryKind.CHARGE, EntryKind.ANSWERED)]
    names = ("sequence", "learner", "study", "request", "reply", "amount", "size", "at", "kind", "note", "index")
    edits = {}
    for _ in range(data.draw(st.integers(0, 3 if plain else 0))):
        place, other = data.draw(st.sampled_from(plain)), entries[data.draw(st.sampled_from(plain))]
        name = data.draw(st.sampled_from(names))
        value = "1/30" if name == "amount" and data.draw(st.booleans()) else getattr(other, name)
        edits.setdefault(place, {})[name] = value

    def edit(entry):
        return msgspec.structs.replace(entry, **edits.get(entry.index, {}))

    pairs = resigned(history.pairs(), edit, history.keys[0]) if data.draw(st.booleans()) else history.pairs()
    if edits and data.draw(st.booleans()):
        place = data.draw(st.sampled_from([*edits]))
        body = bytearray(pairs[place][0])
        body[data.draw(st.integers(0, len(body) - 1))] ^= data.draw(st.integers(1, 255))
        pairs[place] = bytes(body), pairs[place][1]
    content = history.export(pairs)
    states = [state_of(audited(tmp_path, content))]
    with monkeypatch.context() as patch:
        patch.setattr("expril.audit.recompute.replay.read_plain_entry", lambda body: None)
        states.append(state_of(audited(tmp_path, content)))
    assert states[0] == states[1]


def test_most_entries_take_the_short_way(honest, tmp_path, monkeypatch):
    taken = []
    feed = Replayed.feed
    monkeypatch.setattr(Replayed, "feed", lambda self, body: taken.append(body) or feed(self, body))
    assert audited(tmp_path, honest.export()).findings == []
    kinds = {decode_entry(body).kind for body in taken}
    assert EntryKind.RESERVE in kinds
    assert not kinds & {EntryKind.CHARGE}


@FEW
@given(data=st.data())
def test_an_undercharged_release_is_named_although_its_curator_signs_it(data, honest, tmp_path):
    """The charge is lowered, the refund made to fit, everything chained and signed anew."""
    entries = [decode_entry(body) for body, _ in honest.pairs()]
    charge = data.draw(st.sampled_from([entry for entry in entries if entry.kind is EntryKind.CHARGE]))
    cost = Fraction(charge.amount)
    lower = cost * data.draw(st.fractions(0, 1).filter(lambda share: share < 1))

    def edit(entry):
        if entry.index == charge.index:
            return msgspec.structs.replace(entry, amount=str(lower))
        if entry.kind is EntryKind.CLOSE and entry.study == charge.study:
            return msgspec.structs.replace(entry, amount=str(Fraction(entry.amount) + cost - lower))
        if entry.kind is EntryKind.HANDOVER:
            return msgspec.structs.replace(
                entry, kind=EntryKind.START, learner=NOBODY, note=honest.ledger.account.terms
            )
        return entry

    pairs = resigned(honest.pairs(), edit, honest.keys[0])
    audit = audited(tmp_path, honest.export(pairs))
    (finding,) = audit.findings
    assert finding.index == charge.index
    assert f"undercharged by {cost - lower}" in finding.text
    result = recompute(tmp_path / "ward.export", delta=None)
    (everybody,) = [one for one in result.sums if not one.learner and not one.version]
    assert everybody.spent == load(honest.store).total_spent, "what was released is counted at its cost"


@FEW
@given(data=st.data(), bound=st.integers(1, 3))
def test_a_plan_for_less_than_its_cost_is_named(data, bound, tmp_path):
    """A reservation and all its charges are lowered alike; nothing but the plan tells."""
    history = History(bound)
    for number in (2, 1, 2):
        a_study(history, number, queries=3 if number == 2 else 2)
    reserve = data.draw(
        st.sampled_from(
            [entry for body, _ in history.pairs() if (entry := decode_entry(body)).kind is EntryKind.RESERVE]
        )
    )
    share = data.draw(st.fractions(Fraction(1, 50), Fraction(49, 50)))

    def less(amount):
        return str(Fraction(amount) * share)

    def edit(entry):
        if entry.study != reserve.study:
            return entry
        return msgspec.structs.replace(entry, amount=less(entry.amount), costs=tuple(map(less, entry.costs)))

    audit = audited(tmp_path, history.export(resigned(history.pairs(), edit, history.keys[0])))
    assert [finding.index for finding in audit.findings] == [reserve.index]
    result = recompute(tmp_path / "ward.export", delta=None)
    (everybody,) = [one for one in result.sums if not one.learner and not one.version]
    assert everybody.spent == load(history.store).total_spent


def test_a_bound_is_told_as_implied_and_one_that_changes_is_named(tmp_path):
    history = History(3)
    a_study(history)
    audit = audited(tmp_path, history.export())
    assert audit.bounds.bound == 3
    assert "c = 3 as implied by its costs: no card shows it" in audit.unproven
    a_study(history)
    history.bound = 1
    before = len(history.pairs())
    a_study(history)
    (finding,) = audited(tmp_path, history.export()).findings
    assert finding.index == before
    assert "counts with c = 1, and c is 3 elsewhere" in finding.text
    studies = [(learner, study) for learner, study in audited(tmp_path, history.export()).replayed.studies]
    cards = dict(zip(studies, (3, 3, 1), strict=True))
    assert audited(tmp_path, history.export(), cards_of=lambda curator: cards).findings == []
    (finding,) = audited(tmp_path, history.export(), cards_of=lambda curator: cards | {studies[0]: 6}).findings
    assert "with c = 6 by the card" in finding.text


RULES = {
    "charges more": (EntryKind.CHARGE, {"amount": "5"}, "for a query for which"),
    "asks twice": (EntryKind.CHARGE, {"sequence": 2}, "for a query for which 0 was reserved"),
    "refunds more": (EntryKind.CLOSE, {"amount": "1/7"}, "refunds 1/7, and 0 is left"),
    "reserves more": (EntryKind.RESERVE, {"amount": "9"}, "reserves 9, and its queries cost"),
    "a name twice": (EntryKind.ANSWERED, {"kind": EntryKind.ENROL, "note": ""}, "binds no key, or to no name"),
    "resumes": (EntryKind.ANSWERED, {"kind": EntryKind.RESUME, "amount": "1"}, "resumes what was not halted"),
    "other terms": (EntryKind.START, {"note": "privacy unit: none"}, "starts under other terms"),
    "no records": (EntryKind.DATA, {"note": "monday"}, "names no records"),
    "a strange answer": (EntryKind.ANSWERED, {"request": bytes(32)}, "answers what was not asked"),
}


@pytest.mark.parametrize(("kind", "fields", "complaint"), RULES.values(), ids=RULES)
def test_a_broken_rule_is_named_although_its_curator_signs_it(kind, fields, complaint, tmp_path):
    history = History()
    history.do("data", 1)
    a_study(history)
    history.do("restart", 0)
    last = [entry.index for body, _ in history.pairs() if (entry := decode_entry(body)).kind is kind][-1]

    def edit(entry):
        return msgspec.structs.replace(entry, **fields) if entry.index == last else entry

    audit = audited(tmp_path, history.export(resigned(history.pairs(), edit, history.keys[0])))
    found = [finding.text for finding in audit.findings if finding.index == last]
    assert found
    assert any(complaint in text for text in found), found


def test_a_curator_that_keeps_two_histories_is_named(tmp_path):
    """Both tails are signed; in one file they do not follow each other."""
    history = History()
    a_study(history)
    history.do("save", 0)
    a_study(history)
    first = history.pairs()
    history.store._rows = list(history.saved[0])
    history.ledger = type(history.ledger)(history.store, key=history.key, mark=history.mark)
    a_study(history, 0, queries=1)
    second = history.pairs()
    fork = len(history.saved[0])
    mixed = [*first[: fork + 1], *second[fork + 1 :]]
    assert "its curator signed both" in texts(audited(tmp_path, history.export(mixed)))
    (tmp_path / "first").write_bytes(history.export(first))
    (tmp_path / "second").write_bytes(history.export(second))
    wrong = recompute(tmp_path / "first", tmp_path / "second", delta=None).wrong
    assert any(f"differ from entry {fork} on" in text for text in wrong)


DELTA = 1e-6


def study_of(kinds, *queries, bound=1):
    plan = Plan.of(queries)
    costs = tuple(str(cost) for cost in AUDITED_KINDS.costs(plan, bound))
    return Study(b"l" * 32, b"s" * 16, 0, Bounds(kinds).shape(plan), price_of(costs), 0, ("",), b"")


def counts(scale, partitions=1, **options):
    return PlannedCounts(release="mass", partitions=partitions, scale=Rational.of(Fraction(scale)), **options)


def law(scale, reach):
    """Probabilities of -reach .. reach; what lies beyond is put on the ends."""
    p = math.exp(-1 / scale)
    inside = [(1 - p) / (1 + p) * p ** abs(k) for k in range(-reach, reach + 1)]
    inside[0] = inside[-1] = p**reach / (1 + p)
    return inside


def hockey_stick(pairs, epsilon):
    """Least delta of two laws, given as pairs of probabilities, in one direction."""
    return sum(max(0.0, one - math.exp(epsilon) * other) for one, other in pairs)


def moved(scale, shift, reach=60):
    """Pairs of probabilities of one number without and with a move; the ends stand for all beyond them."""
    p = math.exp(-1 / scale)

    def at(k):
        return (1 - p) / (1 + p) * p ** abs(k)

    inside = [(at(k), at(k - shift)) for k in range(-reach, reach + shift + 1)]
    below = (p ** (reach + 1) / (1 + p), p ** (reach + 1 + shift) / (1 + p))
    above = (p ** (reach + shift + 1) / (1 + p), p ** (reach + 1) / (1 + p))
    return [below, *inside, above]


def test_thirty_unit_releases_of_a_thirtieth():
    """The figure of the project's notes, and the exact one: a unit move is randomised response at 1/30."""
    study = study_of(AUDITED_KINDS, *[counts(30)] * 30)
    loss = Losses(AUDITED_KINDS, DELTA).summed([(study, 1)])
    assert study.price.total == 1
    assert round(loss.epsilon, 4) == 0.7203
    assert (loss.delta, loss.plans, loss.pure) == (DELTA, 1, 0)
    p = 1 / (1 + math.exp(-1 / 30))

    def delta(epsilon):
        return sum(
            math.comb(30, k) * p**k * (1 - p) ** (30 - k) * max(0.0, 1 - math.exp(epsilon - (2 * k - 30) / 30))
            for k in range(31)
        )

    assert delta(loss.epsilon) <= DELTA <= delta(loss.epsilon - 1e-5)


@pytest.mark.parametrize(("scale", "shift"), [(2, 1), (2, 3), (Fraction(1, 2), 1), (7, 4)])
def test_the_library_is_the_law(scale, shift):
    """Its delta is never below that of the enumerated law, and close to it."""
    loss = discrete_laplace(DiscreteLaplace(Fraction(scale)), shift)
    pairs = moved(float(scale), shift, reach=200)
    for share in (0.0, 0.2, 0.5, 0.9):
        epsilon = share * float(shift / Fraction(scale))
        exact = hockey_stick(pairs, epsilon)
        found = loss.get_delta_for_epsilon(epsilon)
        assert exact - 1e-12 <= found <= exact + 1e-4


@pytest.mark.parametrize("scale", [0.7, 2.0])
@pytest.mark.parametrize("k", [2, 3])
def test_no_move_of_k_tells_more_than_one_number_moved_by_k(scale, k):
    """The lemma: all moves of three numbers by at most k in L1, in both directions, at many epsilons."""
    one = moved(scale, k)
    moves = [move for move in itertools.product(range(-k, k + 1), repeat=3) if 0 < sum(map(abs, move)) <= k]
    distinct = {tuple(sorted(abs(part) for part in move)) for move in moves}  # the law is symmetric, and the order free
    assert len(distinct) > k
    for move in distinct:
        pairs = [(1.0, 1.0)]
        for part in (part for part in move if part):
            pairs = [(a * c, b * d) for a, b in pairs for c, d in moved(scale, part, reach=12)]
        for step in range(12):
            epsilon = step / 8 * k / scale / 1.4
            for turned in (False, True):
                way = [(b, a) for a, b in pairs] if turned else pairs
                best = [(b, a) for a, b in one] if turned else one
                assert hockey_stick(way, epsilon) <= hockey_stick(best, epsilon) + 1e-12


def test_a_single_number_moved_by_k_attains_it():
    """Power of the tests above: the move of one number alone has the same delta, and a smaller move a smaller one."""
    same, less = moved(2.0, 3), moved(2.0, 2)
    assert hockey_stick(same, 0.5) == pytest.approx(hockey_stick(moved(2.0, 3, reach=90), 0.5))
    assert hockey_stick(less, 0.5) < hockey_stick(same, 0.5) - 0.01


def test_the_bound_c_and_steps_are_shifts():
    """c = 3 records of a unit at thrice the scale: the pure cost is the same; between the ends there is more noise."""
    one = Losses(AUDITED_KINDS, DELTA).summed([(study_of(AUDITED_KINDS, *[counts(30)] * 5), 1)])
    three = Losses(AUDITED_KINDS, DELTA).summed([(study_of(AUDITED_KINDS, *[counts(90)] * 5, bound=3), 3)])
    assert 0.16 < three.epsilon <= one.epsilon <= 1 / 6
    steps = PlannedCounts(release="label_total", partitions=2, scale=Rational.of(Fraction(64)), steps=4)
    (law,) = AUDITED_KINDS.audits["counts"].laws(steps, 2)
    assert (law.shift, law.releases, law.noise.scale) == (8, 2, 64)


def test_across_plans_epsilons_and_deltas_are_added():
    losses = Losses(AUDITED_KINDS, DELTA)
    study = study_of(AUDITED_KINDS, *[counts(30)] * 30)
    single, both = losses.summed([(study, 1)]), losses.summed([(study, 1)] * 2, Fraction(1, 4))
    assert both.epsilon == pytest.approx(2 * single.epsilon + 0.25)
    assert (both.delta, both.plans) == (2 * DELTA, 2)
    assert losses.summed([]).epsilon == pytest.approx(0)


def test_a_plan_that_was_closed_early_loses_no_more_than_was_charged():
    """By its noise a plan counts as a whole, 0.7203, but with no more than its pure sum: of one question a 30th."""
    rows = []
    for asked, plans, entered in ((1, 1, 0), (29, 1, 0), (30, 1, 0), (25, 2, 0), (30, 2, Fraction(1, 4))):
        row = Sum("ward", "", "patient")
        for _ in range(plans):
            row.accept(study_of(AUDITED_KINDS, *[counts(30)] * 30), 1)
        row.spend(Fraction(asked * plans, 30))
        row.spend(Fraction(entered), beyond=True)
        rows.append(row)
    add_losses(rows, AUDITED_KINDS, DELTA)
    assert [row.loss.epsilon for row in rows] == pytest.approx([1 / 30, 0.7203, 0.7203, 1.4405, 1.6905], abs=2e-4)
    assert all(row.loss.epsilon <= rounded_up(row.at_most) for row in rows)
    assert [row.loss.delta for row in rows] == pytest.approx([DELTA, DELTA, DELTA, 2 * DELTA, 2 * DELTA])


def test_a_kind_that_tells_no_law_counts_with_its_pure_epsilon():
    """Alone the plan is pure; beside another one it is composed as randomised response."""

    class Mute(PlannedCounts, frozen=True, tag="mute"):
        """As counts, and nobody says how."""

    class MuteAudit(KindAudit):
        kind = altered(COUNTS, name="mute", planned=Mute)

    kinds = AuditedKinds(AUDITED_KINDS.audits["counts"], MuteAudit())
    mute = Mute(release="mass", partitions=1, scale=Rational.of(Fraction(30)))
    alone = study_of(kinds, counts(30))
    plan = Plan.of([mute] * 30)
    quiet = Study(b"l" * 32, b"t" * 16, 0, Bounds(kinds).shape(plan), price_of(("1/30",) * 30), 0, ("",), b"")
    loss = Losses(kinds, DELTA).summed([(quiet, 1)])
    assert (loss.epsilon, loss.delta, loss.pure) == (pytest.approx(1), 0, 1)
    mixed = Plan.of([mute] * 29 + [counts(30)])
    study = Study(b"l" * 32, b"u" * 16, 0, Bounds(kinds).shape(mixed), price_of(("1/30",) * 30), 0, ("",), b"")
    loss = Losses(kinds, DELTA).summed([(study, 1)])
    assert 0.72027 < loss.epsilon < 0.7206, "a unit move of this noise is randomised response, rounded up"
    assert Losses(kinds, DELTA).summed([(alone, 1)], ZERO).epsilon <= 1 / 30 + 1e-9


def test_what_is_not_private_as_claimed_has_no_law():
    ratio = PlannedCounts(release="paper_ratio", partitions=1, scale=Rational.of(Fraction(30)))
    assert AUDITED_KINDS.audits["counts"].laws(ratio, 1) is None


ENDED = "instance 1 of 1 ended"
HALF = Rational(2, 1)


def test_the_note_of_an_answer_is_held_against_the_released_bytes(tmp_path):
    """Who has the release can compute what the ledger should say of it."""
    store = MemoryStore()
    rules = policy(cap=100, limits=Limits(kinds={"holdout": {}}))
    curator = assemble_site(
        dataset(), rules, key=key("basel"), ledger=ledger_over(store, "basel"), clock=lambda: NOW, noise=ZeroNoise()
    ).curator
    asker = Learner(curator)
    asker.card()
    planned = PlannedHoldout(
        turns=2, answers=1, resolution=1, threshold=0, threshold_scale=HALF, comparison_scale=HALF, count_scale=HALF
    )
    asker.propose(Plan.of([planned]))
    # Nobody has both classes alone: an expected accuracy of 0 is wrong for a class that is there.
    answer = asker.query(encode(HoldoutBody(Constant(predicted=0), 0)), "holdout")
    assert isinstance(answer, Release)
    path = tmp_path / "basel.export"
    path.write_bytes(export_ledger(store))
    remarks = audit_ledger(path, kinds=AUDITED_KINDS).replayed.remarks
    envelopes, learner = asker.session.transcript.envelopes, asker.session.key.public
    proof = replay(envelopes, key("basel").public, learner)
    ((request, question),) = [
        (request_digest(learner, envelope.type, envelope.payload), message)
        for envelope, message in map(open_envelope, envelopes)
        if isinstance(message, Query)
    ]
    assert remarks.by_answer == {request: ENDED}
    assert remarks.unlike_release(request, question, answer.body, proof) == ""
    remarks.by_answer[request] = "instance 7 of 9 ended"
    assert remarks.unlike_release(request, question, answer.body, proof) == ENDED
    del remarks.by_answer[request]
    assert remarks.unlike_release(request, question, answer.body, proof) == ENDED


# Charges that depend on answers


THREE = PlannedHoldout(
    turns=6, answers=3, resolution=1, threshold=5, threshold_scale=HALF, comparison_scale=HALF, count_scale=HALF
)
INSTANCE = THREE.instance_cost(1)


def holdout_ledger(turns, bound=1):
    """A lone ledger of a holdout. `turns`: (charged, note of the answer; None if it was never answered) of each."""
    history = History(bound)
    plan = Plan.of([THREE, PlannedCounts(release="mass", partitions=1, scale=Rational(30, 1))])
    study = StudyKey(LEARNERS[0], history.digest()[:16])
    costs = QUERY_KINDS.costs(plan, bound)
    history.ledger.reserve(Reservation(study, plan, costs, history.digest(), history.now + 500), CAPS, history.now)
    history.answer(0)
    for number, (charged, note) in enumerate(turns, start=1):
        request = history.digest()
        history.ledger.charge(study, number, charged, request, history.now)
        if note is not None:
            history.ledger.answer(request, lambda _: b"reply", history.now, note=note)
    history.ledger.settle()
    return history.export()


def honest_turns(ends, bound=1):
    """What turns of a holdout are charged and note, if these end an instance."""
    ended, begins = 0, True
    for end in ends:
        ended += end
        note = f"instance {ended} of {THREE.answers} ended" if end else ""
        yield (bound * INSTANCE if begins else Fraction(0)), note
        begins = end


ENDS = st.lists(st.booleans(), min_size=1, max_size=THREE.turns).filter(lambda ends: sum(ends) <= 2)


@FEW
@given(ends=ENDS, bound=st.integers(1, 3))
def test_an_honest_holdout_adds_up_from_its_ledger_alone(ends, bound, tmp_path):
    turns = list(honest_turns(ends, bound))
    audit = audited(tmp_path, holdout_ledger(turns, bound))
    assert audit.findings == []
    assert audit.replayed.total == sum(charged for charged, _ in turns)
    assert any("rests on the curator's notes on its answers" in text for text in audit.unproven)


@FEW
@given(ends=ENDS.filter(lambda ends: sum(ends) <= 1), place=st.integers(0, THREE.turns - 1), data=st.data())
def test_a_turn_of_a_holdout_that_is_charged_otherwise_than_its_notes_say_is_named(ends, place, data, tmp_path):
    turns = list(honest_turns(ends))
    place %= len(turns)
    due, note = turns[place]
    amounts = [Fraction(0), INSTANCE / 2, INSTANCE]
    wrong = data.draw(st.sampled_from([amount for amount in amounts if amount != due]))
    turns[place] = wrong, note
    audit = audited(tmp_path, holdout_ledger(turns))
    assert f"charges {wrong} for query {place + 1}, which costs {due}" in texts(audit)


def test_a_holdout_that_charged_nothing_is_not_proven(tmp_path):
    """Each turn was answered by counts, and each is charged 0."""
    path = tmp_path / "free.export"
    path.write_bytes(holdout_ledger([(Fraction(0), f"instance {number} of 3 ended") for number in (1, 2, 3)]))
    result = recompute(path, delta=None)
    undercharged = [text for text in result.wrong if f"undercharged by {INSTANCE}" in text]
    assert len(undercharged) == 3
    total = next(row for row in result.sums if not row.learner and not row.version)
    assert total.spent == 3 * INSTANCE, "what is due is counted"


@pytest.mark.parametrize(
    ("notes", "why"),
    [
        (["instance 2 of 3 ended"], "instance 1 runs"),
        (["instance 1 of 4 ended"], "instance 1 runs"),
        (["something"], "instance 1 runs"),
        ([f"instance {number} of 3 ended" for number in (1, 2, 3, 4)], "no instance is left"),
    ],
)
def test_a_note_on_an_answer_that_no_holdout_has_is_named(notes, why, tmp_path):
    turns = [(INSTANCE if number < 3 else Fraction(0), note) for number, note in enumerate(notes)]
    assert f"notes '{notes[-1]}' where {why}" in texts(audited(tmp_path, holdout_ledger(turns)))


def test_every_kind_whose_charges_look_back_tells_them_by_its_notes():
    backward = {audit.kind.name for audit in AUDITED_KINDS.audits.values() if audit.kind.looks_back}
    assert backward == {audit.kind.name for audit in AUDITED_KINDS.audits.values() if audit.tells_shares}


@pytest.mark.parametrize("name", ["ledgers", "ledger_kinds"])
def test_the_auditor_finds_what_the_vectors_say_and_nothing_in_honest_ledgers(name, tmp_path):
    """It shares no code with the curator's own check, by which the vectors were written."""
    content = vectors()[name]
    for vector in (*content["good"], *content["bad"]):
        if vector["read"] != "export":
            continue
        path, told = tmp_path / "x.export", {part: bytes.fromhex(text) for part, text in vector["given"].items()}
        path.write_bytes(told["bytes"])
        try:
            audit = audit_ledger(path, kinds=AUDITED_KINDS, curator=told["curator"])
        except ConfigurationError:
            assert "rule" in vector
            continue
        assert bool(audit.findings) == ("rule" in vector), vector["name"]
        if "taken" in vector:
            assert str(audit.replayed.total) == vector["taken"]["total"]
            spent = {bytes.fromhex(key): Fraction(each) for key, each in vector["taken"]["spent"].items()}
            purses = audit.replayed.purses
            for key in spent:
                of_learner = sum(spent.get(other, ZERO) for other in purses.keys_of(key))
                assert purses.by_learner(key, audit.entries) == of_learner
