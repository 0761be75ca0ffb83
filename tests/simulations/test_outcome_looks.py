"""Predicted against observed numbers, confused classes and their shares: each beside another way to compute it."""

from itertools import pairwise

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest
from sklearn.metrics import confusion_matrix, precision_score, r2_score, recall_score

from expril.report.chart import Key, make_axis
from expril.report.document import Charts, Document, tables
from expril.report.page import as_page
from learner_node.models.label_model.additive import ShapeBin
from learner_node.result.shapes import NamedBin, Shape, bin_in_words, shape_blocks, shape_figure
from learner_node.scores.values import wilson
from page_outline import Outline
from simulations.references import Answers
from simulations.report.document import run_document
from simulations.report.model import LearnerReport, Part, RunReport, Score, SiteScore, decode_report, encode_report
from simulations.report.outcome_values import QUANTILES, Agreement, Confusion
from simulations.report.outcomes import furthest_off, outcome_sections
from simulations.run import _score, mean_of
from simulations.run_cells import LearnerCell
from simulations.scoring import RepeatScore, _number_errors, agreement, confusion


def numbers(seed=0, size=1000, spread=1.0):
    rng = np.random.default_rng(seed)
    predicted = rng.normal(50, 10, size)
    return Answers(predicted + rng.normal(0, spread * 5, size), predicted)


@given(st.integers(1, 5000), st.floats(0, 1))
def test_an_interval_of_a_share_is_wilson_s(records, share):
    hits = round(share * records)
    low, high = wilson(hits / records, records)
    other = binomtest(hits, records).proportion_ci(0.95, method="wilson")

    assert (low, high) == pytest.approx((other.low, other.high), abs=1e-6)
    assert low <= hits / records <= high


def test_groups_of_distinct_predictions_are_tenths_with_numpy_s_quantiles():
    answers = numbers()
    groups = agreement(answers)
    order = np.argsort(answers.predicted)

    assert groups.counts == (100,) * 10
    for number, part in enumerate(np.array_split(order, 10)):
        labels = answers.labels[part]
        assert groups.predicted[number] == pytest.approx(answers.predicted[part].mean())
        assert groups.observed[number] == pytest.approx(labels.mean())
        assert groups.observed_error[number] == pytest.approx(np.sqrt(labels.var(ddof=1) / 100))
        assert groups.quantiles[number] == pytest.approx(np.percentile(labels, [100 * q for q in QUANTILES]))


def test_nine_of_ten_records_lie_in_the_outer_band_and_half_in_the_inner_one():
    answers = numbers(size=100_000)
    groups = agreement(answers)
    places = np.minimum((np.argsort(np.argsort(answers.predicted)) / 10_000).astype(int), 9)
    rows = np.array(groups.quantiles)[places]

    def inside(low, high):
        return np.mean((rows[:, low] <= answers.labels) & (answers.labels <= rows[:, high]))

    assert inside(0, 4) == pytest.approx(0.9, abs=0.002)
    assert inside(1, 3) == pytest.approx(0.5, abs=0.002)


def test_records_of_one_prediction_stay_together():
    answers = Answers(np.arange(200.0), np.repeat([1.0, 2.0, 3.0], [20, 160, 20]))
    groups = agreement(answers)

    assert sum(groups.counts) == 200
    assert sorted(filter(None, groups.counts)) == [20, 20, 160]
    assert [value for value in groups.predicted if value is not None] == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(("size", "groups"), [(9, 0), (10, 1), (20, 2), (49, 2), (50, 5), (100, 10), (5000, 10)])
def test_few_records_are_in_few_groups(size, groups):
    result = agreement(numbers(size=size))
    assert (0 if result is None else len(result.counts)) == groups


def test_repeats_with_another_number_of_groups_are_left_out_of_their_means():
    repeats = [Score(value=0.5, value_se=None, constant=0.0, regression=0.5, agreement=agreement(numbers(n, size)))
               for n, size in enumerate((100, 99, 101))]  # fmt: skip
    combined = _score([RepeatScore(score, 100) for score in repeats]).agreement

    assert len(combined.counts) == 10
    assert sum(combined.counts) == 201
    both = [score.agreement.observed[3] for score in (repeats[0], repeats[2])]
    assert combined.observed[3] == pytest.approx(np.mean(both))


def test_standard_errors_of_r2_and_mae_are_those_of_many_samples():
    rng = np.random.default_rng(5)
    samples = [numbers(seed, 400, 2.0) for seed in range(600)]
    r2 = [r2_score(one.labels, one.predicted) for one in samples]
    absolute = [np.mean(np.abs(one.labels - one.predicted)) for one in samples]
    errors = np.array([_number_errors(one) for one in samples[:: rng.integers(1, 4)]]).mean(axis=0)

    assert errors == pytest.approx([np.std(r2), np.std(absolute)], rel=0.12)


@given(st.integers(2, 10), st.integers(1, 200), st.integers(0, 99))
def test_confused_classes_are_scikit_learn_s(classes, size, seed):
    rng = np.random.default_rng(seed)
    labels, called = rng.integers(0, classes, (2, size))
    table = confusion(Answers(labels.astype(np.uint8), called), classes)
    names = list(range(classes))

    assert table.counts == tuple(map(tuple, confusion_matrix(labels, called, labels=names)))
    recalls = recall_score(labels, called, labels=names, average=None, zero_division=np.nan)
    precisions = precision_score(labels, called, labels=names, average=None, zero_division=np.nan)
    for number in names:
        for share, other in ((table.recall(number), recalls), (table.precision(number), precisions)):
            assert (np.nan if share.value is None else share.value) == pytest.approx(other[number], nan_ok=True)


def test_repeats_are_summed_and_their_intervals_are_those_of_one_repeat_s_records():
    one, other = Confusion(counts=((30, 10), (5, 55))), Confusion(counts=((32, 8), (9, 51)))
    both = mean_of([one, other])

    assert both == Confusion(counts=((62, 18), (14, 106)), repeats=2)
    recall = both.recall(0)
    z, n, p = 1.959964, 40, 62 / 80
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    assert (recall.value, recall.low, recall.high) == pytest.approx((p, middle - half, middle + half))
    assert recall.records == 40


def test_numbers_have_no_confusion_and_classes_no_agreement():
    assert confusion(numbers(), 0) is None
    assert agreement(Answers(np.zeros(50, np.uint8), np.zeros(50))) is None
    assert confusion(None, 2) is agreement(None) is None


def test_a_table_that_is_not_square_or_complete_is_refused():
    with pytest.raises(ValueError, match="as many columns as rows"):
        Confusion(counts=((1, 2),))
    with pytest.raises(ValueError, match="one count"):
        Agreement(counts=(1,), predicted=(), observed=(1.0,), observed_error=(None,), quantiles=((None,) * 5,))


def test_labels_of_any_size_have_an_absolute_error_and_old_scores_are_read():
    Score(value=0.1, value_se=None, constant=0.0, regression=0.2, absolute=3e12, absolute_se=1e10)
    old = b'{"accuracy":0.5,"accuracy_se":null,"majority":0.0,"ceiling":0.5,"absolute":12.5}'
    assert msgspec.json.decode(old, type=Score).agreement is None


def report(pooled, sites=(), **changes):
    learner = LearnerReport(
        learner="ada",
        strategy="cells",
        pooling="sum",
        epsilon_claimed="1",
        epsilon_spent="1",
        pooled=pooled,
        sites=sites,
    )
    facts = {"title": "t", "description": "d", "created": "2026-05-09", "version": "0", "seeded_noise": False}
    facts |= {"repeats": 1, "command": "c", "config_toml": "", "learners": (learner,)} | changes
    return RunReport(**facts)


def score_of(answers, **more):
    errors = dict(zip(("value_se", "absolute_se"), _number_errors(answers), strict=True))
    off = float(np.mean(np.abs(answers.labels - answers.predicted)))
    fields = {"value": 0.5, "constant": 0.0, "regression": 0.6, "absolute": off, "absolute_constant": 9.0}
    return fields | errors | {"agreement": agreement(answers)} | more


def of_number(answers, sites=(), **changes):
    return report(Score(**score_of(answers)), sites, measure="R²", label="stay", units="days", **changes)


def charts(section):
    return [figure for block in section.present if isinstance(block, Charts) for figure in block.figures]


def test_a_chart_has_a_mark_for_each_group_where_it_is_and_its_bands_around_it():
    answers = numbers()
    (figure,) = charts(list(outcome_sections(of_number(answers)))[1])
    outer, inner, means = figure.lines
    groups = agreement(answers)

    assert (outer.line, outer.marks, inner.line, inner.marks) == ("", (), "", ())
    assert "" not in (outer.band, inner.band)
    assert means.band == ""
    assert len(means.marks) == len(means.bars) == 10
    for number, (mark, bar) in enumerate(zip(means.marks, means.bars, strict=True)):
        assert mark.y == figure.stage.y(groups.observed[number])
        half = 1.959964 * groups.observed_error[number]
        assert bar[1:] == (
            figure.stage.y(groups.observed[number] - half),
            figure.stage.y(groups.observed[number] + half),
        )
        assert f"of {groups.counts[number]} records" in mark.text
        assert "days" in mark.text
    assert (figure.unit, figure.across) == ("observed, days", "predicted, days")


def test_a_sentence_says_where_a_model_is_wrong_and_only_if_it_is_shown():
    answers = numbers()
    wrong = np.where(answers.predicted > np.quantile(answers.predicted, 0.9), answers.labels + 20, answers.labels)

    assert "furthest off where they are highest" in furthest_off(agreement(Answers(wrong, answers.predicted)), "days")
    sure = [furthest_off(agreement(numbers(seed))) for seed in range(20)]
    # Ten groups have an interval of 95 % each, so six of ten models without error are not blamed.
    assert sum("In no group" in text for text in sure) >= 5


def test_of_many_sites_the_worst_and_the_best_are_drawn_and_small_ones_named():
    sites = [
        SiteScore(curator=f"site {n}", **score_of(numbers(n, 5 if n == 9 else 200), value=n / 20)) for n in range(10)
    ]
    section = list(outcome_sections(of_number(numbers(), tuple(sites))))[1]
    names = [figure.name for figure in charts(section)]
    page = as_page(Document("k", "s", "h", sections=[section]))

    assert names == ["all sites", "site 0", "site 1", "site 7", "site 8"]
    assert "1 site has too few test records" in page


def test_errors_stand_beside_r2_with_their_units_in_cards_tables_and_sentences():
    shown = of_number(numbers(spread=2.0), (SiteScore(curator="north", **score_of(numbers(1))),))
    text = Outline(as_page(run_document(shown))).text
    absolute = np.mean(np.abs(numbers(spread=2.0).labels - numbers(spread=2.0).predicted))

    assert f"{absolute:.2f} ± " in text
    for phrase in (
        "days (mean 9)",
        "mean absolute error, in days",
        "MAE ± se",
        "Predicted against observed stay",
    ):
        assert phrase in text
    assert "expected by the learner" not in text  # nobody asked


def test_a_report_of_an_earlier_version_has_no_such_section():
    old = report(Score(value=0.5, value_se=None, constant=0.0, regression=0.6), measure="R²")

    assert not any(section.present for section in outcome_sections(old))
    assert decode_report(encode_report(old)) == old


def confused(classes, size=500, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, size)
    called = np.where(rng.random(size) < 0.7, labels, rng.integers(0, classes, size))
    names = tuple(f"class {n}" for n in range(classes))
    table = confusion(Answers(labels, called), classes)
    score = Score(value=0.7, value_se=None, constant=0.5, regression=0.8, confusion=table)
    return labels, called, report(score, classes=names)


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_a_table_of_confused_classes_is_scikit_learn_s_with_shares_and_shades(classes):
    labels, called, shown = confused(classes)
    _, _, section, recalls = outcome_sections(shown)
    (table,) = tables(section.present)
    cells = [[column.text(row) for column in table.columns[1:]] for row in table.groups[0].rows]
    expected = confusion_matrix(labels, called)

    assert [[int(cell.text) for cell in row] for row in cells] == expected.tolist()
    shares = confusion_matrix(labels, called, normalize="true")
    for row, row_shares in zip(cells, shares, strict=True):
        assert [cell.under for cell in row] == [f"{100 * share:.0f} %" if share else "" for share in row_shares]
        darkness = [cell.shade for cell in row]
        assert [darkness[n] for n in np.argsort(row_shares)] == sorted(darkness)
    assert all(row[n].strong for n, row in enumerate(cells))
    (by_class,) = tables(recalls.present)
    values = [by_class.columns[2].text(row).text for row in by_class.groups[0].rows]
    true = recall_score(labels, called, average=None)
    assert [text[:5] for text in values] == [f"{share:.3f}" for share in true]
    assert all("(" in text for text in values)


def test_of_very_many_classes_the_most_frequent_confusions_are_listed():
    labels, called, shown = confused(40)
    section = list(outcome_sections(shown))[2]
    (table,) = tables(section.present)
    matrix = confusion_matrix(labels, called)
    np.fill_diagonal(matrix, 0)

    assert len(table.groups[0].rows) == 15
    assert table.groups[0].rows[0][2] == str(matrix.max())


BINS = (
    ShapeBin("below 1.0", None, 1.0, 0.2, -0.5, -0.8, -0.2),
    ShapeBin("1.0 to 3.0", 1.0, 3.0, 0.3, 0.0, -0.1, 0.1),
    ShapeBin("3.0 or more", 3.0, None, 0.4, 0.6, 0.3, 0.9),
    ShapeBin("missing", None, None, 0.1, 0.2, -0.4, 0.8),
)


def test_steps_are_as_wide_as_their_bins_and_missing_stands_apart():
    shape = Shape("creatinine", BINS, "mg/dl", "in serum", (0.0, 25.0))
    axis = make_axis(-1.0, 1.0, (0.5,))
    figure = shape_figure(shape, Key(0, False, "ada"), axis)
    steps, missing = figure.lines
    places = [tuple(map(float, text.split())) for text in steps.line[1:].split("L")]

    assert len(places) == 6
    widths = [places[n + 1][0] - places[n][0] for n in (0, 2, 4)]
    # The outer steps are as wide as the middle one, but not beyond the bound of 0.
    assert widths == pytest.approx([widths[1] / 2, widths[1], widths[1]], abs=0.02)
    assert [places[n][1] for n in (0, 2, 4)] == [places[n][1] for n in (1, 3, 5)]
    assert all(left < float(missing.marks[0].x.removesuffix("%")) for left, _ in places)
    assert missing.bars[0][1:] == (figure.stage.y(-0.4), figure.stage.y(0.8))
    assert figure.ticks[-1].label == "missing"
    assert figure.across == "mg/dl"
    words = [bin_in_words(NamedBin("", None, None, 0.5, value, value, value)) for value in (-6.0, 800.0)]
    assert words[0].endswith("odds times 0.0025")
    assert words[1].endswith("×10³⁰⁴")
    assert "1.0 to 3.0: log-odds 0.00 (−0.10 to +0.10), odds times 1.00, 30 % of the records" in figure.text


def test_levels_are_rows_and_numbers_are_curves_on_one_scale():
    levels = (ShapeBin("no", None, None, 0.5, -0.1, -0.3, 0.1), ShapeBin("yes", None, None, 0.5, 0.1, -0.1, 0.3))
    (grid,) = shape_blocks([Shape("creatinine", BINS), Shape("diabetes", levels)], 0, "ada")
    (_, drawn), (_, table) = grid.groups

    assert isinstance(drawn, Charts)
    strip = table.columns[2].drawing(levels[0])
    assert (strip.axis.low, strip.axis.high) == (drawn.figures[0].stage.axis.low, drawn.figures[0].stage.axis.high)


def test_a_part_of_an_earlier_version_has_no_edges_and_is_drawn_in_rows():
    old = {"label": "below 40", "share": 0.5, "log_odds": 0.1, "lower": 0.0, "upper": 1.0}
    part = msgspec.convert({"attribute": "age", "numeric": True, "bins": [old]}, type=Part)
    (grid,) = shape_blocks([Shape(part.attribute, part.bins, part.units, part.description, part.bounds)], 0, "ada")

    assert [column.text(part.bins[0]).text for column in grid.groups[0][1].visible] == ["below 40", "50 %", "+0.10"]


def test_a_cell_of_an_interrupted_run_of_an_earlier_version_goes_on():
    labels = confused(3)[2].learners[0].pooled
    cell = LearnerCell(scores={"": RepeatScore(labels, 500)}, costs={})
    new = msgspec.to_builtins(cell)
    for name in ("confusion", "agreement", "absolute_se", "absolute_constant"):
        del new["scores"][""]["last"][name]

    read = msgspec.json.decode(msgspec.json.encode(new), type=LearnerCell)
    assert _score([read.scores[""], cell.scores[""]]).confusion == labels.confusion


@given(st.lists(st.floats(-1e4, 1e4), min_size=1, max_size=8, unique=True).map(sorted), st.booleans(), st.booleans())
def test_any_bins_are_drawn_in_order_and_within_the_axis(edges, first, last):
    pairs = list(pairwise([None, *edges, None]))[0 if first else 1 : None if last else -1]
    bins = [ShapeBin("a bin", low, high, 0.1, 0.1, 0.0, 0.2) for low, high in pairs]
    if bins:
        figure = shape_figure(Shape("x", bins), Key(0, False, "ada"), make_axis(-1.0, 1.0, (0.5,)))
        places = [float(text.split()[0]) for text in figure.lines[0].line[1:].split("L")]
        assert places == sorted(places)
        assert len(figure.lines[0].marks) == len(bins)
