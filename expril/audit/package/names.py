"""Names of a package's files, and what several of them say."""

from collections.abc import Sequence

import msgspec

from expril.audit.document import SpentRow
from expril.audit.package.deployment import total_epsilon
from expril.audit.package.evidence import Replay
from expril.audit.package.worlds import CuratorSpent
from protocol.run_index import LOCAL

DEPLOYMENT, CLAIM, LEDGER, EXACT, FALSE_ALARMS = (
    "deployment.yaml",
    "claim.json",
    "ledger.json",
    "exact.json",
    "false-alarms.json",
)
FACTS = "facts.json"
"""What only people know, as they wrote it."""
CHECKLIST, CHECKLIST_PAGE, AUDIT, AUDIT_PAGE, README = (
    "checklist.json",
    "checklist.html",
    "audit.json",
    "audit.html",
    "README.txt",
)


class Claim(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`claim.json`: what is claimed, for machines.

    Attributes:
        epsilon: of one unit, exact, as text.
        one_curator_each: whether every unit is at one curator, by its author's word: then the largest, else the sum.
        curators: name -> epsilon spent there, exact, as text.
        unit: privacy unit.
    """

    epsilon: str
    one_curator_each: bool
    curators: dict[str, str]
    unit: str

    @classmethod
    def of(cls, curators: Sequence[CuratorSpent], *, one_curator_each: bool) -> "Claim":
        """The claim that evidence supports."""
        return cls(
            epsilon=str(total_epsilon(curators, one_curator_each=one_curator_each)),
            one_curator_each=one_curator_each,
            curators={one.name: str(one.spent) for one in curators},
            unit="; ".join(dict.fromkeys(one.unit for one in curators)),
        )


def spent_rows(curators: Sequence[CuratorSpent]) -> list[SpentRow]:
    """What the report's page says of spending."""
    return [
        SpentRow(
            who=one.name,
            unit=one.unit,
            claimed=str(one.claimed),
            recomputed=str(one.spent),
            verdict="Every signed message and every entry adds up to this. "
            + (
                f"By learner: {', '.join(f'{name} {spent}' for name, spent in one.learners.items())}."
                if one.learners
                else ""
            ),
            wrong=False,
        )
        for one in curators
    ]


def open_points(proof: Replay) -> tuple[str, ...]:
    """What evidence leaves open although nothing contradicts."""
    texts = [*proof.result.unproven, *(f"unwitnessed: {text}" for text in proof.result.unwitnessed)]
    plain = [text.replace(f"{proof.base}/", "") for text in texts if not text.startswith(f"{LOCAL}/")]
    if proof.left_out:
        plain.append(f"not in the package, as it is not needed: {', '.join(proof.left_out)}")
    return tuple(plain)
