"""Fakes for the learner's tests: a told clock, noise of zero, curators with scripted faults, a carrier that remembers.

The curators are real: their own keys, ledgers in memory and datasets. Only what is wrong on purpose is fake.
"""

from fractions import Fraction

import msgspec
import numpy as np
import polars as pl

from curator_node.kinds import ANSWERERS
from curator_node.policy import LearnerPolicy, Policy
from curator_node.records.schema_file import SchemaFile
from curator_node.site import temporary_site
from learner_node.study.federation import Federation
from protocol.envelopes import SigningKey, open_envelope, seal
from protocol.kinds.counts import CountsBody, PlannedCounts
from protocol.limits import Limits
from protocol.messages import CardRequest, StudyProposal
from protocol.partitions import FeatureBins
from protocol.plans import Plan
from protocol.rationals import Rational
from protocol.schema import NumericAttribute

NOW = 1_800_000_000
LEARNER = "ann"
ATTRIBUTES = (NumericAttribute(name="x", lower=-4, upper=4), NumericAttribute(name="y", lower=-4, upper=4))


def key(name):
    """A fixed key for a name."""
    return SigningKey.from_seed(name.encode().ljust(32, b"."))


class Clock:
    """Says what it was told."""

    def __init__(self, now=NOW):
        self.now = now

    def __call__(self):
        return self.now


class NoNoise:
    """A noise source that adds nothing."""

    seeded = False

    def discrete_laplace(self, exact, l1, law, stamp):
        return exact

    def laplace_shares(self, size, law, parts, stamp):
        return np.zeros(size, np.int64)

    def laplace(self, size, scale, stamp):
        return np.zeros(size)

    def choose(self, scores, moved, law, stamp):
        return int(scores.argmax())

    def randomness(self, stamp):
        return np.random.default_rng(0).bytes


class Entropy:
    """Study identities that never repeat, without randomness."""

    def __init__(self):
        self.calls = 0

    def __call__(self, size):
        self.calls += 1
        return self.calls.to_bytes(size, "big")


ENTROPY = Entropy()


def ring(n, seed=0):
    """Two attributes and a label that neither shows alone: "yes" within a circle about the origin."""
    rng = np.random.default_rng(seed)
    points = rng.uniform(-2, 2, (n, 2))
    sick = (points**2).sum(axis=1) < 2.2
    return pl.DataFrame({"x": points[:, 0], "y": points[:, 1], "sick": np.where(sick, "yes", "no")})


def steward(*, most=1, round_size=500, attributes=ATTRIBUTES, unit=None, classes=("no", "yes"), label_bounds=None):
    """A schema file for `ring`, or for other labels."""
    return SchemaFile(
        label="sick",
        classes=classes,
        label_bounds=label_bounds,
        attributes=attributes,
        unit=unit or ("patient" if most > 1 else None),
        most_records_per_unit=most,
        round_size=round_size,
    )


def open_curator(
    name,
    frame=None,
    *,
    cap="2",
    most=1,
    noise=None,
    limits=None,
    clock=None,
    simulation=False,
    answerers=ANSWERERS,
    **options,
):
    """A real curator with an empty ledger."""
    if frame is None:
        frame = ring(200, seed=len(name))
    if most > 1:
        frame = frame.with_columns(patient=pl.int_range(frame.height) // most)
    policy = Policy(
        name=name,
        cap=cap,
        learners=(LearnerPolicy(name=LEARNER, key=key(LEARNER).public.hex(), cap=cap),),
        limits=limits or Limits(),
        simulation=simulation,
    )
    declared = steward(most=most, **options)
    site = temporary_site(
        frame, declared, policy, key=key(name), clock=clock or Clock(), noise=noise, answerers=answerers
    )
    # These stewards declare one round size, whatever the test gives them.
    assert all("the declared round_size" in warning for warning in site.warnings)
    return site.curator


class Scripted:
    """Carries envelopes to curators; a script may replace what one says.

    Args:
        curators: by name.
        scripts: name -> function (message, request bytes, handle) -> reply bytes, or None for no reply.
    """

    def __init__(self, curators, scripts=None):
        self.curators = {curator.identity: (name, curator) for name, curator in curators.items()}
        self.scripts = scripts or {}
        self.sent = []

    def exchange(self, requests):
        replies = {}
        for identity, data in requests.items():
            name, curator = self.curators[identity]
            _, message = open_envelope(data)
            self.sent.append((name, type(message).__name__, data))
            script = self.scripts.get(name)
            reply = script(message, data, curator.handle) if script else curator.handle(data)
            if reply is not None:
                replies[identity] = reply
        return replies

    def bytes_sent(self, name, kind):
        """Every envelope of a kind that was sent to a curator."""
        return [data for to, what, data in self.sent if (to, what) == (name, kind)]


class PowerFailure(BaseException):
    """The process ends here."""


class EndsAt:
    """A carrier whose process ends at an exchange: before the curators get it, or before the learner does; 0: never."""

    def __init__(self, inner, at, *, served=True):
        self.inner, self.at, self.served, self.sent = inner, at, served, []

    def exchange(self, requests):
        self.sent.append(dict(requests))
        if len(self.sent) != self.at:
            return self.inner.exchange(requests)
        if self.served:
            self.inner.exchange(requests)
        raise PowerFailure


class Ellipse:
    """A model that no network of the protocol is, and near the truth about `ring`."""

    def probability(self, records):
        squares = records.numeric**2 @ np.array([1.0, 0.3])
        return 1.0 / (1.0 + np.exp(2.0 * (squares - 1.4)))


def three(**options):
    """Curators that add no noise."""
    return {name: open_curator(name, noise=NoNoise(), **options) for name in ("basel", "bern", "chur")}


def federate(curators, scripts=None, **options):
    """A federation over scripted curators."""
    return Federation(
        curators={name: curator.identity for name, curator in curators.items()},
        key=key(LEARNER),
        carrier=Scripted(curators, scripts),
        clock=Clock(),
        entropy=ENTROPY,
        **options,
    )


def journalled(journal, curators, carrier):
    """The federation of one process of a study: another one goes on with it."""
    return Federation(
        curators={name: curator.identity for name, curator in curators.items()},
        key=key(LEARNER),
        carrier=journal.through(carrier),
        clock=journal.clock,
        entropy=journal.entropy,
        decided=journal.decided,
        resumable=True,
    )


def silent_from(sequence):
    """Never answers the study's requests from this sequence on; 0 is the proposal, -1 the card too."""

    def script(message, data, handle):
        asked = -1 if isinstance(message, CardRequest) else message.sequence
        return None if asked >= sequence else handle(data)

    return script


def garbage_from(sequence, noise=b"\x93not an envelope"):
    """As `silent_from`, but answers rubbish; the curator never sees the request."""

    def script(message, data, handle):
        asked = -1 if isinstance(message, CardRequest) else message.sequence
        return noise if asked >= sequence else handle(data)

    return script


def late(times=1):
    """Serves each request of the study, but its first `times` replies get lost."""
    lost = {}

    def script(message, data, handle):
        reply = handle(data)
        if isinstance(message, CardRequest):
            return reply
        lost[data] = lost.get(data, 0) + 1
        return None if lost[data] <= times else reply

    return script


def halts_at(curator, sequence):
    """The steward stops the curator when this request arrives."""

    def script(message, data, handle):
        if not isinstance(message, CardRequest) and message.sequence == sequence:
            curator._ledger.halt(NOW, "enough")
        return handle(data)

    return script


def rewrites(name, kind, change):
    """Every honest reply of a message type is changed and signed anew by the curator."""

    def script(message, data, handle):
        reply = handle(data)
        _, said = open_envelope(reply)
        return seal(change(said), key(name)) if isinstance(said, kind) else reply

    return script


def quotes(name, cost):
    """Accepts at another cost."""

    def script(message, data, handle):
        reply = handle(data)
        if not isinstance(message, StudyProposal):
            return reply
        return seal(msgspec.structs.replace(open_envelope(reply)[1], cost=cost), key(name))

    return script


def plan_of(*scales, release="mass"):
    """A plan of one-partition queries; it costs the sum of 1 / scale."""
    return Plan.of(PlannedCounts(release=release, partitions=1, scale=Rational.of(Fraction(s))) for s in scales)


def mass_body(*edges):
    """A count of records by `x`."""
    return CountsBody(partitions=(FeatureBins(attribute="x", edges=tuple(edges) or (0.0,)),), hypothesis=None)


def account(curator):
    """The curator's own account."""
    return curator._ledger.account
