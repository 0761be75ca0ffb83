"""The comparison's page and Markdown: every number is there, nothing is loaded, and no text becomes markup."""

import re
from functools import cache

import msgspec
import pytest

from comparison_fakes import FAKE_PEERS, add_fake_peers, made_up
from expril.commands.terminal import wide_console
from expril.report.provenance import Provenance
from lab.comparison.bars import averages
from lab.comparison.contestants import GROUP_TITLES
from lab.comparison.markdown import build_markdown
from lab.comparison.page import build_page
from lab.comparison.plots import by_share, claim_figures, epsilon_figures, reliability_figures, strategy_keys
from lab.comparison.summary import compare_outcomes
from lab.comparison.tables import accuracy, auc, found_tables, measure_tables
from lab.comparison.words import accuracy_of, auc_of, averaged_sentence, best_private, headline, verdict
from page_outline import Outline

WHERE = Provenance(
    command="expril compare --runs 3",
    created="2026-05-09T12:30:00Z",
    seed=1000,
    seconds=5071.0,
    jobs=2,
    versions={"expril": "0.1.0", "peers/opacus": "1.6.0"},
    noise="OpenDP",
    commit="0123456789abcdef",
    cores=2,
    skipped={"aim": "install it"},
)
CLAIMED = {"estimated_accuracy": 88.0, "interval_low": 80.0, "interval_high": 95.0}
DATASETS = ("A", "CTG-A", "heart")


@cache
def outcomes():
    """Three data sets, two epsilons, two of ours, three peers and two ceilings over three runs."""
    made = []
    for dataset in DATASETS:
        for seed in range(3):
            for epsilon, loss in (("1", 0.0), ("0.1", 0.08)):
                made.append(made_up("cells", dataset, epsilon, seed, 0.92 - loss, spent=epsilon, extras=CLAIMED))
                made.append(made_up("paper-c", dataset, epsilon, seed, 0.8 - loss, spent=epsilon))
                made += [made_up(peer, dataset, epsilon, seed, 0.75 - loss) for peer in FAKE_PEERS]
            made.append(made_up("cells", dataset, "inf", seed, 0.94))
            made.append(made_up("h*", dataset, "inf", seed, 0.95))
            made.append(made_up("majority", dataset, "inf", seed, 0.5))
    return made


@pytest.fixture
def found(monkeypatch):
    add_fake_peers(monkeypatch)
    return msgspec.structs.replace(compare_outcomes(outcomes()), provenance=WHERE)


@pytest.mark.slow
def test_every_mean_is_on_the_page_and_the_page_loads_nothing(found):
    text = build_page(found)
    outline = Outline(text)

    for row in found.rows:
        assert f"{row.mean:.1f} ± {row.std:.1f}" in outline.text.replace(" best", "")
    for strategy in found.strategies:
        assert strategy.name in outline.text
        assert strategy.title in outline.text
    assert not {"script", "link", "img", "iframe"} & {tag for tag, _ in outline.elements}
    assert not re.search(r"""(src|href)=|url\(|@import""", text)
    assert "default-src 'none'" in text
    assert outline.count("caption") == outline.count("table")
    assert "0123456789ab" in outline.text
    assert "aim was left out: install it" in outline.text
    assert build_page(found) == text


def test_the_best_private_strategy_of_each_column_is_marked_and_no_ceiling_is(found):
    best = {
        (value, epsilon): best_private(found, epsilon, DATASETS, value)
        for value in (accuracy_of, auc_of)
        for epsilon in ("1", "0.1")
    }

    for (value, epsilon), keys in best.items():
        for dataset in DATASETS:
            rows = [row for row in found.rows if row.dataset == dataset and row.epsilon == epsilon]
            assert max(rows, key=value).key in keys
    assert best_private(found, "inf", DATASETS, accuracy_of) == set()
    outline = Outline(build_page(found))
    stars = sum(row.count("★") for row in (cell for _, cells in outline.rows for cell in cells))
    assert stars == sum(map(len, best.values()))


def test_ceilings_stand_below_the_private_ones_in_every_table(found):
    tables = [measure_tables(found, measure) for measure in (accuracy(found), auc(found))]

    assert [list(each) for each in tables] == [["1", "0.1"]] * 2
    for table in (table for each in tables for table in each.values()):
        titles = [GROUP_TITLES["ours"], GROUP_TITLES["peer"], "not private, for reference"]
        assert [group.title for group in table.groups] == titles
        assert [line.average.strategy.name for line in table.groups[-1].rows] == ["cells", "h*", "majority"]


def test_every_strategy_has_its_own_mark_and_every_data_set_its_panel(found):
    keys = strategy_keys(found)
    assert len({(key.index, key.hollow) for key in keys}) == len(keys) == 5
    assert keys[0].name == "cells"
    assert [key.hollow for key in keys] == [False, False, True, True, True]
    figures = epsilon_figures(found)
    assert [figure.name for figure in figures] == list(DATASETS)
    for figure in figures:
        assert [tick.label for tick in figure.ticks] == ["0.1", "1"]
        assert {line.title for line in figure.lines} == {key.name for key in keys}
        assert figure.lines[-1].title == "cells"
        assert [rule.style for rule in figure.rules] == ["ceiling", "majority"]
        top, height = figure.stage.box
        for line in figure.lines:
            assert all(top <= mark.y <= top + height for mark in line.marks)
    higher, lower = (mark.y for mark in reversed(figures[0].lines[-1].marks))
    assert higher < lower  # pixels from the top: more accurate at the greater epsilon


def test_reliability_has_a_panel_a_strategy_and_a_line_an_epsilon(found):
    figures = {figure.name: figure for figure in reliability_figures(found)}

    assert set(figures) == {strategy.name for strategy in found.strategies}
    assert [line.title for line in figures["cells"].lines] == ["no noise", "ε = 1", "ε = 0.1"]
    assert [line.title for line in figures["h*"].lines] == ["no noise"]
    assert all(figure.diagonal for figure in figures.values())


def test_bins_sorted_by_prediction_keep_every_record(found):
    parts = [row.reliability for row in found.rows if row.strategy == "cells"]
    bins = by_share(parts)

    assert sum(count for count, _, _ in bins) == sum(sum(part.counts) for part in parts)
    assert [p for _, p, _ in bins] == sorted(p for _, p, _ in bins)
    for count, predicted, observed in bins:
        assert count > 0
        assert 0 <= predicted <= 100
        assert 0 <= observed <= 100


def test_claims_are_drawn_where_a_learner_makes_any(found):
    (figure,) = claim_figures(found)

    assert figure.name == "cells"
    assert len(figure.lines) == 2 * len(DATASETS)
    assert all("88.0 % expected" in line.marks[0].text for line in figure.lines)
    assert "Does the learner know how good it is?" in build_page(found)


def test_headline_and_verdict_name_the_best_peer(found):
    peers = {
        name: sum(found.find(dataset, name, "1").mean for dataset in DATASETS) / len(DATASETS) for name in FAKE_PEERS
    }
    best = max(peers, key=peers.get)

    assert f"the best peer {peers[best]:.1f} %" in headline(found)
    sentences = " ".join(verdict(found))
    assert f"the best, {best}, has {peers[best]:.1f}" in sentences
    assert re.search(r"cells meets \d of 6 bars", sentences)


def test_markdown_has_a_table_for_each_epsilon_and_the_bars(found):
    text = build_markdown(found)

    assert text.startswith("# ExPriL compared: cells reaches")
    assert "## The bars" in text
    assert [line for line in text.splitlines() if line.startswith("## Accuracy")] == [
        "## Accuracy at epsilon 1",
        "## Accuracy at epsilon 0.1",
    ]
    assert [line for line in text.splitlines() if line.startswith("## AUC")] == [
        "## AUC at epsilon 1",
        "## AUC at epsilon 0.1",
    ]
    for line in text.splitlines():
        if line.startswith("| cells"):
            assert line.count("|") == len(DATASETS) + 4
    assert "expril compare --runs 3" in text


def test_the_terminal_gets_a_table_for_each_epsilon(found):
    console = wide_console(160)
    with console.capture() as captured:
        for table in found_tables(found):
            console.print(table)

    assert captured.get().count("accuracy in percent") == captured.get().count("AUC in percent") == 3
    assert "cells (3)" in captured.get()
    assert "in brackets: runs. cells meets" in captured.get()


RARE = "CTG-pathologic"


@pytest.fixture
def beside(monkeypatch):
    """With a data set beside the averaged ones, in which a class is rare; one peer lacks it."""
    add_fake_peers(monkeypatch)
    more = [
        made_up(strategy, RARE, epsilon, seed, share)
        for strategy, share in (("cells", 0.8), *((peer, 0.9) for peer in FAKE_PEERS[1:]))
        for epsilon in ("1", "0.1")
        for seed in range(2)
    ]
    return compare_outcomes([*outcomes(), *more])


def test_a_data_set_beside_enters_no_average_of_accuracy_and_every_one_of_auc(found, beside):
    assert beside.averaged == DATASETS
    assert beside.rare == (RARE,)
    before = {each.strategy.name: each for each in averages(found, "1")}
    after = {each.strategy.name: each for each in averages(beside, "1")}
    assert {name: each.mean for name, each in before.items()} == {name: each.mean for name, each in after.items()}
    areas = [beside.find(dataset, "cells", "1").auc for dataset in (*DATASETS, RARE)]
    assert after["cells"].auc == pytest.approx(sum(areas) / 4)
    assert after[FAKE_PEERS[0]].auc is None
    assert before[FAKE_PEERS[0]].auc is not None


def test_what_is_averaged_is_said_and_a_rare_class_is_judged_by_ranking(beside):
    shown = measure_tables(beside, accuracy(beside))["1"]
    headings = [column.heading for column in shown.columns]
    assert headings == ["strategy", *DATASETS, "average of 3", RARE, "runs"]
    assert [column.heading for column in measure_tables(beside, auc(beside))["1"].columns][-2:] == ["average", "runs"]
    rare = shown.columns[headings.index(RARE)]
    assert not any(rare.text(line).strong for group in shown.groups for line in group.rows)
    assert "on average over 3 data sets" in headline(beside)
    assert f"{RARE} stand beside them" in averaged_sentence(beside)
    assert f"{RARE}: AUC" in [figure.name for figure in epsilon_figures(beside)]
    for text in (build_markdown(beside), build_page(beside)):
        assert averaged_sentence(beside) in text


def test_hostile_text_stays_text(found):
    evil = '"><script>alert(1)</script>'
    strategies = tuple(msgspec.structs.replace(each, title=evil) for each in found.strategies)
    where = msgspec.structs.replace(WHERE, command=evil, skipped={evil: evil})
    hostile = msgspec.structs.replace(
        found, strategies=strategies, problems=dict.fromkeys(DATASETS, evil), provenance=where
    )
    outline = Outline(build_page(hostile))

    assert outline.count("script") == 0
    assert evil in outline.text
    assert "<script>" not in build_markdown(hostile).replace(f"```\n{evil}", "")


@pytest.mark.parametrize("keep", ["nothing", "ceilings", "one epsilon", "one run"])
def test_parts_that_are_missing_are_left_out(found, keep):
    rows = {
        "nothing": (),
        "ceilings": tuple(row for row in found.rows if row.epsilon == "inf"),
        "one epsilon": tuple(row for row in found.rows if row.epsilon == "1"),
        "one run": (found.rows[-1],),
    }[keep]
    used = {row.strategy for row in rows}
    part = msgspec.structs.replace(
        found,
        rows=rows,
        strategies=tuple(each for each in found.strategies if each.name in used),
        problems={name: title for name, title in found.problems.items() if any(row.dataset == name for row in rows)},
        averaged=tuple(name for name in found.averaged if any(row.dataset == name for row in rows)),
        provenance=None,
    )
    outline = Outline(build_page(part))

    assert build_markdown(part).startswith("# ExPriL compared")
    assert outline.count("h1") == 1
    assert ("Accuracy against ε" in outline.text) == (keep in ("one epsilon", "one run"))
    assert list(found_tables(part)) or not rows
