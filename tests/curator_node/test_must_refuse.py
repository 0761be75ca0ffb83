"""Two last checks whose absence no other test would feel: the noise library's own map, and keys of small order."""

import itertools
import logging
from fractions import Fraction

import msgspec
import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

import curator_node.mechanisms
import curator_node.policy
from curator_fakes import NOW, key, mass_body, message_of, open_curator, opened, plan_of
from curator_node.policy import LearnerPolicy, Policy, read_policy
from learner_node.study.session import Session
from protocol.codec import decode, encode
from protocol.envelopes import LABEL, Envelope, digest, is_signed, open_envelope, open_receipt, seal, verify
from protocol.errors import ConfigurationError, RemoteProtocolError
from protocol.ledger.entries import head_is_signed
from protocol.messages import NO_DIGEST, NO_STUDY, NOBODY, CardRequest, Refusal, Release
from protocol.refusals import RefusalCode


class Misreported:
    """OpenDP's mechanism, whose map says that it loses `factor` times as much."""

    def __init__(self, inner, factor):
        self.inner, self.factor = inner, factor
        self.drawn = 0

    def map(self, d_in):
        return self.inner.map(d_in) * self.factor

    def __call__(self, exact):
        self.drawn += 1
        return self.inner(exact)


@pytest.mark.parametrize("factor", [0.5, 1 - 2**-30, 1 + 2**-30, 2.0])
def test_nothing_is_released_where_the_noise_library_s_map_disagrees(factor, monkeypatch, caplog):
    """Charged, pending and unavailable; once the library is put right the same bytes are answered, charged once."""
    caplog.set_level(logging.ERROR)
    real = curator_node.mechanisms.discrete_laplace_mechanism
    mechanisms = []

    def misreported(scale):
        mechanisms.append(Misreported(real(scale), factor))
        return mechanisms[-1]

    curator = open_curator()
    learner = opened(curator, plan=plan_of(30, 30))
    request = learner.session.query("counts", mass_body(), NOW)
    # What was found in order once is not asked again, in this process.
    monkeypatch.setattr(
        curator_node.mechanisms, "checked_mechanism", curator_node.mechanisms.checked_mechanism.__wrapped__
    )
    monkeypatch.setattr(curator_node.mechanisms, "discrete_laplace_mechanism", misreported)
    for _ in range(3):
        refusal = message_of(curator.handle(request))
        assert isinstance(refusal, Refusal)
        assert (refusal.code, refusal.final) == (RefusalCode.UNAVAILABLE, False)
        assert refusal.recipient in (NOBODY, key("ann").public)
    assert len(mechanisms) == 3, "the answer path does ask this mechanism"
    assert not any(mechanism.drawn for mechanism in mechanisms), "not even drawn"
    assert curator._ledger.account.total_spent == Fraction(1, 30)
    assert list(curator._ledger.account.answers.values())[1:] == [], "only the proposal was answered"
    assert "ArithmeticError" in caplog.text
    monkeypatch.setattr(curator_node.mechanisms, "discrete_laplace_mechanism", real)
    assert isinstance(message_of(curator.handle(request)), Release)
    assert curator._ledger.account.total_spent == Fraction(1, 30)


def test_a_map_that_is_right_up_to_rounding_is_believed(monkeypatch):
    """Power: what refuses above is the size of the factor."""
    real = curator_node.mechanisms.discrete_laplace_mechanism
    monkeypatch.setattr(
        curator_node.mechanisms, "discrete_laplace_mechanism", lambda scale: Misreported(real(scale), 1 + 2**-50)
    )
    assert isinstance(opened(open_curator()).query(), Release)


P = 2**255 - 19
D = -121665 * pow(121666, -1, P) % P


def _added(first, second):
    (x1, y1), (x2, y2) = first, second
    k = D * x1 * x2 * y1 * y2
    return (x1 * y2 + x2 * y1) * pow(1 + k, -1, P) % P, (y1 * y2 + x1 * x2) * pow(1 - k, -1, P) % P


def _written(point):
    x, y = point
    return (y | (x & 1) << 255).to_bytes(32, "little")


EIGHTH = bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05")


def _x_of(y):
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * pow(2, (P - 1) // 4, P) % P
    assert (x * x - square) % P == 0
    return x


def _group():
    """The eight points of small order, as multiples of one of order eight."""
    y = int.from_bytes(EIGHTH, "little")
    points = [(0, 1)]
    while len(points) < 8:
        points.append(_added(points[-1], (_x_of(y), y)))
    assert _added(points[-1], points[1]) == (0, 1)
    return points


POINTS = _group()
ORDINATES = {y for _, low in POINTS for y in (low, low + P) if y < 2**255}
KEYS = sorted((y | sign << 255).to_bytes(32, "little") for y in ORDINATES for sign in (0, 1))
"""Every encoding of a point of small order."""


def forged(public, parts):
    """A signature under a key that has no owner: of `parts(n)` for the first n where one holds; (n, signature).

    s = 0, and R one of eight points: the equation R = -h A holds for a share of the messages, without any secret.
    """
    for n in itertools.count():
        for point in POINTS:
            signature = _written(point) + bytes(32)
            try:
                Ed25519PublicKey.from_public_bytes(public).verify(signature, parts(n))
            except InvalidSignature:
                continue
            return n, signature
    raise AssertionError


def forged_envelope(public, message_of_number):
    """An envelope whose signature the library accepts under a key of small order."""

    def signed(n):
        kind, payload = message_of_number(n)
        parts = (LABEL.encode(), kind.encode(), payload)
        return b"".join(len(part).to_bytes(8, "big") + part for part in parts)

    n, signature = forged(public, signed)
    kind, payload = message_of_number(n)
    return encode(Envelope(label=LABEL, type=kind, payload=payload, signature=signature))


def card_request(sender, recipient, number=0):
    return CardRequest(
        study=NO_STUDY, sender=sender, recipient=recipient, sequence=0, answers=NO_DIGEST, expires_at=NOW + 1 + number
    )


def test_there_are_fourteen_encodings():
    assert len(KEYS) == 14
    assert bytes(32) in KEYS


@pytest.mark.parametrize("public", KEYS, ids=bytes.hex)
def test_a_sender_whose_key_has_small_order_is_refused_even_if_a_policy_names_it(public, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(curator_node.policy, "check_public_key", lambda _: None)
        rules = Policy(name="basel", cap=1, learners=(LearnerPolicy(name="eve", key=public.hex(), cap=1),))
    curator = open_curator(rules=rules)
    data = forged_envelope(public, lambda n: ("card_request", encode(card_request(public, curator.identity, number=n))))
    refusal = message_of(curator.handle(data))
    assert isinstance(refusal, Refusal)
    assert (refusal.code, refusal.recipient) == (RefusalCode.BAD_SIGNATURE, NOBODY)


@pytest.mark.parametrize("public", KEYS, ids=bytes.hex)
def test_a_policy_that_names_a_key_of_small_order_is_refused(public):
    with pytest.raises(ValueError, match="expril keys"):
        Policy(name="basel", cap=1, learners=(LearnerPolicy(name="eve", key=public.hex(), cap=1),))
    text = f'name = "basel"\ncap = 1\n[[learners]]\nname = "eve"\nkey = "{public.hex()}"\ncap = 1\n'
    with pytest.raises(ConfigurationError, match="expril keys"):
        read_policy(text)
    good = text.replace(public.hex(), key("ann").public.hex())
    assert read_policy(good).learner(key("ann").public) is not None


@pytest.mark.parametrize("public", KEYS, ids=bytes.hex)
def test_a_learner_that_pins_a_key_of_small_order_believes_nobody(public):
    curator = open_curator()
    session = Session(curator=public, key=key("ann"), study=b"s" * 16)
    request = session.request_card(NOW)
    real = open_envelope(curator.handle(seal(card_request(key("ann").public, curator.identity), key("ann"))))[1]

    def card(n):
        head = {"sender": public, "answers": digest(request), "study": session.study, "expires_at": NOW + n}
        return "card", encode(msgspec.structs.replace(real, **head))

    with pytest.raises(RemoteProtocolError, match="bad_signature"):
        session.receive(forged_envelope(public, card))


@pytest.mark.parametrize("public", KEYS, ids=bytes.hex)
def test_a_receipt_or_a_ledger_s_head_under_a_key_of_small_order_is_refused(public):
    learner = opened(open_curator())
    receipt = open_receipt(learner.session.newest_receipt, learner.curator.identity)

    def theirs(n):
        return "receipt", encode(msgspec.structs.replace(receipt, curator=public, issued_at=n))

    with pytest.raises(RemoteProtocolError, match="bad_signature"):
        open_receipt(forged_envelope(public, theirs), public)
    n, signature = forged(public, lambda n: b"expril/2 ledger head" + n.to_bytes(8, "big") + bytes(32))
    assert not head_is_signed(public, signature, n, bytes(32))
    assert not is_signed(public, signature, b"expril/2 ledger head" + n.to_bytes(8, "big") + bytes(32))


@pytest.mark.parametrize("public", KEYS, ids=bytes.hex)
def test_no_curator_answers_for_a_key_of_small_order(public):
    """As recipient it is simply another curator's."""
    refusal = message_of(open_curator().handle(seal(card_request(key("ann").public, public), key("ann"))))
    assert refusal.code == RefusalCode.WRONG_RECIPIENT
    with pytest.raises(RemoteProtocolError):
        verify(decode(seal(card_request(public, public), key("ann")), Envelope), public)
