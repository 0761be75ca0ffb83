"""The `holdout` query: a learner may ask many times how good hypotheses are, and pays anew only after a wrong guess.

The learner states the accuracy that it expects, p / r. For each record, r - p counts if the hypothesis is correct, and
-p otherwise; the curator's sum of these is the whole number S. It compares |S| plus fresh noise with a noisy threshold.
If it is below, the answer is "close". Otherwise the curator releases the numbers of errors and of correct records with
fresh noise, and the instance ends. This is Thresholdout (Dwork, Feldman, Hardt, Pitassi, Reingold and Roth 2015, "The
reusable holdout", Science 349) as a sparse-vector mechanism on whole numbers, without ratios or the number of records.

Cost of an instance, for a unit of at most c records, each of which moves S by at most s = max(p_high, r - p_low), where
the plan states that p lies between p_low and p_high (0 and r unless it says so):

    s c / threshold_scale + 2 s c / comparison_scale + c / count_scale

The first two terms are the cost of AboveThreshold (Dwork and Roth 2014, Algorithm 1; Lyu, Su and Li 2017, Algorithm 1).
The last is the Laplace mechanism's for two counts, since each record is in only one. docs/explanation/holdout.md has
the proof.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.codec import decode
from protocol.errors import RemoteProtocolError
from protocol.hypotheses import Hypothesis
from protocol.limits import ASSUMED_ROUND_SIZE, CALL_ONCE, Positive
from protocol.noise import DiscreteLaplace
from protocol.odds import MISSES, OFTEN, Odds, PrivacyUnit
from protocol.plans import MOST_TURNS, Planned
from protocol.query_kind import KindTerms, Past, QueryKind, Question, Turn
from protocol.rationals import MOST, Rational
from protocol.refusals import RefusalCode

MOST_RESOLUTION = 2**20
"""Largest r of a stated accuracy p / r; with 2^40 records a sum stays far below 2^63."""
MOST_THRESHOLD = 2**32
MOST_COUNT = 2**62
CLASSES = 2

RECORD_COST = 60
"""Work per record of comparing prediction and label, and of counting."""
QUERY_ONCE = 1_000 * CALL_ONCE
"""Work per question of signatures, the ledger's two writes and the codec: two milliseconds."""
NOISE_ONCE = 10_000_000
"""Work per question of four numbers of exact noise in three calls: a millisecond."""
PAST_ONCE = 500_000
"""Work per earlier turn, whose release is read for the charge: 50 microseconds."""
RELEASE_BYTES = 48
STATE_BYTES = 64

Resolution = Annotated[int, msgspec.Meta(ge=1, le=MOST_RESOLUTION)]
Numerator = Annotated[int, msgspec.Meta(ge=0, le=MOST_RESOLUTION)]
Turns = Annotated[int, msgspec.Meta(ge=1, le=MOST_TURNS)]
Count = Annotated[int, msgspec.Meta(ge=-MOST_COUNT, le=MOST_COUNT)]


class PlannedHoldout(Planned, frozen=True, tag="holdout", kw_only=True):
    """Future questions to a holdout, with the settings that their cost depends on."""

    turns: Turns = 1  # most questions
    # B, instances: so many questions are answered by counts; after the last of them nothing can be asked
    answers: Turns
    resolution: Resolution  # r; a stated accuracy is p / r with a whole p
    # T, in records: the answer is "close" where the correct records are about fewer than T from those that were stated,
    # on either side
    threshold: Annotated[int, msgspec.Meta(ge=0, le=MOST_THRESHOLD)]
    threshold_scale: Rational  # of the threshold's noise, drawn once an instance, in steps of 1 / r record
    comparison_scale: Rational  # of the noise in each comparison, in steps of 1 / r record
    count_scale: Rational  # of the noise in each of the two counts that end an instance, in records
    # p_low and p_high: every p that is asked lies between; the nearer both are to r / 2, the less a record moves S
    least_estimate: Numerator = 0
    most_estimate: Numerator | None = None  # None: r

    @property
    def threshold_law(self) -> DiscreteLaplace:
        """Law of the noise in a threshold, in units of 1 / r record."""
        return DiscreteLaplace(self.threshold_scale.fraction)

    @property
    def comparison_law(self) -> DiscreteLaplace:
        """Law of the noise in a comparison, in units of 1 / r record."""
        return DiscreteLaplace(self.comparison_scale.fraction)

    @property
    def count_law(self) -> DiscreteLaplace:
        """Law of the noise in each released count, in records."""
        return DiscreteLaplace(self.count_scale.fraction)

    @property
    def estimates(self) -> tuple[int, int]:
        """(p_low, p_high), the least and the largest numerator that may be stated."""
        return self.least_estimate, self.resolution if self.most_estimate is None else self.most_estimate

    @property
    def most_moved(self) -> int:
        """Largest change of S by a record, max(p_high, r - p_low): at least r / 2, at most r.

        A correct record adds r - p to S, any other adds -p, and p_low <= p <= p_high.
        """
        least, most = self.estimates
        return max(most, self.resolution - least)

    def sensitivity(self, most_records_per_unit: int) -> int:
        """Largest change of S or of |S| by a unit of c records, for any accuracy that may be stated: c `most_moved`."""
        return self.most_moved * most_records_per_unit

    def instance_loss(self, moved: int, counted: int) -> Fraction:
        """Exact epsilon of an instance if S moves by at most `moved`, and the two counts by `counted` in L1."""
        return self.threshold_law.loss(moved) + self.comparison_law.loss(2 * moved) + self.count_law.loss(counted)

    def instance_cost(self, most_records_per_unit: int) -> Fraction:
        """Exact epsilon of one instance: its threshold, all comparisons, and the two final counts."""
        return self.instance_loss(self.sensitivity(most_records_per_unit), most_records_per_unit)


class HoldoutLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A curator's limits on a holdout."""

    turns: Turns = 10_000  # most questions of one
    parameters: Positive = 2_000_000  # most parameters of a hypothesis


class HoldoutBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One question."""

    hypothesis: Hypothesis  # whose correct records are counted
    estimate: Numerator  # p in 0 .. r: the asker expects a share of p / r of the records to be correct.


class HoldoutRelease(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A curator's answer to one question."""

    instance: Turns  # the running one, from 1; it follows from the answers before
    counts: tuple[Count, Count] | None  # noisy (errors, correct), which end the instance; None is "close"

    @property
    def close(self) -> bool:
        """Whether the stated accuracy was close, so that the instance goes on."""
        return self.counts is None


class Holdout(QueryKind):
    """Query kind that tests stated accuracies, and releases counts if they are wrong."""

    name = "holdout"
    reveals = (
        "whether hypotheses are as good as was expected, and of those that are not, how many records they get right"
    )
    planned = PlannedHoldout
    limits = HoldoutLimits
    state_bytes = STATE_BYTES

    def check_planned(self, planned: PlannedHoldout) -> None:
        """Raise RemoteProtocolError(BAD_PLAN): more answers than questions, or no range of stated accuracies."""
        if planned.answers > planned.turns:
            limit = f"at most the {planned.turns} turns"
            raise RemoteProtocolError(RefusalCode.BAD_PLAN, "plan.queries.answers", limit)
        least, most = planned.estimates
        if not least <= most <= planned.resolution:
            limit = f"least_estimate to {planned.resolution}"
            raise RemoteProtocolError(RefusalCode.BAD_PLAN, "plan.queries.most_estimate", limit)

    def check_allowed(self, planned: PlannedHoldout, terms: KindTerms, field: str) -> None:
        """Raise RemoteProtocolError (BAD_PLAN, OVER_LIMIT) if a curator would refuse the query."""
        schema, limits = terms.schema, terms.limits
        if schema.label_bounds is not None or len(schema.classes) != CLASSES:
            raise RemoteProtocolError(RefusalCode.BAD_PLAN, f"{field}.kind", "holdout needs a label of two classes")
        if planned.turns > limits.turns:
            raise RemoteProtocolError(RefusalCode.OVER_LIMIT, f"{field}.turns", f"at most {limits.turns} turns")

    def cost(self, planned: PlannedHoldout, most_records_per_unit: int) -> Fraction:
        """Exact epsilon of all instances together, by basic composition; adaptive questions cost no more.

        Raises RemoteProtocolError(BAD_PLAN): the cost needs more than 32 bits.
        """
        value = planned.answers * planned.instance_cost(most_records_per_unit)
        if value.numerator > MOST or value.denominator > MOST:
            raise RemoteProtocolError(RefusalCode.BAD_PLAN, "plan.queries", "scales of a cost of at most 32 bits")
        return value

    def charge(self, turn: Turn, past: Sequence[Past], most_records_per_unit: int) -> Fraction:
        """An instance's whole cost in the turn that begins it; 0 in its other turns, and after the last instance."""
        if not begins(turn, past) or ended(turn, past) >= turn.planned.answers:
            return Fraction(0)
        cost: Fraction = turn.planned.instance_cost(most_records_per_unit)
        return cost

    def odds(self, planned: PlannedHoldout, unit: PrivacyUnit, readers: int | None) -> Odds:
        """Bound for a changed record, which may become correct or wrong, and so moves S by r, whatever p is.

        A unit's records add between -p c and (r - p) c to S, whatever they are, so no change moves it by more than r c.
        A record's presence moves S by as much only where p may be 0 or r. The change lowers one count and raises the
        other, which doubles the bound for the counts. `readers` plays no part: each record is counted, whatever a
        hypothesis reads.
        """
        presence, bound = self.cost(planned, unit.records), unit.records
        changed = planned.answers * planned.instance_loss(planned.resolution * bound, 2 * bound)
        return Odds(presence, changed, changed)

    def precision(self, planned: PlannedHoldout, unit: PrivacyUnit) -> str:
        """The precision of comparisons and of the final counts, in words."""
        close = float(Fraction(planned.comparison_law.width(MISSES), planned.resolution))
        counted = planned.count_law.width(MISSES)
        scales = ", ".join(
            str(scale.fraction) for scale in (planned.threshold_scale, planned.comparison_scale, planned.count_scale)
        )
        least, most = planned.estimates
        extent = (
            f" (expected are {least} to {most} of {planned.resolution})" if most - least < planned.resolution else ""
        )
        return (
            f"whether each of at most {planned.turns} models gets {planned.threshold} records more or less right than "
            f"was expected, each comparison right within {close:.3g} records in {OFTEN}, but for one error that it "
            f"shares with others{extent}; and at most {planned.answers} times how many records a model gets right and "
            f"wrong, each number right within {counted} records in {OFTEN}; scales {scales}, the "
            f"first two in steps of 1/{planned.resolution}"
        )

    def read_body(self, data: bytes, turn: Turn, terms: KindTerms) -> HoldoutBody:
        """Decode and check a question.

        Raises:
            RemoteProtocolError: MALFORMED; OVER_LIMIT; or BAD_QUERY, if the stated accuracy is outside the planned
                range or the hypothesis breaks a rule.
        """
        body = decode(data, HoldoutBody, field="body")
        least, most = turn.planned.estimates
        if not least <= body.estimate <= most:
            raise RemoteProtocolError(RefusalCode.BAD_QUERY, "body.estimate", f"{least} to {most}")
        if body.hypothesis.parameter_count() > terms.limits.parameters:
            limit = f"at most {terms.limits.parameters} parameters"
            raise RemoteProtocolError(RefusalCode.OVER_LIMIT, "body.hypothesis", limit)
        body.hypothesis.check(terms.schema, "body.hypothesis")
        return body

    def work(self, question: Question, round_size: int | None) -> int:
        """Work of a question from its bytes to the stored reply, in the unit of `protocol.limits`."""
        hypothesis: Hypothesis = question.body.hypothesis
        per_record = RECORD_COST + hypothesis.multiply_adds()
        once = QUERY_ONCE + NOISE_ONCE + PAST_ONCE * question.turn.number + hypothesis.multiply_adds_once()
        return once + per_record * (round_size or ASSUMED_ROUND_SIZE)

    def release_bytes(self, question: Question) -> int:
        """Most bytes of a release; the same for every question."""
        return RELEASE_BYTES

    def read_release(self, data: bytes, question: Question) -> NDArray[np.int64]:
        """The numbers (instance, 1 if counts were released, errors, correct); the last three are 0 for "close"."""
        release = release_of(data, question.turn.planned)
        return np.array([release.instance, not release.close, *(release.counts or (0, 0))], np.int64)

    def release_note(self, release: bytes, question: Question) -> str:
        """The note that an instance ended; "" if it goes on."""
        try:
            answer = decode(release, HoldoutRelease)
        except RemoteProtocolError:
            return ""
        return "" if answer.close else self.end_note(question.turn.planned, answer.instance)

    def end_note(self, planned: PlannedHoldout, instance: int) -> str:
        """The note on the answer that ends an instance, which counts from 1."""
        return f"instance {instance} of {planned.answers} ended"


HOLDOUT = Holdout()


def release_of(data: bytes, planned: PlannedHoldout) -> HoldoutRelease:
    """Decode a release. Raises RemoteProtocolError(MALFORMED): it is not one, or it is of no planned instance."""
    release = decode(data, HoldoutRelease, field="release")
    if release.instance > planned.answers:
        raise RemoteProtocolError(RefusalCode.MALFORMED, "release.instance", f"at most {planned.answers}")
    return release


def ended(turn: Turn, past: Sequence[Past]) -> int:
    """Number of instances of a turn's query that ended before this turn."""
    releases = (decode(item.release, HoldoutRelease) for item in past if item.turn.query == turn.query)
    return sum(not release.close for release in releases)


def begins(turn: Turn, past: Sequence[Past]) -> bool:
    """Whether a turn begins an instance: it is the query's first turn, or the turn before it released counts."""
    if turn.number == 0:
        return True
    last = max((item for item in past if item.turn.query == turn.query), key=lambda item: item.turn.number)
    return not decode(last.release, HoldoutRelease).close
