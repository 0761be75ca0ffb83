"""Records and answers of a regression, made by hand: exact counts and simulated noise."""

from fractions import Fraction

import numpy as np
from scipy.stats import norm

from learner_node.analyses.noise_law import NoiseLaw
from learner_node.analyses.noisy_table import Axis, NoisyTable, TableAnswers


def codes(levels, records, correlation, generator):
    """Cells (n, d) of covariates: a Gaussian copula cut so that cells are even."""
    common = np.sqrt(correlation) * generator.standard_normal((records, 1))
    latent = common + np.sqrt(1 - correlation) * generator.standard_normal((records, len(levels)))
    cuts = [norm.ppf(np.arange(1, count) / count) for count in levels]
    return np.stack([np.searchsorted(cut, latent[:, index]) for index, cut in enumerate(cuts)], axis=1)


def table_of(question, schema, columns, law, generator, most=1):
    """The answer to a question; `columns` are cells by variable, all of the records."""
    axes = tuple(Axis.of(bins, schema) for bins in question.factors)
    chosen = np.ones(len(next(iter(columns.values()))), bool)
    for condition in question.within:
        chosen &= np.isin(columns[condition.bins.attribute], condition.cells)
    values = np.zeros(tuple(map(len, axes)))
    np.add.at(values, tuple(columns[axis.variable][chosen] for axis in axes), 1.0)
    return NoisyTable(axes, values + law.simulate(generator, values.shape), law, most)


def answers_of(part, schema, sites, epsilon, generator, *, draws=1.0, secure=False, most=1):
    """Answers to a part by sites' columns; epsilon None is no noise. `draws` of each site's, or of the secure sum."""
    questions = part.questions(schema)
    scale = 0.0 if epsilon is None else most * len(questions) / epsilon
    claimed = Fraction(1) if epsilon is None else Fraction(epsilon).limit_denominator(100)
    if secure:
        whole = {name: np.concatenate([columns[name] for columns in sites]) for name in sites[0]}
        pooled = [table_of(q, schema, whole, NoiseLaw(scale, draws), generator, most) for q in questions]
        return TableAnswers(schema, claimed, pooled, {}, secure=True)
    tables = [[table_of(q, schema, columns, NoiseLaw(scale), generator, most) for q in questions] for columns in sites]
    pooled = list(tables[0])
    for others in tables[1:]:
        pooled = [table.plus(other) for table, other in zip(pooled, others, strict=True)]
    return TableAnswers(schema, claimed, pooled, {f"site{i}": t for i, t in enumerate(tables)})
