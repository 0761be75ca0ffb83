"""A learner's folder of a deployed study: `study.toml`, `cost.json` and receipts, compared with its transcripts.

The learner signs the folder's list, and so these files. The curators signed the transcripts' replies. What the learner
alone says, and no reply confirms, is either computed anew or named as told (`TOLD`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path, PurePosixPath
from typing import Any

from expril.audit.recompute.entries import ZERO
from expril.audit.recompute.statements import ANYTHING, OneOf, differing_leaves
from expril.audit.recompute.verdicts import TranscriptVerdict
from expril.files import MOST_TEXT, read_plain
from protocol.announcements import MOST_WORDS, announcing, read_notice
from protocol.errors import ConfigurationError, printable
from protocol.rationals import parse_rational
from protocol.run_index import (
    ANALYSES,
    COST,
    FIT,
    GIVEN_UP,
    LEDGERS,
    METRICS,
    RECEIPTS,
    REPORT,
    RESULTS,
    SCENARIO,
    STUDY,
    VALIDATION,
    Index,
    file_name,
)
from protocol.strict_json import MOST_BYTES, decode_json
from protocol.strict_toml import decode_text, parse_toml

TOLD = (
    "told by the learner, and not computed anew: what the model is worth, results and tables, and the settings of "
    f"{STUDY}; its title, purpose and curators are those of signed messages, and plans cost at most its epsilons"
)
"""What is shown of a deployed study and rests on its learner's word."""


@dataclass(frozen=True)
class StatedStudy:
    """The parts of a study's file that are checked."""

    title: str
    learner: str
    purpose: str
    epsilon: Fraction
    validation: Fraction | None
    curators: Mapping[str, str]  # name -> its public key, or the file of its card
    of_analyses: bool


def read_study(data: bytes) -> StatedStudy:
    """Read a study's file.

    Raises:
        ConfigurationError, LookupError, TypeError, AttributeError: it is none.
    """
    content = parse_toml(decode_text(data, where=STUDY), where=STUDY)
    validation = content.get("validate")
    return StatedStudy(
        title=content["title"],
        learner=content.get("learner", "learner"),
        purpose=str(content.get("purpose", "")),
        epsilon=parse_rational(content["epsilon"]),
        validation=None if validation is None else parse_rational(validation),
        curators={str(name): str(key) for name, key in content["curators"].items()},
        of_analyses="analyses" in content,
    )


def is_deployed(index: Index) -> bool:
    """Whether the folder is a learner's, of a study with deployed curators, and not a simulation's run."""
    return STUDY in index.files and SCENARIO not in index.files


def check_deployed(folder: Path, index: Index, exchanges: Sequence[TranscriptVerdict]) -> list[str]:
    """Return what in a deployed study's folder contradicts its signed messages. Files that are missing are skipped."""
    complaints = [
        f"{printable(name)} is of a simulation, and {STUDY} of a deployed study: this is neither"
        for name in index.files
        if name in (METRICS, REPORT) or PurePosixPath(name).parts[:1] == (LEDGERS,)
    ]
    if index.repeats != 1 or len(index.names("learner")) != 1 or index.ledgers:
        complaints.append("a deployed study has one repeat, one learner and no ledger; the run's list says otherwise")
    study = None
    if (folder / STUDY).exists():
        try:
            study = read_study(read_plain(folder / STUDY, most=MOST_TEXT))
        except (OSError, ConfigurationError, LookupError, TypeError, AttributeError) as error:
            complaints.append(printable(f"{STUDY} cannot be read: {error}", 400))
        else:
            complaints += [f"{STUDY}: {text}" for text in _check_study(study, index, exchanges)]
    there = {(item.entry.study, item.entry.curator) for item in exchanges}
    complaints += [
        f"no transcript of study {number} with {printable(name)}"
        for number in sorted({number for number, _ in there if number < GIVEN_UP} | {FIT})
        for name in index.names("curator")
        if (number, name) not in there
    ]
    return complaints + _check_receipts(index, exchanges) + _check_cost(folder, index, exchanges, study)


def _check_study(study: StatedStudy, index: Index, exchanges: Sequence[TranscriptVerdict]) -> list[str]:
    """Return where the study's file differs from the run's list and from signed proposals."""
    facts = {
        "title": study.title == index.title,
        "learner": [study.learner] == index.names("learner"),
        "curators": sorted(study.curators) == sorted(index.names("curator")),
    }
    complaints = [f"its {fact} is another than in the run's list" for fact, right in facts.items() if not right]
    keys = {entry.name: entry.key for entry in index.participants if entry.role == "curator"}
    complaints += [
        f"the key of {printable(name)} is another than in the run's list"
        for name, written in study.curators.items()
        if len(written) == len(keys.get(name, "")) and written.lower() != keys[name]
    ]
    budgets = {FIT: study.epsilon, VALIDATION: study.validation}
    for exchange in exchanges:
        file, number = exchange.entry.file, exchange.entry.study
        if number not in budgets or not exchange.study:
            continue
        epsilon = budgets[number]
        if epsilon is None:
            complaints.append(f"it asks for no validation, and {file} is of one")
        elif exchange.planned > epsilon:
            complaints.append(f"its epsilon is {epsilon}, and the plan in {file} costs {exchange.planned}")
        if not _announced(study, exchange.purpose, number):
            complaints.append(f"the purpose that {file} proposes is another")
    return complaints


def _announced(study: StatedStudy, purpose: str, number: int) -> bool:
    """Whether a proposal's purpose is the file's, with its announcement of a validation and its analyses in words."""
    if number == VALIDATION:
        return purpose.startswith(f"Validation. {study.purpose}".strip()[:MOST_WORDS])
    allowed = [study.purpose]
    if study.validation is not None:
        allowed.append(announcing(study.purpose, study.validation))
    return purpose in allowed or (study.of_analyses and any(map(purpose.startswith, map(str.strip, allowed))))


def _check_receipts(index: Index, exchanges: Sequence[TranscriptVerdict]) -> list[str]:
    """Return the receipts that the signed list names and no transcript holds, and those that it should name.

    A receipt's digest in the list tells which it is, so its file is not needed.
    """
    complaints, names = [], set()
    for curator in index.names("curator"):
        name = f"{RECEIPTS}/{file_name(curator)}.receipt"
        names.add(name)
        expected = _newest_receipt([item for item in exchanges if item.entry.curator == curator])
        if expected is ANYTHING or index.files.get(name) == expected:
            continue
        complaints.append(
            f"{printable(name)} is not the newest receipt that a transcript of {printable(curator)} holds: something "
            "of that curator is left out here"
            if name in index.files
            else f"the run's list lacks {printable(name)}, the newest receipt in transcripts of {printable(curator)}"
        )
    listed = (name for name in index.files if PurePosixPath(name).parts[:1] == (RECEIPTS,))
    return [*complaints, *(f"{printable(name)} is of no curator of this run" for name in listed if name not in names)]


def _newest_receipt(exchanges: Sequence[TranscriptVerdict]) -> Any:
    """Return the digest of the newest receipt that a learner held of a curator, as text; None if it held none.

    Before the first receipt of a study that is the one which its proposal carries. `ANYTHING` if nothing was proposed.
    """
    in_order = sorted((item for item in exchanges if item.entry.study < GIVEN_UP), key=lambda item: item.entry.study)
    for exchange in reversed(in_order):
        if exchange.newest_receipt:
            return exchange.newest_receipt.hex()
    proposals = [item for item in exchanges if item.study]
    if not proposals:
        return ANYTHING
    return proposals[-1].carried_receipt.hex() or None


def _check_cost(
    folder: Path, index: Index, exchanges: Sequence[TranscriptVerdict], study: StatedStudy | None
) -> list[str]:
    """Return where `cost.json`, and its copy in the results of analyses, differ from what transcripts prove."""
    expected, complaints = expected_cost(index, exchanges, study), []
    for name in (COST, RESULTS):
        if not (folder / name).exists():
            continue
        try:
            content = decode_json(read_plain(folder / name, most=MOST_BYTES), where=name)
            cost = content if name == COST else content["cost"]
        except (OSError, LookupError, TypeError) as error:
            complaints.append(f"{name} cannot be read ({type(error).__name__})")
            continue
        except ConfigurationError as error:
            complaints.append(str(error))
            continue
        complaints += [f"{name}: {text}" for text in differing_leaves(cost, expected)]
    return complaints


def expected_cost(index: Index, exchanges: Sequence[TranscriptVerdict], study: StatedStudy | None) -> dict[str, Any]:
    """Return what `cost.json` must say.

    `study`: its file, which tells the epsilon of a validation that came to no plan; None if it cannot be read.
    """
    plans = {FIT: "analyses" if ANALYSES in index.files else "fit"}
    if any(item.entry.study == VALIDATION for item in exchanges):
        plans[VALIDATION] = "validation"
    announced = {most for item in exchanges if (most := read_notice(item.purpose).most) is not None}
    if study is not None and study.validation is not None:
        announced.add(study.validation)
    claimed: dict[str, Any] = {}
    for number, plan in plans.items():
        planned = max((item.planned for item in exchanges if item.entry.study == number), default=ZERO)
        claimed[plan] = OneOf((planned, *(most for most in announced if number == VALIDATION and most > planned)))
    curators = {}
    for entry in index.participants:
        if entry.role != "curator":
            continue
        of_curator = [item for item in exchanges if item.entry.curator == entry.name]
        costs = {
            plan: _plan_cost(next((item for item in of_curator if item.entry.study == number), None))
            for number, plan in plans.items()
        }
        curators[entry.name] = {
            "key": entry.key,
            **costs,
            "spent": sum((cost["spent"] for cost in costs.values()), ZERO),
            "at_most": sum((cost["at_most"] for cost in costs.values()), ZERO),
            "newest_receipt": _newest_receipt(of_curator),
        }
    learner = next((entry.key for entry in index.participants if entry.role == "learner"), None)
    return {"learner": learner, "claimed": claimed, "curators": curators}


def _plan_cost(exchange: TranscriptVerdict | None) -> dict[str, Any]:
    """Return what is told of one plan at one curator."""
    if exchange is None or exchange.proof is None:
        return {"spent": ZERO, "at_most": ZERO, "state": "new"}
    proof = exchange.proof
    return {"spent": proof.epsilon_spent, "at_most": proof.epsilon_at_most, "state": proof.state.value}
