"""One-line mutants of what is shipped: the audit of the kind calls each a violation, with few draws.

Each is a line of a curator's code as a slip would leave it. The whole class of slips is caught in one of three ways: by
the exact loss of the claimed law on a curator's exact quantities, by what a curator asks of its source of noise, and by
its draws, which do not have the claimed law.
"""

import inspect
import textwrap

import pytest

from curator_node.kinds import counts, model, newton, secure_counts, statistic
from curator_node.kinds.statistics import quantiles
from curator_node.records import dataset
from expril.audit.attack.controls.parts import QuickNoise
from expril.audit.attack.kinds import audit_kind
from expril.audit.attack.whole_audit import tasks_of
from protocol.kinds.models.method import Points

SURE = 1e-9
DRAWS = 1_000


def mutate(patch, function, line, mutant):
    """Replace a part of a function's source, wherever the function has been handed to."""
    source = textwrap.dedent(inspect.getsource(function))
    assert source.count(line) == 1, (function, line)
    scope = dict(vars(inspect.getmodule(function)))
    exec(compile(source.replace(line, mutant), inspect.getfile(function), "exec"), scope)
    patch.setattr(function, "__code__", scope[function.__name__].__code__)


def features_scores_x2(patch):
    mutate(patch, statistic.class_scores, ".max(axis=1).sum()", ".max(axis=1).sum() * 2")


def quantile_scores_x2(patch):
    mutate(patch, quantiles.rank_scores, "-np.maximum(0, np", "-2 * np.maximum(0, np")


def blocks_by_record(patch):
    line = "self._record_digests() if self._units is None else self._units"
    mutate(patch, dataset.PrivateDataset.blocks, line, "self._record_digests()")


def bayes_missing_x2(patch):
    mutate(patch, model._moments, "float(steps**2)", "float(2 * steps**2)")


def points_not_shrunk(patch):
    line = "np.maximum(lengths, STEPS)[:, None]"
    mutate(patch, Points.rows, line, "np.full(len(lengths), float(STEPS))[:, None]")


def unit_bound_forgotten(patch):
    mutate(patch, dataset.bounded_rows, "key=ranks.__getitem__)[:most]", "key=ranks.__getitem__)")


def secure_share_of_h_plus_1(patch):
    mutate(patch, secure_counts._masked, "planned.law, planned.shares", "planned.law, planned.shares + 1")


def k_means_exact_centres(patch):
    mutate(patch, model._k_means, "next_centres(centres, noisy)", "next_centres(centres, sums)")


def newton_tolerance_loose(patch):
    patch.setattr(newton, "STOP", 40.0)


def counts_of_another_scale(patch):
    line = "exact.ravel(), l1, planned.law"
    mutate(patch, counts.answer, line, "exact.ravel(), l1, type(planned.law)(planned.law.scale * 3 / 4)")


MUTANTS = {
    features_scores_x2: "statistic/features",
    quantile_scores_x2: "statistic/quantile",
    blocks_by_record: "statistic/aggregate",
    bayes_missing_x2: "model/naive_bayes",
    points_not_shrunk: "model/principal_components",
    unit_bound_forgotten: "counts/mass",
    secure_share_of_h_plus_1: "secure_counts",
    k_means_exact_centres: "model/k_means",
    newton_tolerance_loose: "model/logistic_regression",
    counts_of_another_scale: "counts/class_counts",
}


@pytest.mark.parametrize(
    "mutant",
    [
        mutant if mutant is counts_of_another_scale else pytest.param(mutant, marks=pytest.mark.slow)
        for mutant in MUTANTS
        if mutant is not newton_tolerance_loose
    ],
    ids=lambda mutant: mutant.__name__,
)
def test_a_first_look_calls_it_a_violation(mutant, monkeypatch):
    """By what no draw decides: exact losses, exact numbers, and what is asked of the source of noise.

    A solver that stops too early is left to the default audit, which tries crowds of records of every size.
    """
    (task,) = [task for task in tasks_of(draws=100_000, quick=True) if task.maker == MUTANTS[mutant]]
    mutant(monkeypatch)
    result, *_ = task.work()
    assert result.violation, result


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_mutant_is_called_a_violation(mutant, monkeypatch):
    mutant(monkeypatch)
    result = audit_kind(MUTANTS[mutant], draws=DRAWS, error_rate=SURE, noise=QuickNoise)
    assert result.violation, result
