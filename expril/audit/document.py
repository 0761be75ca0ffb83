"""The document of a whole audit, from which its page and its tables for the terminal are written.

Names, verdicts and neighbours come from mechanisms of any origin and are untrusted; the writers escape them.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

from expril.audit.attack.mirror_plot import paper_law, paper_words, picture
from expril.audit.brief import audit_brief, curve_charts, quick_words
from expril.audit.recompute import Recomputed
from expril.audit.results import (
    Attack,
    AuditResult,
    BlogGame,
    Check,
    ColluderLoss,
    ControlResult,
    KindResult,
    LossCurve,
    StudyAttack,
    of_claim,
)
from expril.audit.tables import bounded
from expril.report.chart import (
    Axis,
    Key,
    Level,
    Place,
    Series,
    Stage,
    Strip,
    Tick,
    line_chart,
    log_axis,
    make_axis,
)
from expril.report.document import (
    PAGE,
    PAPER,
    Block,
    Charts,
    Code,
    Document,
    Drawing,
    Facts,
    Grid,
    Heading,
    Legend,
    Section,
    Text,
)
from expril.report.numbers import count
from expril.report.table import Cell, Column, Table
from protocol.rationals import parse_rational, written

SHARE_AXIS = Axis(0.0, 1.25, tuple(Tick(str(n), Axis(0.0, 1.25).at(n), n) for n in (0, 0.5, 1)))
"""Axis of losses in units of the claim."""
_MOST_RATIO = 1000.0
_STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_HEIGHT = 320
_SIDES = (Key(0, False, "one data set"), Key(1, False, "its neighbour, drawn below the axis"))
_GIVEN_AWAY = (
    "Epsilon bounds how much surer anybody can become that one person's records are there; 0 is nothing. Of a person "
    "who is known to be there, anything else is bounded by twice as much, or by less. Claimed is what is charged for "
    "one answer. At least is what an attack proved. Exactly is the largest loss, computed from the law of the noise, "
    "where that can be done."
)
_GAIN = (
    "How much better than guessing an attacker tells whether one person's records are there: true positives less "
    "false positives, 0 for guessing, 1 for certainty. No attack may gain more than the bound, (e^ε − 1) / (e^ε + "
    "1), where ε protects a person over the whole attack."
)
_COLLUDERS = (
    "In a secure sum each site adds a share of the noise, and only the sum is opened. Who knows some of the shares "
    "sees the sum under less noise, and the loss grows far faster than the noise shrinks. So shares are made for the "
    "sites that are left when as many collude as the plan assumes. Enumerated; one record more in the sum, noise of "
    "scale {}."
)
_GAME = (
    "One person holds either 100 zeros, or 99 zeros and a one. She answers with the mean, plus noise. You win a "
    "round if you tell which she holds. Differential privacy says how often you can win. (After N. Zumel, “A simpler "
    "explanation of differential privacy”, 2015: threshold 1/200, {:,} rounds at each epsilon.)"
)
_READING = (
    ("Claimed", "The epsilon that a curator charges for one answer, exact."),
    (
        "At least",
        (
            "An attacker drew answers on two neighbouring data sets. On one half of the draws it looked for the set of "
            "answers (the event) that tells them apart best; on the other half it counted. The bound is what these "
            "counts prove (Clopper and Pearson)."
        ),
    ),
    (
        "Exactly",
        (
            "The largest ratio of probabilities over all answers, from the law of the noise, for the neighbours found. "
            "Nothing is drawn."
        ),
    ),
    (
        "Holds",
        (
            "Neither bound nor exact loss is above the claim. That an attack fails is no proof: the proof is in "
            "docs/explanation/privacy-guarantee.md. A gap between “at least” and “claimed” is what the attack could "
            "not show, not what is spare."
        ),
    ),
)
_NOT_SHOWN = (
    (
        "Your installation",
        (
            "The audit ran here, on invented data, with the software listed below. It says nothing of other software, "
            "or of changed files. Run it where the curator runs."
        ),
    ),
    ("Time and size", "How long an answer takes is not covered by epsilon, and was not attacked."),
    (
        "False records",
        "Whether a hospital’s records, units and declared bounds are true nobody can see from outside.",
    ),
    (
        "Events nobody thought of",
        "The search covers many neighbours and events, not all. A leak in one of 100,000 answers may pass unseen.",
    ),
)


PRINTED = "paper_ratio"
"""Beginning of the names of controls that are the paper's printed mechanism."""


def headline(result: AuditResult) -> str:
    """The verdict in one sentence."""
    broken = [row for row in result.kinds if row.violation]
    if broken:
        names = ", ".join(row.kind for row in broken)
        return f"{count(len(broken), 'release')} gave away more than claimed: {names}"
    if any(not row.holds for row in result.curves):
        names = ", ".join(row.kind for row in result.curves if not row.holds)
        return f"At another epsilon a release loses more than claimed: {names}"
    if any(not row.holds for row in result.studies):
        return "An attack on whole studies gained more than the claimed epsilon allows"
    if any(not row.reaches for row in result.studies):
        return "This audit proves nothing: an attack on whole studies gained less than theory gives it"
    if any(not row.holds for row in result.colluders):
        return "A sum over sites loses more than is claimed while as few collude as it assumes"
    if any(not row.passed for row in result.checks):
        failed = ", ".join(row.name for row in result.checks if not row.passed)
        return f"No release gave away more than claimed, but a check failed: {failed}"
    if any(not row.caught for row in result.controls):
        return "This audit proves nothing: it missed a mechanism that is broken on purpose"
    if not result.kinds:
        return "No release was attacked, so nothing is said of any"
    return "No attack found more privacy loss than is claimed"


def summary(result: AuditResult) -> tuple[str, ...]:
    """Return the sentences under the headline: what was done, and how certain the result is."""
    sentences = [quick_words(result)] if result.quick else []
    if result.kinds:
        draws = min(row.attack.draws for row in result.kinds)
        sentences.append(
            f"{count(len(result.kinds), 'kind')} of release answered {draws:,} times on each of two data sets that "
            "differ by one person's records, by the software and with the noise that are installed here."
        )
        share = max(of_claim(row.attack.claimed, row.attack.lower_bound) for row in result.kinds)
        sentences.append(
            f"The strongest attack reached {100 * min(share, 1e6):.0f} % of the loss that is claimed; above 100 % "
            "would be a violation."
        )
    caught = sum(row.caught for row in result.controls)
    if result.controls:
        sentences.append(
            f"Of {len(result.controls)} mechanisms that are broken on purpose, {caught} were caught"
            f"{': this audit notices such faults.' if caught == len(result.controls) else '.'}"
        )
    sentences.append(
        f"An audit of correct software like this one raises a false alarm in at most {100 * result.false_alarm:g} of "
        "100 cases."
    )
    return tuple(sentences)


def in_order(controls: Sequence[ControlResult]) -> list[ControlResult]:
    """Sort controls: missed ones first, then the paper's printed mechanism, then the others in their order."""
    return sorted(controls, key=lambda control: (control.caught, not control.name.startswith(PRINTED)))


def paper_control(controls: Sequence[ControlResult]) -> ControlResult | None:
    """The control that shows the paper's mechanism best: preferably caught, with one record in the bin."""
    ours = [control for control in controls if control.name.startswith(PRINTED)]
    return min(
        ours,
        key=lambda control: (
            not control.caught,
            not control.name.endswith("1"),
            control.truth == "infinite",
            -of_claim(control.attack.claimed, control.attack.lower_bound),
        ),
        default=None,
    )


def bound(value: float) -> str:
    """A bound or an exact loss, rounded."""
    return f"{value:.4f}" if value < 1 else f"{value:.3f}"


def claim(text: str) -> str:
    """A claim, rounded, with the exact fraction behind it if it is one."""
    short = bound(float(Fraction(text)))
    return text if "/" not in text else f"{short} ({text})"


def share(value: float) -> str:
    """A share of the draws in percent."""
    return f"{100 * value:.3g} %"


def attack_sentence(attack: Attack) -> str:
    """The attack's event, proof and claim in one sentence."""
    more, fewer = attack.shares
    return (
        f"{share(more)} of the answers on the one side and {share(fewer)} on the other were in the event, which proves "
        f"an epsilon of at least {bound(attack.lower_bound)}; {claim(attack.claimed)} is claimed."
    )


class SpentRow(NamedTuple):
    """A row of what was spent: of one curator, or of a contradiction."""

    who: str
    unit: str  # privacy unit
    claimed: str  # cost of all accepted plans, exact
    recomputed: str  # upper end of what was spent, from the entries alone, exact
    verdict: str  # one sentence
    wrong: bool  # whether something contradicts


def rows_of(result: Recomputed) -> list[SpentRow]:
    """Make a row for each curator and each contradiction. Repeats with equal spending share a row."""
    alike: dict[tuple[str, str, str, str], int] = {}
    for total in result.sums:
        if not total.learner and not total.version:
            name = total.curator.rpartition(", repeat ")[0] or total.curator
            spending = (name, total.unit, written(total.claimed), bounded(total.at_most))
            alike[spending] = alike.get(spending, 0) + 1
    wrong = [*result.wrong, *result.unread]
    rows = [SpentRow(text.partition(": ")[0], "–", "–", "–", text, True) for text in wrong]
    for (name, unit, claimed, spent), repeats in alike.items():
        times = f" In each of {count(repeats, 'repeat')}." if repeats > 1 else ""
        fits = "See above." if wrong else "Every signed message and every entry adds up to this."
        rows.append(SpentRow(name, unit, claimed, spent, f"{fits}{times}", bool(wrong)))
    return rows


def audit_document(
    result: AuditResult, *, spent: Sequence[SpentRow] = (), created: str = "", command: str = "expril audit all"
) -> Document:
    """The document of an audit; the same arguments give the same document.

    `spent`: recomputed spending of runs and exports. `created`: time as ISO 8601; "" leaves it out.
    """
    banner = ("Not passed.", "Do not rely on the claims below before the marked lines are explained.")
    alarms = (
        f"All that can raise one shares {100 * result.false_alarm:g} %: releases get three fifths of it, in equal "
        "parts; the canaries and the attacks on studies share the rest. Checks with a rate of 1e-9 are beside that."
    )
    software = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    took = f"; {result.seconds:.0f} seconds" if result.seconds else ""
    return Document(
        kind="ExPriL audit",
        subject="Audit",
        headline=headline(result),
        summary=summary(result),
        created=created,
        banner=None if result.passed else banner,
        sections=[
            Section("", [audit_brief(result)], PAPER),
            _spent(spent),
            *_kinds(result.kinds),
            _curves(result.curves),
            *_controls(in_order(result.controls)),
            _colluders(result.colluders),
            _checks(result.checks),
            _studies(result.studies),
            *([_game(result.blog)] if result.blog else []),
            Section("How to read this", [Facts([*_READING, ("False alarms", alarms)], "reading")], PAGE),
            Section("What this does not show", [Facts(_NOT_SHOWN, "reading")], PAGE),
            Section("Do it again", [Text(f"{software}{took}.", "fine"), Code(command)], PAGE),
        ],
    )


def _verdict(wrong: bool, bad: str, good: str, text: str = "", *, warn: bool = False) -> Cell:
    """A column with the verdict as one word; the page also shows its reason."""
    word = bad if wrong else good
    rest = text.removeprefix(f"{word[:1].upper()}{word[1:].lower()}.").strip()
    return Cell(word, tone="bad" if wrong else "warn" if warn else "good", under=rest)


def _spent(rows: Sequence[SpentRow]) -> Section:
    columns: list[Column[SpentRow]] = [
        Column("of whom", lambda row: row.who, names=True),
        Column("claimed", lambda row: row.claimed, number=True),
        Column("recomputed", lambda row: row.recomputed, number=True),
        Column("protects", lambda row: row.unit),
        Column("verdict", lambda row: _verdict(row.wrong, "CONTRADICTED", "in order", row.verdict)),
    ]
    lead = "Recomputed from signed messages and ledger entries alone: no records, and none of the curator’s own code."
    table = Table.of("What was spent", columns, rows)
    return Section("What was spent", [Text(lead), table] if rows else [], PAGE)


def _attacked(
    first: str,
    last: str,
    axis: Axis,
    strip: Callable[[Any], Strip],
    third: Callable[[Any], str],
    verdict: Callable[[Any], Cell],
) -> list[Column[Any]]:
    """Columns of a table of attacked mechanisms."""
    return [
        Column(first, lambda row: getattr(row, "kind", "") or spaced(row.name), names=True),
        Column("loss in units of the claim", strip, drawn=True, axis=axis),
        Column("claimed", lambda row: claim(row.attack.claimed), number=True),
        Column("at least", lambda row: bound(row.attack.lower_bound), number=True),
        Column(last, third, number=True),
        Column("verdict", verdict),
    ]


def share_strip(row: KindResult) -> Strip:
    """A shipped mechanism's loss on `SHARE_AXIS`."""
    exact = [] if row.exact is None else [(0.5, of_claim(row.attack.claimed, row.exact), None, "exactly")]
    proven = (0, of_claim(row.attack.claimed, row.attack.lower_bound), None, "proven at least")
    return Strip(SHARE_AXIS, dots=[*exact, proven], marks=[(1.0, "solid")])


def ratio_axis(attacks: Iterable[Attack]) -> Axis:
    """A logarithmic axis over the bounds in units of their claims."""
    highest = max((of_claim(attack.claimed, attack.lower_bound) for attack in attacks), default=1.0)
    bare = Axis(0.3, min(_MOST_RATIO, max(10.0, highest * 1.3)), log=True)
    powers = [10.0**power for power in range(math.floor(math.log10(bare.high)) + 1)]
    return replace(bare, ticks=tuple(Tick(f"{power:g} ×", bare.at(power), power) for power in powers))


def ratio_strip(axis: Axis, row: ControlResult) -> Strip:
    """A mechanism that is broken on purpose, on the axis of `ratio_axis`; small ratios are at its lower end."""
    ratio = max(of_claim(row.attack.claimed, row.attack.lower_bound), axis.low)
    return Strip(axis, dots=[(1, ratio, None, "proven at least")], marks=[(1.0, "solid")])


def _kinds(kinds: Sequence[KindResult]) -> list[Section]:
    if not kinds:
        return []

    def exactly(row: KindResult) -> str:
        return "–" if row.exact is None else bound(row.exact)

    def verdict(row: KindResult) -> Cell:
        return _verdict(row.violation, "VIOLATION", "holds", row.verdict)

    columns = _attacked("release", "exactly", SHARE_AXIS, share_strip, exactly, verdict)
    legend = Legend([Key(0, False, "proven at least"), Key(0, True, "exactly")], [("solid", "claimed")])
    pictures = [
        Drawing(
            picture(row.attack.spread, row.attack.shares),
            row.kind,
            f"{row.attack.neighbours}. Event: {row.attack.event}. {attack_sentence(row.attack)} "
            f"{count(row.searched, 'pair')} of neighbours tried.",
        )
        for row in kinds
        if row.attack.spread and row.attack.spread.event
    ]
    title = "What each release gives away"
    return [
        Section(title, [Text(_GIVEN_AWAY), legend, Table.of(title, columns, kinds)]),
        Section(
            "What was seen on either side",
            [Legend(_SIDES, [("event c0", "in the event")]), Grid([[drawing] for drawing in pictures])],
            PAGE,
        ),
    ]


def _curves(curves: Sequence[LossCurve]) -> Section:
    lead = (
        "The same question, asked with wider and narrower noise. The exact loss follows from the law that is claimed, "
        "and is the claim where nothing is to spare. What draws prove is below it."
    )
    return Section("Loss against epsilon", [Text(lead), curve_charts(curves)] if curves else [], PAGE)


def _controls(controls: Sequence[ControlResult]) -> list[Section]:
    if not controls:
        return []
    axis = ratio_axis(control.attack for control in controls)

    def verdict(row: ControlResult) -> Cell:
        return _verdict(not row.caught, "MISSED", "caught", row.fault)

    columns = _attacked("mechanism", "in truth", axis, partial(ratio_strip, axis), lambda row: row.truth, verdict)
    pictures = [
        Drawing(
            picture(row.attack.spread, row.attack.shares, height=150),
            spaced(row.name),
            f"{row.attack.neighbours}. Event: {row.attack.event}.",
        )
        for row in controls
        if row.attack.spread and row.attack.spread.event
    ]
    lead = "An audit that does not catch these is worth nothing. They are attacked alike, with the same strictness."
    title = "Mechanisms that are broken on purpose"
    blocks: list[Block] = [
        Text(lead),
        *_paper(controls),
        Legend([Key(1, False, "proven at least, in units of the claim, logarithmic")], [("solid", "claimed")]),
        Table.of(title, columns, controls),
        Grid([[drawing] for drawing in pictures], 4),
    ]
    return [Section(title, blocks)]


def _paper(controls: Sequence[ControlResult]) -> list[Block]:
    """Show the claim and the law of the paper's printed mechanism, if it is among the controls."""
    paper = paper_control(controls)
    if paper is None:
        return []
    facts = [("claimed", claim(paper.attack.claimed)), ("proven at least", bound(paper.attack.lower_bound))]
    facts += [("by the formula", paper.truth)] if paper.truth != "infinite" else []
    note = (
        f"{paper_words()} The noise is divided by the exact number of records, so that fewer records spread it wider. "
        "This mechanism ships for reproducing the paper; a curator refuses it outside of simulations."
    )
    sides = [
        Key(0, False, "1 record in the bin, an error"),
        Key(1, False, "one more, which is none, drawn below the axis"),
    ]
    return [
        Heading("The mechanism that the paper prints"),
        Facts(facts),
        Text(f"{paper.fault} {attack_sentence(paper.attack)}"),
        Drawing(picture(paper_law(), height=260), caption=note),
        Legend(sides),
    ]


def _colluders(rows: Sequence[ColluderLoss]) -> Section:
    title = "Sums over sites, some of which collude"
    columns: list[Column[ColluderLoss]] = [
        Column("sites", lambda row: Cell(f"{row.sites} sites", tone="" if row.holds else "bad"), names=True),
        Column("shares made for", lambda row: f"{row.sites - row.assumed} sites", number=True),
        Column("colluders", lambda row: row.colluders, number=True),
        Column("unknown shares", lambda row: row.unknown, number=True),
        Column("claimed", lambda row: claim(row.claimed), number=True),
        Column("exactly", lambda row: bound(row.loss), number=True),
        Column("of the claim", lambda row: f"{of_claim(row.claimed, row.loss):.4g} times", number=True),
    ]
    lead = _COLLUDERS.format(1 / Fraction(rows[0].claimed)) if rows else ""
    return Section(title, [Text(lead), Table.of(title, columns, rows)] if rows else [])


def _checks(checks: Sequence[Check]) -> Section:
    def finding_cell(row: Check) -> Cell:
        return Cell(row.finding, under=f"{row.question} False alarms: {row.false_alarm:.2g}. {row.power}")

    columns: list[Column[Check]] = [
        Column("check", lambda row: spaced(row.name), names=True),
        Column("found", finding_cell, wraps=True),
        Column("verdict", lambda row: _verdict(not row.passed, "FAILED", "passed")),
    ]
    return Section("Checks", [Table.of("Checks", columns, checks)] if checks else [])


def _studies(studies: Sequence[StudyAttack]) -> Section:
    def verdict(row: StudyAttack) -> Cell:
        free, bad = row.epsilon == "none", "SHORT" if row.holds else "ABOVE BOUND"
        text = f"{row.verdict} {count(row.trials, 'trial')}."
        return _verdict(not (row.holds and row.reaches), bad, "unprotected" if free else "holds", text, warn=free)

    columns: list[Column[StudyAttack]] = [
        Column("attack", lambda row: spaced(row.attack), names=True),
        Column("on", lambda row: row.target),
        Column("epsilon", lambda row: row.epsilon, number=True),
        Column("gain", lambda row: f"{row.gain:.3f}", number=True),
        Column("95 %", lambda row: f"{row.interval[0]:.3f} to {row.interval[1]:.3f}", number=True),
        Column("in theory", lambda row: "–" if row.expected is None else f"{row.expected:.3f}", number=True),
        Column("bound", lambda row: "none" if row.epsilon == "none" else f"{row.bound:.3f}", number=True),
        Column("verdict", verdict),
    ]
    title = "Attacks on whole studies"
    return Section(title, [Text(_GAIN), *_gains(studies), Table.of(title, columns, studies)] if studies else [])


def _gains(studies: Sequence[StudyAttack]) -> list[Charts]:
    """Gain against epsilon: a line for each bounded attack, a level for each unbounded one."""
    protected = [study for study in studies if study.epsilon != "none"]
    if not protected:
        return []
    epsilons = sorted({study.epsilon for study in protected}, key=parse_rational)
    bare = Axis(-0.25, max(0.25, len(epsilons) - 0.75), (), 9.0, 97.0)
    axis = replace(bare, ticks=tuple(Tick(text, bare.at(n), n) for n, text in enumerate(epsilons)))
    names = list(dict.fromkeys(study.attack for study in protected))
    bounds = {study.epsilon: study.bound for study in protected}
    places = [
        Place(n, bounds[text], (bounds[text],) * 2, f"{bounds[text]:.3f} at most") for n, text in enumerate(epsilons)
    ]
    series = [Series(Key(len(names), True, "bound"), places)]
    for index, name in enumerate(names):
        places = [
            Place(n, study.gain, study.interval, f"{study.gain:.3f} at epsilon {study.epsilon}")
            for n, epsilon in enumerate(epsilons)
            for study in protected
            if (study.attack, study.epsilon) == (name, epsilon)
        ]
        series.append(Series(Key(index, False, spaced(name)), places))
    free = [study for study in studies if study.epsilon == "none"][:3]
    levels = [
        Level("unprotected", study.gain, f"{spaced(study.attack)}, {study.target}: {study.gain:.2f}", named=True)
        for study in free
    ]
    low = min(0.0, *(study.interval[0] for study in protected))
    chart = line_chart(
        "Gain of attacks on whole studies against epsilon",
        series,
        axis,
        (),
        stage=Stage(make_axis(low, 1.0, (0.2, 0.5)), _HEIGHT),
        levels=levels,
        across="epsilon",
    )
    return [Charts([chart], [line.key for line in [*series[1:], series[0]]], columns=1, size=0.8)]


def _game(game: BlogGame) -> Section:
    """The blog's game: gap between the means, and rounds above the threshold, against epsilon."""
    axis = log_axis(game.epsilons, [f"{epsilon:.3g}" for epsilon in game.epsilons], left=9.0, right=96.0)

    def line(index: int, hollow: bool, name: str, values: Iterable[float]) -> Series:
        places = [
            Place(epsilon, value, (value, value), f"{value:.3f} at epsilon {epsilon:g}")
            for epsilon, value in zip(game.epsilons, values, strict=True)
        ]
        return Series(Key(index, hollow, name), places)

    gaps = [line(0, True, "gap by the law", game.expected_gaps)] if game.expected_gaps else []
    gaps += [line(0, False, "gap, in standard deviations of the answers", game.gaps)] if game.gaps else []
    above = [
        line(side, hollow, f"{name}{', by the law' if hollow else ''}", [pair[side] for pair in pairs])
        for side, name in enumerate(("100 zeros", "99 zeros and a one"))
        for hollow, pairs in ((True, game.expected_above), (False, game.above))
    ]
    across = "epsilon, logarithmic"
    high = max((place.value for series in gaps for place in series.places), default=1.0)
    low = min((place.value for series in gaps for place in series.places), default=0.0)
    stage = Stage(make_axis(min(0.0, low), max(1.0, high), _STEPS), _HEIGHT)
    shares = Stage(make_axis(0.0, 1.0, (0.2,)), _HEIGHT)
    gap_chart = line_chart("The gap that is left", gaps, axis, (), stage=stage, across=across)
    above_chart = line_chart("Rounds above 1/200", above, axis, (), stage=shares, across=across)
    pictures = [[Drawing(picture(spread), spaced(name))] for name, spread in game.spreads.items()]
    note = (
        "Dashed: by the law. The smaller epsilon is, the more alike the two sides are, and the less the mean is worth."
    )
    keys = [line.key for line in [*gaps, *above]]
    return Section(
        "The game, explained",
        [
            Text(_GAME.format(game.rounds)),
            Legend(_SIDES),
            Grid(pictures, 3),
            Charts([gap_chart, above_chart], keys, columns=2, note=note),
        ],
        PAGE,
    )


def spaced(name: str) -> str:
    """A name with underscores as words."""
    return name.replace("_", " ")
