"""What an auditor knows of the toy kind: a question to attack it with."""

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import ClassVar

import numpy as np

from expril.audit.kinds import AUDITED_KINDS
from expril.audit.kinds.exact import Outcomes
from expril.audit.kinds.kind_audit import AuditedKinds, AuditQuery, Example, KindAudit, Law
from protocol.codec import encode
from protocol.noise import DiscreteLaplace
from protocol.rationals import Rational
from protocol.schema import NumericAttribute, Schema
from toy.kind import TOY, PlannedToy, ToyBody

SCHEMA = Schema(attributes=(NumericAttribute("age", 0, 120),), label="sick", classes=("no", "yes"))


def ask(copies):
    """At a cost of 1 a draw; from 0 tens on the second turn is drawn anew."""
    return AuditQuery(
        PlannedToy(scale=Rational(1, 1), level=0, turns=2), (encode(ToyBody(29.5)), encode(ToyBody(None)))
    )


@dataclass(frozen=True)
class ToyLaw(Law):
    """The tens of a noisy count; then the same count, or, where the tens reach the level, a new noisy count."""

    exact: int
    scale: Fraction
    level: int = 0

    @property
    def charges(self):
        return 1 / self.scale, 2 / self.scale

    def outcomes(self, lowest, highest):
        """All outputs with their chances, of counts between two multiples of ten."""
        decay, law = (Decimal(-1) / Decimal(float(self.scale))).exp(), DiscreteLaplace(self.scale)
        counts = range(lowest, highest)
        defined = {k: (1 - decay) / (1 + decay) * decay ** abs(k - self.exact) for k in counts}
        tabled = {k: float(np.exp(law.log_pmf(k - self.exact))) for k in counts}
        tables = []
        for chances in (defined, tabled):
            tens = {t: sum(chances[10 * t + digit] for digit in range(10)) for t in range(lowest // 10, highest // 10)}
            same = {(k // 10, k): chance for k, chance in chances.items() if k // 10 < self.level}
            anew = {(t, k): tens[t] * chances[k] for t in tens if t >= self.level for k in counts}
            tables.append(same | anew)
        once, twice = self.charges
        return Outcomes(*tables, of_charge={(t, k): twice if t >= self.level else once for t, k in tables[0]})

    def loss(self, other, charge=None):
        ends = (min(self.exact, other.exact) // 10 - 4) * 10, (max(self.exact, other.exact) // 10 + 5) * 10
        return self.outcomes(*ends).loss(other.outcomes(*ends), charge)

    def cells(self, rows):
        lowest = self.exact // 10 * 10
        return self.outcomes(lowest - 40, lowest + 50).cells(rows)


class ToyAudit(KindAudit):
    kind = TOY
    excuses: ClassVar = {"generator": "it asks for ages, which no drawn schema has"}

    def oracle(self, case):
        """The exact count, once or twice: without noise the second turn draws anew where the tens reach the level."""
        above = case.bodies[0].above
        count = sum(age is not None and min(max(age, 0), 120) >= above for age in case.frame["age"])
        return [count] * (2 if count // 10 >= case.planned.level else 1)

    def hostile(self, planned, bodies, schema):
        return {"no threshold": encode(ToyBody(None))}

    def claimed_law(self, case):
        count = int(case.trace(()).handed[0][0])
        return ToyLaw(count, case.planned.scale.fraction, case.planned.level)

    def examples(self):
        """A threshold at a record; its second turn is free, or not, about as often."""
        return {"": (Example("two turns", SCHEMA, ask, values={"age": (29.5, np.nextafter(29.5, 0.0))}),)}


TOY_AUDIT = ToyAudit()
KNOWN = AuditedKinds(*AUDITED_KINDS.audits.values(), TOY_AUDIT)
"""What an auditor knows that was given the toy."""
