"""The learner under test asks, and a curator that the suite plays answers, also with lies."""

import json
from dataclasses import replace
from fractions import Fraction

import pytest

from expril_conformance import example, wire
from expril_conformance.example import BODIES, CURATOR, LEARNER, NOW, PLAN, PURPOSE, STRANGER, STUDY
from expril_conformance.simulated_learner import SimulatedLearner

CARD, PROPOSAL, FIRST, SECOND, CLOSE = "card", "proposal", "first query", "second query", "close"
REQUESTS = (CARD, PROPOSAL, FIRST, SECOND, CLOSE)
OTHER = bytes([9]) * 32


class Walk:
    """One study of the learner under test, step by step; each request is compared with the suite's own."""

    def __init__(self, program, folder, *, study=STUDY, receipt=b"", curator=None):
        self.program, self.folder = program, folder
        self.curator = curator or example.curator()
        self.twin = SimulatedLearner(LEARNER, CURATOR.public, study, receipt)
        self.status, self.request, self.place = {}, b"", -1
        self.now, self.plan = NOW, PLAN
        told = {
            "seed": LEARNER.seed.hex(),
            "study": study.hex(),
            "curator": CURATOR.public.hex(),
            "label": wire.LABEL,
            "lifetime": 600,
            "plan": wire.encode(PLAN).hex(),
            "purpose": PURPOSE,
            "queries": [{"kind": "counts", "body": body.hex()} for body in BODIES],
            "newest_receipt": receipt.hex(),
        }
        folder.mkdir(exist_ok=True)
        (folder / "study.json").write_text(json.dumps(told), encoding="utf-8")
        self.step()

    @property
    def carrier(self):
        return self.folder / CURATOR.public.hex()

    def step(self):
        """One step; the request that waits then, and where the study stands."""
        self.now += 1
        self.status = self.program.ask("step", folder=str(self.folder), now=self.now)
        self.request = b""
        if self.status["waits"]:
            path = self.carrier / "requests" / f"{self.status['waits']}.envelope"
            self.request = path.read_bytes()
            assert wire.digest(self.request).hex() == self.status["waits"]
        return self.status

    def bring(self, reply):
        """A reply to the request that waits, then a step."""
        path = self.carrier / "replies" / f"{self.status['waits']}.envelope"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(reply)
        return self.step()

    def honest(self):
        return self.curator.reply(self.request, LEARNER.public)

    def go_on(self):
        """The honest reply."""
        reply = self.honest().sealed()
        if self.honest().message.type != "card":
            self.twin.replies.append(reply)
        return self.bring(reply)

    def until(self, name):
        """Honest replies until a request waits."""
        for _ in REQUESTS[: REQUESTS.index(name)]:
            self.go_on()
            assert not self.status["refused"], self.status["why"]
        return self

    def expect(self, message, at):
        """The request that waits is this one, signed, byte for byte."""
        assert wire.opened(self.request, LEARNER.public).fields == message.fields
        assert self.request == message.sealed(LEARNER)
        assert message.fields["expires_at"] == at + 600


@pytest.fixture
def walk(learner, tmp_path):
    return Walk(learner, tmp_path / "study")


def test_whole_study(walk):
    twin = walk.twin
    assert walk.status["state"] == "new"
    walk.expect(twin.card_request(NOW + 1), NOW + 1)
    walk.go_on()
    assert walk.status["state"] == "proposed"
    walk.expect(twin.proposal(PLAN, PURPOSE, NOW + 2), NOW + 2)
    walk.go_on()
    assert (walk.status["state"], walk.status["claimed"], walk.status["spent"]) == ("asked", "5/4", "0")
    assert walk.status["at_most"] == "1"
    walk.expect(twin.query("counts", BODIES[0], NOW + 3), NOW + 3)
    walk.go_on()
    twin.sequence += 1
    assert (walk.status["state"], walk.status["spent"], walk.status["at_most"]) == ("asked", "1", "5/4")
    walk.expect(twin.query("counts", BODIES[1], NOW + 4), NOW + 4)
    walk.go_on()
    twin.sequence += 1
    assert walk.status["state"] == "closing"
    walk.expect(twin.close(NOW + 5), NOW + 5)
    walk.go_on()
    assert (walk.status["state"], walk.status["waits"]) == ("closed", "")
    assert (walk.status["spent"], walk.status["at_most"]) == ("5/4", "5/4")
    assert walk.status["answers"] == walk.curator.answers


def test_nothing_happens_without_a_reply(walk):
    for name in REQUESTS:
        before, status = walk.request, dict(walk.status)
        walk.step()
        assert (walk.request, walk.status) == (before, status), name
        assert len(list((walk.carrier / "requests").iterdir())) == 1 + REQUESTS.index(name)
        walk.go_on()
    assert walk.status["state"] == "closed"


def test_another_process_goes_on(walk):
    walk.until(FIRST)
    walk.program.stop()
    before = walk.request
    assert walk.step()["state"] == "asked"
    assert walk.request == before
    walk.go_on()
    assert (walk.request != before, walk.status["spent"]) == (True, "1")


def test_next_study_shows_the_newest_receipt(walk, learner, tmp_path):
    walk.until(CLOSE).go_on()
    receipt = bytes.fromhex(walk.status["newest_receipt"])
    assert wire.opened(receipt, CURATOR.public).fields["sequence"] == 3
    curator = example.curator(spent_before=Fraction(5, 4))
    later = Walk(learner, tmp_path / "later", study=example.NEXT_STUDY, receipt=receipt, curator=curator)
    assert later.status["newest_receipt"] == receipt.hex()
    later.go_on()
    later.expect(later.twin.proposal(PLAN, PURPOSE, later.now), later.now)
    for _ in REQUESTS[1:]:
        later.go_on()
    assert (later.status["state"], later.status["spent"]) == ("closed", "5/4")


def test_card_with_a_kind_that_nobody_knows(learner, tmp_path):
    curator = example.curator()
    limits = curator.card["limits"]
    kinds = limits["kinds"] | {"telepathy": {"distance": 3}}
    curator.card = curator.card | {"limits": limits | {"kinds": kinds}}
    walk = Walk(learner, tmp_path / "study", curator=curator).until(CLOSE)
    walk.go_on()
    assert walk.status["state"] == "closed"


def test_proposal_refused_for_good(walk):
    walk.until(PROPOSAL)
    walk.bring(walk.curator.refusal(walk.request, LEARNER.public, "declined").sealed())
    assert (walk.status["state"], walk.status["waits"], walk.status["refused"]) == ("refused", "", "")
    assert walk.step()["waits"] == ""
    assert walk.status["spent"] == walk.status["at_most"] == "0"


def test_query_refused_for_good(walk):
    walk.until(SECOND)
    walk.bring(walk.curator.refusal(walk.request, LEARNER.public, "bad_query").sealed())
    assert (walk.status["state"], walk.status["spent"], walk.status["at_most"]) == ("closing", "1", "1")
    assert wire.opened(walk.request, LEARNER.public).type == "study_close"
    walk.go_on()
    assert (walk.status["state"], walk.status["spent"]) == ("closed", "1")


@pytest.mark.parametrize("name", REQUESTS)
def test_refusal_that_may_pass(walk, name):
    walk.until(name)
    before, state = walk.request, walk.status["state"]
    walk.bring(walk.curator.refusal(walk.request, LEARNER.public, "busy").sealed())
    assert (walk.request, walk.status["state"], walk.status["refused"]) == (before, state, "")
    walk.go_on()
    assert walk.request != before


@pytest.mark.parametrize("name", REQUESTS[1:])
def test_refusal_to_nobody_settles_nothing(walk, name):
    """A relay can get it for bytes of its own, so that it says nothing of the learner's request."""
    walk.until(name)
    before, state = walk.request, walk.status["state"]
    walk.bring(walk.curator.refusal(walk.request, LEARNER.public, "bad_query", to_nobody=True).sealed())
    assert (walk.request, walk.status["state"]) == (before, state)
    walk.go_on()
    assert walk.request != before


def test_plan_accepted_at_another_cost(learner, tmp_path):
    curator = example.curator(claimed=Fraction(3, 2))
    walk = Walk(learner, tmp_path / "study", curator=curator).until(PROPOSAL)
    walk.go_on()
    if walk.status["refused"]:
        assert walk.status["state"] == "proposed"
    else:
        assert wire.opened(walk.request, LEARNER.public).type == "study_close"


def test_release_of_another_size(walk):
    walk.until(FIRST)
    reply = walk.honest()
    body = wire.encode({"counts": bytes(56), "ratios": b""})
    walk.bring(reply.with_fields(body=body).with_receipt(release=wire.digest(body)).sealed())
    assert walk.status["answers"] == [None]
    assert wire.opened(walk.request, LEARNER.public).type == "study_close"
    assert walk.status["spent"] == "1"


def resealed(reply, payload):
    """A reply whose payload is other bytes, well signed."""
    return replace(reply, message=replace(reply.message, payload=payload), receipt=None).sealed()


def whole_payload(reply):
    return wire.decode(reply.sealed())["payload"]


def with_short_head(reply):
    payload = whole_payload(reply)
    return resealed(reply, payload.replace(b"\xa8sequence", b"\xd9\x08sequence"))


def with_one_more(reply):
    payload = whole_payload(reply)
    return resealed(reply, bytes([payload[0] + 1]) + payload[1:] + b"\xa1x\x00")


def without_expiry(reply):
    fields = wire.decode(whole_payload(reply))
    return resealed(reply, wire.encode({name: value for name, value in fields.items() if name != "expires_at"}))


def of_version_one(reply):
    return resealed(reply, wire.encode(wire.decode(whole_payload(reply)) | {"version": 1}))


def flipped(reply):
    data = bytearray(reply.sealed())
    data[-70] ^= 1
    return bytes(data)


def of_type(reply, name):
    return replace(reply, message=replace(reply.message, type=name)).sealed()


def receipt_signed_again(reply, **options):
    return replace(reply, **options).sealed()


DECODING, SIGNING, STANDING, AMOUNTS = {"decode", "canonical form"}, {"signature"}, {"state", "signature"}, {"budget"}
FAULTS = {
    "no byte": (FIRST, lambda _: b"", DECODING),
    "noise": (FIRST, lambda _: b"\x93not an envelope", DECODING),
    "a byte too few": (FIRST, lambda reply: reply.sealed()[:-1], DECODING),
    "a byte too many": (FIRST, lambda reply: reply.sealed() + b"\0", DECODING),
    "a head that is not the shortest": (FIRST, with_short_head, DECODING),
    "a field too many": (FIRST, with_one_more, DECODING),
    "a field too few": (FIRST, without_expiry, DECODING),
    "version 1": (FIRST, of_version_one, DECODING),
    "a type that there is not": (FIRST, lambda reply: of_type(reply, "hello"), DECODING),
    "a type of another reply": (FIRST, lambda reply: of_type(reply, "study_closed"), DECODING | {"state"}),
    "a byte changed": (FIRST, flipped, DECODING | SIGNING),
    "a reply that a stranger signed": (FIRST, lambda reply: replace(reply, key=STRANGER).sealed(), SIGNING),
    "a reply that the learner signed": (FIRST, lambda reply: replace(reply, key=LEARNER).sealed(), SIGNING),
    "a card that a stranger signed": (CARD, lambda reply: replace(reply, key=STRANGER).sealed(), SIGNING),
    "a closing that a stranger signed": (CLOSE, lambda reply: replace(reply, key=STRANGER).sealed(), SIGNING),
    "a label of simulations": (
        FIRST,
        lambda reply: replace(reply, message=replace(reply.message, label=wire.SIMULATION)).sealed(),
        SIGNING,
    ),
    "another sender": (FIRST, lambda reply: reply.with_fields(sender=STRANGER.public).sealed(), STANDING),
    "another recipient": (FIRST, lambda reply: reply.with_fields(recipient=STRANGER.public).sealed(), STANDING),
    "another study": (FIRST, lambda reply: reply.with_fields(study=bytes(16)).sealed(), STANDING),
    "a later sequence": (FIRST, lambda reply: reply.with_fields(sequence=2).sealed(), STANDING),
    "an earlier sequence": (SECOND, lambda reply: reply.with_fields(sequence=1).sealed(), STANDING),
    "an answer to another request": (FIRST, lambda reply: reply.with_fields(answers=OTHER).sealed(), STANDING),
    "a card for another request": (CARD, lambda reply: reply.with_fields(answers=OTHER).sealed(), STANDING),
    "an acceptance of another request": (PROPOSAL, lambda reply: reply.with_fields(answers=OTHER).sealed(), STANDING),
    "a receipt that a stranger signed": (
        FIRST,
        lambda reply: receipt_signed_again(reply, receipt_key=STRANGER),
        SIGNING,
    ),
    "a receipt that the learner signed": (
        FIRST,
        lambda reply: receipt_signed_again(reply, receipt_key=LEARNER),
        SIGNING,
    ),
    "a receipt of a simulation": (
        FIRST,
        lambda reply: replace(reply, receipt=replace(reply.receipt, label=wire.SIMULATION)).sealed(),
        SIGNING,
    ),
    "a receipt of another type": (
        FIRST,
        lambda reply: replace(reply, receipt=replace(reply.receipt, type="release")).sealed(),
        DECODING | SIGNING,
    ),
    "a receipt of no byte": (
        FIRST,
        lambda reply: replace(reply.with_fields(receipt=b""), receipt=None).sealed(),
        DECODING,
    ),
    "a receipt of another curator": (
        FIRST,
        lambda reply: reply.with_receipt(curator=STRANGER.public).sealed(),
        STANDING,
    ),
    "a receipt of another learner": (
        FIRST,
        lambda reply: reply.with_receipt(learner=STRANGER.public).sealed(),
        STANDING,
    ),
    "a receipt of another study": (FIRST, lambda reply: reply.with_receipt(study=bytes(16)).sealed(), STANDING),
    "a receipt of another sequence": (FIRST, lambda reply: reply.with_receipt(sequence=2).sealed(), STANDING),
    "a receipt of another request": (FIRST, lambda reply: reply.with_receipt(request=OTHER).sealed(), STANDING),
    "a receipt of another release": (FIRST, lambda reply: reply.with_receipt(release=OTHER).sealed(), STANDING),
    "a receipt of no release": (FIRST, lambda reply: reply.with_receipt(release=wire.NOTHING).sealed(), STANDING),
    "another release than the receipt's": (
        FIRST,
        lambda reply: reply.with_fields(body=wire.encode({"counts": bytes(64), "ratios": b""})).sealed(),
        STANDING,
    ),
    "a receipt with a short position": (
        FIRST,
        lambda reply: reply.with_receipt(position=bytes(wire.POSITION - 1)).sealed(),
        DECODING,
    ),
    "a receipt with a decimal": (FIRST, lambda reply: reply.with_receipt(charged="1.0").sealed(), DECODING),
    "a charge of more": (FIRST, lambda reply: reply.with_receipt(charged="2").sealed(), AMOUNTS),
    "a charge of less": (FIRST, lambda reply: reply.with_receipt(charged="1/2").sealed(), AMOUNTS),
    "a study's total of more": (FIRST, lambda reply: reply.with_receipt(spent_by_study="2").sealed(), AMOUNTS),
    "a study's total that goes back": (
        SECOND,
        lambda reply: reply.with_receipt(spent_by_study="1/4").sealed(),
        AMOUNTS,
    ),
    "a learner's total below its study's": (
        FIRST,
        lambda reply: reply.with_receipt(spent_by_learner="1/2").sealed(),
        AMOUNTS,
    ),
    "a learner's total that goes back": (
        SECOND,
        lambda reply: reply.with_receipt(spent_by_learner="1").sealed(),
        AMOUNTS,
    ),
    "an acceptance that charges": (PROPOSAL, lambda reply: reply.with_receipt(charged="1").sealed(), AMOUNTS),
    "a closing that charges": (CLOSE, lambda reply: reply.with_receipt(charged="1").sealed(), AMOUNTS),
    "a closing with another total": (CLOSE, lambda reply: reply.with_receipt(spent_by_study="1").sealed(), AMOUNTS),
    "a refund of more": (CLOSE, lambda reply: reply.with_fields(refunded="1/4").sealed(), AMOUNTS),
}


@pytest.mark.parametrize("name", FAULTS)
def test_refused_reply(walk, name):
    """The reply is refused by its rule, nothing changes, and the honest reply is taken after it."""
    place, change, rules = FAULTS[name]
    walk.until(place)
    before, status = walk.request, walk.status
    walk.bring(change(walk.honest()))
    assert walk.request == before
    assert walk.status["refused"] in rules, walk.status["why"]
    still = ("state", "waits", "claimed", "spent", "at_most", "answers", "newest_receipt")
    assert {part: walk.status[part] for part in still} == {part: status[part] for part in still}
    walk.go_on()
    assert not walk.status["refused"], walk.status["why"]
    assert walk.request != before


@pytest.mark.parametrize("name", [PROPOSAL, FIRST])
def test_replayed_reply(walk, name):
    """An earlier reply of the same curator answers nothing else."""
    walk.until(name)
    earlier = walk.honest().sealed()
    walk.go_on()
    before, spent = walk.request, walk.status["spent"]
    walk.bring(earlier)
    assert walk.request == before
    assert walk.status["refused"] in STANDING
    assert walk.status["spent"] == spent
    walk.go_on()
    assert walk.request != before


def test_replayed_receipt(walk):
    """A true receipt of the query before is none of this one."""
    walk.until(FIRST)
    receipt = wire.opened(walk.honest().sealed(), CURATOR.public).fields["receipt"]
    walk.go_on()
    walk.bring(replace(walk.honest().with_fields(receipt=receipt), receipt=None).sealed())
    assert walk.status["refused"] in STANDING


@pytest.mark.parametrize("name", REQUESTS)
def test_forged_refusal(walk, name):
    """Who is not the curator refuses nothing."""
    walk.until(name)
    refusal = walk.curator.refusal(walk.request, LEARNER.public, "declined")
    before = walk.request
    walk.bring(replace(refusal, key=STRANGER).sealed())
    assert (walk.request, walk.status["refused"]) == (before, "signature")
    walk.go_on()
    assert walk.request != before


def test_refusal_of_an_unknown_code(walk):
    walk.until(FIRST)
    before = walk.request
    walk.bring(walk.curator.refusal(walk.request, LEARNER.public, "because").sealed())
    assert walk.request == before
    assert walk.status["refused"] in DECODING


def test_refusal_of_another_request(walk):
    walk.until(FIRST)
    before = walk.request
    refusal = walk.curator.refusal(walk.request, LEARNER.public, "declined")
    walk.bring(refusal.with_fields(answers=OTHER).sealed())
    assert walk.request == before
    assert walk.status["refused"] in STANDING
