"""The curator under test answers, and a learner that the suite plays asks, also what it must not."""

import json
import shutil
from dataclasses import replace
from fractions import Fraction

import pytest

from expril_conformance import example, vectors, wire
from expril_conformance.example import AGE, BODIES, COSTS, CURATOR, LEARNER, NOW, PLAN, PURPOSE, SEX, STRANGER, STUDY
from expril_conformance.simulated_learner import SimulatedLearner, changed, check_header

OTHER = bytes([9]) * 32
WIDTHS = 24
"""One of 16 numbers is so many scales away with a chance below 21 exp(-24) < 1e-9 in a run of the suite."""


class Desk:
    """A curator under test with one study of the suite's learner."""

    def __init__(self, program, folder):
        self.program, self.folder, self.now = program, folder, NOW
        folder.mkdir()
        (folder / "site.json").write_text(json.dumps(example.site()), encoding="utf-8")
        self.open()
        self.learner = self.new_learner(STUDY)

    def open(self):
        answer = self.program.ask("open", folder=str(self.folder), now=self.now)
        assert answer["curator"] == CURATOR.public.hex()

    def new_learner(self, study, receipt=b""):
        return SimulatedLearner(LEARNER, CURATOR.public, study, receipt)

    def handle(self, request):
        self.now += 1
        answer = self.program.ask("handle", folder=str(self.folder), request=request.hex(), now=self.now)
        return bytes.fromhex(answer["reply"])

    def chain(self):
        export = bytes.fromhex(self.program.ask("export", folder=str(self.folder))["export"])
        return wire.read_export(export, CURATOR.public)

    def take(self, message, charge=Fraction(0), learner=None):
        """The answer to a request, with all of its receipt checked."""
        return (learner or self.learner).take(message, self.handle(message.sealed(LEARNER)), charge)

    def refuse(self, message, *codes):
        """The refusal of a request, which has one of these codes and changes nothing."""
        data = message if isinstance(message, bytes) else message.sealed(LEARNER)
        reply = self.handle(data)
        refusal = wire.opened(reply, CURATOR.public)
        assert refusal.type == "refusal", f"answered with a {refusal.type}"
        assert refusal.fields["code"] in codes, refusal.fields
        assert refusal.fields["answers"] == wire.digest(data)
        if refusal.fields["recipient"] != wire.NOBODY:
            check_header(message, LEARNER, reply, CURATOR.public)
        return refusal

    def propose(self, plan=PLAN, learner=None):
        learner = learner or self.learner
        return self.take(learner.proposal(plan, PURPOSE, self.now), learner=learner)

    def query(self, place=0):
        return self.take(self.learner.query("counts", BODIES[place], self.now), COSTS[place])


@pytest.fixture
def desk(curator, tmp_path):
    """At the end, the ledger holds exactly what the learner's receipts say."""
    desk = Desk(curator, tmp_path / "site")
    yield desk
    assert desk.chain().spent.get(LEARNER.public, 0) == desk.learner.spent


def numbers_of(release):
    counts = wire.decode(release.fields["body"])["counts"]
    return [int.from_bytes(counts[place : place + 8], "little", signed=True) for place in range(0, len(counts), 8)]


def test_whole_study(desk):
    learner = desk.learner
    card = desk.take(learner.card_request(desk.now)).fields
    assert {name: card[name] for name in ("name", "unit", "most_records_per_unit", "round_size", "cap")} == {
        "name": "basel",
        "unit": None,
        "most_records_per_unit": 1,
        "round_size": 1000,
        "cap": example.CAP,
    }
    assert card["schema"] == example.card()["schema"]
    accepted = desk.propose().fields
    assert Fraction(accepted["cost"]) == Fraction(5, 4)
    assert accepted["reserved_until"] == desk.now + 86_400
    for place, scale in enumerate((2, 4)):
        numbers, exact = numbers_of(desk.query(place)), example.exact_numbers()[place]
        assert len(numbers) == len(exact)
        assert all(abs(a - b) < WIDTHS * scale for a, b in zip(numbers, exact, strict=True)), (numbers, exact)
    closed = desk.take(learner.close(desk.now)).fields
    assert closed["refunded"] == "0"
    kinds = [entry["kind"] for entry in desk.chain().entries]
    assert [kind for kind in kinds if kind in ("reserve", "charge", "close")] == [
        "reserve",
        "charge",
        "charge",
        "close",
    ]
    assert kinds.count("answered") == 4


def test_noise_is_drawn_anew_for_each_study(desk):
    """Two of four answers of eight numbers at scale 8 are equal with a chance below 6 * 0.032^8 < 1e-11."""
    draws = []
    for study in (STUDY, example.NEXT_STUDY):
        desk.learner = replace(desk.new_learner(study), spent=Fraction(0))
        plan = {"queries": [example.planned("mass", 2, 8)] * 2}
        desk.propose(plan)
        draws += [
            numbers_of(desk.take(desk.learner.query("counts", BODIES[0], desk.now), Fraction(1, 4)))
            for _ in plan["queries"]
        ]
    assert len({tuple(numbers) for numbers in draws}) == len(draws)
    desk.learner.spent = Fraction(1)


def test_closing_early_refunds_the_rest(desk):
    desk.propose()
    desk.query()
    assert desk.take(desk.learner.close(desk.now)).fields["refunded"] == "1/4"


def test_repeated_request_gets_the_same_bytes_and_no_charge(desk):
    learner = desk.learner
    requests = []
    for message, charge in (
        (lambda: learner.proposal(PLAN, PURPOSE, desk.now), Fraction(0)),
        (lambda: learner.query("counts", BODIES[0], desk.now), COSTS[0]),
        (lambda: learner.query("counts", BODIES[1], desk.now), COSTS[1]),
        (lambda: learner.close(desk.now), Fraction(0)),
    ):
        request = message()
        desk.take(request, charge)
        requests.append(request.sealed(LEARNER))
        for earlier, reply in zip(requests, learner.replies, strict=True):
            assert desk.handle(earlier) == reply
    desk.open()
    assert [desk.handle(request) for request in requests] == learner.replies


def test_another_process_goes_on(desk):
    desk.propose()
    desk.query()
    request = changed(desk.learner.query("counts", BODIES[1], desk.now))
    desk.program.stop()
    desk.open()
    desk.take(request, COSTS[1])
    desk.take(desk.learner.close(desk.now))


def test_card_costs_nothing_and_is_the_same_each_time(desk):
    first, second = (desk.take(desk.learner.card_request(desk.now)).fields for _ in range(2))
    assert {name: first[name] for name in wire.BODIES["card"]} == {name: second[name] for name in wire.BODIES["card"]}


def damaged(data, place):
    changed_data = bytearray(data)
    changed_data[place] ^= 1
    return bytes(changed_data)


STRAY = {
    "no byte": (lambda _: b"", {"malformed"}),
    "noise": (lambda _: b"\x93not an envelope", {"malformed"}),
    "a byte too few": (lambda message: message.sealed(LEARNER)[:-1], {"malformed"}),
    "a byte too many": (lambda message: message.sealed(LEARNER) + b"\0", {"malformed"}),
    "a signature with another bit": (lambda message: damaged(message.sealed(LEARNER), -1), {"bad_signature"}),
    "a signature of a stranger": (lambda message: message.sealed(STRANGER), {"bad_signature"}),
    "a label of simulations": (
        lambda message: replace(message, label=wire.SIMULATION).sealed(LEARNER),
        {"bad_signature"},
    ),
    "a label of version 1": (lambda message: replace(message, label="expril/1").sealed(LEARNER), {"malformed"}),
    "a type that there is not": (lambda message: replace(message, type="hello").sealed(LEARNER), {"malformed"}),
    "a type of a curator": (lambda message: replace(message, type="refusal").sealed(LEARNER), {"malformed"}),
    "a head that is not the shortest": (
        lambda message: replace(message, payload=message.content.replace(b"\xa6sender", b"\xd9\x06sender")).sealed(
            LEARNER
        ),
        {"malformed"},
    ),
    "a field too many": (lambda message: changed(message, more=0).sealed(LEARNER), {"malformed"}),
    "version 1": (lambda message: changed(message, version=1).sealed(LEARNER), {"malformed"}),
    "a short study": (lambda message: changed(message, study=bytes(15)).sealed(LEARNER), {"malformed"}),
    "a negative sequence": (lambda message: changed(message, sequence=-1).sealed(LEARNER), {"malformed"}),
    "a sender that nobody enrolled": (
        lambda message: changed(message, sender=STRANGER.public).sealed(STRANGER),
        {"unknown_sender"},
    ),
}


@pytest.mark.parametrize("name", STRAY)
def test_stray_message(desk, name):
    """It is refused without a number, to nobody, and the honest message is answered after it."""
    desk.propose()
    change, codes = STRAY[name]
    message = desk.learner.query("counts", BODIES[0], desk.now)
    refusal = desk.refuse(change(message), *codes).fields
    assert (refusal["recipient"], refusal["study"], refusal["remaining"]) == (wire.NOBODY, bytes(16), "")
    desk.take(message, COSTS[0])


def body(*partitions, hypothesis=None, **more):
    return wire.encode({"partitions": partitions, "hypothesis": hypothesis, **more})


BAD_QUERIES = {
    "for another curator": ({"recipient": STRANGER.public}, {"wrong_recipient"}),
    "of no study": ({"study": OTHER[:16]}, {"unknown_study"}),
    "that has expired": ({"expires_at": NOW}, {"expired"}),
    "that expires too late": ({"expires_at": NOW + 10_000}, {"not_yet_valid"}),
    "of a later sequence": ({"sequence": 2}, {"out_of_order"}),
    "of an earlier sequence": ({"sequence": 0}, {"changed_content", "out_of_order", "not_in_plan"}),
    "that follows another reply": ({"answers": OTHER}, {"out_of_order"}),
    "of a kind that nobody knows": ({"kind": "telepathy"}, {"unknown_kind", "not_in_plan"}),
    "of another kind": ({"kind": "statistic"}, {"unknown_kind", "not_in_plan", "kind_not_allowed"}),
    "of one partition": ({"body": body(AGE)}, {"not_in_plan"}),
    "of three partitions": ({"body": body(AGE, SEX, SEX)}, {"not_in_plan"}),
    "with falling edges": ({"body": body(AGE | {"edges": [2.0, 1.0]}, SEX)}, {"bad_query"}),
    "of another attribute": ({"body": body(AGE, SEX | {"attribute": "sick"})}, {"bad_query"}),
    "with edges of a category": ({"body": body(AGE, SEX | {"edges": [1.0]})}, {"bad_query"}),
    "with a hypothesis for masses": ({"body": body(AGE, SEX, hypothesis=example.POSITIVE)}, {"bad_query"}),
    "cut short": ({"body": BODIES[0][:-1]}, {"malformed"}),
    "with a written default": ({"body": body(AGE, SEX, most_squared_error=None)}, {"malformed"}),
    "with a partition that nobody knows": ({"body": body(AGE, {"type": "tarot"})}, {"malformed"}),
}


@pytest.mark.parametrize("name", BAD_QUERIES)
def test_query(desk, name):
    """It is refused, nothing is charged, and the honest query is answered after it."""
    desk.propose()
    fields, codes = BAD_QUERIES[name]
    message = desk.learner.query("counts", BODIES[0], desk.now)
    refusal = desk.refuse(changed(message, **fields), *codes).fields
    assert refusal["recipient"] == LEARNER.public
    desk.take(message, COSTS[0])


def statistic():
    return wire.decode(bytes.fromhex(vectors()["statistic"]["good"][0]["given"]["planned"]))


BAD_PLANS = {
    "without a query": ([], {"malformed"}),
    "with a scale of zero": ([example.planned("mass", 1, 0)], {"malformed"}),
    "with a scale not in lowest terms": ([example.planned("mass", 1, 2) | {"scale": [4, 2]}], {"malformed"}),
    "with a written default": ([example.planned("mass", 1, 2, steps=1)], {"malformed"}),
    "of no partition": ([example.planned("mass", 0, 2)], {"malformed"}),
    "of a kind that nobody knows": ([example.planned("mass", 1, 2) | {"kind": "telepathy"}], {"unknown_kind"}),
    "of a kind that is not allowed": ([statistic()], {"kind_not_allowed", "unknown_kind"}),
    "of a release that is not allowed": ([example.planned("signed_error", 1, 2)], {"kind_not_allowed"}),
    "of a release that nobody knows": ([example.planned("all", 1, 2)], {"bad_plan"}),
    "with steps for masses": ([example.planned("mass", 1, 2, steps=2)], {"bad_plan"}),
    "that costs next to nothing": ([example.planned("mass", 1, 100_000)], {"below_least_cost"}),
    "with a cost beyond 32 bits": ([example.planned("mass", 100, 1) | {"scale": [1, 2**32 - 1]}], {"bad_plan"}),
    "over budget": ([example.planned("mass", 3, 1)], {"over_budget"}),
}


@pytest.mark.parametrize("name", BAD_PLANS)
def test_plan(desk, name):
    """It is refused, nothing is reserved, and another plan is accepted after it."""
    queries, codes = BAD_PLANS[name]
    message = desk.learner.proposal({"queries": queries}, PURPOSE, desk.now)
    desk.refuse(message, *codes)
    assert not desk.chain().of_kind("reserve")
    desk.learner = desk.new_learner(example.NEXT_STUDY)
    desk.propose()


def test_refusal_stays_what_it_was(desk):
    """A final refusal of a request is its answer for ever, also where the same would be accepted later."""
    first = desk.new_learner(example.NEXT_STUDY)
    desk.propose(learner=first)
    message = desk.learner.proposal(PLAN, PURPOSE, desk.now)
    before = desk.refuse(message, "over_budget").fields
    desk.take(first.close(desk.now), learner=first)
    after = desk.refuse(message, "over_budget").fields
    assert {name: before[name] for name in wire.BODIES["refusal"]} == {
        name: after[name] for name in wire.BODIES["refusal"]
    }


def test_what_is_left_is_what_was_not_reserved(desk):
    first = desk.new_learner(example.NEXT_STUDY)
    desk.propose(learner=first)
    refusal = desk.refuse(desk.learner.proposal(PLAN, PURPOSE, desk.now), "over_budget").fields
    assert (refusal["remaining"], refusal["scale_factor"]) == ("3/4", "5/3")
    desk.learner = desk.new_learner(b"a third study...")
    scaled = [query | {"scale": [5 * query["scale"][0], 3]} for query in PLAN["queries"]]
    assert desk.propose({"queries": scaled}).fields["cost"] == "3/4"


def test_query_without_a_proposal(desk):
    desk.refuse(desk.learner.query("counts", BODIES[0], desk.now), "unknown_study")


def test_study_twice(desk):
    desk.propose()
    other = desk.learner.proposal(PLAN, "another purpose", desk.now)
    desk.refuse(changed(other, answers=wire.NOTHING), "changed_content")


def test_query_in_place_of_an_answered_one(desk):
    """The same sequence with another question would be a second answer for one charge."""
    desk.propose()
    before = desk.learner.last_reply
    desk.query()
    again = changed(desk.learner.query("counts", BODIES[0], desk.now), sequence=1, answers=before)
    desk.refuse(again, "changed_content")


def test_query_beyond_the_plan(desk):
    desk.propose()
    desk.query()
    desk.query(1)
    desk.refuse(desk.learner.query("counts", BODIES[0], desk.now), "not_in_plan", "out_of_order")


def test_query_after_the_closing(desk):
    desk.propose()
    desk.take(desk.learner.close(desk.now))
    desk.refuse(desk.learner.query("counts", BODIES[0], desk.now), "study_closed")


def test_query_after_the_reservation(desk):
    desk.propose()
    desk.query()
    desk.now += 86_400
    desk.refuse(desk.learner.query("counts", BODIES[1], desk.now), "study_expired")
    desk.learner = replace(desk.new_learner(example.NEXT_STUDY), spent=Fraction(0))
    desk.propose({"queries": [example.planned("mass", 1, 1)]})
    desk.learner.spent = COSTS[0]


def test_receipt_of_a_later_state_than_the_ledger(desk, tmp_path):
    """A backup was put back: a receipt that the curator signed afterwards shows it, and nothing more is answered."""
    desk.propose()
    desk.program.stop()
    shutil.copytree(desk.folder, tmp_path / "backup")
    desk.open()
    query = desk.learner.query("counts", BODIES[0], desk.now)
    desk.take(query, COSTS[0])
    desk.program.stop()
    shutil.rmtree(desk.folder)
    shutil.copytree(tmp_path / "backup", desk.folder)
    desk.open()
    later = desk.new_learner(example.NEXT_STUDY, desk.learner.newest_receipt)
    plan = {"queries": [example.planned("mass", 1, 4)]}
    desk.refuse(later.proposal(plan, PURPOSE, desk.now), "ledger_rolled_back")
    desk.refuse(query, "halted", "ledger_rolled_back")
    desk.learner.spent = Fraction(0)  # the charge is lost with the ledger


def test_receipt_that_the_curator_did_not_sign(desk):
    """It proves nothing, so it must not stop the curator."""
    desk.propose()
    receipt = wire.Message("receipt", wire.opened(desk.learner.newest_receipt, CURATOR.public).fields)
    desk.take(desk.learner.close(desk.now))
    forged = changed(receipt, sequence=9).sealed(STRANGER)
    liar = desk.new_learner(example.NEXT_STUDY, forged)
    reply = wire.opened(desk.handle(liar.proposal(PLAN, PURPOSE, desk.now).sealed(LEARNER)), CURATOR.public)
    assert reply.fields.get("code") not in ("ledger_rolled_back", "halted", "unavailable")
    honest = desk.new_learner(b"a third study...", desk.learner.newest_receipt)
    desk.propose({"queries": [example.planned("mass", 1, 4)]}, learner=honest)
