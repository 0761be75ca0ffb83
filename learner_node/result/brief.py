"""What the page of a deployed study says first: the questions of whoever decides, as far as noisy answers tell.

Nobody but the hospitals can compute exact figures, so every number has the interval that the answers allow. What the
answers do not tell is said to be unknown.
"""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from expril.report.document import Answer, Block, Brief
from expril.report.numbers import count, plain_number
from learner_node.result.phrases import (
    OTHERS,
    QUESTIONS,
    QUESTIONS_OF_ANALYSES,
    RECORD,
    SECURE,
    Noun,
    amount,
    ends,
    hundred,
    odds_words,
    outward,
    quoted,
    risk_words,
    series,
    unit_noun,
)
from protocol.rationals import written

Object = Mapping[str, Any]
_TOP = "highest 10 %"
_WIDER = 1.5
"""By how much an interval is widened before a risk is called wrong. Ten intervals of 95 % all hold the truth in 60 of
100 studies, ten that are half as wide again in 97 (normal tails)."""
_NAMED = 3


def study_brief(facts: Object, beside: Sequence[Block]) -> Brief:
    """The five answers of a study's page, from `learner_node.result.folder.result_object`, with the figure `beside`."""
    answers = (_what(facts), _worth(facts), _wrong(facts), _privacy(facts), _cost(facts))
    sentences = [list(answer) for answer in answers]
    return Brief([Answer(q, first, more) for q, (first, *more) in zip(QUESTIONS, sentences, strict=True)], beside)


def analyses_brief(facts: Object, parts: Sequence[str], noise: Sequence[int]) -> Brief:
    """The four answers of the page of a study that learns no model.

    Args:
        facts: of `learner_node.result.analyses_folder.analyses_object`.
        parts: names of its analyses.
        noise: for each table, what the noise in one count stays below in 95 of 100 counts, in records.
    """
    others = "Not counted: what the numbers tell of patients in general."
    privacy = [sentence.replace(OTHERS, others) for sentence in _privacy(facts)]
    answers = (_what_of_analyses(facts, parts), _sureness(facts, noise), privacy, _spending(facts))
    sentences = [list(answer) for answer in answers]
    return Brief([Answer(q, first, more) for q, (first, *more) in zip(QUESTIONS_OF_ANALYSES, sentences, strict=True)])


def _what_of_analyses(facts: Object, parts: Sequence[str]) -> Iterator[str]:
    curators = count(len(facts["cost"]["curators"]), "hospital")
    purpose = facts["purpose"].strip().rstrip(".")
    if purpose:
        yield f"{quoted(purpose)} was asked of {curators}, by the learner {facts['learner']}."
    else:
        yield f"{curators} counted records for the learner {facts['learner']}."
    yield f"The plan has {count(len(parts), 'part')}: {series(parts)}."
    if facts["left_out"]:
        yield f"The numbers are without {series(list(facts['left_out']))}; why is said below."
    else:
        yield "All hospitals took part."


def _sureness(facts: Object, noise: Sequence[int]) -> Iterator[str]:
    yield "Each has the interval that holds the truth with a probability of 95 %, or is said to be not estimable."
    if noise and max(noise) > 0:
        most = ends(str(min(noise)), str(max(noise)))
        yield f"Random noise changes a single count by at most {most} in 95 of 100 counts."
    yield (
        "“These records” speaks of the patients that were counted: only the noise is uncertain. “Their population” "
        "speaks of patients like them: the sample is uncertain, too, so intervals are wider."
    )
    if facts["pooling"] == "secure":
        yield "Only sums over hospitals were opened, so no hospital is shown by itself."


def _noun(facts: Object) -> Noun:
    units = {card["unit"] or RECORD.single for card in facts["cards"].values()}
    return unit_noun(units.pop()) if len(units) == 1 else RECORD


def _scored_noun(facts: Object) -> Noun:
    """The noun of what answers count: the privacy unit where it has one record, or else records."""
    is_single = all(card["records"] == 1 for card in facts["cards"].values())
    return _noun(facts) if is_single else RECORD


def _what(facts: Object) -> Iterator[str]:
    curators = count(len(facts["cost"]["curators"]), "hospital")
    purpose = facts["purpose"].strip().rstrip(".")
    positive = f" {quoted(facts['positive'])}" if facts["positive"] else ""
    task = f"recognise{positive} (column {quoted(facts['label'])})" if positive else f"predict {quoted(facts['label'])}"
    if purpose:
        yield f"{quoted(purpose)} was asked of {curators}, by the learner {facts['learner']}."
        yield f"The model is to {task}."
    else:
        verb = "was" if len(facts["cost"]["curators"]) == 1 else "were"
        yield f"{curators} {verb} asked by the learner {facts['learner']} how to {task}."
    if facts["left_out"]:
        yield f"The model is without {series(list(facts['left_out']))}; why is said below."
    else:
        yield "All of them took part."
    records = facts["private_records"]
    yield f"They answered for about {_scored_noun(facts).counted(records)}, as far as the noise tells."
    if facts["shares"]:
        common = (
            f"{hundred(value)} of 100 ({outward(low, high)}) have the outcome {quoted(name)}"
            for name, (value, low, high) in facts["shares"].items()
        )
        yield f"Of them {', '.join(common)}."


def _interval(triple: Sequence[float], noun: str = "") -> str:
    value, low, high = triple
    return f"{hundred(value)} of 100{noun and ' '}{noun} ({outward(low, high)})"


def _worth(facts: Object) -> Iterator[str]:
    expected, errors, validation = facts["expected"], facts["expected_errors"], facts["validation"]
    noun = _scored_noun(facts) if _noun(facts).person else RECORD
    pairs = f"Of two {noun.plural}, one {quoted(facts['positive'] or '')} and one not"
    if validation is not None:
        yield (
            f"{pairs}, it gives the first the higher risk in {_interval(validation['auc'], 'such pairs')}: the "
            "hospitals checked that in a second study."
        )
    if expected is not None:
        right = _interval([expected[name] for name in ("accuracy", "low", "high")], noun.plural)
        against = _interval([expected[f"majority{end}"] for end in ("", "_low", "_high")])
        better = "" if expected["beats_majority"] else ", so it is not shown to be better"
        yield (
            f"By the answers it was learnt from, it is right for {right}; always naming the more frequent class would "
            f"be for {against}{better}."
        )
        if validation is None:
            doubt = "" if expected["ranks"] else ", which is not shown to be better than chance"
            auc = _interval([expected[f"auc{end}"] for end in ("", "_low", "_high")], "such pairs")
            yield f"{pairs}, it gives the first the higher risk in {auc}{doubt}; chance would in 50."
    if errors is not None and errors["r2"] is not None:
        value, low, high = errors["r2"]
        better = "" if low > 0 else ", so it is not shown to be better than always answering the mean"
        yield f"It explains {hundred(value)} % ({outward(low, high)}) of the differences between {noun.plural}{better}."
    if errors is not None and errors["mean_absolute_error"]:
        value, low, high = errors["mean_absolute_error"]
        off = f"{plain_number(value)} {facts.get('units', '')}".rstrip()
        yield f"On average it is off by {off} ({plain_number(low)} to {plain_number(high)})."
    estimated = expected is not None or validation is not None or (errors is not None and errors["r2"] is not None)
    if validation is not None:
        yield from _listed(validation, facts["positive"] or "", noun)
    elif not estimated:
        yield "That is not known: the answers do not tell it, and the hospitals did not check the model."
    elif facts["validation_failure"]:
        yield "Asking the hospitals to check it brought nothing."
    else:
        yield "The hospitals were not asked to check it."


def _listed(validation: Object, positive: str, noun: Noun) -> Iterator[str]:
    """What a list of the tenth with the highest risks holds."""
    for point in validation["points"]:
        if point["rule"] == _TOP:
            yield (
                f"In the tenth of {noun.plural} with the highest risks, {_interval(point['ppv'])} have the outcome "
                f"{quoted(positive)}; that is {hundred(point['sensitivity'][0])} of every 100 with that outcome."
            )


def _wrong(facts: Object) -> Iterator[str]:
    expected, validation = facts["expected"], facts["validation"]
    recalls = facts["expected_recalls"] or {}
    limit = _mean_recall(recalls, facts["shares"]) if expected is None else expected["low"]
    poor = sorted((recall, name) for name, recall in recalls.items() if recall[2] < limit)
    for recall, name in poor[:_NAMED]:
        yield f"It recognises {_interval(recall)} that are {quoted(name)}: clearly fewer than of the others."
    if recalls and not poor:
        yield "No class is shown to be recognised less often than the others."
    if validation is not None:
        yield from _risks(validation, facts["positive"] or "", _scored_noun(facts))
    if not recalls and validation is None:
        yield "That is not known: only a check by the hospitals would tell where its risks are too high or too low."
    if facts["left_out"]:
        yield f"It has learnt nothing from {series(list(facts['left_out']))}, whose patients may differ."
    yield from _hospitals(facts)


def _mean_recall(recalls: Mapping[str, Sequence[float]], shares: Mapping[str, Sequence[float]]) -> float:
    """The mean recall of records: of classes, weighted by their shares where these are known."""
    weights = {name: shares[name][0] if name in shares else 0.0 for name in recalls}
    total = sum(weights.values())
    if not total:
        return sum(recall[0] for recall in recalls.values()) / max(len(recalls), 1)
    return sum(recalls[name][0] * weight for name, weight in weights.items()) / total


def _hospitals(facts: Object) -> Iterator[str]:
    """Hospitals at which the validation shows that the model ranks worse than over all."""
    areas = {
        name: site["validation"]["auc"] for name, site in facts.get("by_curator", {}).items() if site["validation"]
    }
    if len(areas) < 2:
        yield "For which hospital it is wrong, each can tell from its own records alone."
        return
    over_all = facts["validation"]["auc"][0]
    worse = {name: area for name, area in areas.items() if area[0] + _WIDER * (area[2] - area[0]) < over_all}
    for name, area in list(worse.items())[:_NAMED]:
        yield f"Worse at {name}: {_interval(area, 'such pairs')}, {hundred(over_all)} over all."
    if not worse:
        yield "No hospital stands out in what they found."


def _risks(validation: Object, positive: str, noun: Noun) -> Iterator[str]:
    """Risks that a validation shows to be too high or too low."""
    wrong = []
    for row in validation["calibration"]:
        value, low, high = row["observed"]
        above, below = value + _WIDER * (high - value), value - _WIDER * (value - low)
        if row["predicted"] > above or row["predicted"] < below:
            wrong.append((abs(row["predicted"] - value), row["predicted"], value))
    people = (noun if noun.person else RECORD).plural
    for _, predicted, value in sorted(wrong, reverse=True)[:1]:
        yield risk_words(predicted, value, people, positive)
    if not wrong and validation["calibration"]:
        yield "Its risks agree with what the hospitals found, as far as can be told."


def _privacy(facts: Object) -> Iterator[str]:
    spent = max((Fraction(curator["at_most"]) for curator in facts["cost"]["curators"].values()), default=Fraction(0))
    if facts["not_private"]:
        yield f"Nothing is protected at {series(list(facts['not_private']))}: they sign their answers as not private."
        return
    if not spent:
        yield "Nothing: no answer left a hospital."
        return
    yield from odds_words(spent, _noun(facts), example=facts.get("positive") or "")
    yield "Earlier studies of these hospitals add to it."
    if facts["pooling"] == "secure":
        yield SECURE


def _cost(facts: Object) -> Iterator[str]:
    """Whether to join, what was spent, and what is left at least to other studies."""
    yield (
        "Whether joining paid, only each hospital can see: expril predict --score holds this model against the "
        "hospital’s own regression, on its own patients."
    )
    yield from _spending(facts)


def _spending(facts: Object) -> Iterator[str]:
    """What was spent, and of which cap."""
    curators, cards = facts["cost"]["curators"], facts["cards"]
    groups: dict[tuple[str, str], list[str]] = {}
    for name, curator in curators.items():
        cap = cards[name]["cap"] if name in cards else ""
        groups.setdefault((curator["spent"], cap), []).append(name)
    if len(groups) > _NAMED:
        spends = sorted(Fraction(spent) for spent, _ in groups)
        yield f"It cost the hospitals a privacy loss of {ends(amount(spends[0]), amount(spends[-1]))}; see below."
        return
    for (spent, cap), names in groups.items():
        where = "each hospital" if len(groups) == 1 else series(names)
        of_cap = f", of the {written(cap)} that this learner may ever spend there" if cap else ""
        yield f"It cost {where} a privacy loss of {amount(Fraction(spent))}{of_cap}."
