"""Curators with one line changed, each of which an audit once let pass, or whose fault only some records show.

Right answerers keep their law; `test_mechanism.py` and the shipped audit hold that. Here every change must be called a
violation with fresh noise each time. Where draws tell, they do so at a rate of false alarms of 1e-9.
"""

from dataclasses import replace

import pytest

from curator_fakes import altered
from curator_node.kinds import ANSWERERS, holdout
from curator_node.kinds.samples import learning
from curator_node.kinds.statistics import quantiles
from curator_node.records import dataset
from expril.audit.attack.kinds import AUDITS, audit_kind
from mutants import changed

HOLDOUTS = {
    "comparison_noise_halved": (
        "planned.comparison_law, COMPARISON",
        "DiscreteLaplace(planned.comparison_law.scale / 2), COMPARISON",
    ),
    "no_noise_in_the_threshold": (
        "compared < running.threshold",
        "compared < planned.resolution * planned.threshold",
    ),
    "a_quarter_of_the_counts_noise": (
        "bound, planned.count_law, COUNTS",
        "bound, DiscreteLaplace(planned.count_law.scale / 4), COUNTS",
    ),
}
"""The line, and what stands there instead."""
PARTS = {
    "smooth_sensitivity_ignores_c": (
        "statistic/smooth",
        quantiles,
        "* most_records_per_unit * np.arange(1",
        "* np.arange(1",
    ),
    "smooth_decay_four_times_too_fast": (
        "statistic/smooth",
        quantiles,
        "factors = decay(beta)",
        "factors = decay(4 * beta)",
    ),
    "smooth_sensitivity_starts_at_0": (
        "statistic/smooth",
        quantiles,
        "np.arange(1, len(factors) + 1)",
        "np.arange(0, len(factors))",
    ),
    "medians_of_blocks_by_record": (
        "statistic/aggregate_median",
        dataset,
        "self._record_digests() if self._units is None else self._units",
        "self._record_digests()",
    ),
    "exponents_twice": (
        "sample",
        learning,
        "below * np.uint64(epsilon.numerator)",
        "below * np.uint64(2 * epsilon.numerator)",
    ),
}
"""Parts of answerers, as (what is audited, the module, the line, what stands there instead)."""
DRAWS = {"no_noise_in_the_threshold": 1_500, "smooth_sensitivity_starts_at_0": 45_000}
"""Draws of what is hardest to see, where fewer would miss it with a chance above 1e-6."""


def drawn_as_often(audited, draws):
    """What an auditor knows of the kinds, whose questions are drawn from as often as is said, however dear they are."""
    kind = audited.partition("/")[0]
    audit = AUDITS[kind]
    examples = {name: tuple(replace(each, draws=draws) for each in those) for name, those in audit.examples().items()}
    return {**AUDITS, kind: altered(audit, examples=lambda: examples)}


@pytest.mark.slow
@pytest.mark.parametrize("name", HOLDOUTS)
def test_a_broken_holdout_is_a_violation(name):
    broken = changed(holdout, *HOLDOUTS[name]).HOLDOUT
    result = audit_kind("holdout", draws=DRAWS.get(name, 1_000), answerers={**ANSWERERS, "holdout": broken})
    assert result.violation, result.verdict


@pytest.mark.slow
@pytest.mark.parametrize("name", PARTS)
def test_a_broken_part_of_an_answerer_is_a_violation(name, monkeypatch):
    audited, module, old, new = PARTS[name]
    broken = changed(module, old, new)
    if module is dataset:
        monkeypatch.setattr(dataset.PrivateDataset, "blocks", broken.PrivateDataset.blocks)
    else:
        for function in ("smooth_sensitivity", "keep"):
            if hasattr(module, function):
                monkeypatch.setattr(module, function, getattr(broken, function))
    draws = DRAWS.get(name, 10_000)
    result = audit_kind(audited, draws=draws, audits=drawn_as_often(audited, draws))
    assert result.violation, result.verdict
