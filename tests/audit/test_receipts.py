"""Receipts and witnessed heads against a ledger: what contradicts it is found, and beyond them is only a word."""

import json
import random

import msgspec
import pytest
from typer.testing import CliRunner

from curator_fakes import NOW, Learner, key, mass_body, open_curator, plan_of
from curator_node.ledger.book import hand_over
from curator_node.ledger.exports import export_ledger
from curator_node.ledger.store import MemoryStore
from expril.audit.recompute import recompute
from expril.commands.app import app
from histories import History, a_study, resigned
from protocol.envelopes import SigningKey
from protocol.ledger.checkpoints import cosign, make_checkpoint, sign_checkpoint, with_signature
from protocol.ledger.entries import EntryKind, decode_entry, encode_entry, entry_hash
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
