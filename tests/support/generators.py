"""Hypothesis strategies for every value of the protocol. Alphabets are small, so that things collide."""

from fractions import Fraction

from hypothesis import strategies as st

from expril.audit.generators.queries import (
    counts_queries_of,
    holdout_queries,
    model_queries,
    sample_queries_of,
    statistic_queries_of,
)
from expril.audit.generators.values import hypotheses_of, partitions_of, schemas
from limits_told import card_limits
from protocol.envelopes import SigningKey, seal_receipt
from protocol.kinds import QUERY_KINDS
from protocol.kinds.counts import CountsBody, CountsRelease, PlannedCounts
from protocol.messages import (
    SEALED_BYTES,
    Card,
    CardRequest,
    Query,
    Receipt,
    Refusal,
    Release,
    StudyAccepted,
    StudyClose,
    StudyClosed,
    StudyProposal,
)
from protocol.plans import Plan
from protocol.rationals import Rational, amount
from protocol.refusals import EXPLANATIONS, RefusalCode
from protocol.release_kinds import MOST_SQUARED_ERROR, MOST_STEPS, RELEASE_KINDS

KEYS = [SigningKey.from_seed(bytes([i]) * 32) for i in range(1, 4)]


@st.composite
def rationals(draw):
    """Positive wire rationals."""
    top = st.one_of(st.sampled_from([1, 2, 3, 30, 1000, 2**32 - 1]), st.integers(1, 2**32 - 1))
    return Rational.of(Fraction(draw(top), draw(top)))


def plans():
    """Plans of one to three queries."""
    queries = st.sampled_from(list(RELEASE_KINDS)).flatmap(
        lambda release: st.builds(
            PlannedCounts,
            release=st.just(release),
            partitions=st.integers(1, 4),
            scale=rationals(),
            steps=st.sampled_from([1, 2, 1000, MOST_STEPS]) if RELEASE_KINDS[release].of_steps else st.just(1),
        )
    )
    return st.lists(queries, min_size=1, max_size=3).map(Plan.of)


@st.composite
def bodies(draw):
    """Bodies of `counts`."""
    schema = draw(schemas())
    partitions = draw(st.lists(partitions_of(schema), min_size=1, max_size=3))
    most = draw(st.sampled_from([None, 1, 2**20, MOST_SQUARED_ERROR]))
    return CountsBody(tuple(partitions), draw(st.one_of(st.none(), hypotheses_of(schema))), most)


def releases():
    """Bodies of a release of `counts`."""
    return st.builds(CountsRelease, counts=st.binary(max_size=24), ratios=st.binary(max_size=16))


QUERIES = {
    "counts": counts_queries_of,
    "holdout": holdout_queries,
    "sample": sample_queries_of,
    "model": model_queries,
    "statistic": statistic_queries_of,
}
"""What draws (planned query, encoded body) of each query kind; a test says that no registered kind lacks one."""
SEVERAL_CURATORS = {"secure_counts"}
"""Kinds whose later turns need what other curators said: `pooled.Pool` asks them."""
OWN_SAMPLERS = {"sample"}
"""Kinds whose law hangs on the records, so that what they release does, whatever bytes they are given."""


def queries_of(schema, *, kind=None, **told):
    """Lawful queries of a kind; None takes those that a policy allows by default. What is told is told of counts."""
    kinds = [name for name, one in QUERY_KINDS.items() if one.by_default] if kind is None else [kind]
    return st.one_of([QUERIES[name](schema, **(told if name == "counts" else {})) for name in kinds])


amounts = st.fractions(0, 3, max_denominator=30).map(amount)
digests = st.sampled_from([bytes(32), b"\xff" * 32, bytes(range(32))])
studies = st.sampled_from([bytes(16), b"study-0123456789", b"\xff" * 16])
sequences = st.integers(0, 3)
seconds = st.sampled_from([0, 1, 127, 128, 2**31, 2**40])
short_texts = st.text("ab é", max_size=4)
names = st.text("ab é", min_size=1, max_size=4)

receipts = st.builds(
    Receipt,
    curator=st.just(KEYS[0].public),
    learner=st.just(KEYS[1].public),
    study=studies,
    sequence=sequences,
    request=digests,
    release=digests,
    charged=amounts,
    spent_by_study=amounts,
    spent_by_learner=amounts,
    ledger_head=digests,
    position=st.sampled_from([bytes(SEALED_BYTES), b"\xff" * SEALED_BYTES]),
    issued_at=seconds,
)
receipt_envelopes = st.one_of(st.just(b""), receipts.map(lambda receipt: seal_receipt(receipt, KEYS[0])))


def _built(kind, /, **fields):
    return st.builds(
        kind,
        study=studies,
        sender=st.sampled_from([key.public for key in KEYS]),
        recipient=st.sampled_from([bytes(32), *(key.public for key in KEYS)]),
        sequence=sequences,
        answers=digests,
        expires_at=seconds,
        **fields,
    )


MESSAGES = {
    "card_request": _built(CardRequest),
    "card": _built(
        Card,
        name=names,
        schema=schemas(),
        unit=st.one_of(st.none(), names),
        most_records_per_unit=st.integers(1, 3),
        relation=names,
        round_size=st.one_of(st.none(), st.sampled_from([1, 100, 2**40])),
        limits=st.builds(card_limits, cells=st.sampled_from([1, 500_000]), parameters=st.sampled_from([1, 2**53])),
        cap=amounts,
        least_cost=amounts,
    ),
    "study_proposal": _built(StudyProposal, plan=plans(), purpose=short_texts, newest_receipt=receipt_envelopes),
    "study_accepted": _built(StudyAccepted, cost=amounts, reserved_until=seconds, receipt=receipt_envelopes),
    "query": _built(Query, kind=names, body=st.binary(max_size=20)),
    "release": _built(Release, kind=names, body=st.binary(max_size=20), receipt=receipt_envelopes),
    "study_close": _built(StudyClose),
    "study_closed": _built(StudyClosed, refunded=amounts, receipt=receipt_envelopes),
    "refusal": st.sampled_from(list(RefusalCode)).flatmap(
        lambda code: _built(
            Refusal,
            code=st.just(code.value),
            explanation=st.just(EXPLANATIONS[code]),
            field=short_texts,
            limit=short_texts,
            remaining=st.one_of(st.just(""), amounts),
            scale_factor=st.one_of(st.just(""), amounts),
        )
    ),
}
messages = st.one_of(*MESSAGES.values())
