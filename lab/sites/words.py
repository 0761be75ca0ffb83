"""What the study of sites says in sentences."""

from collections.abc import Sequence

from expril.report.numbers import decimal, signed, with_error
from lab.sites.model import Fate, Found, Point
from lab.sites.tables import title_of

READING = (
    "Accuracy on the test records in percent, mean and half the width of its 95 % interval over the repeats. The same "
    "records are dealt at random to so many equal sites; a repeat has its own split, which both ways share. Every "
    "number is of a whole study with real curators, noise, signatures and ledgers, and each site is charged all of "
    "epsilon either way. The gain is the difference within a repeat."
)
NOISE = (
    "With n sites, t of which may collude and u drop out, each adds a share of noise of shape 1/h, h = n - t - u. A "
    "number that is opened over all n then has n/h times the variance of one noise, and fewer survivors leave less. "
    "Measured is the mean square of opened numbers less the exact counts, which only this study looks at; its interval "
    "holds in 999 of 1,000 cases. The bound is broken where all of it lies above, kept where none does; with nobody "
    "silent the variance is the bound itself, and so the bound lies within. Where each site adds noise of its "
    "own, the variance is n times that of one."
)
TRAFFIC = (
    "Bytes of envelopes to and from one site for one question of 1,000 numbers, mean over the sites, without the card "
    "and the plan. Up to 100 sites each exchanges keys and shares with every other, so it grows with their number."
)
LOSSES = (
    "Sites fall silent from a step on: nothing reaches them, and nothing comes back. Whoever sent its masked counts "
    "was charged, and stays charged where the sum fails."
)


def headline(found: Found) -> str:
    """The answer in one line: what the most sites give at the smallest epsilon."""
    shown = largest(found)
    if not shown:
        return "A secure sum over many sites has the noise of about one"
    told = ", ".join(
        f"{decimal(point.secure.value)} instead of {decimal(point.local.value)} % on {title_of(point.problem)}"
        for point in shown
        if point.secure is not None and point.local is not None
    )
    return f"{shown[0].sites} sites at epsilon {shown[0].epsilon}, summed securely: {told}"


def largest(found: Found) -> list[Point]:
    """Of each problem, at the smallest epsilon, the point of the most sites that both ways have."""
    both = [point for point in found.points if point.gain is not None]
    if not both:
        return []
    sites, epsilon = max(point.sites for point in both), found.epsilons[-1]
    return [point for point in both if (point.sites, point.epsilon) == (sites, epsilon)]


def summary(found: Found) -> tuple[str, ...]:
    """The sentences under the headline."""
    sentences = [_gains(found, epsilon) for epsilon in found.epsilons]
    if found.opened:
        broken = [row.sites for row in found.opened if row.broken]
        where = "no number of sites" if not broken else f"{_listed(map(str, broken))} sites"
        most = max(row.measured for row in found.opened)
        sentences.append(
            f"The 99.9 % interval of the variance of what is opened lies above its bound, n/h times that of one noise, "
            f"at {where}; the largest that was measured is {most:.2f} times."
        )
    if found.traffic:
        last = found.traffic[-1]
        sentences.append(
            f"With {last.sites} sites each carries {decimal(last.secure / 1000)} kB for a question of {last.numbers:,} "
            f"numbers, instead of {decimal(last.local / 1000)} kB."
        )
    sentences += _failures(found.fates)
    return tuple(sentence for sentence in sentences if sentence)


def _gains(found: Found, epsilon: str) -> str:
    rows = [point for point in found.points if point.epsilon == epsilon and point.gain is not None]
    if not rows:
        return ""
    sites = max(point.sites for point in rows)
    told = [
        f"{with_error(signed(point.gain.value), point.gain.error if point.gain.runs > 1 else None)} "
        f"on {title_of(point.problem)}"
        for point in rows
        if point.sites == sites and point.gain is not None
    ]
    return f"At epsilon {epsilon}, {sites} sites that sum securely gain in points: {_listed(told)}."


def _failures(fates: Sequence[Fate]) -> list[str]:
    lost = [fate for fate in fates if fate.silent > fate.dropouts]
    failed = [fate for fate in lost if not fate.opened]
    within = [fate for fate in fates if fate.silent <= fate.dropouts]
    if not within:
        return []
    opened = all(fate.opened == fate.rounds for fate in within)
    first = "opened at every step" if opened else "not always opened"
    sentences = [f"With as many dropouts as the plan tolerates the sum was {first}."]
    if failed:
        steps = _listed(list(dict.fromkeys(fate.failed_at for fate in failed)))
        sentences.append(f"With more it failed at {steps}.")
    return sentences


def _listed(words: "Sequence[str] | map[str]") -> str:
    *first, last = list(words)
    return f"{', '.join(first)} and {last}" if first else last
