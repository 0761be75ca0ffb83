"""The MBDE study's report: claims by their rules, figures that are whole, and the command, begun again."""

import base64
import json
import struct
import zlib
from functools import partial
from xml.etree import ElementTree as ET

import msgspec
import numpy as np
import pytest
from typer.testing import CliRunner

from expril.commands.app import app
from lab.sample import bernstein, boosting, command
from lab.sample import cells as study_cells
from lab.sample.cells import Picture, Sampled, Variant
from lab.sample.claims import claims_of
from lab.sample.domains import Box
from lab.sample.figures import figures
from lab.sample.files import rows_csv
from lab.sample.images import picture_uri
from lab.sample.markdown import build_markdown
from lab.sample.model import BEST, Found, found_of
from lab.sample.theory import check_theory

SVG = "{http://www.w3.org/2000/svg}"


def picture():
    masses = np.zeros((64, 64))
    masses[:20, :20] = 1.0
    return Picture.of(masses.ravel() / masses.sum(), Box((-1.5, -1.5), (1.5, 1.5)))


def theory():
    outputs = np.array([0.6, -0.6])
    return check_theory(np.array([0.9, 0.1]), np.array([0.5, 0.5]), [outputs], [0.26])


def cell(domain, method, epsilon, seed=1000, *nlls, coverage=0.9):
    names = ("k 20, order 1, shifted", "k 10, order 1, cut off") if method == "dpb" else ("",)
    variants = tuple(Variant(name, nll, 1.0, coverage) for name, nll in zip(names, nlls, strict=True))
    shown = None if domain.startswith(("mixture", "random-1d")) else picture()
    proved = theory() if method == "mbde" else None
    return Sampled(domain, method, epsilon, seed, variants, 0.3, 2.3, proved, shown, 1.0, "as told")


def verdicts(cells):
    return {claim.says.split(",")[0]: (claim.verdict, claim.measured) for claim in claims_of(found_of(cells))}


def test_without_cells_nothing_is_claimed():
    assert {claim.verdict for claim in claims_of(Found((), ()))} == {"not measured"}
    assert figures(Found((), ())) == {}
    assert "10 were not measured" in build_markdown(Found((), ()))


def test_the_ratio_of_epsilons_is_that_at_which_the_likelihood_is_reached():
    cells = [cell("ring", "mbde", "0.1", 1000, 2.0), cell("ring", "mbde", "1", 1000, 1.5)]
    theirs = [cell("ring", "dpb", epsilon, 1000, nll, nll) for epsilon, nll in (("1", 2.2), ("40", 2.0), ("50", 1.6))]
    verdict, measured = verdicts(cells + theirs)["On the ring MBDE does what DPB does at an epsilon 400 times larger"]

    assert verdict == "holds"
    assert "400 at 0.1, more than 50 at 1" in measured

    best = [cell("ring", "dpb", epsilon, 1000, nll, 1.4) for epsilon, nll in (("1", 2.2), ("40", 2.0))]
    verdict, measured = verdicts(cells + best)["On the ring MBDE does what DPB does at an epsilon 400 times larger"]
    assert "at its best lattice needs times MBDE's epsilon: 10 at 0.1, 1 at 1" in measured
    assert verdict == "in part"


def test_the_best_lattice_is_that_of_the_least_mean():
    cells = [cell("ring", "dpb", "1", 1000, 1.0, 3.0), cell("ring", "dpb", "1", 1001, 4.0, 1.5)]
    found = found_of(cells)

    assert found.of("ring", "dpb")[1.0].nll.value == 2.5
    best = found.of("ring", BEST)[1.0]
    assert (best.variant, best.nll.value) == ("k 10, order 1, cut off", 2.25)
    assert best.nll.deviation == pytest.approx(1.5 / 2**0.5)


def test_verdicts_follow_the_measures():
    falling = [cell("mixture", "mbde", epsilon, 1000, nll) for epsilon, nll in (("0.1", 2.0), ("2", 1.1), ("10", 1.0))]
    flat = [
        cell("mixture", "dpb", epsilon, 1000, nll, 0.0) for epsilon, nll in (("0.1", 2.0), ("1", 0.5), ("10", 0.45))
    ]
    found = verdicts(falling + flat)

    assert found["The negative log-likelihood of MBDE falls as epsilon grows"][0] == "holds"
    assert found["It falls sharply below epsilon 2"][0] == "holds"
    assert found["On 1-D Gaussians DPB reaches a plateau beyond epsilon 1"][0] == "holds"
    assert found["Beyond epsilon 5 MBDE beats DPB there"][0] == "does not hold"
    rising = [*falling, cell("ring", "mbde", "1", 1000, 1.0), cell("ring", "mbde", "2", 1000, 1.1)]
    assert found_of(rising).of("ring", "mbde")
    assert verdicts(rising)["The negative log-likelihood of MBDE falls as epsilon grows"][0] == "in part"


def test_mode_coverage_and_deviations_are_judged_over_repeats():
    lines = [
        cell("random-1d-1", method, epsilon, seed, *nlls, coverage=covered)
        for epsilon, covered in (("0.1", 0.9), ("1", 0.7), ("10", 0.95))
        for seed, shift in ((1000, 0.0), (1001, 1.0))
        for method, nlls in (("mbde", (shift / 100,)), ("dpb", (2 * shift, 3 * shift)))
    ]
    found = verdicts(lines)

    verdict, measured = found["Mode coverage falls until epsilon is about 1"]
    assert verdict == "holds"
    assert (
        "coverage as printed is lowest at epsilon 1 on 1 domains; coverage of the densest region moves by" in measured
    )
    verdict, measured = found["MBDE's standard deviation is often 100 times smaller than DPB's"]
    assert verdict == "holds"
    assert "median 200.00, at most 200.0" in measured


def test_dpgan_is_judged_where_both_others_are():
    cells = [cell("ring", "mbde", "1", 1000, 1.0), cell("ring", "dpb", "1", 1000, 2.0, 2.0)]
    assert (
        verdicts([*cells, cell("ring", "dpgan", "1", 1000, 1.5)])["DPGAN is outperformed by both"][0] == "does not hold"
    )
    assert verdicts([*cells, cell("ring", "dpgan", "1", 1000, 2.5)])["DPGAN is outperformed by both"][0] == "holds"


def test_a_picture_is_a_png_whose_rows_go_down():
    share = np.zeros((3, 2))
    share[2, 0] = 1.0  # the right end of the lower row
    data = base64.b64decode(picture_uri(share).split(",")[1])
    chunks, place = {}, 8
    while place < len(data):
        (size,) = struct.unpack(">I", data[place : place + 4])
        kind, body = data[place + 4 : place + 8], data[place + 8 : place + 8 + size]
        assert struct.unpack(">I", data[place + 8 + size : place + 12 + size]) == (zlib.crc32(kind + body),)
        chunks[kind], place = body, place + 12 + size

    assert data[:4] == b"\x89PNG"
    assert struct.unpack(">IIB", chunks[b"IHDR"][:9]) == (3, 2, 8)
    assert zlib.decompress(chunks[b"IDAT"]) == bytes([0, 0, 0, 0, 0, 0, 0, 255])
    assert len(chunks[b"PLTE"]) == 3 * 256


def test_figures_are_whole_and_say_what_they_show():
    cells = [cell(domain, "mbde", epsilon, 1000, 1.2) for domain in ("ring", "random-1d-1") for epsilon in ("1", "2")]
    cells += [cell("ring", "dpb", "1", 1000, 2.0, 1.1), cell("ring", "dpgan", "10", 1000, 3.0)]
    drawn = figures(found_of(cells))

    assert set(drawn) == {"figure1.svg", "figure4.svg", "figure5.svg", "figure6.svg", "figure7.svg"}
    trees = {name: ET.fromstring(text) for name, text in drawn.items()}
    assert len(trees["figure1.svg"].findall(f".//{SVG}image")) == 4
    assert len(trees["figure4.svg"].findall(f".//{SVG}image")) == 5
    words = " ".join(trees["figure5.svg"].itertext())
    assert "ring: NLL in nats" in words
    assert "http" not in drawn["figure5.svg"].replace("http://www.w3.org/", "")


def test_a_row_of_the_table_says_all():
    text = rows_csv(found_of([cell("ring", "mbde", "1", 1000, 1.25)]))

    assert text.splitlines()[1].startswith("ring,mbde,,1,1,1.250000,0.000000,1.000000,0.000000,0.900000")


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setattr(study_cells, "RECORDS", 200)
    monkeypatch.setattr(study_cells, "CELLS", {1: 40, 2: 16})
    monkeypatch.setattr(command, "GRID", {1: 40, 2: 16})
    monkeypatch.setattr(bernstein, "BINS", {1: 64, 2: 32})
    monkeypatch.setattr(study_cells, "LATTICES", {1: (5,), 2: (4,)})
    monkeypatch.setattr(boosting, "TRAINING", dict.fromkeys((1, 2), boosting.Training(3, None)))
    monkeypatch.setattr(boosting, "WHOLE", boosting.Training(2, None))
    monkeypatch.setattr(boosting, "EXAMPLES", 100)
    monkeypatch.setattr(command, "Order", partial(command.Order, domains=("mixture", "ring"), beyond=("20",), gan=()))
    monkeypatch.setattr("expril.report.provenance.cores", lambda: 1)
    study_cells.records_of.cache_clear()


@pytest.mark.slow
def test_the_command_writes_its_report_and_goes_on(tiny, tmp_path, monkeypatch):
    asked = ["simulate", "sample", "--out", str(tmp_path), "--epsilon", "0.5,2", "--repeats", "1", "--json"]
    told = CliRunner().invoke(app, asked)
    assert told.exit_code == 0, told.output
    assert len(json.loads(told.stdout)["claims"]) == 10
    folder = tmp_path / "sample"
    names = {path.name for path in folder.iterdir()}
    assert {"README.md", "cells.jsonl", "measures.csv", "theory.csv", "results.json", "provenance.json"} <= names
    assert {"figure1.svg", "figure4.svg", "figure5.svg"} <= names
    first = (folder / "README.md").read_text()
    assert "expril simulate sample" in first

    def never(_task):
        raise AssertionError

    monkeypatch.setattr(command, "compute_cell", never)
    shown = CliRunner().invoke(app, asked[:-1])
    assert shown.exit_code == 0, shown.output
    assert "report:" in shown.stdout
    assert (folder / "README.md").read_text() == first
    cells = command.read_cells(folder / "cells.jsonl", Sampled)
    assert {(c.domain, c.method, c.epsilon) for c in cells} == {
        *(("mixture", method, epsilon) for method in ("mbde", "dpb") for epsilon in ("0.5", "2")),
        *(("ring", method, epsilon) for method in ("mbde", "mbde-one-batch", "dpb") for epsilon in ("0.5", "2")),
        ("ring", "dpb", "20"),
    }
    monkeypatch.setattr(command, "RECORDS", 7)
    refused = CliRunner().invoke(app, asked)
    assert refused.exit_code == 2
    assert "begun with other settings" in refused.output

    theories = [c.theory for c in cells if c.theory is not None]
    assert all(each.in_range and each.below_most and each.above_proved for each in theories)
    assert msgspec.json.decode((folder / "results.json").read_bytes())["found"]["pictures"] == []


def test_the_whole_study_has_every_cell_once():
    tasks = command.Order(out=None, command="").tasks()

    assert len(tasks) == len(set(tasks)) == 746
    assert {task.problem for task in tasks if task.maker == "dpgan"} == {"ring"}
