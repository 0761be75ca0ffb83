"""A curator makes its checks in the order of the protocol's pages: of two faults it names the one that stands first."""

import re
from fractions import Fraction

import pytest
from msgspec import structs

import protocol_pages
from curator_fakes import (
    NOW,
    Clock,
    Learner,
    key,
    mass_body,
    message_of,
    open_curator,
    opened,
    plan_of,
    policy,
    steward_file,
)
from curator_node.admission import undecided_proposals
from curator_node.ledger import StudyKey
from curator_node.ledger.store import MemoryStore
from protocol.codec import encode
from protocol.envelopes import LABEL, NOT_PRIVATE_LABEL, digest, seal, sign_payload
from protocol.errors import RemoteProtocolError
from protocol.feature_map import FeatureMap, NumericFeature
from protocol.hypotheses import Mlp
from protocol.kinds.counts import COUNTS, CountsLimits, PlannedCounts
from protocol.ledger.entries import Entry, EntryKind, decode_entry
from protocol.limits import Limits
from protocol.messages import NO_DIGEST, CardRequest, Query, StudyClose, StudyProposal
from protocol.partitions import FeatureBins
from protocol.query_kind import KindTerms, Turn
from protocol.rationals import Rational
from protocol.refusals import RefusalCode

PAGES = "".join((protocol_pages.PAGES / name).read_text(encoding="utf-8") for name in ("messages.md", "plans.md"))
CURATOR, LEARNER, STRANGER = key("basel"), key("ann"), key("mallory")
KNOWN = b"ann".ljust(16, b"-")
LATER, LATE, FAR = NOW + 600, NOW - 1, NOW + 10**6


def rows(title):
    """Number of a check -> its codes and fields, by the page."""
    section = re.search(rf"^##+ {title}\n(.*?)(?=^## |\Z)", PAGES, re.DOTALL | re.MULTILINE)[1]
    lines = re.findall(r"^\| (\d+) \|[^|]*\|([^|]*)\|([^|]*)\|$", section, re.MULTILINE)
    return {
        int(place): (re.findall(r"`(\w+)`", codes), re.findall(r"`([^`]+)`", where)) for place, codes, where in lines
    }


EVERY, PROPOSAL, QUERY, CLOSE = map(rows, ("Checks of every request", "`study_proposal`", "`query`", "`study_close`"))


def fits(refusal, row):
    """Whether a refusal is the one of a row."""
    codes, fields = row
    begins = [field.split("...")[0].removesuffix("[i]") for field in fields]
    return refusal.code in codes and (refusal.field == "" if not fields else refusal.field.startswith(tuple(begins)))


def header(**changed):
    told = {"study": b"s" * 16, "sender": LEARNER.public, "recipient": CURATOR.public, "sequence": 0}
    return told | {"answers": NO_DIGEST, "expires_at": LATER} | changed


def card_request(signer=LEARNER, label=LABEL, type_name="card_request", **changed):
    payload = encode(CardRequest(**header(**changed)))
    return sign_payload(type_name, payload, signer, label)


def of_stranger(**changed):
    return card_request(STRANGER, sender=STRANGER.public, **changed)


FAULTS = {
    1: b"\xc1" * 1001,
    2: b"\xc1",
    3: sign_payload("what", b"\xc1", LEARNER, "expril/1"),
    4: sign_payload("what", b"\xc1", LEARNER, NOT_PRIVATE_LABEL),
    5: sign_payload("query", b"\xc1", LEARNER, NOT_PRIVATE_LABEL),
    6: card_request(STRANGER, NOT_PRIVATE_LABEL),
    7: card_request(STRANGER, recipient=STRANGER.public),
    8: of_stranger(recipient=STRANGER.public, expires_at=LATE),
    9: card_request(recipient=STRANGER.public, expires_at=LATE),
    12: seal(StudyProposal(**header(expires_at=LATE), plan=plan_of("1/10"), purpose="", newest_receipt=b"x"), LEARNER),
    13: seal(StudyProposal(**header(expires_at=FAR), plan=plan_of("1/10"), purpose="", newest_receipt=b"x"), LEARNER),
}


@pytest.mark.parametrize("place", FAULTS)
def test_of_every_request(place):
    curator = open_curator(rules=policy(limits=Limits(message_bytes=1000)))
    refusal = message_of(curator.handle(FAULTS[place]))
    assert fits(refusal, EVERY[place]), refusal
    assert (refusal.recipient == bytes(32)) == (place <= 8)


def proposal(curator, plan, *, receipt=b"", study=b"t" * 16, purpose=""):
    message = StudyProposal(**header(study=study), plan=plan, purpose=purpose, newest_receipt=receipt)
    return message_of(curator.handle(seal(message, LEARNER)))


def test_of_a_proposal():
    """The faults of later checks stay while those of earlier ones are mended, one after the other."""
    rules = policy(cap=1, least_cost="1/50", open_studies=1, approval="manual")
    clock = Clock()
    automatic = structs.replace(rules, approval="automatic")
    curator = open_curator(rules=automatic, clock=clock)
    opened(curator, "ann", plan=plan_of(30))
    curator.adopt(rules)
    dear, cheap, unknown = plan_of("1/2"), plan_of(10**6), plan_of("1/2", kind="what")
    ledger = curator._ledger
    ledger.halt(NOW, "to see")
    assert fits(proposal(curator, unknown, receipt=b"x", study=KNOWN), PROPOSAL[1])
    assert fits(proposal(curator, unknown, study=KNOWN), PROPOSAL[3])
    assert fits(proposal(curator, unknown), PROPOSAL[4])
    other = plan_of(10**6, release="label_total")
    assert fits(proposal(curator, other), PROPOSAL[6])
    assert fits(proposal(curator, cheap), PROPOSAL[7])
    assert fits(proposal(curator, plan_of(1000)), PROPOSAL[8])
    assert fits(proposal(curator, dear), PROPOSAL[10])
    ledger.resume(NOW)
    assert fits(proposal(curator, dear), PROPOSAL[11])
    curator.adopt(structs.replace(rules, open_studies=2))
    assert fits(proposal(curator, dear, purpose="another request"), PROPOSAL[12])
    assert fits(proposal(curator, plan_of(30)), PROPOSAL[14])


def ask(curator, learner, sequence, *, answers=None, kind="counts", body=b"\xc1", study=KNOWN):
    last = learner.session._last_reply if answers is None else answers
    message = Query(**header(study=study, sequence=sequence, answers=last), kind=kind, body=body)
    return message_of(curator.handle(seal(message, LEARNER)))


def test_of_a_query():
    curator = open_curator()
    learner = opened(curator, plan=plan_of(30, 30))
    assert fits(ask(curator, learner, 9, study=b"u" * 16, answers=NO_DIGEST), QUERY[1])
    learner.query()
    assert fits(ask(curator, learner, 1, answers=NO_DIGEST), QUERY[3])
    assert fits(ask(curator, learner, 9, answers=NO_DIGEST), QUERY[4])
    assert fits(ask(curator, learner, 2, answers=NO_DIGEST, kind="what"), QUERY[5])
    assert fits(ask(curator, learner, 2, kind="what"), QUERY[8])
    assert fits(ask(curator, learner, 2, kind="holdout"), QUERY[8])
    curator._ledger.halt(NOW, "to see")
    assert fits(ask(curator, learner, 2), QUERY[9])
    assert fits(ask(curator, learner, 2, body=mass_body(m=2)), QUERY[9])
    assert fits(ask(curator, learner, 2, body=mass_body()), QUERY[15])
    curator._ledger.resume(NOW)
    learner.query()
    assert fits(ask(curator, learner, 3, answers=NO_DIGEST, kind="what"), QUERY[5])
    assert fits(ask(curator, learner, 3, kind="what"), QUERY[6])
    learner.close()
    assert fits(ask(curator, learner, 1, answers=b"another request".ljust(32)), QUERY[2])


def test_of_a_close():
    curator = open_curator()
    learner = Learner(curator)
    learner.propose()
    learner.query()
    known = learner.session.study

    def close(sequence, study):
        message = StudyClose(**header(study=study, sequence=sequence, answers=digest(b"")))
        return message_of(curator.handle(seal(message, LEARNER)))

    assert fits(close(0, b"u" * 16), CLOSE[1])
    assert fits(close(1, known), CLOSE[3])
    learner.close()
    assert fits(close(0, known), CLOSE[2])


BODY = rows("Checks of a body, in order")
BINS, WIDE = FeatureBins("age", (30.0,)), FeatureBins("age", tuple(map(float, range(99))))
UNKNOWN = FeatureBins("what", ())
MAP = FeatureMap((NumericFeature("what", 0.0, 1.0, 0.0),))
LARGE, ODD = Mlp(features=MAP, weights=bytes(99)), Mlp(features=MAP, weights=bytes(4))
BODIES = [
    (1, "error_correct", b"\xc1"),
    (2, "label_total", encode({"partitions": [1, 2], "hypothesis": 1, "most_squared_error": 1})),
    (3, "label_total", encode({"partitions": [1], "hypothesis": 1, "most_squared_error": 1})),
    (4, "error_correct", encode({"partitions": [1], "hypothesis": 1, "most_squared_error": 1})),
    (5, "error_correct", encode({"partitions": [1], "hypothesis": None, "most_squared_error": 1})),
    (6, "error_correct", encode({"partitions": [1], "hypothesis": LARGE, "most_squared_error": 1})),
    (7, "error_correct", encode({"partitions": [1], "hypothesis": LARGE})),
    (7, "error_correct", encode({"partitions": [WIDE], "hypothesis": LARGE})),
    (7, "error_correct", encode({"partitions": [UNKNOWN], "hypothesis": LARGE})),
    (8, "error_correct", encode({"partitions": [BINS], "hypothesis": LARGE})),
    (9, "error_correct", encode({"partitions": [BINS], "hypothesis": ODD})),
]


@pytest.mark.parametrize(("place", "release", "data"), BODIES)
def test_of_a_body(place, release, data):
    turn = Turn(PlannedCounts(release=release, partitions=1, scale=Rational(1, 1)))
    terms = KindTerms(steward_file().schema, CountsLimits(cells=50, parameters=10))
    with pytest.raises(RemoteProtocolError) as refused:
        COUNTS.read_body(data, turn, terms)
    assert fits(refused.value, BODY[place]), refused.value


def test_entries_use_the_fields_that_the_page_names():
    clock = Clock()
    store = MemoryStore()
    curator = open_curator(store, rules=policy(approval="manual", reservation_seconds=60), clock=clock)
    ledger = curator._ledger
    for study in (b"declined", b"closed", b"expired"):
        learner = Learner(curator, study=study, clock=clock)
        learner.propose(plan_of(30))
        (waiting,) = undecided_proposals(ledger, clock())
        told = StudyKey(LEARNER.public, learner.session.study)
        approve = study != b"declined"
        ledger.decide_on(told, waiting.request, clock(), approve=approve, cost=Fraction(1, 30), until=clock() + 60)
        learner.ask()
        if study == b"closed":
            learner.query()
            learner.close()
    clock.advance(100)
    ledger.expire(clock())
    ledger.make_room(10**9, 10**9, clock())
    ledger.halt(clock(), "to see")
    ledger.resume(clock(), learner=LEARNER.public, restored=Fraction(1, 7), note="seen")
    ledger.serve_data("0" * 32, clock())
    nothing = Entry(index=0, previous=NO_DIGEST, nonce=bytes(16), kind=EntryKind.OPEN, at=0)
    used = {}
    for row in store.rows(0):
        entry = decode_entry(row.body)
        fields = zip(entry.__struct_fields__, entry.__struct_encode_fields__, strict=True)
        names = {name for field, name in fields if getattr(entry, field) != getattr(nothing, field)}
        used.setdefault(str(entry.kind), set()).update(names - {"index", "previous", "nonce", "kind", "at"})
    assert used.keys() >= protocol_pages.ENTRY_FIELDS.keys() - {"handover", "plug_ins"}
    for kind, names in used.items():
        assert names <= set(protocol_pages.ENTRY_FIELDS[kind].split(", ")), kind


def test_every_code_on_the_page_is_one_and_every_final_one_has_its_check():
    told = {code for table in (EVERY, PROPOSAL, QUERY, CLOSE) for codes, _ in table.values() for code in codes}
    assert told <= set(RefusalCode)
    assert set(RefusalCode) - told == {RefusalCode.UNAVAILABLE}
