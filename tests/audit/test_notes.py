"""The note of an answer: what a kind says of the released bytes, held against them where a transcript has them."""

from curator_fakes import NOW, Learner, ZeroNoise, dataset, key, ledger_over, policy
from curator_node.ledger.exports import export_ledger
from curator_node.ledger.store import MemoryStore
from curator_node.site import assemble_site
from expril.audit.kinds import AUDITED_KINDS
from expril.audit.recompute.ledger import audit_ledger
from protocol.codec import encode
from protocol.envelopes import open_envelope, request_digest
from protocol.hypotheses import Constant
from protocol.kinds.holdout import HoldoutBody, PlannedHoldout
from protocol.limits import Limits
from protocol.messages import Query, Release
from protocol.plans import Plan
from protocol.rationals import Rational
from protocol.transcript import replay

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
