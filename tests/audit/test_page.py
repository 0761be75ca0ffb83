"""The page and the JSON of an audit: what leads, what is drawn where, what a hostile text can do, a real browser."""

import json
import math
import shutil
import subprocess

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit_results import HOSTILE, attack, audit, blog, check, control, kind, laplace, spread, study
from expril.audit import document as words
from expril.audit.attack import mirror_plot as pictures
from expril.audit.document import SpentRow, audit_document
from expril.audit.results import AuditResult, Spread, as_object, decode_result, read_result, write_result
from expril.report.page import as_page
from page_outline import Outline
from protocol.errors import ConfigurationError


def build_page(result, **rest):
    return as_page(audit_document(result, **rest))


BAD = {
    "gave away more": {"kinds": (kind(), kind("counts/new", violation=True, bound=0.5))},
    "gained more": {"studies": (study(gain=0.9, holds=False),)},
    "less than theory gives": {"studies": (study(reaches=False),)},
    "a check failed": {"checks": (check(passed=False),)},
    "proves nothing": {"controls": (control(caught=False, bound=0.2),)},
}


def test_the_answer_comes_first():
    html = build_page(audit(), created="2026-11-22T14:50:00+00:00")
    outline = Outline(html)
    assert outline.text.index(words.headline(audit())) < outline.text.index("What each release gives away")
    assert "banner" not in [attrs.get("class") for _, attrs in outline.elements]
    for text in ("100,000 times", "3 were caught", "at most 5 of 100", "opendp 0.14.1", "expril audit all"):
        assert text in outline.text


@pytest.mark.parametrize("said", BAD)
def test_what_went_wrong_is_the_headline_and_the_banner(said):
    result = audit(**BAD[said])
    assert not result.passed
    outline = Outline(build_page(result))
    assert said in words.headline(result)
    assert "banner" in [attrs.get("class") for _, attrs in outline.elements]


def test_an_audit_of_nothing_does_not_say_that_all_is_well():
    assert "nothing is said" in words.headline(AuditResult())
    Outline(build_page(AuditResult()))


def test_every_kind_control_check_and_study_is_on_the_page():
    result = audit(checks=(check(), check(passed=False)))
    text = Outline(build_page(result, spent=[SpentRow("north", "each record", "1", "1", "It adds up.", False)])).text
    for row in result.kinds:
        assert row.kind in text
        assert row.verdict in text
    for row in result.controls:
        assert row.name.replace("_", " ") in text
        assert row.fault in text
    for row in result.studies:
        assert row.verdict in text
    parts = "It adds up.|FAILED|caught|holds|0.3333 (1/3)|0.5400|0.7098|suppressed counts"
    assert all(part in text for part in parts.split("|"))


def test_the_paper_s_mechanism_leads_the_controls_and_missed_ones_lead_it():
    names = [row.name for row in words.in_order(audit().controls)]
    assert names[0] == "paper_ratio_1"
    missed = control("clock", caught=False)
    assert words.in_order((*audit().controls, missed))[0] == missed


def test_the_paper_s_figure_is_its_law():
    law = pictures.paper_law()
    inside = [sum(law.first), sum(law.second)]
    rng = np.random.default_rng(1)
    for n, share in zip((1, 2), inside, strict=True):
        ratios = (rng.laplace(0, pictures.SCALE, 400_000) + 1) / n
        share_inside = ((ratios > 0) & (ratios < 1)).mean()
        assert abs(share_inside - share) < 6.2 * (share * (1 - share) / 400_000) ** 0.5  # false alarm below 1e-9
    loss = max(abs(math.log(a / b)) for a, b in zip(law.first, law.second, strict=True))
    assert loss == pytest.approx(math.log(2) + 1 / 60, abs=0.002)  # ln(1 + 1/n) + n / ((n + 1) l) at n = 1, l = 30
    assert "where a claim of 1/30 allows 1.03 times" in pictures.paper_words()


def test_bars_that_hide_all_others_are_cut():
    hiding = Spread("x", (0.0, 1.0, 2.0, 3.0), (0.9, 0.01, 0.01, 0.08), (0.9, 0.02, 0.02, 0.06))
    assert pictures.mirror(hiding).axis.endswith("(the tallest bars are cut)")
    assert pictures.mirror(spread()).axis == "released count"


def test_a_bar_of_several_numbers_is_in_the_event_only_as_a_whole():
    wide = Spread("x", (5.0, 15.0, 25.0), (0.5, 0.1, 0.4), (0.4, 0.2, 0.4), (1.0, 29.0))
    assert pictures.mirror(wide).above_event.count("M") == 1


def test_the_page_runs_nothing_and_loads_nothing():
    html = build_page(audit())
    outline = Outline(html)
    assert not {"script", "img", "link", "iframe", "object"} & {tag for tag, _ in outline.elements}
    policy = next(attrs["content"] for tag, attrs in outline.elements if attrs.get("http-equiv"))
    assert "default-src 'none'" in policy
    assert "script-src" not in policy
    assert "url(" not in html
    assert "http" not in html.replace("http-equiv", "")


def test_texts_of_a_mechanism_are_shown_and_never_obeyed():
    hostile = audit(
        kinds=(
            kind(
                HOSTILE, neighbours=HOSTILE, event=HOSTILE, spread=Spread(HOSTILE, (0.0, 1.0), (0.5, 0.5), (0.4, 0.6))
            ),
        ),
        controls=(control(HOSTILE, truth=HOSTILE, neighbours=HOSTILE),),
        checks=(msgspec.structs.replace(check(), name=HOSTILE, finding=HOSTILE, question=HOSTILE, power=HOSTILE),),
        studies=(study(HOSTILE), study(HOSTILE, "none", target=HOSTILE)),
        blog=msgspec.structs.replace(blog(), spreads={HOSTILE: spread()}),
        versions={HOSTILE: HOSTILE},
    )
    html = build_page(
        hostile, spent=[SpentRow(*([HOSTILE] * 5), True)], command=HOSTILE, created="2026-11-22T14:50:00+00:00"
    )
    assert "<script" not in html
    assert Outline(html).text.count("alert(") > 12


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40, unique=True).map(sorted),
    st.one_of(st.none(), st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))),
    st.randoms(use_true_random=False),
)
def test_any_distribution_can_be_drawn(values, event, random):
    heights = [tuple(random.random() / len(values) for _ in values) for _ in range(2)]
    picture = pictures.mirror(Spread("x", tuple(values), *heights, event))
    assert picture.above.startswith("M")
    numbers = [
        float(part)
        for path in (picture.above, picture.below)
        for part in path.replace("Z", "").split("V")[1::2]
        if "H" not in part
    ]
    assert all(0 <= number <= 100 for number in numbers)


def test_an_event_far_out_is_in_the_picture():
    places = tuple(float(n) for n in range(-100, 101))
    far = Spread("x", places, laplace(1, 3, places), laplace(0, 3, places), (90.0, math.inf))
    assert pictures.mirror(far).above_event
    near = msgspec.structs.replace(far, event=(1.0, math.inf))
    assert len(pictures.mirror(near).above) < len(pictures.mirror(far).above)


def test_bounds_stand_in_units_of_their_claim():
    strip = words.share_strip(kind())
    (exactly, proven), ((claimed, _),) = strip.dots, strip.marks
    assert exactly[1] == pytest.approx(claimed)
    assert proven[1] < claimed < words.share_strip(kind(bound=0.4)).dots[1][1]
    axis = words.ratio_axis([attack(bound=3.0), attack(bound=0.1)])
    assert [tick.label for tick in axis.ticks] == ["1 ×", "10 ×"]
    ((_, least, _, _),) = words.ratio_strip(axis, control(bound=0.0)).dots
    assert axis.at(least) == axis.at(axis.low)


def test_a_kind_that_could_not_be_audited_is_shown():
    nothing = kind(violation=True, claimed="0", bound=0.0, exact=None, spread=None)
    assert "VIOLATION" in Outline(build_page(audit(kinds=(nothing,)))).text
    assert words.of_claim("0", 0.1) == math.inf


# For machines


def test_the_json_is_what_a_gate_needs():
    fields = as_object(audit(), created="now")
    assert {"kind", "claimed", "lower_bound", "exact", "violation"} <= fields["kinds"][0].keys()
    assert {"name", "caught"} <= fields["controls"][0].keys()
    assert (fields["kinds"][0]["claimed"], fields["kinds"][0]["lower_bound"]) == ("1/3", 0.31)
    assert fields["passed"] is True
    brief = as_object(audit(), pictures=False)
    assert "spread" not in json.dumps(brief)
    json.dumps(brief, allow_nan=False)


@pytest.mark.parametrize("result", [audit(), AuditResult(), audit(**BAD["gave away more"])])
def test_an_audit_is_read_back_as_it_was_written(result, tmp_path):
    write_result(result, tmp_path / "audit.json", created="now")
    assert read_result(tmp_path / "audit.json") == (result, "now")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda fields: fields.update(passed=False), "does not follow"),
        (lambda fields: fields["kinds"][0].update(lower_bound=0.1), "two things of lower_bound"),
        (lambda fields: fields.update(format="expril audit 9"), "format"),
        (lambda fields: fields["checks"][0].pop("found"), "found"),
        (lambda fields: fields.pop("kinds"), "kinds"),
    ],
)
def test_a_changed_result_is_refused(change, said):
    fields = as_object(audit())
    change(fields)
    with pytest.raises(ConfigurationError, match=said):
        decode_result(json.dumps(fields).encode())


@pytest.mark.parametrize("data", [b"", b"[]", b"7", b"{", b'"x"', b"[" * 100_000])
def test_what_is_no_result_is_refused(data):
    with pytest.raises(ConfigurationError):
        decode_result(data)


# In a browser

FLAGS = "--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --enable-logging=stderr --v=0"


@pytest.mark.slow
@pytest.mark.browser
def test_the_page_lives_in_a_real_browser_and_is_no_wider_than_a_phone(tmp_path):
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        pytest.skip("install chromium: no chromium, chromium-browser or google-chrome on PATH")
    from PIL import Image

    html = build_page(audit(kinds=(kind(HOSTILE), kind("counts/" + "x" * 80))), command="expril audit all")
    page, picture = tmp_path / "page.html", tmp_path / "page.png"
    page.write_text(html, encoding="utf-8")
    flags = [*FLAGS.split(), f"--user-data-dir={tmp_path / 'profile'}", "--window-size=500,3000"]
    command = [browser, *flags, f"--screenshot={picture}"]
    process = subprocess.run([*command, page.as_uri()], capture_output=True, check=True, timeout=90)
    assert b"CONSOLE" not in process.stderr
    with Image.open(picture) as image:
        assert image.size == (500, 3000)
        assert len(image.convert("RGB").getcolors(maxcolors=1 << 22)) > 100
