"""What a data-protection officer asks of an audit first: four answers and one figure, on top of its page."""

from collections.abc import Iterator, Sequence
from fractions import Fraction

from expril.audit.results import AuditResult, KindResult, LossCurve, of_claim
from expril.report.chart import Figure, Key, Place, Series, Stage, line_chart, make_axis
from expril.report.document import Answer, Block, Brief, Charts
from expril.report.numbers import count

QUESTIONS = (
    "What was claimed?",
    "What did an attacker reach?",
    "What was broken on purpose, and was it caught?",
    "What was not tried?",
)
_QUICK = "This was a quick look with few draws, and it may miss much"
_WHOLE = "run a whole audit before you rely on it."
_STEPS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
_LOSS, _PROVEN, _CLAIM = Key(0, True, "exact law"), Key(0, False, "proven by draws"), Key(1, True, "claim")


def audit_brief(result: AuditResult) -> Brief:
    """The four answers, and the loss of all kinds against the epsilon that is charged."""
    answers = (_claimed(result), _reached(result), _broken(result), _untried(result))
    return Brief(
        [Answer(question, *_split(list(texts))) for question, texts in zip(QUESTIONS, answers, strict=True)],
        _figure(result.curves),
    )


def quick_words(result: AuditResult) -> str:
    """What a quick look left out, and that it was one."""
    parts = (
        ("the mechanisms that are broken on purpose", result.controls),
        ("the attacks on whole studies", result.studies),
        ("the checks of the noise and of a curator's way to an answer", result.checks),
    )
    left_out = [words for words, tried in parts if not tried]
    if not left_out:
        return f"{_QUICK}: {_WHOLE}"
    *most, last = left_out
    words = f"{', '.join(most)} and {last}" if most else last
    return f"{_QUICK}. It tried few pairs of data sets, and left out {words}: {_WHOLE}"


def _split(sentences: list[str]) -> tuple[str, list[str]]:
    return sentences[0], sentences[1:]


def _claimed(result: AuditResult) -> Iterator[str]:
    if not result.kinds:
        yield "Nothing: no kind of release was attacked."
        return
    yield (
        f"That each of {count(len(result.kinds), 'kind')} of release tells no more of one person than the epsilon that "
        "is charged for it."
    )
    yield (
        "Epsilon bounds how much surer anybody can become that one person's records are there. At an epsilon of 1 a "
        "guess of 50 % becomes 73 % at most."
    )


def _proven_share(row: KindResult) -> float:
    return of_claim(row.attack.claimed, row.attack.lower_bound)


def _reached(result: AuditResult) -> Iterator[str]:
    broken = [row for row in result.kinds if row.violation]
    if broken:
        yield f"More than is claimed, of {count(len(broken), 'release')}: {', '.join(row.kind for row in broken)}."
    elif result.kinds:
        strongest = max(result.kinds, key=_proven_share)
        yield (
            f"{100 * min(_proven_share(strongest), 1e6):.0f} % of the claim at most (for {strongest.kind}), and never "
            "more than all of it."
        )
    else:
        yield "Nothing was attacked."
    exact = [row for row in result.kinds if row.exact is not None]
    if result.kinds:
        yield (
            f"The largest loss was computed exactly for {len(exact)} of {count(len(result.kinds), 'kind')}, from the "
            "law that is claimed, on the records that were found."
        )
    attacks = [study for study in result.studies if study.epsilon != "none"]
    if attacks:
        above = sum(not study.holds for study in attacks)
        yield (
            f"Of {count(len(attacks), 'attack')} on whole studies, {above or 'none'} gained more than epsilon allows."
        )


def _broken(result: AuditResult) -> Iterator[str]:
    caught = sum(row.caught for row in result.controls)
    if not result.controls:
        yield "Nothing was: this audit does not show that it would notice a fault."
        return
    all_caught = caught == len(result.controls)
    yield (
        f"{count(len(result.controls), 'mechanism')}, and {'all' if all_caught else f'only {caught}'} of them were "
        "caught."
    )
    missed = [row.name.replace("_", " ") for row in result.controls if not row.caught]
    if missed:
        yield f"Missed: {', '.join(missed)}. So this audit proves nothing."
    else:
        yield (
            "Among them is the mechanism that the ExPriL paper prints. They were attacked as strictly as the releases."
        )


def _untried(result: AuditResult) -> Iterator[str]:
    yield (
        "Other records than the invented ones, other software than this, events rarer than one answer in "
        f"{max((row.attack.draws for row in result.kinds), default=0):,}, and how long an answer takes."
        if result.kinds
        else "Everything."
    )
    few = [row.kind for row in result.kinds if row.exact is None]
    if few:
        yield f"No exact loss was computed for {', '.join(few)}."
    yield "Whether a hospital's records are true nobody can see from outside."
    if result.quick:
        yield quick_words(result)


def _figure(curves: Sequence[LossCurve]) -> list[Block]:
    """The largest loss of any kind, at the epsilons at which most kinds were looked at."""
    if not curves:
        return []
    rows: dict[Fraction, list[tuple[float, float | None]]] = {}
    for curve in curves:
        for epsilon, loss, bound in zip(curve.epsilons, curve.exact, curve.proven, strict=True):
            rows.setdefault(Fraction(epsilon), []).append((loss, bound))
    epsilons = sorted(epsilon for epsilon, losses in rows.items() if 2 * len(losses) >= len(curves))
    exact = [max(loss for loss, _ in rows[epsilon]) for epsilon in epsilons]
    proven = [max((bound for _, bound in rows[epsilon] if bound is not None), default=None) for epsilon in epsilons]
    chart = _chart("The largest loss of any kind", [float(epsilon) for epsilon in epsilons], exact, proven, height=230)
    note = "The largest loss of any kind at each epsilon. Nothing may lie above the claim. Each kind has its own below."
    return [Charts([chart], [_CLAIM, _LOSS, _PROVEN], columns=1, note=note)] if epsilons else []


def curve_charts(curves: Sequence[LossCurve]) -> Charts | None:
    """A chart of loss against epsilon for each kind: claim, exact law, and what draws prove; None without any."""
    if not curves:
        return None
    charts = [
        _chart(curve.kind, [float(Fraction(text)) for text in curve.epsilons], curve.exact, curve.proven, height=170)
        for curve in curves
    ]
    return Charts(charts, [_CLAIM, _LOSS, _PROVEN], columns=3)


def _chart(
    name: str, epsilons: Sequence[float], exact: Sequence[float], proven: Sequence[float | None], *, height: int
) -> Figure:
    high = max([*epsilons, *exact, *(value for value in proven if value is not None)])

    def line(key: Key, values: Sequence[float | None]) -> Series:
        places = [
            Place(epsilon, value, (value, value), f"{key.name}: {value:.4g} at epsilon {epsilon:.4g}")
            for epsilon, value in zip(epsilons, values, strict=True)
            if value is not None
        ]
        return Series(key, places)

    series = [line(_CLAIM, epsilons), line(_LOSS, exact), line(_PROVEN, proven)]
    axis = make_axis(0.0, max(epsilons), _STEPS, left=12.0, right=94.0)
    stage = Stage(make_axis(0.0, high, _STEPS), height)
    return line_chart(name, [item for item in series if item.places], axis, (), stage=stage, across="epsilon charged")
