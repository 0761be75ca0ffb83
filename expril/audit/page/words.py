"""What an audit's page says in sentences."""

from collections.abc import Sequence
from fractions import Fraction

from expril.audit.page.figures import of_claim
from expril.audit.results import Attack, AuditResult, ControlResult
from expril.report.numbers import count

PAPER = "paper_ratio"
"""How the names of controls begin that are the paper's printed mechanism."""


def headline(result: AuditResult) -> str:
    """The answer in one sentence."""
    broken = [one for one in result.kinds if one.violation]
    if broken:
        names = ", ".join(one.kind for one in broken)
        return f"{count(len(broken), 'release')} gave away more than claimed: {names}"
    if any(not one.holds for one in result.studies):
        return "An attack on whole studies gained more than the claimed epsilon allows"
    if any(not one.reaches for one in result.studies):
        return "This audit proves nothing: an attack on whole studies gained less than theory gives it"
    if any(not one.holds for one in result.colluders):
        return "A sum over sites loses more than is claimed while as few collude as it assumes"
    if any(not one.passed for one in result.checks):
        failed = ", ".join(one.name for one in result.checks if not one.passed)
        return f"No release gave away more than claimed, but a check failed: {failed}"
    if any(not one.caught for one in result.controls):
        return "This audit proves nothing: it missed a mechanism that is broken on purpose"
    if not result.kinds:
        return "No release was attacked, so nothing is said of any"
    return "No attack found more privacy loss than is claimed"


QUICK = "This was a quick look with few draws, and it may miss much: run a whole audit before you rely on it."


def summary(result: AuditResult) -> tuple[str, ...]:
    """The sentences under the headline: what was done, and how sure that is."""
    told = [QUICK] if result.quick else []
    if result.kinds:
        draws = min(one.attack.draws for one in result.kinds)
        told.append(
            f"{count(len(result.kinds), 'kind')} of release answered {draws:,} times on each of two data sets that "
            "differ by one person's records, by the software and with the noise that are installed here."
        )
        share = max(of_claim(one.attack.claimed, one.attack.lower_bound) for one in result.kinds)
        told.append(
            f"The strongest attack reached {100 * min(share, 1e6):.0f} % of the loss that is claimed; above 100 % "
            "would be a violation."
        )
    caught = sum(one.caught for one in result.controls)
    if result.controls:
        told.append(
            f"Of {len(result.controls)} mechanisms that are broken on purpose, {caught} were caught"
            f"{': this audit notices such faults.' if caught == len(result.controls) else '.'}"
        )
    told.append(
        f"An audit of correct software like this one raises a false alarm in at most {100 * result.false_alarm:g} of "
        "100 cases."
    )
    return tuple(told)


def in_order(controls: Sequence[ControlResult]) -> list[ControlResult]:
    """What was missed first, then the paper's printed mechanism, then the others as they came."""
    return sorted(controls, key=lambda one: (one.caught, not one.name.startswith(PAPER)))


def paper_control(controls: Sequence[ControlResult]) -> ControlResult | None:
    """The control that shows the paper's mechanism best: one that was caught, with one record in the bin."""
    ours = [one for one in controls if one.name.startswith(PAPER)]
    return min(
        ours,
        key=lambda one: (
            not one.caught,
            not one.name.endswith("1"),
            one.truth == "infinite",
            -of_claim(one.attack.claimed, one.attack.lower_bound),
        ),
        default=None,
    )


def bound(value: float) -> str:
    """A bound or an exact loss with as many digits as can matter."""
    return f"{value:.4f}" if value < 1 else f"{value:.3f}"


def claim(text: str) -> str:
    """A claim: rounded, and the exact fraction behind it where rounding lost something."""
    short = bound(float(Fraction(text)))
    return text if "/" not in text else f"{short} ({text})"


def inverse(text: str) -> str:
    """One over a claim: the scale of noise whose loss it is."""
    return str(1 / Fraction(text))


def share(value: float) -> str:
    """A share of the draws in percent."""
    return f"{100 * value:.3g} %"


def told(attack: Attack) -> str:
    """What the attack did, one sentence."""
    more, fewer = attack.shares
    return (
        f"{share(more)} of the answers on the one side and {share(fewer)} on the other were in the event, which proves "
        f"an epsilon of at least {bound(attack.lower_bound)}; {claim(attack.claimed)} is claimed."
    )
