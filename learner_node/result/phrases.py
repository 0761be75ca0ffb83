"""Phrases for readers at a hospital: what is protected, how far odds may change, what is left, lists of names.

Pages of deployed studies and of simulations say the same things with them. Nobody needs to know the word epsilon to
understand them, and each is right by itself.
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from expril.report.numbers import decimal, plain_number
from protocol.odds import Odds
from protocol.rationals import written

QUESTIONS = (
    "What was asked, and of whom?",
    "How good is it?",
    "For whom is it wrong?",
    "What did one patient give away, at worst?",
    "Should we join, what did it cost, and what is left?",
)
"""Questions of whoever decides."""
QUESTIONS_OF_ANALYSES = (
    QUESTIONS[0],
    "How sure are its numbers?",
    *QUESTIONS[3:4],
    "What did it cost, and what is left?",
)
"""The same of a study that learns no model."""
NAMED = 8
"""Most names in a sentence."""
SURE = 0.99
"""Certainty from which a bound is said to protect hardly anybody."""
CERTAIN = 0.9999
_VISIBLE = 0.01
"""Gain of certainty that whole percents show."""
_GUESS = 0.05
"""A guess of something rare, beside that of one half."""
SECURE = (
    "This holds only while no more hospitals conspire with the learner than its plan assumes, and the cryptography is "
    "not broken."
)
OTHERS = "Not counted: what the model says of any such patient."
"""What no privacy loss bounds (docs/explanation/odds.md, what is not in them)."""
_PERSON = re.compile(r"(?i)patient|person|subject|participant|(?:^|[_ .-])(?:mrn|pid)$|^pat[_ .-]?(?:nr|no|id|num)$")
"""Names of columns that hold persons. Any other name, "id" or "exam_id", may stand for less than a person."""
_WORD = re.compile(r"[a-z]{3,20}")


@dataclass(frozen=True)
class Noun:
    """What is protected, or scored."""

    single: str
    plural: str
    person: bool = False
    protected: str = ""  # a sentence on what the protection covers; "" where it is one record

    @property
    def person_or_record(self) -> str:
        """What somebody may look for."""
        return self.single if self.person else f"patient’s {self.single}"

    def of(self, many: int) -> str:
        """The form for so many."""
        return self.single if many == 1 else self.plural

    def counted(self, many: int) -> str:
        """So many of it."""
        return f"{many:,} {self.of(many)}"


RECORD = Noun("record", "records")


def unit_noun(unit: str) -> Noun:
    """The noun of a privacy unit: "record", or the name of the column that holds it."""
    if unit == RECORD.single:
        return RECORD
    single, person = ("patient", True) if _PERSON.search(unit) else (unit, False)
    if not person and not _WORD.fullmatch(unit):
        single = "case"
    same = "" if single == unit else f", those with the same {quoted(unit)}"
    return Noun(single, _plural(single), person, f"It covers all records of one {single}{same}.")


def _plural(noun: str) -> str:
    """The plural of an English noun: of "study", "diagnosis", "series", "batch" or "exam"."""
    for end, many in (("sis", "ses"), ("series", "series")):
        if noun.endswith(end):
            return noun.removesuffix(end) + many
    if re.search("[^aeiou]y$", noun):
        return f"{noun[:-1]}ies"
    return f"{noun}es" if re.search("(s|x|z|ch|sh)$", noun) else f"{noun}s"


def quoted(name: str) -> str:
    """A name in quotation marks; "" for none."""
    return f"“{name}”" if name else ""


def series(names: Sequence[str]) -> str:
    """Names in a sentence: "a, b and c", or the first few and how many more."""
    if len(names) > NAMED:
        return f"{', '.join(names[:NAMED])} and {len(names) - NAMED} more"
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def hundred(share: float) -> str:
    """A share as a whole number of 100."""
    return decimal(100 * share, 0)


def outward(low: float, high: float) -> str:
    """The ends of an interval of shares as whole numbers of 100, rounded outwards: "75 to 79"."""
    return f"{decimal(math.floor(100 * low + 1e-9), 0)} to {decimal(math.ceil(100 * high - 1e-9), 0)}"


def ends(low: str, high: str) -> str:
    """The ends of a range as text: "70 to 75", or "70" where both read alike."""
    return low if low == high else f"{low} to {high}"


def risk_words(predicted: float, observed: float, people: str, outcome: str) -> str:
    """A risk that is too high or too low, in parts of a percent where whole ones do not tell the two apart."""
    risk, share = hundred(predicted), hundred(observed)
    if risk == share:
        risk, share = (plain_number(100 * value, 2) for value in (predicted, observed))
        many = f"{share} % of such {people} have"
    else:
        many = f"of 100 such {people} {share} {'has' if share == '1' else 'have'}"
    side = "high" if predicted > observed else "low"
    return f"Risks of about {risk} % are too {side}: {many} the outcome {quoted(outcome)}."


def amount(value: Fraction) -> str:
    """An amount of epsilon in decimals."""
    if 1000 % value.denominator == 0:
        return written(value)
    return f"about {plain_number(float(value), 2 if value < 1 else 3)}"


def certainty(exponent: Fraction, guess: float = 0.5) -> float:
    """Certainty to which answers that change odds by at most e^exponent can bring a guess."""
    return 1 / (1 + math.exp(-min(float(exponent), 700.0)) * (1 - guess) / guess)


def sure(exponent: Fraction, guess: float = 0.5) -> str:
    """That certainty in percent."""
    share = certainty(exponent, guess)
    if share > CERTAIN:
        return "100 %"
    is_near = share >= SURE or share - guess < _VISIBLE
    return f"{100 * share:.{2 if is_near else 0}f} %"


def odds_words(spent: Fraction, noun: Noun, *, example: str = "", learners: str = "") -> Iterator[str]:
    """Sentences on what `spent` means for one person, by the bound that holds for every kind of question.

    Args:
        spent: epsilon, positive.
        noun: of the privacy unit.
        example: of what else could be guessed, such as a class; "" for none.
        learners: to whom it was spent, as a part of a sentence; "" for the only one.
    """
    odds = Odds.twice(spent)
    instance = f", such as {quoted(example)}," if example else ""
    yield (
        f"Somebody who was 50 % sure that a particular {noun.person_or_record} is among a hospital’s {noun.plural} can "
        f"now be at most {sure(odds.presence)} sure. Somebody who knew it already, and was 50 % sure of anything else "
        f"about that patient{instance} can be at most {sure(odds.label)} sure."
    )
    yield (
        f"From {_GUESS:.0%} they get to {sure(odds.presence, _GUESS)} and {sure(odds.label, _GUESS)} at most, whatever "
        f"else they know. {OTHERS}"
    ).replace("%", " %", 1)
    hardly = " That protects hardly anybody." if certainty(odds.presence) >= SURE else ""
    becomes = [f"{sure(exponent)} becomes {sure(2 * exponent)}" for exponent in (odds.presence, odds.label)]
    twice = f"It covers one record: of a patient with two, {' and '.join(becomes)}."
    covers = noun.protected or ("It covers one record." if hardly else twice)
    yield f"This is what a privacy loss (epsilon) of {amount(spent)}{learners} means.{hardly} {covers}"
    yield "The hospitals sent numbers with random noise, never a record."


def rest_words(left: Fraction, claimed: Fraction) -> str:
    """What is left of a cap, and for how many more studies that cost as much."""
    if left <= 0:
        return "nothing is left"
    many = math.floor(left / claimed) if claimed else 0
    if not many:
        return f"{amount(left)} is left, too little for another such study"
    return f"{amount(left)} is left, enough for {many} more such {'study' if many == 1 else 'studies'}"
