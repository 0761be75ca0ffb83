"""Receipts and witnessed heads against a ledger: what contradicts it is found, and no forged one passes."""

import json
import math
import random
import sqlite3
from contextlib import closing
from fractions import Fraction

import msgspec
import pytest
from typer.testing import CliRunner

from curator_fakes import NOW, Learner, key, mass_body, open_curator, plan_of
from curator_node.ledger.exports import export_ledger
from curator_node.ledger.ledger import hand_over
from curator_node.ledger.store import MemoryStore
from expril.audit.kinds import AUDITED_KINDS
from expril.audit.recompute import Pins, recompute
from expril.audit.recompute.ledger import audit_ledger
from expril.audit.recompute.losses import rounded_up
from expril.commands.app import app
from forged_ledger import ADA, BOB, HOSPITAL, MALLORY, TERMS, Forged, counts
from histories import History, a_study, resigned
from protocol.envelopes import NOT_PRIVATE_LABEL, SigningKey
from protocol.ledger.checkpoints import cosign, make_checkpoint, sign_checkpoint, with_signature
from protocol.ledger.entries import (
    EntryKind,
    Position,
    Suspect,
    decode_entry,
    encode_entry,
    entry_hash,
    ledger_terms,
    read_terms,
)
from protocol.ledger.exports import decode_export, encode_export, read_block
from protocol.ledger.merkle import Tree
from protocol.messages import Release, StudyAccepted

WITNESS = SigningKey.from_seed(b"w" * 32)


def export_pairs(path):
    return [pair for block in decode_export(path.read_bytes()).blocks for pair in read_block(block).pairs]


def audit(*arguments, code):
    result = CliRunner().invoke(app, ["audit", "run", *map(str, arguments)])
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result.output.replace("\n", " ")


@pytest.fixture
def served(tmp_path):
    """A curator that answers two learners; the receipts they hold, in files; exports at four moments."""
    store = MemoryStore()
    curator = open_curator(store)
    receipts, exports = [], []

    def export():
        path = tmp_path / f"ward-{len(exports)}.export"
        path.write_bytes(export_ledger(store))
        exports.append(path)

    def keep(message):
        assert isinstance(message, StudyAccepted | Release)
        path = tmp_path / f"{len(receipts)}.receipt"
        path.write_bytes(message.receipt)
        receipts.append(path)

    export()
    for name in ("ann", "bob"):
        learner = Learner(curator, name)
        learner.card()
        keep(learner.propose(plan_of(30, 30)))
        for _ in range(2):
            keep(learner.query(mass_body(50)))
        export()
    return store, exports, receipts


def test_receipts_of_two_learners_cover_a_ledger_up_to_the_newest(served):
    _, exports, receipts = served
    result = recompute(exports[-1], receipts=receipts[:4], delta=None)
    assert result.wrong == []
    (ledger,) = result.ledgers
    first, last = ledger.audit.unwitnessed
    covered = decode_entry(export_pairs(exports[-1])[first - 1][0])
    assert (covered.kind, last) == (EntryKind.RESERVE, ledger.audit.entries - 1)
    assert (
        f"entries {first}..{last} rest on the curator's word; those before are covered by {receipts[3]}"
        in (result.unwitnessed[0])
    )
    output = audit(exports[-1], *(part for path in receipts for part in ("--receipt", path)), code=0)
    assert f"entries {last}..{last} rest on the curator's word" in output


def test_a_rolled_back_ledger_contradicts_the_receipt_of_any_learner(served):
    """Each receipt that is younger than an export is missed there, and none that is older."""
    _, exports, receipts = served
    for export, held in zip(exports, (0, 3, 6), strict=True):
        for number, receipt in enumerate(receipts):
            wrong = recompute(export, receipts=[receipt], delta=None).wrong
            assert bool(wrong) == (number >= held), (export, receipt)
            assert not wrong or f"lacks the entry that {receipt} names" in wrong[0]
    assert "rolled back or edited" in audit(exports[1], "--receipt", receipts[4], code=1)


def test_an_edit_that_the_curator_signed_anew_contradicts_a_receipt(served, tmp_path):
    """Every rule holds again, and no receipt of what was there does."""
    _, exports, receipts = served
    pairs = export_pairs(exports[-1])
    changed = resigned(
        pairs, lambda entry: msgspec.structs.replace(entry, at=entry.at + (entry.index == 2)), key("basel")
    )
    edited = tmp_path / "edited.export"
    edited.write_bytes(encode_export(changed, decode_export(exports[-1].read_bytes()).replies))
    assert recompute(edited, delta=None).wrong == []
    for receipt in receipts:
        assert recompute(edited, receipts=[receipt], delta=None).wrong


def test_a_receipt_of_another_amount_is_named(served, tmp_path):
    """The ledger charges less than the receipt says, by a key that signs both."""
    _, exports, receipts = served
    pairs = export_pairs(exports[-1])
    replies = decode_export(exports[-1].read_bytes()).replies
    entry = next(each for body, _ in pairs if (each := decode_entry(body)).kind is EntryKind.CHARGE)
    lower = resigned(
        pairs,
        lambda each: msgspec.structs.replace(each, amount="1/60") if each.index == entry.index else each,
        key("basel"),
    )
    path = tmp_path / "lower.export"
    path.write_bytes(encode_export(lower, replies))
    result = recompute(path, receipts=receipts, delta=None)
    assert any(f"ledger entry {entry.index} (charge) charges 1/60" in text for text in result.wrong)
    assert sum("lacks the entry" in text for text in result.wrong) == 5, "all from that entry on"


def test_a_receipt_that_is_none_or_of_another_curator_is_told(served, tmp_path):
    _, exports, receipts = served
    assert "no receipt" in audit(exports[-1], "--receipt", exports[0], code=2)
    assert "no receipt" in audit(exports[-1], "--receipt", tmp_path / "absent", code=2)
    envelope = msgspec.msgpack.decode(receipts[0].read_bytes())
    payload = msgspec.msgpack.decode(envelope["payload"])
    forged = {**envelope, "payload": msgspec.msgpack.encode({**payload, "charged": "1"})}
    (tmp_path / "forged").write_bytes(msgspec.msgpack.encode(forged))
    assert "is not signed by the curator that it names" in audit(exports[-1], "--receipt", tmp_path / "forged", code=1)
    strange = {**envelope, "payload": msgspec.msgpack.encode({**payload, "curator": b"x" * 32})}
    (tmp_path / "strange").write_bytes(msgspec.msgpack.encode(strange))
    assert "is of no ledger that was given" in audit(exports[-1], "--receipt", tmp_path / "strange", code=0)


# Witnessed heads


def checkpoint_of(pairs, owner, first, *, co_sign=True):
    """As a curator makes it of so many entries, and a witness co-signs it."""
    hashes = [entry_hash(body) for body, _ in pairs]
    handovers = [
        (index, *pair) for index, pair in enumerate(pairs[:-1]) if decode_entry(pair[0]).kind is EntryKind.HANDOVER
    ]
    signed = sign_checkpoint(make_checkpoint(Tree(hashes), hashes[-1], first, handovers), owner)
    return str((with_signature(signed, cosign(signed, WITNESS, NOW)) if co_sign else signed).note)


@pytest.fixture
def witnessed(tmp_path):
    """A history with a change of the key, and its checkpoints at two moments."""
    history = History()
    a_study(history)
    early = tmp_path / "early.checkpoint"
    early.write_text(checkpoint_of(history.pairs(), history.key, history.keys[0].public))
    a_study(history, 1, queries=2)
    hand_over(history.store, history.key, key("basel 1"), history.now)
    late = tmp_path / "late.checkpoint"
    late.write_text(checkpoint_of(history.pairs(), key("basel 1"), history.keys[0].public))
    return history, early, late


def test_witnessed_heads_cover_a_ledger_up_to_the_newest(witnessed, tmp_path):
    history, early, late = witnessed
    export = tmp_path / "ward.export"
    export.write_bytes(history.export())
    size = len(history.pairs())
    assert recompute(export, witnessed=[early, late], delta=None).unwitnessed == []
    result = recompute(export, witnessed=[early], delta=None)
    assert result.wrong == []
    (ledger,) = result.ledgers
    assert ledger.audit.unwitnessed == (int(early.read_text().split("\n")[1]), size - 1)
    assert ledger.audit.covered_by == f"a head that witness {WITNESS.public.hex()} co-signed"
    assert json.loads(audit(export, "--witnessed", late, "--json", code=0))["ledgers"][0]["unwitnessed"] is None


def test_a_checkpoint_without_a_witness_covers_nothing(witnessed, tmp_path):
    history, early, _ = witnessed
    export = tmp_path / "ward.export"
    export.write_bytes(history.export())
    early.write_text(checkpoint_of(history.pairs(), key("basel 1"), history.keys[0].public, co_sign=False))
    result = recompute(export, witnessed=[early], delta=None)
    assert result.unwitnessed
    assert any("no witness co-signed it" in text for text in result.unproven)


def test_every_rollback_and_edit_up_to_a_witnessed_head_is_found(witnessed, tmp_path):
    """Sixty of them, each signed anew by the curator's keys; none up to the head is missed."""
    history, _, late = witnessed
    rng = random.Random(7)
    pairs, export = history.pairs(), tmp_path / "ward.export"
    size = int(late.read_text().split("\n")[1])
    for number in range(60):
        if number % 2:
            forged = pairs[: rng.randrange(1, size)]
        else:
            place = rng.randrange(size)
            forged = resigned(
                pairs,
                lambda entry, place=place: msgspec.structs.replace(entry, at=entry.at + (entry.index == place)),
                history.keys[0],
            )
        export.write_bytes(encode_export(forged, history.replies()))
        wrong = recompute(export, witnessed=[late], delta=None).wrong
        assert any("contradicts a checkpoint" in text for text in wrong), number


def test_a_file_that_is_no_head_is_told(witnessed, tmp_path):
    history, early, _ = witnessed
    export = tmp_path / "ward.export"
    export.write_bytes(history.export())
    assert "no witnessed head" in audit(export, "--witnessed", tmp_path / "absent", code=2)
    (tmp_path / "junk").write_text("junk")
    assert "junk" in audit(export, "--witnessed", tmp_path / "junk", code=2)
    lines = early.read_text().split("\n")
    early.write_text("\n".join([*lines[:-2], lines[-2][:-8] + "AAAA" + lines[-2][-4:], ""]))
    assert "says nothing" in audit(export, "--witnessed", early, code=1)


def test_a_head_of_another_ledger_is_told(witnessed, tmp_path):
    history, _, _ = witnessed
    export, other = tmp_path / "ward.export", tmp_path / "other.checkpoint"
    export.write_bytes(history.export())
    own = SigningKey.from_seed(b"o" * 32)
    entry = msgspec.structs.replace(decode_entry(history.pairs()[0][0]), learner=own.public)
    other.write_text(checkpoint_of([(encode_entry(entry), bytes(64))], own, own.public))
    assert "is of no ledger that was given" in audit(export, "--witnessed", other, code=0)


PINS = Pins(curators={"north": HOSPITAL.public.hex()})


@pytest.fixture
def lost(tmp_path):
    """What the hospital truly charged ada, 1 and 1, and the receipts that she holds."""
    true = Forged()
    study, charged = true.study(ADA, [counts(1), counts(1)], [1, 1])
    receipts = [
        true.receipt(tmp_path / f"{number}.receipt", ADA, study, *one, spent=number, sequence=number)
        for number, one in enumerate(charged, start=1)
    ]
    assert recompute(true.save(tmp_path / "true.export"), receipts=receipts, pins=PINS, delta=None).proven
    return charged, receipts


def rolled_back(path, charged, *, said, total, restored, key=HOSPITAL):
    """A ledger of the same key that admits a loss, and says how much it was."""
    forged = Forged(key)
    for number, (request, head) in enumerate(charged, start=1):
        position = None if total is None else Position(3 * number, head, total, (), ())
        forged.add(EntryKind.HALT, suspect=Suspect(position, ADA.public, said or str(number), request))
    forged.add(EntryKind.RESUME, amount=restored)
    forged.study(ADA, [counts(10)], ["1/10"])
    return forged.save(path)


@pytest.mark.parametrize(
    ("said", "total", "restored", "wrong"),
    [
        ("0", "0", "0", "says that the learner had spent 0, and not 1"),
        ("0", None, "0", "says that the learner had spent 0, and not 1"),
        ("", "1", "2", "says that all had spent 1, and not 2"),
        ("", None, "2", "the learner has spent 0, and not 1"),
        ("", None, "0", "enter 0 as spent"),
        ("5", "1", "1", "enter 1 as spent"),
    ],
)
def test_a_halt_that_says_less_than_receipts_do_hides_nothing(lost, tmp_path, said, total, restored, wrong):
    charged, receipts = lost
    path = rolled_back(tmp_path / "lie.export", charged, said=said, total=total, restored=restored)
    result = recompute(path, receipts=receipts, pins=PINS, delta=None)
    assert any(wrong in text for text in result.wrong), result.wrong


def test_a_halt_that_says_as_much_as_receipts_do_is_believed(lost, tmp_path):
    charged, receipts = lost
    path = rolled_back(tmp_path / "honest.export", charged, said="", total="2", restored="4")
    result = recompute(path, receipts=receipts, pins=PINS, delta=None)
    assert result.proven, result.wrong
    assert sum("entries that this ledger lost" in text for text in result.unproven) == 2


@pytest.fixture
def forged():
    return Forged()


def test_new_charges_do_not_stand_for_those_that_were_lost(lost, tmp_path, forged):
    """The learner spends as much again before the halt: its sum alone would cover the receipts."""
    charged, receipts = lost
    forged.serial = 100
    forged.add(EntryKind.START, note=TERMS)
    forged.study(ADA, [counts(1), counts(1)], [1, 1])
    index, stub = len(forged.pairs) - 1, forged.head[:8]
    for request, head in charged:
        suspect = Suspect(Position(index + 1, head, "2", (stub,), ()), ADA.public, "2", request)
        forged.add(EntryKind.HALT, suspect=suspect)
    forged.add(EntryKind.RESUME, amount="0")
    result = recompute(forged.save(tmp_path / "again.export"), receipts=receipts, pins=PINS, delta=None)
    assert any("receipts show that 2 of learner" in text for text in result.wrong), result.wrong


def test_a_key_that_was_only_handed_a_ledger_answers_for_nothing_in_it(lost, tmp_path):
    charged, receipts = lost
    forged = Forged(MALLORY)
    for request, _ in charged:
        forged.add(EntryKind.HALT, suspect=Suspect(None, ADA.public, "0", request))
    forged.add(EntryKind.RESUME, amount="0")
    forged.add(EntryKind.HANDOVER, learner=HOSPITAL.public)
    path = forged.save(tmp_path / "stranger.export")
    result = recompute(path, receipts=receipts, delta=None)
    assert result.ledgers[0].audit.curators == {MALLORY.public}
    assert sum("is of no ledger that was given" in text for text in result.unproven) == 2
    assert not recompute(path, receipts=receipts, pins=PINS, delta=None).proven


def test_a_ledger_by_itself_is_held_against_the_pinned_keys(tmp_path):
    forged = Forged(BOB)
    forged.study(ADA, [counts(10)], ["1/10"])
    path = forged.save(tmp_path / "bob.export")
    (wrong,) = recompute(path, pins=PINS, delta=None).wrong
    assert f"opened by key {BOB.public.hex()}, which is none of the curators' that are pinned" in wrong
    free = recompute(path, delta=None)
    assert free.proven
    assert any(f"nobody checked whose key {BOB.public.hex()} is" in text for text in free.unproven)
    own = recompute(path, pins=Pins(curators={"bob": BOB.public.hex()}), delta=None)
    assert own.proven
    assert not any("nobody checked" in text for text in own.unproven)


# What charges mean


def test_a_plan_that_is_not_private_has_no_epsilon(tmp_path, forged):
    forged.study(ADA, [counts(30), counts(30, release="paper_ratio")], ["1/30", "1/30"])
    result = recompute(forged.save(tmp_path / "paper.export"))
    assert any("query 2, which is not as private as its cost says" in text for text in result.wrong)
    assert all(one.loss is None for one in result.sums)


def test_a_simulation_s_ledger_is_not_private(tmp_path):
    forged = Forged(terms=ledger_terms("patient", NOT_PRIVATE_LABEL))
    forged.study(ADA, [counts(30, release="paper_ratio")], ["1/30"])
    result = recompute(forged.save(tmp_path / "simulated.export"))
    assert result.proven, result.wrong
    assert any("NOT PRIVATE" in text for text in result.unproven)
    assert all(one.loss is None for one in result.sums)


@pytest.mark.parametrize(
    "terms", [None, "", "anything", "privacy unit: each record; signatures: " + "[" * 10_000, TERMS + " "]
)
def test_terms_that_nobody_can_read_say_nothing(terms, tmp_path):
    forged = Forged(terms=terms)
    forged.study(ADA, [counts(1)], [1])
    result = recompute(forged.save(tmp_path / "terms.export"))
    assert any("what its charges mean" in text for text in result.wrong)
    assert all(one.loss is None for one in result.sums)


@pytest.mark.parametrize("unit", [None, "patient", 'a "b"; signatures: "c"'])
def test_terms_are_read_as_they_are_written(unit):
    assert read_terms(ledger_terms(unit, NOT_PRIVATE_LABEL)) == (unit, NOT_PRIVATE_LABEL)


@pytest.mark.parametrize(
    ("amount", "until", "wrong"),
    [
        ("1/100", 10**9, "its steward approved 1/100"),
        ("2", 10**9, "its steward approved 2"),
        ("1", 1003, "whose approval had ended"),
        ("1", 10**9, None),
    ],
)
def test_an_approval_holds_for_its_amount_and_its_time(amount, until, wrong, tmp_path, forged):
    request = forged.request()
    forged.add(EntryKind.APPROVE, learner=ADA.public, request=request, amount=amount, expires_at=until)
    forged.study(ADA, [counts(1)], [1], request=request)
    found = recompute(forged.save(tmp_path / "approved.export"), delta=None).wrong
    assert [wrong in text for text in found] == ([True] if wrong else []), found


@pytest.mark.parametrize("again", [False, True])
def test_an_approval_holds_for_the_records_that_its_steward_knew_and_is_not_given_twice(again, tmp_path, forged):
    """Another word on the newer records is none on what was decided."""
    word = {"learner": ADA.public, "request": forged.request(), "amount": "1", "expires_at": 10**9}
    forged.add(EntryKind.DATA, note="0" * 32)
    forged.add(EntryKind.APPROVE, **word)
    forged.add(EntryKind.DATA, note="1" * 32)
    if again:
        forged.add(EntryKind.APPROVE, **word)
    forged.study(ADA, [counts(1)], [1], request=word["request"])
    word["request"] = forged.request()
    places = [forged.add(EntryKind.APPROVE, **word | {"amount": cost}) for cost in ("1", "2", "2")]
    *found, twice = recompute(forged.save(tmp_path / "approved.export"), delta=None).wrong
    assert ["other records a plan that its steward approved before" in text for text in found] == [True] * (not again)
    assert f"entry {places[-1]} (approve) decides again on what was decided" in twice


def test_cards_of_two_bounds_leave_a_study_without_a_card_open(tmp_path, forged):
    first, _ = forged.study(ADA, [counts(1)], [4])
    second, _ = forged.study(BOB, [counts(1)], [1])
    forged.study(MALLORY, [counts(1)], [1])
    path = forged.save(tmp_path / "cards.export")
    shown = {(ADA.public, first): 4, (BOB.public, second): 1}
    audit = audit_ledger(path, kinds=AUDITED_KINDS, cards_of=lambda curator: shown)
    assert any("show c = 1 and 4" in text for text in audit.unproven)
    other = {(ADA.public, first): 1}
    (wrong,) = audit_ledger(path, kinds=AUDITED_KINDS, cards_of=lambda curator: other).findings.texts()
    assert "with c = 1 by the card" in wrong


# Witnesses and receipts that a curator made up


@pytest.fixture
def witnessed_export(tmp_path):
    """An export, a head of it that somebody co-signed, and the key of who did."""
    forged = Forged()
    study, _ = forged.study(ADA, [counts(1)], [1])
    path, made_up = forged.save(tmp_path / "ward.export"), SigningKey.generate()
    signed = sign_checkpoint(make_checkpoint(Tree(forged.heads), forged.head, HOSPITAL.public), HOSPITAL)
    head = tmp_path / "head"
    head.write_text(str(with_signature(signed, cosign(signed, made_up, 1)).note), encoding="utf-8")
    receipt = forged.receipt(tmp_path / "a.receipt", ADA, study, bytes(32), forged.head, charged=0, sequence=0)
    return path, head, made_up.public.hex(), receipt


def said(*arguments, code=0):
    result = CliRunner().invoke(app, ["audit", "run", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result.output.replace("\n", " ")


def test_a_witness_is_named_and_nobody_s_until_its_key_is_known(witnessed_export):
    path, head, key, _ = witnessed_export
    output = said(path, "--witnessed", head)
    assert f"nobody checked whose key witness {key} is" in output
    assert "rest on the curator's word" not in output
    output = said(path, "--witnessed", head, "--witness", key)
    assert f"whose key witness {key}" not in output
    assert "rest on the curator's word" not in output
    output = said(path, "--witnessed", head, "--witness", MALLORY.public.hex())
    assert "no witness that --witness names co-signed it" in output
    assert "rest on the curator's word" in output
    assert "is no public key" in said(path, "--witnessed", head, "--witness", "abc", code=2)


def test_a_receipt_alone_does_not_show_that_a_learner_held_it(witnessed_export):
    path, _, _, receipt = witnessed_export
    result = recompute(path, receipts=[receipt], delta=None)
    assert result.unwitnessed == []
    assert any(f"{receipt} is signed by the curator alone" in text for text in result.unproven)


# What is too long, too deep, too much


def primes(start, count):
    found, candidate = [], start | 1
    while len(found) < count:
        if all(candidate % divisor for divisor in range(3, int(candidate**0.5) + 1, 2)):
            found.append(candidate)
        candidate += 2
    return found


def as_json(path, **options):
    """What is told of a ledger, written out."""
    result = recompute(path, **options)
    return result, msgspec.json.decode(msgspec.json.encode(result.as_object()))


@pytest.mark.slow
def test_a_sum_too_long_to_be_written_is_rounded_up(tmp_path):
    """A learner chooses scales that are primes: the exact sum has more digits than Python prints."""
    forged, scales = Forged(), primes(2**25, 580)
    for scale in scales:
        forged.study(ADA, [counts(scale)], [Fraction(1, scale)])
    result, told = as_json(forged.save(tmp_path / "primes.export"), delta=None)
    assert result.proven, result.wrong
    exact = sum(Fraction(1, scale) for scale in scales)
    written = Fraction(told["units"][0]["shared"])
    assert exact <= written <= exact + Fraction(1, 2**64)
    assert result.units[0].shared == exact


def long(number):
    return "1/" + str(10**1990 + 2 * number + 1)


def test_amounts_of_thousands_of_digits_end_in_findings(tmp_path, forged):
    for number in range(4):
        forged.study(ADA, [{"kind": "x"}] * 20, [long(20 * number + each) for each in range(20)], amount="1")
    for number in range(4):
        forged.add(EntryKind.HALT)
        forged.add(EntryKind.RESUME, amount=long(number))
    forged.add(EntryKind.HALT)
    forged.add(EntryKind.RESUME, amount="9" * 2000)
    forged.study(BOB, [counts(1)], [1])
    result, told = as_json(forged.save(tmp_path / "long.export"))
    assert sum("and its queries cost" in text for text in result.wrong) == 4
    assert result.sums[-1].loss is None, "no float is as large"
    assert Fraction(told["units"][0]["shared"]) > 10**1999


def test_a_database_whose_rows_are_computed_is_no_ledger(tmp_path):
    path = tmp_path / "bomb.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("create table entries(entry_index, signature, body as (zeroblob(900000000)))")
        connection.execute("create table replies(request, reply)")
        connection.execute("insert into entries values(0, x'00')")
        connection.commit()
    assert any("has a column that is computed" in text for text in recompute(path).wrong)


def test_a_loss_is_never_rounded_down():
    amounts = [Fraction(1, 3), Fraction(10**400 + 1, 10**400), Fraction(1, 10**400), Fraction(2), Fraction(0)]
    assert all(Fraction(rounded_up(amount)) >= amount for amount in amounts)
    assert rounded_up(Fraction(2)) == 2.0
    assert rounded_up(Fraction(10**400)) == math.inf


@pytest.mark.parametrize(("questions", "delta"), [(1, 0.0), (40, 2e-6)])
def test_a_sum_over_plans_says_on_what_it_rests(questions, delta, tmp_path, forged):
    """A plan of one question has no smaller epsilon for a delta, and takes none; one of many has."""
    for learner in (ADA, BOB):
        forged.study(learner, [counts(300)] * questions, [Fraction(1, 300)] * questions)
    told = recompute(forged.save(tmp_path / "two.export")).as_object()["sums"]
    caveats = {one["learner"]: one["loss"]["caveat"] for one in told}
    assert "bounded before the first" in caveats.pop(None)
    assert set(caveats.values()) == {None}
    assert told[-1]["loss"]["delta"] == delta
