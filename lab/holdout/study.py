"""The study of holdouts: a blog's experiment on many data sets, beside a curator that answers by the query kind."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from fractions import Fraction
from functools import partial
from operator import attrgetter

from expril.report.chart import Figure, Key, Level, Place, Series, Stage, line_chart, make_axis
from expril.report.document import PAPER, Charts, Document, Heading, Section, Text
from expril.report.numbers import decimal, points, signed
from expril.report.table import Cell, Column, Group, Table, Written, numbers, text_table
from lab.averages import mean_text
from lab.cells import INFINITE, grouped
from lab.holdout.curator import SOLVERS
from lab.holdout.draws import BLOG, SETTINGS, SIGNALS, Sizes
from lab.holdout.findings import TITLES, Band, Claim, Cost, Findings, Procedure, Verdict, findings
from lab.holdout.runs import EACH_CANDIDATE, EACH_STEP, FREE, LARGE, NAIVE, SOURCE, THRESHOLDOUT, Run, compute_run
from lab.studies import document_of
from lab.study import Order, Part, Size, Study
from simulations.campaign.store import Task

CHOICES = {
    "naive": NAIVE,
    "thresholdout": THRESHOLDOUT,
    "large-test": LARGE,
    "likelihood": SOURCE,
    "each-step": EACH_STEP,
    "each-candidate": EACH_CANDIDATE,
}
"""Of procedures on a command line."""
OTHER_REPEATS = 10  # data sets of the other settings, at most
CANDIDATE_REPEATS = 3
"""Data sets on which a curator is asked about every candidate, at most: a thousand signed questions take a minute.
Below an epsilon of 1 nobody is: noise would hide any gap, and curators refuse plans whose questions cost next to
nothing."""

VERDICTS: dict[Verdict, Cell] = {
    "holds": Cell("holds", tone="within"),
    "possible": Cell("happened, but is not typical", tone="apart"),
    "not seen": Cell("never happened", tone="below"),
    "open": Cell("cannot be told"),
}
TRAIN_KEY, TEST_KEY, FRESH_KEY = Key(2, False, "training"), Key(1, False, "test"), Key(3, False, "fresh: the truth")
BELIEVED_KEY = Key(1, True, "what the learner believes")
SIGNED = partial(mean_text, form=signed)
BANDS = {**{name: name for name in ("train", "test", "fresh", "believed")}, "found": "signals_by_step"}
"""Columns of the file -> bands of a procedure."""
HEIGHT, MARKED = 270, 5  # of a chart in pixels; every fifth step has a mark

SETUP = (
    "The blog (N. Zumel, Win-Vector, 2015) chooses variables for a logistic regression one by one, out of ten that "
    "carry signal and a hundred that do not, by how much each improves accuracy on 1,000 test rows. It does so once: "
    "naively, with a variant of Thresholdout, and with a test set of 10,000 rows. Here the same is done on many data "
    "sets, drawn as its authors' code says."
)
CLAIMS = (
    "A number holds where the whole 95 % interval of its mean is the blog's, as exactly as the blog states it; a "
    "statement without a number, where the 95 % interval of its share lies above one half. Where an interval has both "
    "sides, these data sets cannot tell. What does not hold happened, though it is not typical, where some data set "
    "shows it."
)
CURVES = (
    "Mean over data sets, and a band in which eight of ten data sets lie. “Training” and “test” are the accuracies on"
    " the rows that the model was fitted on, and chosen on; “fresh” is on 10,000 rows that nothing else looked at. "
    "Where a curator is asked, the middle line is what the learner believes, from the answers; it never sees the test"
    " accuracy. The dashed level is the best rule that there is."
)
BEST = (
    "A user keeps the model that looks best: by test accuracy, or by what the answers let her believe of the steps "
    "that she asked about. Mean and half its 95 % interval; “too high by” is what she believes less what is true, in "
    "points. The test accuracy of the blog's variant is the exact one, which the blog plots; by its own rules its "
    "user would never see it. With the training likelihood, test rows are looked at once a step, to keep the best. "
    "With the valid holdout a belief may be off by the threshold, 4 points, and is still “close”."
)
COST = (
    "The blog's variant compares exact accuracies without noise, and whether they were close shows in the width of "
    "the noise that is added. Where one row tips the comparison, the answer 1 becomes so much more or less likely "
    "that one question costs more than any sensible budget; unclipped there is no bound at all. It has no budget "
    "either, and a ratio over the number of rows takes that number for public. The valid holdout compares whole "
    "numbers under fresh noise with a noisy threshold of 40 rows (84 where every candidate is asked about), charges an "
    "instance of epsilon 1 when it begins, and answers “close” as often as it is so. With “each step” the variables "
    "are chosen by the training likelihood alone and the holdout is asked once a step; with “each candidate” it is "
    "asked about every candidate of the first ten steps, as in the blog. When its answers are spent, the learner asks "
    "no more. The ledger says what was charged."
)


def document(results: Findings) -> Document:
    """Claims, curves, what is believed, what it costs, and other strengths of the signal."""
    claims, title = _claims(results.claims), "What the blog says, and what was measured"
    sections = [
        Section(title, [Text(CLAIMS), claims], PAPER),
        Section(title, [claims.without("measured is")], frozenset({"terminal"})),
    ]
    if results.main:
        sections += [
            Section("Curves", [Text(CURVES), _curves(results.main), _signals(results.main)], PAPER),
            Section("What is believed, and what is true", [Text(BEST), _reported_table(results.main)]),
            Section(
                "What it costs",
                [Text(COST), _paid(results), Heading("The blog's variant, step by step"), _cost(results.cost)],
            ),
        ]
    sections += [Section("Other strengths of the signal", [_settings(results.procedures)])]
    present = sections if results.claims else [section for section in sections if section.title != title]
    files = {"curves.csv": _steps_table(results.procedures)}
    return document_of("holdout", present, results.provenance, files, summary=[SETUP])


def _claims(claims: Sequence[Claim]) -> Table[Claim]:
    """The blog's statements beside what was measured."""

    def mean(claim: Claim) -> str:
        return mean_text(claim.mean) if claim.claimed is not None else f"in {claim.mean.value:.0f} % of data sets"

    def spread(claim: Claim) -> str:
        if claim.claimed is None:
            return f"share {claim.low:.0f} to {claim.high:.0f} %"
        return f"{decimal(claim.low)} to {decimal(claim.high)}"

    return Table(
        "What the blog says, and what many data sets say",
        [
            Column("the blog says", lambda claim: claim.says, names=True),
            Column("measured is", lambda claim: claim.made_exact),
            Column("blog", lambda claim: "–" if claim.claimed is None else f"{claim.claimed:g}", number=True),
            Column("mean", mean, number=True),
            Column("95 % of data sets", spread, number=True),
            Column("verdict", lambda claim: VERDICTS[claim.verdict]),
        ],
        [Group(rows, TITLES[name]) for name, rows in grouped(claims, lambda claim: claim.procedure).items()],
    )


def _curves(procedures: Sequence[Procedure]) -> Charts:
    """Accuracy against the number of variables, one panel a procedure, all on one axis."""

    def bands(procedure: Procedure) -> list[tuple[Key, Band]]:
        middle = (TEST_KEY, procedure.test) if procedure.epsilon == INFINITE else (BELIEVED_KEY, procedure.believed)
        return [(TRAIN_KEY, procedure.train), middle, (FRESH_KEY, procedure.fresh)]

    every = [band for procedure in procedures for _, band in bands(procedure)]
    low, high = min(min(band.low) for band in every), max(max(band.high) for band in every)
    stage = Stage(make_axis(low, high, (1.0, 2.0, 5.0, 10.0)), HEIGHT)
    return Charts(
        [
            _chart(
                procedure.title,
                stage,
                [_series(key, band, "%") for key, band in bands(procedure)],
                "%",
                procedure.setting,
            )
            for procedure in procedures
        ],
        (TRAIN_KEY, TEST_KEY, BELIEVED_KEY, FRESH_KEY),
        rules=[("dashes", "the best rule")],
        size=0.45,
        file="curves.svg",
        name="Accuracy against the number of variables",
    )


def _signals(procedures: Sequence[Procedure]) -> Charts | None:
    """Signal variables found against the number chosen, a line for each procedure that chooses in a way of its own."""
    rows = [procedure for procedure in procedures if procedure.procedure != EACH_STEP]
    if not rows:
        return None
    free, asking = (
        [procedure.title for procedure in rows if (procedure.epsilon != INFINITE) == asks] for asks in (False, True)
    )
    keys = [
        Key(n, hollow, title) for hollow, titles in ((False, free), (True, asking)) for n, title in enumerate(titles)
    ]
    series = [
        _series(key, procedure.signals_by_step, "signals", errors=False)
        for key, procedure in zip(keys, rows, strict=True)
    ]
    stage = Stage(make_axis(0, SIGNALS, (2.0,)), HEIGHT)
    figure = _chart("signal variables found", stage, series, f"of {SIGNALS}")
    return Charts([figure], keys, columns=1, size=0.45, file="signals.svg", name="Signal variables found")


def _series(key: Key, band: Band, unit: str, *, errors: bool = True) -> Series:
    steps = enumerate(zip(band.mean, band.low, band.high, strict=True), 1)
    places = [
        Place(step, mean, (low, high), f"{mean:.1f} {unit} with {step} variables") for step, (mean, low, high) in steps
    ]
    return Series(key, places, every=MARKED, errors=errors)


def _chart(name: str, stage: Stage, series: Sequence[Series], unit: str, setting: str = "") -> Figure:
    """Lines against the number of variables, all as long, with the best rule of a setting."""
    best = SETTINGS[setting].best if setting else 0.0
    return line_chart(
        name,
        series,
        make_axis(0, len(series[0].places), (1.0, 2.0, 5.0, 10.0), left=9.0, right=97.0),
        (),
        levels=[Level("dashes", best, f"the best rule: {best:.1f} %")] if setting else (),
        stage=stage,
        unit=unit,
        across="variables",
        text="; ".join(f"{line.key.name}: {line.places[0].text}, {line.places[-1].text}" for line in series),
    )


def _reported_table(procedures: Sequence[Procedure]) -> Table[Procedure]:
    """What the user of each procedure keeps and believes."""
    return Table.of(
        "The model that is kept: what its user believes, and what is true",
        [
            Column("procedure", lambda procedure: procedure.title, names=True),
            *numbers("variables = reported.variables; with signal = reported.signals", mean_text),
            *numbers("believed % = reported.believed; true % = reported.true", mean_text),
            *numbers("too high by = reported.excess", SIGNED),
            *numbers("data sets = runs"),
        ],
        procedures,
    )


def _paid(results: Findings) -> Written:
    """What each procedure costs those whose records are tested on."""
    cost = results.cost
    every = f"{cost.questions:,}" if cost is not None else "–"
    worst = f"{cost.run:,.0f} at worst; without clipping infinite" if cost is not None else "–"

    def row(procedure: Procedure) -> list[str]:
        if procedure.questions is not None:
            low, high = (decimal(float(Fraction(epsilon)), 2) for epsilon in procedure.charged)
            charged = low if low == high else f"{low} to {high}"
            return [mean_text(procedure.questions), mean_text(procedure.counted), charged, "at most that, proved"]
        if procedure.procedure == SOURCE:
            steps = str(len(procedure.fresh.mean))
            return [steps, steps, "none", "infinite, to keep the best step; 0 to choose variables"]
        return [every, every, "none", worst if procedure.procedure == THRESHOLDOUT else "infinite: exact answers"]

    return text_table(
        "What it costs the test rows",
        ["procedure", "questions", "answered by noisy or exact numbers", "epsilon charged", "epsilon in truth"],
        [[procedure.title, *row(procedure)] for procedure in results.main],
    )


def _cost(cost: Cost | None) -> Written:
    """The epsilon of the blog's variant, step by step; nothing where it was not run."""
    rows = [] if cost is None else [
        ["one question, by its noise of scale eps alone", f"{cost.noise_alone:g}"],
        ["one question, where the comparison tips and training accuracy did not change", f"{cost.usual:g}"],
        ["one question, where the comparison tips, at worst", f"{cost.question:g}"],
        [f"a run of {cost.questions:,} questions, by noise alone", f"{cost.run_by_noise:,.2f}"],
        [f"a run of {cost.questions:,} questions, at worst", f"{cost.run:,.1f}"],
        ["the same without clipping to 0 and 1", "infinite"],
    ]  # fmt: skip
    return text_table(
        "Epsilon of the blog's variant, one of the test rows replaced", ["of", "epsilon"], rows, numbers=True
    )


def _settings(procedures: Sequence[Procedure]) -> Table[Procedure]:
    """How much hangs on the strength of the signal and on the order of the variables, where no curator is asked."""
    groups = grouped(
        (procedure for procedure in procedures if procedure.epsilon == INFINITE), lambda procedure: procedure.setting
    )
    return Table(
        "Other strengths of the signal",
        [
            Column("procedure", lambda procedure: procedure.title, names=True),
            *numbers("signals of 10 = signals; largest true % = peak; at variables = peak_at", mean_text),
            *numbers("true % at the end = final", mean_text),
            *numbers("test too high by = bias", SIGNED),
            *numbers("data sets = runs"),
        ],
        [
            Group(rows, f"{SETTINGS[name].title}; the best rule is right for {decimal(SETTINGS[name].best)} %")
            for name, rows in groups.items()
        ],
    )


def _steps_table(procedures: Sequence[Procedure]) -> Table[tuple[Procedure, int]]:
    """A row for each setting, procedure, epsilon and step; `_low` and `_high` hold eight of ten data sets."""

    def of_procedure(name: str) -> Callable[[tuple[Procedure, int]], object]:
        return lambda row: getattr(row[0], name)

    def of_band(name: str) -> Callable[[tuple[Procedure, int]], str]:
        return lambda row: points(attrgetter(name)(row[0])[row[1]])

    columns = [Column(name, of_procedure(name)) for name in ("setting", "procedure", "epsilon", "runs")]
    columns += [Column("variables", lambda row: row[1] + 1)]
    columns += [
        Column(part if name == "mean" else f"{part}_{name}", of_band(f"{band}.{name}"))
        for part, band in BANDS.items()
        for name in ("mean", "low", "high")
    ]
    rows = [(procedure, step) for procedure in procedures for step in range(len(procedure.fresh.mean))]
    return Table.of("curves", columns, rows)


def tasks(order: Order) -> list[Task]:
    """All runs, those of the blog's setting first; in that alone a curator is asked, about every candidate last."""
    settings = order.size.axes["settings"]
    procedures = [CHOICES[name] for name in order.size.axes["procedures"]]
    free = [
        Task(setting, maker, INFINITE, seed)
        for setting in settings
        for seed in order.seeds[: None if setting == BLOG else OTHER_REPEATS]
        for maker in FREE
        if maker in procedures
    ]
    asking = [
        Task(BLOG, maker, epsilon, seed)
        for maker, most in ((EACH_STEP, None), (EACH_CANDIDATE, CANDIDATE_REPEATS))
        if maker in procedures and BLOG in settings
        for seed in order.seeds[:most]
        for epsilon in order.size.epsilons
        if maker == EACH_STEP or Fraction(epsilon) >= 1
    ]
    return sorted(free + asking, key=lambda task: (task.maker == EACH_CANDIDATE, task.problem != BLOG))


def study(sizes: Sizes) -> Study:
    """The study with data sets of these sizes."""
    choices = {"settings": tuple(SETTINGS), "procedures": tuple(CHOICES)}
    return Study(
        name="holdout",
        parts=[Part("runs", Run, tasks, partial(compute_run, sizes, SOLVERS), lambda _order: {"sizes": asdict(sizes)})],
        findings=findings,
        document=document,
        choices=choices,
        short=Size(10, ("1",), {"settings": (BLOG,), "procedures": tuple(CHOICES)[:5]}, "half a minute"),
        full=Size(50, ("1", "3"), choices, "ten minutes"),
        seed=1000,
        noise="exact; the blog's is seeded",
        width=175,
        indent=0,
    )


STUDY = study(Sizes())
