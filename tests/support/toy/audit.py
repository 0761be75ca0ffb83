"""What an auditor knows of the toy kind: a question to attack it with."""

import numpy as np

from expril.audit.kinds import AUDITED_KINDS
from expril.audit.kinds.kind_audit import AuditedKinds, AuditQuery, Example, KindAudit
from protocol.codec import encode
from protocol.rationals import Rational
from protocol.schema import NumericAttribute, Schema
from toy.kind import TOY, PlannedToy, ToyBody

SCHEMA = Schema(attributes=(NumericAttribute("age", 0, 120),), label="sick", classes=("no", "yes"))


def ask(copies):
    """At a cost of 1 a draw; from 0 tens on the second turn is drawn anew."""
    return AuditQuery(
        PlannedToy(scale=Rational(1, 1), level=0, turns=2), (encode(ToyBody(29.5)), encode(ToyBody(None)))
    )


class ToyAudit(KindAudit):
    kind = TOY

    def examples(self):
        """A threshold at a record; its second turn is free, or not, about as often."""
        return {"": (Example("two turns", SCHEMA, ask, values={"age": (29.5, np.nextafter(29.5, 0.0))}),)}


TOY_AUDIT = ToyAudit()
KNOWN = AuditedKinds(*AUDITED_KINDS.audits.values(), TOY_AUDIT)
"""What an auditor knows that was given the toy."""
