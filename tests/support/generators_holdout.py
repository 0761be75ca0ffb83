"""Hypothesis strategies for questions to a holdout."""

from fractions import Fraction

from hypothesis import strategies as st

from protocol.codec import encode
from protocol.kinds.holdout import HoldoutBody, HoldoutRelease, PlannedHoldout
from protocol.rationals import Rational

small = st.sampled_from([1, 2, 3, 4, 10])


@st.composite
def planned_holdouts(draw, *, turns=None):
    """Plans of one to five turns, of any scales, and of any range of accuracies that may be stated."""
    asked = draw(st.integers(1, 5)) if turns is None else turns
    resolution = draw(st.sampled_from([1, 2, 7, 100, 2**20]))
    least, most = sorted(draw(st.tuples(st.integers(0, resolution), st.integers(0, resolution))))
    least, most = draw(st.sampled_from([(0, None), (least, most), (least, None)]))
    return PlannedHoldout(
        turns=asked,
        answers=draw(st.integers(1, asked)),
        resolution=resolution,
        threshold=draw(st.sampled_from([0, 1, 5, 2**32])),
        threshold_scale=Rational.of(Fraction(resolution * draw(small), draw(small))),
        comparison_scale=Rational.of(Fraction(resolution * draw(small), draw(small))),
        count_scale=Rational.of(Fraction(draw(small), draw(small))),
        least_estimate=least,
        most_estimate=most,
    )


def holdout_bodies_of(hypotheses, planned):
    """Bodies with any stated accuracy of the plan's range, its ends among them."""
    estimates = st.one_of(st.sampled_from(planned.estimates), st.integers(*planned.estimates))
    return st.builds(HoldoutBody, hypothesis=hypotheses, estimate=estimates)


counts = st.one_of(st.sampled_from([0, -1, 2**62, -(2**62)]), st.integers(-(2**62), 2**62))
holdout_releases = st.builds(
    HoldoutRelease, instance=st.integers(1, 100_000), counts=st.one_of(st.none(), st.tuples(counts, counts))
)


@st.composite
def holdout_queries_of(draw, hypotheses):
    """(planned query of one turn, encoded body)."""
    planned = draw(planned_holdouts(turns=1))
    return planned, encode(draw(holdout_bodies_of(hypotheses, planned)))
