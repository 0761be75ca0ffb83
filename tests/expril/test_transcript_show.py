"""`expril transcript show`: every message of a study, with all that it takes to redo its arithmetic by hand."""

import json
import math
import re
from fractions import Fraction

import msgspec
import pytest

from command_line import run
from expril.audit.recompute import recompute
from expril_conformance import vectors
from pooled import Pool
from protocol.envelopes import SigningKey, digest, open_envelope, seal
from protocol.run_index import TRANSCRIPTS
from protocol.schema import CategoricalAttribute, NumericAttribute, Schema

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def show(*arguments, code=0):
    return run("transcript", "show", *arguments, code=code).output


@pytest.fixture(scope="module")
def folder(honest_run):
    return honest_run[0]


def messages(folder, *options):
    return json.loads(show(folder, *options, "--json"))["messages"]


@pytest.mark.slow
def test_every_message_is_shown_in_order(folder):
    view = messages(folder, "--learner", "grace", "--curator", "south")
    assert [message["type"] for message in view] == [
        "card_request",
        "card",
        "study_proposal",
        "study_accepted",
        *["query", "release"] * 3,
        "study_close",
        "study_closed",
    ]
    assert [message["from"] for message in view] == ["learner", "curator"] * 6
    assert " as to whether it is among the records; of one that is known to be, by " in view[1]["may_change"]
    (line,) = [
        message
        for message in recompute(folder).runs[0].index.transcripts
        if (message.learner, message.curator) == ("grace", "south")
    ]
    envelopes = msgspec.msgpack.decode((folder / TRANSCRIPTS / line.file).read_bytes())
    assert [message["digest"] for message in view] == [digest(data).hex() for data in envelopes]
    assert [message["sequence"] for message in view] == [open_envelope(data)[1].sequence for data in envelopes]


@pytest.mark.slow
def test_the_arithmetic_can_be_redone_from_what_is_printed(folder):
    """From the text alone: costs from c m S / scale, the sum of the plan, charges, totals and the refund."""
    text = show(folder, "--learner", "grace", "--curator", "south")
    c = int(re.search(r"^ +c: (\d+)$", text, re.MULTILINE)[1])
    formulas = re.findall(r"cost c m S / scale = (\d+) \* (\d+) \* (\d+) / \(([\d/]+)\) = ([\d/]+)", text)
    assert len(formulas) == 6  # the plan's three, and each again with its query
    costs = []
    for most, m, steps, scale, cost in formulas:
        assert int(most) == c
        assert Fraction(int(most) * int(m) * int(steps)) / Fraction(scale) == Fraction(cost)
        costs.append(Fraction(cost))
    assert costs[:3] == costs[3:]
    assert Fraction(re.search(r"plan_cost: ([\d/]+)", text)[1]) == sum(costs[:3]) == 1
    charged = [Fraction(message) for message in re.findall(r"receipt, charged: ([\d/]+)", text)]
    totals = [Fraction(message) for message in re.findall(r"receipt, spent_by_study: ([\d/]+)", text)]
    assert charged == [0, *costs[:3], 0]
    assert totals == [sum(charged[: n + 1]) for n in range(5)]
    assert Fraction(re.search(r"refunded: ([\d/]+)", text)[1]) == 1 - totals[-1]
    assert len(re.findall(r"receipt, ledger_head: [0-9a-f]{64}", text)) == 5


def test_a_card_is_shown_with_its_units_and_what_means_missing(tmp_path):
    card = msgspec.structs.replace(
        open_envelope(bytes.fromhex(vectors()["envelopes"]["good"][1]["given"]["bytes"]))[1],
        schema=Schema(
            (
                NumericAttribute("weight", 0, 300, units="kg", missing=(999, "not\x1b done")),
                NumericAttribute("born", -9, 9, days_since="2015-01-01"),
                CategoricalAttribute("sex", ("f", "m"), missing=("unknown",)),
            ),
            "stay",
            label_bounds=(0.0, 365.0),
            label_units="days",
        ),
    )
    path = tmp_path / "card.transcript"
    path.write_bytes(msgspec.msgpack.encode([seal(card, SigningKey.from_seed(b"\1" * 32))]))
    (view,) = json.loads(show(path, "--json"))["messages"]
    assert view["units"] == {"weight": "kg", "born": "days since 2015-01-01", "stay": "days"}
    assert view["missing"] == {"weight": [999.0, "not? done"], "sex": ["unknown"]}
    text = show(path)
    assert "kg" in text
    assert "unknown" in text


def test_a_refusal_says_whether_it_may_pass(folder):
    text = show(folder, "--learner", "grace", "--curator", "west")
    assert "code: over_budget" in text
    assert "\n     final" in text
    (refusal,) = [
        message
        for message in messages(folder, "--learner", "grace", "--curator", "west")
        if message["type"] == "refusal"
    ]
    assert refusal["final"] is True
    assert refusal["limit"].startswith("a cost of at most")


def test_values_are_printed_only_where_they_are_asked_for(folder):
    plain = [message for message in messages(folder) if message["type"] == "release"]
    assert all("values" not in message and message["numbers"] > 0 for message in plain)
    full = [message for message in messages(folder, "--values") if message["type"] == "release"]
    assert all(len(message["values"]) == message["numbers"] for message in full)
    assert all(re.fullmatch(r"-?\d+", value) for message in full for value in message["values"])


def test_a_file_is_shown_without_its_run(folder, tmp_path):
    transcript = min((folder / TRANSCRIPTS).glob("*.msgpack"))
    (tmp_path / "alone.msgpack").write_bytes(transcript.read_bytes())
    assert "study_proposal" in show(tmp_path / "alone.msgpack")


def test_what_is_not_there_is_one_clear_line(folder, tmp_path):
    assert "learners: ada, grace" in show(folder, "--learner", "alan", code=2)
    assert "curators: north" in show(folder, "--repeat", 7, code=2)
    assert "holds no run" in show(tmp_path, code=2)
    assert "cannot read" in show(tmp_path / "absent", code=2)
    (tmp_path / "junk").write_bytes(b"junk")
    assert "no list of envelopes" in show(tmp_path / "junk", code=2)
    (tmp_path / "bad.msgpack").write_bytes(msgspec.msgpack.encode([b"junk"]))
    assert "envelope 1" in show(tmp_path / "bad.msgpack", code=2)
    envelope = {"label": "expril/1", "type": "card_request", "payload": b"", "signature": bytes(64)}
    (tmp_path / "old.msgpack").write_bytes(msgspec.msgpack.encode([msgspec.msgpack.encode(envelope)]))
    assert "ExPriL 0.1" in show(tmp_path / "old.msgpack", code=2)


def test_what_a_peer_wrote_cannot_drive_the_terminal(folder, tmp_path):
    """A purpose, a name or a refusal's text may hold any letters; control characters are not printed."""
    line = recompute(folder).runs[0].index.transcripts[0]
    envelopes = msgspec.msgpack.decode((folder / TRANSCRIPTS / line.file).read_bytes())
    parts = msgspec.msgpack.decode(envelopes[2])
    payload = msgspec.msgpack.decode(parts["payload"])
    payload["purpose"] = "\x1b[2J\x07 hello"
    parts["payload"] = msgspec.msgpack.encode(payload)
    envelopes[2] = msgspec.msgpack.encode(parts)
    (tmp_path / "x.msgpack").write_bytes(msgspec.msgpack.encode(envelopes))
    text = show(tmp_path / "x.msgpack")
    assert "hello" in text
    assert "\x1b" not in text
    assert "\x07" not in text


def test_limits_of_kinds_that_nobody_knows_are_shown_and_cannot_drive_the_terminal(folder, tmp_path):
    """What a card says of kinds is read by these kinds alone; here it may be of any type that MessagePack has."""
    line = recompute(folder).runs[0].index.transcripts[0]
    envelopes = msgspec.msgpack.decode((folder / TRANSCRIPTS / line.file).read_bytes())
    parts = msgspec.msgpack.decode(envelopes[1])
    payload = msgspec.msgpack.decode(parts["payload"])
    odd = [b"\x1b", msgspec.msgpack.Ext(5, b"x"), math.nan, {"\x1b[2J": 1}, None]
    payload["limits"]["kinds"] = {"\x1b[2J hello": {"\x07 there": "\x1b[31mred", "odd": odd}}
    parts["payload"] = msgspec.msgpack.encode(payload)
    envelopes[1] = msgspec.msgpack.encode(parts)
    (tmp_path / "x.msgpack").write_bytes(msgspec.msgpack.encode(envelopes))
    for text in (show(tmp_path / "x.msgpack"), show(tmp_path / "x.msgpack", "--json")):
        assert "hello" in text
        assert "there" in text
        for control in ("\x1b", "\x07", r"\u001b"):
            assert control not in text


def test_a_secure_sum_is_shown_turn_by_turn(tmp_path):
    pool = Pool(4, 1, 1)
    pool.run_without_vector(2)
    file = tmp_path / "sum.transcript"
    file.write_bytes(msgspec.msgpack.encode(pool.sessions[0].transcript.envelopes))
    view = json.loads(show(file, "--json", "--values"))["messages"]
    (plan,) = next(message["plan"] for message in view if message["type"] == "study_proposal")
    assert [plan[name] for name in ("n", "t", "u", "h", "cost")] == [4, 1, 1, 2, "1/30"]
    assert plan["participants"] == [key.hex() for key in pool.planned.participants]
    queries = [message for message in view if message["type"] == "query"]
    assert [message["turn"] for message in queries] == ["keys", "shares", "masked", "agreed", "opened"]
    assert (queries[1]["cards"], queries[2]["shares"], queries[2]["cells"]) == ([0, 1, 2, 3], [1, 2, 3], 4)
    assert queries[3]["survivors"] == queries[4]["survivors"] == [0, 1, 3]
    released = [message for message in view if message["type"] == "release"]
    assert [message["numbers"] for message in released] == [0, 0, 4, 0, 0]
    assert [message["receipt"]["charged"] for message in released] == ["0", "0", "1/30", "0", "0"]
    assert all("no ledger is put back before the sum is done" in message["on_condition"] for message in released)
    card = next(message for message in view if message["type"] == "card")
    assert "whose ledger was put back within the sum is one of those" in card["on_condition"]["secure_counts"]
    assert "kind not installed" not in show(file)
