"""Curators whose keys anybody can guess: the registered answerer of secure sums, with entropy that is none."""

from dataclasses import replace
from fractions import Fraction

import numpy as np

from curator_node.kinds import ANSWERERS
from expril.audit.attack.controls.parts import QuickNoise
from expril.audit.kinds.path import Path
from expril.audit.kinds.shares import loss_of_shares
from protocol.codec import decode
from protocol.envelopes import LABEL
from protocol.examples import Asking, Company, Example, Lead, Seen
from protocol.kinds.secure_counts import AskKeys, PlannedSecureCounts, RelayCards, RelayShares, question_digest
from protocol.query_kind import Turn
from protocol.secure_sum.cards import list_digest, round_digest
from protocol.secure_sum.participant import DEALERS, pair_masks

NO_ENTROPY = bytes
"""n -> n zeros."""
COPIES = 5000
DRAWS = 20_000
"""From either side: enough to catch it in any audit, and the rounds of four curators take their time."""


def path() -> Path:
    """The first question of the kind, to curators whose keys are zeros; its learner takes off every mask."""
    answerer = ANSWERERS["secure_counts"]
    example = answerer.kind.examples()[""][0]
    return Path(answerer, _undone(example), COPIES, QuickNoise, entropy=NO_ENTROPY)


def truth() -> float:
    """What one curator's share of the noise alone loses."""
    example = path().example
    planned: PlannedSecureCounts = example.ask(1).planned
    share = Fraction(1, planned.shares)
    return loss_of_shares(planned.law.scale, share, example.most_records_per_unit).loss or 0.0


def _undone(example: Example) -> Example:
    company = example.company
    if company is None:
        return example
    attacked, other = (key.public for key in company.curators[:2])

    def lead(asking: Asking) -> Lead:
        planned, inner = example.ask(asking.copies).planned, company.lead(asking)
        bodies = next(inner)
        question = question_digest(asking.learner, Turn(planned, asking.query), decode(bodies[0], AskKeys))
        bodies = inner.send((yield bodies))
        cards = decode(bodies[0], RelayCards).cards
        bodies = inner.send((yield bodies))
        dealers = decode(bodies[0], RelayShares).dealers
        while True:
            try:
                bodies = inner.send((yield bodies))
            except StopIteration as end:
                seen: Seen = end.value
                break
        one, two = (planned.participants.index(key) for key in (attacked, other))
        own, of = NO_ENTROPY(32), round_digest(planned.group(LABEL), question, cards)
        mask = pair_masks(
            own, one, [(two, dict(cards)[two].masking)], of, list_digest(DEALERS, dealers), seen.hidden.size
        )
        left = (seen.hidden.view(np.uint64).ravel() - mask).view(np.int64)
        return Seen(seen.told, left.reshape(seen.hidden.shape))

    return replace(example, company=Company(company.curators, lead))
