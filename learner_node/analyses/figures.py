"""How every analysis shows its estimates: one hand for texts, forests and the differences between sites.

A part makes its rows with `forest_row` and a site's forest with `between_sites_blocks`. It is a module of its own so
that all parts' pages read alike: each line names its estimand, and what cannot be estimated says so.
"""

import math
from collections.abc import Callable, Iterator, Sequence

from expril.report.document import Block, Heading, Legend, Text
from expril.report.forest import (
    NOT_ESTIMABLE,
    ForestRow,
    Form,
    difference_text,
    forest_legend,
    forest_table,
    interval_text,
    p_text,
    ratio_text,
)
from expril.report.numbers import count
from learner_node.analyses.between_sites import FEWEST, SUM_ONLY, BetweenSites, Pooled, SiteEstimate
from learner_node.analyses.part import POPULATION, Estimand, Estimate
from learner_node.analyses.score_interval import Z

_FEW = 5
"""Sites up to which a random-effects interval is said to rest on few."""
RANDOM, FIXED = "all sites, random effects", "all sites, fixed effects"


def estimate_text(estimate: Estimate, *, log: bool = False) -> str:
    """A number, its interval, its p-value and its estimand: "1.42 (1.10 to 1.83), p 0.007, their population"."""
    form = ratio_text if log else difference_text
    number = interval_text(estimate.value, estimate.low, estimate.high, form)
    p = "" if estimate.p is None else f", p {p_text(estimate.p)}"
    return f"{number}{p}, {estimate.of}"


def p_words(p: float | None) -> str:
    """A p-value in a table of tests, as a forest has it, or "not estimable" without one."""
    return NOT_ESTIMABLE if p is None or math.isnan(p) else p_text(p)


def p_equation(p: float) -> str:
    """A p-value in a sentence: "p = 0.012", "p < 0.001"."""
    text = p_text(p)
    return f"p {text}" if text[0] in "<>" else f"p = {text}"


def forest_row(
    label: str, estimate: Estimate, *, form: Form = "single", note: str = "", more: Sequence[str] = ()
) -> ForestRow:
    """A forest's row of an estimate."""
    return ForestRow(
        label, estimate.value, estimate.low, estimate.high, estimate.of, estimate.p, form, note, tuple(more)
    )


def between_sites_blocks(
    estimates: Sequence[SiteEstimate],
    pooled: BetweenSites | None,
    *,
    measure: str,
    log: bool,
    of: Estimand = POPULATION,
    secure: bool = False,
    caption: str = "",
) -> Iterator[Block]:
    """A forest of sites, the pooled values, where a further site may lie, and how much sites differ.

    Args:
        estimates: each site's, on the scale on which they are pooled: logarithms of ratios, or differences.
        pooled: of these, None if they cannot be pooled.
        measure: of the page's scale: "odds ratio".
        log: whether the page's scale is the exponential of the estimates'.
        of: of whom the estimates speak.
        secure: whether only the sum over sites was opened.
        caption: of the table; by default made of the measure.
    """
    title = caption or f"{measure[:1].upper()}{measure[1:]} by site"
    if secure or not estimates:
        yield Text(SUM_ONLY if secure else "No site answered for itself.", "fine")
        return
    to: Callable[[float], float] = _exp if log else float
    rows = [_site_row(site, to, of) for site in estimates]
    if pooled is not None and len(estimates) > 1:
        rows.append(_pooled_row(FIXED, pooled.fixed, to, of))
        if pooled.random is not None:
            rows.append(_pooled_row(RANDOM, pooled.random, to, of))
        if pooled.prediction is not None:
            low, high = map(to, pooled.prediction)
            rows.append(ForestRow("a further site like these", None, low, high, of, form="range"))
    null = 1.0 if log else 0.0
    yield Heading(title)
    yield _legend(rows, null)
    yield forest_table(title, rows, measure=measure, null=null, log=log, first="site")
    yield Text(heterogeneity_words(estimates, pooled, log=log), "fine")


def heterogeneity_words(estimates: Sequence[SiteEstimate], pooled: BetweenSites | None, *, log: bool) -> str:
    """How much the sites' true values differ, in sentences."""
    if pooled is None:
        names = [site.site for site in estimates if not site.usable]
        return (
            f"Not pooled: {', '.join(names)} {'has' if len(names) == 1 else 'have'} no estimate, and leaving a site "
            "out because of its answer would bias the others’ mean."
        )
    if len(estimates) == 1:
        return "One site: nothing can be said of differences between sites."
    scale = " of the logarithm" if log else ""
    high = "∞" if math.isinf(pooled.tau_squared_high) else _small(pooled.tau_squared_high)
    words = (
        f"Beyond chance and the added noise, the {count(len(estimates), 'site')} differ by a variance{scale} (τ²) of "
        f"{_small(pooled.tau_squared)} ({_small(pooled.tau_squared_low)} to {high}), I² {100 * pooled.i_squared:.0f} "
        f"%; were there no noise, I² would be {100 * pooled.i_squared_exact:.0f} %. Test of no difference: p "
        f"{p_text(None if math.isnan(pooled.p) else pooled.p)}."
    )
    if len(estimates) <= _FEW:
        words += " So few sites say little of how much sites differ; the intervals allow for that."
    if len(estimates) < FEWEST:
        words += " Where a further site would lie, two cannot tell."
    return words


def _legend(rows: Sequence[ForestRow], null: float) -> Legend:
    return forest_legend(rows, f"no effect ({null:g})", "one site")


def _site_row(site: SiteEstimate, to: Callable[[float], float], of: Estimand) -> ForestRow:
    if site.value is None or not site.usable:
        return ForestRow(site.site, None, to(-math.inf), math.inf, of, form="part")
    reach = Z * math.sqrt(site.variance)
    ends = to(site.value - reach), to(site.value + reach)
    return ForestRow(site.site, to(site.value), *ends, of, form="part")


def _pooled_row(name: str, pooled: Pooled, to: Callable[[float], float], of: Estimand) -> ForestRow:
    return ForestRow(name, to(pooled.value), to(pooled.low), to(pooled.high), of, pooled.p, "whole")


def _exp(value: float) -> float:
    return math.exp(value) if value < 700 else math.inf


def _small(value: float) -> str:
    return difference_text(value) if value >= 0.001 else "0"
