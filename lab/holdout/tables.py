"""What the tables of the study of holdouts hold, on its page, in its Markdown and in the terminal."""

from fractions import Fraction

from expril.report.numbers import decimal, signed, with_error
from expril.report.table import Cell, Column, Group, Table, Tone, Written, text_table
from lab.holdout.claims import Claim, Verdict
from lab.holdout.draws import SETTINGS
from lab.holdout.model import Cost, Found, Shown
from lab.holdout.runs import LARGE, NAIVE, NO_EPSILON, SOURCE, THRESHOLDOUT
from lab.means import Mean

TITLES = {
    NAIVE: "naive, 1,000 test rows",
    THRESHOLDOUT: "the blog's Thresholdout, eps 0.04",
    LARGE: "naive, 10,000 test rows",
    SOURCE: "training likelihood",
}
VERDICTS: dict[Verdict, tuple[str, Tone]] = {
    "holds": ("holds", "within"),
    "possible": ("happened, but is not typical", "apart"),
    "not seen": ("never happened", "below"),
    "open": ("cannot be told", ""),
}


def title_of(shown: Shown) -> str:
    """A procedure in words."""
    title = TITLES.get(shown.procedure, shown.procedure)
    return title if shown.epsilon == NO_EPSILON else f"{title}, epsilon {shown.epsilon}"


def claims(found: Found) -> Table[Claim]:
    """The blog's statements beside what was measured."""
    groups: dict[str, list[Claim]] = {}
    for claim in found.claims:
        groups.setdefault(claim.procedure, []).append(claim)
    return Table(
        "What the blog says, and what many data sets say",
        [
            Column("the blog says", lambda claim: claim.says, names=True),
            Column("measured is", lambda claim: claim.made_exact),
            Column("blog", lambda claim: "–" if claim.claimed is None else f"{claim.claimed:g}", number=True),
            Column("mean", _measured, number=True),
            Column("95 % of data sets", _range, number=True),
            Column("verdict", lambda claim: Cell(VERDICTS[claim.verdict][0], tone=VERDICTS[claim.verdict][1])),
        ],
        [Group(rows, TITLES[name]) for name, rows in groups.items()],
    )


def _measured(claim: Claim) -> str:
    if claim.claimed is None:
        return f"in {claim.mean.value:.0f} % of data sets"
    return _mean(claim.mean)


def _range(claim: Claim) -> str:
    if claim.claimed is None:
        return f"share {claim.low:.0f} to {claim.high:.0f} %"
    return f"{decimal(claim.low)} to {decimal(claim.high)}"


def _mean(mean: Mean | None, sign: bool = False) -> str:
    if mean is None:
        return "–"
    return with_error((signed if sign else decimal)(mean.value), mean.error if mean.runs > 1 else None)


def reported(found: Found) -> Table[Shown]:
    """What the user of each procedure keeps, believes and pays."""
    return Table.of(
        "The model that is kept: what its user believes, and what is true",
        [
            Column("procedure", title_of, names=True),
            Column("variables", lambda shown: _mean(shown.reported.variables), number=True),
            Column("with signal", lambda shown: _mean(shown.reported.signals), number=True),
            Column("believed %", lambda shown: _mean(shown.reported.believed), number=True),
            Column("true %", lambda shown: _mean(shown.reported.true), number=True),
            Column("too high by", lambda shown: _mean(shown.reported.excess, sign=True), number=True),
            Column("data sets", lambda shown: shown.runs, number=True),
        ],
        found.main,
    )


def paid(found: Found) -> Written:
    """What each procedure costs those whose records are tested on."""
    cost, rows = found.cost, []
    for shown in found.main:
        title = title_of(shown)
        if shown.asked is not None and shown.counted is not None:
            rows.append([title, _mean(shown.asked), _mean(shown.counted), _charged(shown), "at most that, proved"])
        elif shown.procedure == SOURCE:
            steps = str(len(shown.fresh.mean))
            rows.append([title, steps, steps, "none", "infinite, to keep the best step; 0 to choose variables"])
        elif shown.procedure == THRESHOLDOUT and cost is not None:
            worst = f"{cost.run:,.0f} at worst; without clipping infinite"
            rows.append([title, f"{cost.questions:,}", f"{cost.questions:,}", "none", worst])
        else:
            asked = f"{cost.questions:,}" if cost is not None else "–"
            rows.append([title, asked, asked, "none", "infinite: exact answers"])
    return text_table(
        "What it costs the test rows",
        ["procedure", "questions", "answered by noisy or exact numbers", "epsilon charged", "epsilon in truth"],
        rows if found.main else [],
    )


def _charged(shown: Shown) -> str:
    low, high = (decimal(float(Fraction(each)), 2) for each in shown.charged)
    return low if low == high else f"{low} to {high}"


def cost(found: Found) -> Written:
    """The epsilon of the blog's variant, step by step; nothing where it was not run."""
    shown: Cost | None = found.cost
    rows = [] if shown is None else [
        ["one question, by its noise of scale eps alone", f"{shown.noise_alone:g}"],
        ["one question, where the comparison tips and training accuracy did not change", f"{shown.usual:g}"],
        ["one question, where the comparison tips, at worst", f"{shown.question:g}"],
        [f"a run of {shown.questions:,} questions, by noise alone", f"{shown.run_by_noise:,.2f}"],
        [f"a run of {shown.questions:,} questions, at worst", f"{shown.run:,.1f}"],
        ["the same without clipping to 0 and 1", "infinite"],
    ]  # fmt: skip
    return text_table(
        "Epsilon of the blog's variant, one of the test rows replaced", ["of", "epsilon"], rows, numbers=True
    )


def settings(found: Found) -> Table[Shown]:
    """How much hangs on the strength of the signal, and on the order of the variables."""
    groups: dict[str, list[Shown]] = {}
    for shown in found.others:
        groups.setdefault(shown.setting, []).append(shown)
    return Table(
        "Other strengths of the signal",
        [
            Column("procedure", title_of, names=True),
            Column("signals of 10", lambda shown: _mean(shown.signals), number=True),
            Column("largest true %", lambda shown: _mean(shown.peak), number=True),
            Column("at variables", lambda shown: _mean(shown.peak_at), number=True),
            Column("true % at the end", lambda shown: _mean(shown.final), number=True),
            Column("test too high by", lambda shown: _mean(shown.bias, sign=True), number=True),
            Column("data sets", lambda shown: shown.runs, number=True),
        ],
        [Group(rows, _setting(name)) for name, rows in groups.items()],
    )


def _setting(name: str) -> str:
    setting = SETTINGS[name]
    return f"{setting.title}; the best rule is right for {decimal(setting.ceiling)} %"
