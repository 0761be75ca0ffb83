"""The comparison's document: every number is on its page, nothing is loaded, no text becomes markup; what is told."""

import re
from functools import cache
from pathlib import Path

import msgspec
import numpy as np
import pytest

from comparison_fakes import FAKE_PEERS, add_fake_peers, made_up
from expril.commands.terminal import wide_console
from expril.report.document import Charts, tables
from expril.report.files import as_markdown
from expril.report.numbers import signed, with_error
from expril.report.page import as_page
from expril.report.provenance import Provenance
from expril.report.terminal import as_terminal
from lab.comparison.contestants import GROUP_TITLES
from lab.comparison.findings import averages, by_share, findings
from lab.comparison.study import (
    STUDY,
    accuracy,
    auc,
    best_private,
    claim_charts,
    curve_charts,
    document,
    leaders,
    measure_tables,
    reliability_charts,
    secure_gain,
    strategy_keys,
)
from lab.peers import PEERS
from page_outline import Outline

WHERE = Provenance(
    command="expril-lab study comparison --repeats 3",
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
    """Three data sets, two epsilons, two of ours, three peers and two without privacy over three runs."""
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
def results(monkeypatch):
    add_fake_peers(monkeypatch)
    return findings({"cells": outcomes()}, WHERE)


def page(results):
    return as_page(document(results))


def keys(results):
    """Of the charts with a colour an epsilon."""
    return next(
        block.keys
        for section in document(results).sections
        for block in section.blocks
        if section.title == "Are the probabilities honest?" and isinstance(block, Charts)
    )


@pytest.mark.slow
def test_every_mean_is_on_the_page_and_the_page_loads_nothing(results):
    text = page(results)
    outline = Outline(text)

    for row in results.rows:
        assert f"{row.mean:.1f} ± {row.std:.1f}" in outline.text.replace(" best", "")
    for strategy in results.strategies:
        assert strategy.name in outline.text
        assert strategy.title in outline.text
    assert not {"link", "img", "iframe"} & {tag for tag, _ in outline.elements}
    assert not re.search(r"""(src|href)=|url\(|@import""", text)
    assert "default-src 'none'" in text
    assert outline.count("caption") == outline.count("table")
    assert "0123456789ab" in outline.text
    assert "aim was left out: install it" in outline.text
    assert page(results) == text


def test_the_best_private_strategy_of_each_column_is_marked_and_none_without_privacy_is(results):
    best = {
        (measure.value, epsilon): best_private(results, epsilon, measure)
        for measure in (accuracy(results), auc(results))
        for epsilon in ("1", "0.1")
    }

    for (value, epsilon), places in best.items():
        for dataset in DATASETS:
            rows = [row for row in results.rows if row.dataset == dataset and row.epsilon == epsilon]
            assert max(rows, key=value).key in places
    assert best_private(results, "inf", accuracy(results)) == set()
    outline = Outline(page(results))
    stars = sum(row.count("★") for row in (cell for _, cells in outline.rows for cell in cells))
    assert stars == sum(map(len, best.values()))


def test_those_without_privacy_stand_below_the_private_ones_in_every_table(results):
    shown = [measure_tables(results, measure) for measure in (accuracy(results), auc(results))]

    assert [list(item) for item in shown] == [["1", "0.1"]] * 2
    for table in (table for item in shown for table in item.values()):
        titles = [GROUP_TITLES["ours"], GROUP_TITLES["peer"], "not private, for reference"]
        assert [group.title for group in table.groups] == titles
        assert [line.average.strategy.name for line in table.groups[-1].rows] == ["cells", "h*", "majority"]


def test_every_strategy_has_its_own_mark_and_every_data_set_its_panel(results):
    marks = strategy_keys(results)
    assert len({(key.index, key.hollow) for key in marks}) == len(marks) == 5
    assert marks[0].name == "cells"
    assert [key.hollow for key in marks] == [False, False, True, True, True]
    figures = curve_charts(results)
    assert [figure.name for figure in figures] == list(DATASETS)
    for figure in figures:
        assert [tick.label for tick in figure.ticks] == ["0.1", "1"]
        assert {line.title for line in figure.lines} == {key.name for key in marks}
        assert figure.lines[-1].title == "cells"
        assert [bool(line.band) for line in figure.lines] == [False, False, False, False, True]
        assert [rule.style for rule in figure.rules] == ["solid", "dashes"]
        top, height = figure.stage.box
        for line in figure.lines:
            assert all(top <= mark.y <= top + height for mark in line.marks)
    higher, lower = (mark.y for mark in reversed(figures[0].lines[-1].marks))
    assert higher < lower  # pixels from the top: more accurate at the greater epsilon


def test_reliability_has_a_panel_a_strategy_and_a_line_an_epsilon(results):
    figures = {figure.name: figure for figure in reliability_charts(results, keys(results))}

    assert set(figures) == {strategy.name for strategy in results.strategies}
    assert [line.title for line in figures["cells"].lines] == ["no noise", "epsilon 1", "epsilon 0.1"]
    assert [line.title for line in figures["h*"].lines] == ["no noise"]
    assert all(figure.diagonal for figure in figures.values())


def test_bins_sorted_by_prediction_keep_every_record(results):
    parts = [cell.measures.reliability for cell in outcomes() if (cell.maker, cell.epsilon) == ("cells", "1")]
    bins = by_share(parts)

    assert bins == results.reliability["cells"]["1"]
    assert sum(item.records for item in bins) == sum(sum(part.counts) for part in parts)
    assert [item.predicted for item in bins] == sorted(item.predicted for item in bins)
    hits = sum(np.dot(part.counts, part.observed) for part in parts)
    assert sum(item.records * item.observed for item in bins) == pytest.approx(100 * hits)
    for item in bins:
        assert item.records > 0
        assert 0 <= item.predicted <= 100
        assert 0 <= item.observed <= 100


def test_claims_are_drawn_where_a_learner_makes_any(results):
    (figure,) = claim_charts(results, keys(results))

    assert figure.name == "cells"
    assert len(figure.lines) == 2 * len(DATASETS)
    assert all("88.0 % expected" in line.marks[0].text for line in figure.lines)
    assert "Does the learner know how good it is?" in page(results)


def test_the_first_table_names_the_best_peer_and_counts_the_bars(results):
    peers = {
        name: sum(results.find(dataset, name, "1").mean for dataset in DATASETS) / len(DATASETS) for name in FAKE_PEERS
    }
    best = max(peers, key=peers.get)
    line = leaders(results)[0]

    assert (line.peer.strategy.name, line.peer.mean) == (best, pytest.approx(peers[best]))
    assert line.default.strategy.name == "cells"
    assert [len(item.bars) for item in leaders(results)] == [3, 3]
    assert line.gain is None
    table = next(tables(document(results).sections[0].present))
    shown = [column.text(line).text for column in table.columns]
    assert shown[2:4] == [best, f"{peers[best]:.1f}"]
    assert re.fullmatch(r"\d of 3", shown[5])


def test_a_gain_by_secure_sums_is_the_mean_over_data_sets(monkeypatch):
    add_fake_peers(monkeypatch)
    secure = [made_up("cells-secure", name, "1", seed, 0.95) for name in DATASETS[1:] for seed in range(3)]
    results = findings({"cells": [*outcomes(), *secure]})
    rows = [results.find(name, "cells-secure", "1") for name in DATASETS[1:]]
    gain, error = secure_gain(results, "1")
    assert gain == pytest.approx((rows[0].difference + rows[1].difference) / 2)
    assert error == pytest.approx(np.hypot(rows[0].difference_error, rows[1].difference_error) / 2)
    assert secure_gain(results, "0.1") is None


def test_markdown_has_a_table_for_each_epsilon_and_the_bars(results):
    text = as_markdown(document(results))

    assert text.startswith("# Strategies and peers on the same records")
    assert "## The bars" in text
    assert [line for line in text.splitlines() if line.startswith(("## Accuracy", "## AUC"))] == [
        "## Accuracy at epsilon 1",
        "## Accuracy at epsilon 0.1",
        "## AUC at epsilon 1",
        "## AUC at epsilon 0.1",
    ]
    for line in text.splitlines():
        if line.startswith("| cells"):
            assert line.count("|") == len(DATASETS) + 4
    assert "expril-lab study comparison --repeats 3" in text


def test_the_terminal_gets_a_table_for_each_epsilon_and_what_was_left_out(results):
    console = wide_console(160)
    with console.capture() as captured:
        for shown in as_terminal(document(results)):
            console.print(shown)
    text = captured.get()

    assert text.count("Accuracy at epsilon") == text.count("AUC at epsilon") == 2
    assert "cells (3)" in text
    assert "Where cells stands" in text
    assert "note aim was left out: install it" in text


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
    return findings({"cells": [*outcomes(), *more]})


def test_a_data_set_beside_enters_no_average_of_accuracy_and_every_one_of_auc(results, beside):
    assert beside.averaged == DATASETS
    assert beside.rare == (RARE,)
    before = {item.strategy.name: item for item in averages(results, "1")}
    after = {item.strategy.name: item for item in averages(beside, "1")}
    assert {name: item.mean for name, item in before.items()} == {name: item.mean for name, item in after.items()}
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
    assert f"{RARE}: AUC" in [figure.name for figure in curve_charts(beside)]
    for text in (as_markdown(document(beside)), page(beside)):
        assert "average of 3" in text


def test_hostile_text_stays_text(results):
    evil = '"><script>alert(1)</script>'
    strategies = tuple(msgspec.structs.replace(item, title=evil) for item in results.strategies)
    where = msgspec.structs.replace(WHERE, command=evil, skipped={evil: evil})
    hostile = msgspec.structs.replace(
        results, strategies=strategies, problems=dict.fromkeys(DATASETS, evil), provenance=where
    )
    outline = Outline(page(hostile))

    assert outline.count("script") == 1  # the page's own
    assert evil in outline.text
    assert "<script>" not in as_markdown(document(hostile)).replace(f"```\n{evil}", "")


@pytest.mark.parametrize("keep", ["nothing", "open", "one epsilon", "one run"])
def test_parts_that_are_missing_are_left_out(results, keep):
    rows = {
        "nothing": (),
        "open": tuple(row for row in results.rows if row.epsilon == "inf"),
        "one epsilon": tuple(row for row in results.rows if row.epsilon == "1"),
        "one run": (results.rows[-1],),
    }[keep]
    used = {row.strategy for row in rows}
    part = msgspec.structs.replace(
        results,
        rows=rows,
        strategies=tuple(item for item in results.strategies if item.name in used),
        problems={name: title for name, title in results.problems.items() if any(row.dataset == name for row in rows)},
        averaged=tuple(name for name in results.averaged if any(row.dataset == name for row in rows)),
        provenance=None,
    )
    outline = Outline(page(part))

    assert as_markdown(document(part)).startswith("# Strategies and peers")
    assert outline.count("h1") == 1
    assert ("Accuracy against epsilon" in outline.text) == (keep in ("one epsilon", "one run"))
    assert list(as_terminal(document(part))) or not rows


# --- what is told of the published runs -------------------------------------------------------------------

ROOT = Path(__file__).parents[2]
LEARNING = ROOT / "docs" / "results" / "learning"


@pytest.fixture(scope="module")
def published():
    return findings(STUDY.cells(LEARNING))


def test_docs_strategies_tells_what_the_published_runs_say(published):
    printed = " ".join((ROOT / "docs" / "learner" / "strategies.md").read_text(encoding="utf-8").split())
    lines = leaders(published)
    means = [f"{line.default.mean:.1f}" for line in lines]
    peers = [f"{line.peer.mean:.1f} (`{line.peer.strategy.name}`)" for line in lines]
    gains = [with_error(signed(line.gain[0]), line.gain[1]) for line in lines]
    bars = [bar for line in lines for bar in line.bars]
    assert f"{means[0]} % at epsilon 1, {means[1]} at 0.3 and {means[2]} at 0.1" in printed
    assert f"the best peer on average {peers[0]}, {peers[1]} and {peers[2]}" in printed
    assert f"meets {sum(bar.met for bar in bars)} of {len(bars)} bars" in printed
    aims = [bar.aim for bar in bars if bar.aim is not None]
    assert f"at epsilon 1 on {sum(aims)} of {len(aims)} of the paper's data sets" in printed
    assert f"{gains[0]}, {gains[1]} and {gains[2]} points" in printed


def test_the_table_of_the_results_is_that_of_the_published_runs(published):
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in (ROOT / "docs" / "results" / "index.md").read_text(encoding="utf-8").splitlines()
        if line.startswith("|") and line.count("|") == 12
    ]
    head, _, *lines = rows
    assert tuple(head[1:]) == published.averaged
    peers = {
        name: sum(published.find(item, name, "1").mean for item in published.averaged)
        for name, kind in PEERS.items()
        if kind.private and all(published.find(item, name, "1") for item in published.averaged)
    }
    pure = [name for name in peers if PEERS[name].delta == "zero"]
    named = [("cells", "1"), ("cells", "0.3"), ("cells", "0.1"), (max(peers, key=peers.get), "1")]
    named += [(max(pure, key=peers.get), "1"), ("h*", "inf")]
    for line, (strategy, epsilon) in zip(lines, named, strict=True):
        means = [f"{published.find(item, strategy, epsilon).mean:.1f}" for item in published.averaged]
        assert line[1:] == means, (line[0], strategy)
