"""A turn that was charged is answered or refused for good: whatever steward, noise and records do meanwhile."""

import msgspec
import numpy as np
import pytest

from curator_fakes import NOW, ZeroNoise, frame_of, hold, key, ledger_over, message_of, steward_file
from curator_node.ledger.checks import check
from curator_node.site import assemble_site
from pooled import ROWS, Pool, planned_of
from protocol.codec import encode
from protocol.hypotheses import Constant
from protocol.kinds.counts import CountsBody
from protocol.messages import Refusal, StudyClosed
from protocol.partitions import FeatureBins
from protocol.refusals import RefusalCode
from protocol.release_kinds import RELEASE_KINDS
from protocol.secure_sum.aggregator import as_words

BY_SEX = (FeatureBins(attribute="sex", edges=()),)
BODY = encode(CountsBody(partitions=BY_SEX, hypothesis=None))


def restart(pool, index, *, levels=None, noise=None):
    """Another process over the same ledger; its steward may have given "sex" other levels."""
    steward = steward_file()
    if levels is not None:
        changed = [
            msgspec.structs.replace(each, levels=levels) if each.name == "sex" else each for each in steward.attributes
        ]
        steward = msgspec.structs.replace(steward, attributes=tuple(changed))
    name = pool.names[index]
    site = assemble_site(
        hold(frame_of(ROWS), steward),
        pool.rules,
        key=key(name),
        ledger=ledger_over(pool.stores[index], name),
        clock=lambda: NOW,
        noise=noise or ZeroNoise(),
    )
    pool.curators[index] = site.curator


def charges(pool, index):
    return [entry.amount for entry in check(pool.stores[index]).entries if entry.kind == "charge"]


def dealt_pool():
    """Four curators that are to be asked for masked counts by sex."""
    pool = Pool(4, 1, 1)
    pool.keys(body=BODY)
    pool.shares()
    return pool


class BrokenNoise(ZeroNoise):
    """A curator that is killed between charge and answer."""

    def laplace_shares(self, size, law, parts, stamp):
        raise MemoryError


class GivenNoise(ZeroNoise):
    """Shares that no law would draw."""

    def __init__(self, share):
        super().__init__()
        self.share = share

    def laplace_shares(self, size, law, parts, stamp):
        return np.full(size, self.share, np.int64)


@pytest.mark.parametrize("levels", [("f",), ("f", "m", "y", "z")])
def test_a_schema_that_changed_within_a_round_is_noticed_before_the_charge(levels):
    """Its vector would have another length than it said in the first turn. The others open their sum without it."""
    pool = dealt_pool()
    restart(pool, 0, levels=levels)
    before = pool.stores[0].rows(0)
    first = pool.ask(0, pool.relay(0))
    for reply in (first, message_of(pool.handle[0](pool.sessions[0].transcript.envelopes[-2]))):
        assert (reply.code, reply.field, reply.final) == (RefusalCode.TERMS_CHANGED, "body.counts", True)
    assert pool.stores[0].rows(0) == before
    assert charges(pool, 0) == ["0", "0"]
    pool.masked(who=[1, 2, 3])
    pool.agreed()
    np.testing.assert_array_equal(pool.opened().values, pool.exact(BODY, who=[1, 2, 3]))


def test_a_schema_that_changed_between_charge_and_answer_ends_in_a_final_refusal():
    """It is charged once, and the learner knows; that the old schema is put back brings no answer that was refused."""
    pool = dealt_pool()
    restart(pool, 0, noise=BrokenNoise())
    assert pool.ask(0, pool.relay(0)).code == RefusalCode.UNAVAILABLE
    assert charges(pool, 0) == ["0", "0", "1/30"]
    restart(pool, 0, levels=("f", "m", "y"))
    session = pool.sessions[0]
    sent = session.pending
    for _ in range(2):
        reply = message_of(pool.handle[0](sent))
        assert (reply.code, reply.field) == (RefusalCode.ANSWER_GONE, "body.counts")
        assert reply.final
        assert not reply.rules_out
        restart(pool, 0)
    assert charges(pool, 0) == ["0", "0", "1/30"]
    assert check(pool.stores[0]).findings == ()
    session.receive(pool.handle[0](sent))
    assert session.spending.at_most * 30 == 1
    session.close(NOW)
    assert isinstance(session.receive(pool.handle[0](session.pending)), StudyClosed)
    assert session.spending.proven * 30 == 1


def test_a_turn_that_failed_after_its_charge_is_answered_by_the_same_request():
    pool = dealt_pool()
    restart(pool, 0, noise=BrokenNoise())
    assert pool.ask(0, pool.relay(0)).code == RefusalCode.UNAVAILABLE
    restart(pool, 0)
    words = {0: as_words(pool.send(0).words)}
    words |= {index: as_words(pool.ask(index, pool.relay(index)).words) for index in (1, 2, 3)}
    pool.survivors = pool.machine.take_masked(words)
    pool.agreed()
    np.testing.assert_array_equal(pool.opened().values, pool.exact(BODY))
    assert charges(pool, 0) == ["0", "0", "1/30", "0", "0"]


@pytest.mark.parametrize("share", [2**63 - 1, -(2**63)])
def test_count_and_share_beyond_64_bits_wrap(share):
    pool = Pool(3, noise=lambda: GivenNoise(share))
    wrapped = (3 * share + pool.exact(BODY).astype(object) + 2**63) % 2**64 - 2**63
    np.testing.assert_array_equal(pool.run(BODY).values.astype(object), wrapped)


TWO_CLASSES = [name for name, kind in RELEASE_KINDS.items() if kind.fits(steward_file().schema)]


@pytest.mark.parametrize("release", TWO_CLASSES)
def test_every_release_kind_has_the_length_that_was_said_before_the_charge(release):
    pool = Pool(3, queries=(planned_of(3, release=release),))
    hypothesis = Constant(predicted=1) if RELEASE_KINDS[release].wants_hypothesis else None
    body = encode(CountsBody(partitions=BY_SEX, hypothesis=hypothesis))
    opened = pool.run(body)
    assert not isinstance(opened, Refusal)
    np.testing.assert_array_equal(opened.values, pool.exact(body))
