"""The study of sampling: targets, measures, the Bernstein mechanism, theorems, claims by their rules, documents."""

import base64
import json
import math
import struct
import zlib
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm
from typer.testing import CliRunner

from curator_node.exact_draws import RandomWords
from curator_node.kinds.samples import weak_learners
from expril.report.files import as_markdown, csv_table
from expril.report.page import as_page
from expril.report.picture import as_files
from lab.__main__ import app
from lab.peers.task import PeerUnavailableError
from lab.sample import cells as study_cells
from lab.sample import methods
from lab.sample.cells import Picture, Sampled, Variant, gan_points, lattices
from lab.sample.domains import Box, target_of
from lab.sample.findings import BEST, Check, Findings, claims_of, findings
from lab.sample.methods import Lattice, Training
from lab.sample.study import STUDY, document, picture_uri, published, tasks
from lab.sample.theory import (
    HIGH,
    MOST_OUTPUT,
    check_theory,
    coverage,
    divergence,
    gamma_of_drop,
    negative_log_likelihood,
    printed_drop,
    proved_drop,
)
from lab.study import FINDINGS, MARKDOWN, PAGE, Order
from page_outline import Outline
from protocol.errors import ConfigurationError

SVG = "{http://www.w3.org/2000/svg}"
DOCS = Path(__file__).parents[2] / "docs"
PUBLISHED = DOCS / "results" / "reproduction" / "mbde"
DOMAINS = ["ring", "wide-ring", "mixture", "random-2d", "random-1d-1", "random-1d-10"]

# --- targets ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("domain", DOMAINS)
def test_a_target_lies_in_its_box_and_in_that_of_the_base(domain):
    target = target_of(domain, 3)
    records = target.draw(500, np.random.default_rng(1))

    assert target.box.contains(records).all()
    assert target.inside > 1 - 2e-5
    assert target.masses(40).sum() == pytest.approx(1)
    assert target.masses(160, target.base).sum() == pytest.approx(1)


def test_cells_have_the_mass_of_the_mixture():
    target = target_of("mixture", 0)
    edges = target.box.edges(30)[0]
    parts = [norm.cdf(edges, mean, deviation) for mean, deviation in ((0.3, 0.1), (0.5, 0.1**0.5), (0.7, 0.1**0.5))]
    expected = np.diff(np.mean(parts, axis=0))

    assert target.masses(30) == pytest.approx(expected / expected.sum())


def test_cells_of_the_plane_are_in_the_order_of_their_centres():
    target = target_of("random-2d", 5)
    masses, centres = target.masses(60), target.box.centres(60)

    assert masses @ centres == pytest.approx(target.means.mean(axis=0), abs=1e-4)
    records = target.draw(20_000, np.random.default_rng(2))
    assert records.mean(axis=0) == pytest.approx(masses @ centres, abs=0.02)


def test_random_gaussians_are_placed_by_the_seed():
    assert np.array_equal(target_of("random-1d-4", 7).means, target_of("random-1d-4", 7).means)
    assert not np.array_equal(target_of("random-1d-4", 7).means, target_of("random-1d-4", 8).means)
    for name in ("random-1d-0", "random-1d-11", "random-1d-x", "square"):
        with pytest.raises(ConfigurationError, match="there is no domain"):
            target_of(name, 0)


# --- measures -----------------------------------------------------------------------------------------------


def test_the_likelihood_of_a_standard_gaussian_is_its_entropy():
    edges = np.linspace(-8, 8, 4001)
    masses = np.diff(norm.cdf(edges))

    assert negative_log_likelihood(masses, masses, 16 / 4000) == pytest.approx(0.5 * math.log(2 * math.pi * math.e))
    shifted = np.diff(norm.cdf(edges, 1))  # KL(N(0, 1), N(1, 1)) = 1 / 2
    assert divergence(masses, shifted) == pytest.approx(0.5, abs=1e-6)


def test_a_uniform_model_has_the_volume_s_logarithm_and_covers_its_own_share_both_ways():
    target = np.array([0.7, 0.2, 0.1, 0.0])
    uniform = np.full(4, 0.25)

    assert negative_log_likelihood(target, uniform, 3 / 4) == pytest.approx(math.log(3))
    results = coverage(target, uniform)
    assert (results.dense, results.printed) == (pytest.approx(0.95), pytest.approx(0.95))


def test_coverage_takes_the_densest_or_the_least_dense_region_and_a_level_in_part():
    model = np.array([0.9, 0.1])
    target = np.array([0.4, 0.6])

    results = coverage(target, model)
    assert results.dense == pytest.approx(0.4 + 0.6 * 0.05 / 0.1)
    assert results.printed == pytest.approx(0.6 + 0.4 * 0.85 / 0.9)


def test_a_model_that_misses_a_part_is_infinitely_unlikely():
    target, model = np.array([0.5, 0.5]), np.array([1.0, 0.0])

    assert negative_log_likelihood(target, model, 1) == math.inf
    assert divergence(target, model) == math.inf
    assert divergence(model, target) == pytest.approx(math.log(2))


# --- the Bernstein mechanism --------------------------------------------------------------------------------


def by_definition(values, cells):
    """B_k f at the middles of cells, from the definition."""
    k = len(values) - 1
    points = (np.arange(cells) + 0.5) / cells
    return sum(values[n] * math.comb(k, n) * points**n * (1 - points) ** (k - n) for n in range(k + 1))


def test_the_polynomial_is_bernstein_s_and_iterates_as_defined():
    values = np.array([0.3, 2.0, -1.0, 0.7])
    assert methods.polynomial(values, 1, 9) == pytest.approx(by_definition(values, 9))

    points = np.arange(4) / 3
    again = np.array(
        [sum(values[n] * math.comb(3, n) * x**n * (1 - x) ** (3 - n) for n in range(4)) for x in points]
    )  # 1 - (1 - B)^2 = 2 B - B^2
    expected = 2 * by_definition(values, 9) - by_definition(again, 9)
    assert methods.polynomial(values, 2, 9) == pytest.approx(expected)


def test_in_the_plane_it_is_the_product_of_both_sides():
    left, right = np.array([1.0, 0.5, 3.0]), np.array([2.0, -1.0, 0.0])
    results = methods.polynomial(np.outer(left, right), 1, 5).reshape(5, 5)

    assert results == pytest.approx(np.outer(by_definition(left, 5), by_definition(right, 5)))


@pytest.mark.parametrize("dimensions", [1, 2])
def test_lattice_values_are_the_kernel_density_estimate(dimensions):
    rng = np.random.default_rng(4)
    records = rng.uniform(size=(7, dimensions))
    sides = [np.arange(4) / 3] * dimensions
    lattice = np.stack(np.meshgrid(*sides, indexing="ij"), -1).reshape(-1, dimensions)
    expected = np.mean([np.prod(norm.pdf(lattice, record, 0.2), axis=1) for record in records], axis=0)

    assert methods.lattice_values(records, 0.2, 3).ravel() == pytest.approx(expected)


@pytest.mark.parametrize("dimensions", [1, 2])
def test_a_replaced_record_moves_a_value_by_the_sensitivity_at_most_and_nearly_so(dimensions):
    rng = np.random.default_rng(5)
    before = rng.uniform(size=(20, dimensions))
    after = before.copy()
    before[0], after[0] = 0.5, 0.0  # from a point of the lattice to where its kernel there is next to nothing
    moved = np.abs(methods.lattice_values(before, 0.05, 4) - methods.lattice_values(after, 0.05, 4)).max()

    assert moved <= methods.sensitivity(0.05, 20, dimensions) * (1 + 1e-12)
    assert moved == pytest.approx(methods.sensitivity(0.05, 20, dimensions), rel=1e-6)


def test_noise_has_the_scale_of_all_coefficients_together():
    class Recorded:
        def laplace(self, scale, size):
            self.asked = (scale, size)
            return np.zeros(size)

    rng = Recorded()
    records = np.full((10, 2), 0.5)
    results = methods.release(records, 0.1, Lattice(4), 0.5, 6, rng)

    assert rng.asked == (pytest.approx((2 * math.pi * 0.01) ** -1 / 10 * 25 / 0.5), (5, 5))
    assert results.sum() == pytest.approx(1)
    assert results.reshape(6, 6)[2:4, 2:4].sum() > results.reshape(6, 6)[:2, :2].sum()


def test_a_density_is_made_positive_by_a_shift_or_a_cut():
    density = np.array([-1.0, 0.0, 3.0])

    assert methods.as_probabilities(density, cut=False) == pytest.approx(np.array([0.001, 1.001, 4.001]) / 5.003)
    assert methods.as_probabilities(density, cut=True) == pytest.approx(np.array([0.001, 0.001, 3.0]) / 3.002)


@pytest.mark.parametrize("dimensions", [1, 2])
def test_cross_validation_chooses_as_the_exact_one_does(dimensions):
    rng = np.random.default_rng(6)
    records = np.clip(rng.normal(0.5, 0.1, size=(200, dimensions)), 0, 1)
    candidates = (0.01, 0.04, 0.16)

    def likelihood(bandwidth):
        total = 0.0
        for fold in range(5):
            own, others = records[fold::5], np.delete(records, np.s_[fold::5], axis=0)
            kernels = np.prod(norm.pdf(own[:, None], others[None], bandwidth), axis=2)
            total += np.log(np.maximum(kernels.mean(axis=1), np.finfo(float).tiny)).sum()
        return total

    assert methods.choose_bandwidth(records, 5, candidates) == max(candidates, key=likelihood)


def test_the_usual_lattice_is_tried_first_and_each_once():
    tried = list(lattices(2))

    assert tried[0] == Lattice(20)
    assert len(set(tried)) == len(tried) == 12


# --- theorems -----------------------------------------------------------------------------------------------


def test_a_perfect_classifier_of_two_cells_has_the_drop_of_its_closed_form():
    epsilon = 1.0
    theta = epsilon / (epsilon + 4 * math.log(2))
    outputs = np.array([math.log(2), -math.log(2)])
    results = check_theory(np.array([1.0, 0.0]), np.array([1e-6, 1 - 1e-6]), [outputs], [theta])
    (step,) = results.steps

    assert results.most == pytest.approx(0.5)
    assert (step.gamma_p, step.gamma_q, step.high) == (pytest.approx(1.0), pytest.approx(1.0, abs=1e-5), True)
    normaliser = 1e-6 * 2**theta + (1 - 1e-6) * 2**-theta
    assert step.drop == pytest.approx(theta * math.log(2) - math.log(normaliser))
    assert results.least == pytest.approx(0.5 * (1 - theta), abs=1e-5)
    assert results.in_range
    assert results.below_most
    assert results.above_proved


def test_theorem_6_as_printed_promises_too_much_in_the_low_regime():
    """A classifier that is right in nearly all of P and in half of Q and somewhat more: its drop has the factor c*."""
    theta, outputs = 0.01, np.array([MOST_OUTPUT, -MOST_OUTPUT])
    results = check_theory(np.array([0.9, 0.1]), np.array([0.45, 0.55]), [outputs], [theta])
    (step,) = results.steps

    assert not step.high
    assert not step.above_printed
    assert step.above_proved
    assert step.printed == pytest.approx(theta * (0.8 + 0.1 - MOST_OUTPUT * theta / 2))
    assert step.proved == pytest.approx(MOST_OUTPUT * step.printed)


def test_gamma_is_at_most_what_the_proof_of_theorem_7_takes_it_for_at_least():
    for gamma_q in np.linspace(HIGH, 0.999, 50):
        assert gamma_of_drop(gamma_q) < gamma_q * math.log(2)
    assert gamma_of_drop(1) == pytest.approx(math.log(2))


def test_nothing_is_promised_of_what_is_no_weak_learner():
    assert printed_drop(0.1, 0.5, -0.1, 0.4) is None
    assert proved_drop(0.1, 0.5, 0.1, 0.0) is None


laws = st.lists(st.floats(1e-6, 1), min_size=4, max_size=4).map(lambda item: np.array(item) / sum(item))
outputs_ = st.lists(st.floats(-MOST_OUTPUT, MOST_OUTPUT), min_size=4, max_size=4).map(np.array)


@settings(max_examples=80, deadline=None)
@given(laws, laws, st.lists(outputs_, min_size=1, max_size=3), st.floats(0.01, 30))
def test_what_is_proved_holds_for_all_laws_and_classifiers(target, base, classifiers, epsilon):
    first = epsilon / (epsilon + 4 * math.log(2))
    results = check_theory(target, base, classifiers, [first**number for number in range(1, len(classifiers) + 1)])

    assert results.in_range
    assert results.below_most
    assert results.above_proved
    assert all(step.above_proved for step in results.steps)
    assert results.gain == pytest.approx(sum(step.drop for step in results.steps), abs=1e-9)


# --- MBDE, through the curator's own code -------------------------------------------------------------------


def test_what_is_learnt_is_in_the_mollifier_and_nearer_to_the_target():
    target = target_of("random-1d-1", 2)
    records = target.draw(500, np.random.default_rng(3))
    learnt = methods.learn(target.base, 100, records, Fraction(2), 1, Training(300, None))
    base = methods.base_masses(target.base, 100)
    theory = check_theory(target.masses(100, target.base), base, learnt.classifiers, learnt.thetas)

    assert learnt.masses.sum() == pytest.approx(1)
    assert np.abs(np.log(learnt.masses / base)).max() <= 1
    assert theory.furthest == pytest.approx(np.abs(np.log(learnt.masses / base)).max(), abs=1e-3)  # 2^-14 steps
    assert theory.gain > 0  # nearer than the base
    assert len(theory.steps) == 3


def test_equal_cells_are_trained_on_at_once_with_the_same_result():
    law = methods.base_law(Box((-4.0,), (4.0,)), 20)
    rng = np.random.default_rng(8)
    real, draws = rng.integers(10, 14, size=(300, 1)), rng.integers(0, 20, size=(200, 1))
    results = [
        weak_learners.train(
            law, real, draws, epochs=40, batch=batch, source=RandomWords(np.random.default_rng(1).bytes)
        )
        for batch in (None, 500)
    ]
    scores = [item.log_odds(np.arange(20)[:, None]) for item in results]

    # 40 passes in float32 round to 2^-24 each time; ten times less than what is learnt would still be the same.
    spread = np.ptp(scores[0])
    assert spread > 0.1
    assert scores[0] == pytest.approx(scores[1], abs=0.01 * spread)


# --- pictures and DPGAN -------------------------------------------------------------------------------------


@pytest.mark.parametrize("side", [32, 64, 160])
def test_a_picture_keeps_where_the_mass_is(side):
    masses = np.zeros((side, side))
    masses[: side // 4, side // 2 :] = 1.0
    picture = Picture.of(masses.ravel() / masses.sum(), Box((0.0, 0.0), (1.0, 1.0)))

    assert picture.peak == pytest.approx(8)
    assert picture.share[:16, 32:].min() == 1
    assert picture.share[16:].max() == 0
    assert len(picture.shades) < 200


def test_dpgan_is_measured_by_its_points(monkeypatch):
    target = target_of("ring", 1)
    asked = []

    def points(_family, task):
        asked.append(task)
        return target.draw(4000, np.random.default_rng(9))

    monkeypatch.setattr(study_cells, "rows_in_environment", points)
    monkeypatch.setitem(study_cells.CELLS, 2, 80)
    monkeypatch.setitem(methods.BINS, 2, 64)
    cell = study_cells.compute_cell(study_cells.Task("ring", "dpgan", "10", 1))
    (results,) = cell.variants

    assert (asked[0].epsilon, asked[0].delta, asked[0].train.shape) == (10.0, 0.1, (10_000, 2))
    asked[0].check()
    assert cell.entropy < results.nll < cell.entropy + 0.4
    assert results.coverage > 0.9


@pytest.mark.slow
def test_dpgan_trains_in_its_environment():
    target = target_of("ring", 1)
    try:
        points = gan_points(target.box, target.draw(2000, np.random.default_rng(1)), 10.0, 1)
    except PeerUnavailableError as error:
        pytest.skip(str(error))

    assert points.shape == (10_000, 2)
    assert target.box.contains(points).mean() > 0.5


# --- claims ---------------------------------------------------------------------------------------------------


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
    return {
        claim.says.split(",")[0]: (claim.verdict, claim.measured) for claim in claims_of(findings({"cells": cells}))
    }


def test_without_cells_nothing_is_claimed():
    nothing = Findings((), ())
    assert {claim.verdict for claim in claims_of(nothing)} == {"not measured"}
    shown = document(nothing)
    assert as_files(shown) == {}
    assert as_markdown(shown).count("**not measured**") == 10
    assert "<h1>" in as_page(shown)


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
    results = findings({"cells": cells})

    assert results.of("ring", "dpb")[1.0].nll.value == 2.5
    best = results.of("ring", BEST)[1.0]
    assert (best.variant, best.nll.value) == ("k 10, order 1, cut off", 2.25)
    assert best.nll.error == pytest.approx(1.5 / 2**0.5)


def test_verdicts_follow_the_measures():
    falling = [cell("mixture", "mbde", epsilon, 1000, nll) for epsilon, nll in (("0.1", 2.0), ("2", 1.1), ("10", 1.0))]
    flat = [
        cell("mixture", "dpb", epsilon, 1000, nll, 0.0) for epsilon, nll in (("0.1", 2.0), ("1", 0.5), ("10", 0.45))
    ]
    results = verdicts(falling + flat)

    assert results["The negative log-likelihood of MBDE falls as epsilon grows"][0] == "holds"
    assert results["It falls sharply below epsilon 2"][0] == "holds"
    assert results["On 1-D Gaussians DPB reaches a plateau beyond epsilon 1"][0] == "holds"
    assert results["Beyond epsilon 5 MBDE beats DPB there"][0] == "does not hold"
    rising = [*falling, cell("ring", "mbde", "1", 1000, 1.0), cell("ring", "mbde", "2", 1000, 1.1)]
    assert findings({"cells": rising}).of("ring", "mbde")
    assert verdicts(rising)["The negative log-likelihood of MBDE falls as epsilon grows"][0] == "in part"


def test_mode_coverage_and_deviations_are_judged_over_repeats():
    lines = [
        cell("random-1d-1", method, epsilon, seed, *nlls, coverage=covered)
        for epsilon, covered in (("0.1", 0.9), ("1", 0.7), ("10", 0.95))
        for seed, shift in ((1000, 0.0), (1001, 1.0))
        for method, nlls in (("mbde", (shift / 100,)), ("dpb", (2 * shift, 3 * shift)))
    ]
    results = verdicts(lines)

    verdict, measured = results["Mode coverage falls until epsilon is about 1"]
    assert verdict == "holds"
    assert (
        "coverage as printed is lowest at epsilon 1 on 1 domains; coverage of the densest region moves by" in measured
    )
    verdict, measured = results["MBDE's standard deviation is often 100 times smaller than DPB's"]
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


# --- what is written ------------------------------------------------------------------------------------------


def test_figures_are_whole_and_say_what_they_show():
    numbers = (("1", 1.2, 0.9), ("2", 1.0, 0.8))  # a chart of two equal numbers would be left out
    cells = [
        cell(domain, "mbde", epsilon, 1000, nll, coverage=coverage)
        for domain in ("ring", "random-1d-1")
        for epsilon, nll, coverage in numbers
    ]
    cells += [cell("ring", "dpb", "1", 1000, 2.0, 1.1), cell("ring", "dpgan", "10", 1000, 3.0)]
    shown = document(findings({"cells": cells}))
    draws = as_files(shown)

    assert set(draws) == {"figure1.svg", "figure4.svg", "figure5.svg", "figure6.svg", "figure7.svg"}
    trees = {name: ET.fromstring(text) for name, text in draws.items()}
    assert len(trees["figure1.svg"].findall(f".//{SVG}image")) == 4
    assert len(trees["figure4.svg"].findall(f".//{SVG}image")) == 5
    words = " ".join(trees["figure5.svg"].itertext())
    assert "ring: NLL in nats" in words
    assert "DPB at its best lattice" in words
    assert "http" not in draws["figure5.svg"].replace("http://www.w3.org/", "")
    text = as_markdown(shown)
    assert all(f"]({name})" in text for name in draws)

    page = as_page(shown)
    assert Outline(page).count("image") == 9
    policy = page[page.index("default-src") :].partition('"')[0]
    assert "img-src data:;" in policy
    assert policy.count("script") == policy.count("script-src 'sha256-") == 1  # our own
    without = replace(shown, sections=[section for section in shown.sections if section.title != "Figures"])
    assert "img-src" not in as_page(without)


def test_a_row_of_the_file_says_all():
    files = document(findings({"cells": [cell("ring", "mbde", "1", 1000, 1.25)]})).files
    text = csv_table(files["measures.csv"])

    assert text.splitlines()[1].startswith("ring,mbde,,1,1,1.250000,0.000000,1.000000,0.000000,0.900000")


def test_checks_are_added_up():
    cells = [cell("ring", "mbde", epsilon, seed, 1.2) for epsilon in ("1", "2") for seed in (1000, 1001)]
    first, second = findings({"cells": [*cells, cell("ring", "mbde", "2", 1002, 1.2)]}).checks
    total = Check.total((first, second))

    assert (first.densities, second.densities, total.densities) == (2, 3, 5)
    assert (total.steps, total.weak) == (first.steps + second.steps, first.weak + second.weak)
    assert total.gain == pytest.approx(first.gain)
    assert total.furthest == max(first.furthest, second.furthest)


def test_the_docs_tell_the_published_numbers():
    results = STUDY.read_findings(PUBLISHED)
    text = " ".join((DOCS / "explanation" / "integral-privacy.md").read_text(encoding="utf-8").split())
    verdicts = [claim.verdict for claim in claims_of(results)]
    total = Check.total(results.checks)
    assert (len(verdicts), verdicts.count("holds")) == (10, 2)
    assert [verdicts[place] for place in (3, 4, 6, 9)] == ["holds", "holds", "does not hold", "does not hold"]

    def repeats(domain, *methods):
        return min(row.nll.runs for row in results.rows if row.domain == domain and row.method in methods)

    of_lines = {repeats(f"random-1d-{modes}", "mbde", "dpb") for modes in range(2, 11)}
    assert len(of_lines) == 1
    prose = [
        (
            f"Of ten claims {verdicts.count('holds')} hold, {verdicts.count('in part')} in part and "
            f"{verdicts.count('does not hold')} do not"
        ),
        (
            f"of the ring {repeats('ring', 'mbde', 'dpb')}, with DPGAN {repeats('ring', 'dpgan')}, of the wide ring "
            f"{repeats('wide-ring', 'mbde', 'dpb')}, of random Gaussians in the plane "
            f"{repeats('random-2d', 'mbde', 'dpb')}, of the mixture {repeats('mixture', 'mbde', 'dpb')}, and of random "
            f"Gaussians on a line {repeats('random-1d-1', 'mbde', 'dpb')} of one and {of_lines.pop()} of more"
        ),
        f"Of {total.densities} densities {total.in_range} lie in the mollifier",
        f"is {total.furthest:.3f} of what it may be), and {total.below_most} gain at most epsilon / 2",
        f"Of {total.steps} classifiers {total.weak} are weak learners as in Definition 1, and {total.high_steps} are",
        f"{total.high} densities stay in it",
        f"is broken by {total.weak - total.above_printed} of the {total.weak}:",
        f"With it {total.above_proved} of {total.weak} keep it",
        f"is kept by {total.above_least} of the {total.high} densities",
        f"is kept by {total.above_least_proved} of {total.high}.",
    ]
    assert [sentence for sentence in prose if sentence not in text] == []


# --- the study ------------------------------------------------------------------------------------------------


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setattr(study_cells, "RECORDS", 200)
    monkeypatch.setattr(study_cells, "CELLS", {1: 40, 2: 16})
    monkeypatch.setattr(methods, "BINS", {1: 64, 2: 32})
    monkeypatch.setattr(study_cells, "LATTICES", {1: (5,), 2: (4,)})
    monkeypatch.setattr(methods, "TRAINING", dict.fromkeys((1, 2), methods.Training(3, None)))
    monkeypatch.setattr(methods, "ONE_BATCH", methods.Training(2, None))
    monkeypatch.setattr(methods, "EXAMPLES", 100)
    monkeypatch.setattr("lab.sample.study.BEYOND_EPSILONS", ("1", "20"))
    monkeypatch.setattr("expril.report.provenance.cores", lambda: 1)
    study_cells.records_of.cache_clear()


@pytest.mark.slow
def test_the_command_writes_its_report_and_goes_on(tiny, tmp_path, monkeypatch):
    asked = ["study", "sample", "--out", str(tmp_path), "--epsilon", "0.5,2", "--repeats", "1"]
    asked += ["--only", "domains=mixture,ring", "--only", "methods=mbde,dpb,dpb-beyond,mbde-one-batch"]
    prose = CliRunner().invoke(app, [*asked, "--json"])
    assert prose.exit_code == 0, prose.output
    printed = json.loads(prose.stdout)["found"]
    assert len(printed["claims"]) == 10
    folder = tmp_path / "sample"
    names = {path.name for path in folder.iterdir()}
    assert {MARKDOWN, PAGE, "cells.jsonl", "measures.csv", "theory.csv", FINDINGS, "provenance.json"} <= names
    assert {"figure1.svg", "figure4.svg", "figure5.svg"} <= names
    first = (folder / MARKDOWN).read_text()
    assert "expril-lab study sample" in first
    before = (folder / "cells.jsonl").read_bytes()

    shown = CliRunner().invoke(app, asked)
    assert shown.exit_code == 0, shown.output
    assert "report:" in shown.stdout
    assert (folder / MARKDOWN).read_text() == first
    assert (folder / "cells.jsonl").read_bytes() == before
    cells = STUDY.cells(folder)["cells"]
    assert {(c.problem, c.maker, c.epsilon) for c in cells} == {
        *(("mixture", method, epsilon) for method in ("mbde", "dpb") for epsilon in ("0.5", "2")),
        *(("ring", method, epsilon) for method in ("mbde", "mbde-one-batch", "dpb") for epsilon in ("0.5", "2")),
        ("ring", "dpb", "20"),
    }
    monkeypatch.setattr(study_cells, "RECORDS", 7)
    refused = CliRunner().invoke(app, asked)
    assert refused.exit_code == 2
    assert "begun with other settings" in refused.output

    theories = [c.theory for c in cells if c.theory is not None]
    assert all(item.in_range and item.below_most and item.above_proved for item in theories)
    assert json.loads((folder / FINDINGS).read_bytes()) == printed
    assert printed["found"]["pictures"] == []
    assert published(STUDY.read_findings(folder))["found"].rows


def test_the_whole_study_has_every_cell_once_and_goes_on_from_the_docs():
    order = Order(STUDY.full, STUDY.seed, Path(), "typed")
    due = tasks(order)

    assert len(due) == len(set(due)) == 746
    assert {task.problem for task in due if task.maker == "dpgan"} == {"ring"}
    assert {cell.key for cell in STUDY.cells(PUBLISHED)["cells"]} <= set(due)
    (part,) = STUDY.parts
    header = json.loads((PUBLISHED / "cells.jsonl").read_text(encoding="utf-8").partition("\n")[0])
    assert header == {"settings": {"experiment": "sample", **part.settings(order)}}
