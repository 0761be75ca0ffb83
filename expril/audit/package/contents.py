"""The files of a package: their names and contents. Those for people are made again and compared with the stored.

The measured rate at which a whole audit accuses a correct mechanism is stored with the source.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from expril.audit.document import SpentRow, audit_document
from expril.audit.package.checklist import as_objects, checklist_document, readme
from expril.audit.package.deployment import as_yaml, build_entry, read_entry, total_epsilon
from expril.audit.package.evidence import CuratorSpent, Replay
from expril.audit.package.facts import Facts
from expril.audit.package.manifest import as_json, read_bytes
from expril.audit.package.requirements import PackageFacts
from expril.audit.results import AuditResult
from expril.report.page import as_page
from protocol.errors import ConfigurationError
from protocol.run_index import LOCAL

DEPLOYMENT, CLAIM, LEDGER = "deployment.yaml", "claim.json", "ledger.json"
EXACT, FALSE_ALARMS = "exact.json", "false-alarms.json"
FACTS = "facts.json"
"""What only people know, as they wrote it."""
CHECKLIST, CHECKLIST_PAGE, AUDIT = "checklist.json", "checklist.html", "audit.json"
AUDIT_PAGE, README = "audit.html", "README.txt"
COMPARED_BY_ONE_VERSION = (AUDIT_PAGE, CHECKLIST_PAGE, CHECKLIST, README, FALSE_ALARMS)
"""Files that only the version which wrote them can compare."""
NAMES = frozenset({DEPLOYMENT, CLAIM, LEDGER, EXACT, FACTS, AUDIT, *COMPARED_BY_ONE_VERSION})
"""All files of a package, but for its list, the list's signature, and the evidence."""


class Claim(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`claim.json`: what is claimed, for machines."""

    epsilon: str  # of one unit, exact, as text
    one_curator_each: bool  # whether every unit is at one curator, by its author's word: then the largest, else the sum
    curators: dict[str, str]  # name -> epsilon spent there, exact, as text
    unit: str  # privacy unit

    @classmethod
    def of(cls, curators: Sequence[CuratorSpent], *, one_curator_each: bool) -> "Claim":
        """The claim that evidence supports."""
        return cls(
            epsilon=str(total_epsilon(curators, one_curator_each=one_curator_each)),
            one_curator_each=one_curator_each,
            curators={curator.name: str(curator.spent) for curator in curators},
            unit="; ".join(dict.fromkeys(curator.unit for curator in curators)),
        )


def spent_rows(curators: Sequence[CuratorSpent]) -> list[SpentRow]:
    """What the audit's page says of spending."""
    return [
        SpentRow(
            who=curator.name,
            unit=curator.unit,
            claimed=str(curator.claimed),
            recomputed=str(curator.spent),
            verdict="Every signed message and every entry adds up to this. "
            + (
                f"By learner: {', '.join(f'{name} {spent}' for name, spent in curator.learners.items())}."
                if curator.learners
                else ""
            ),
            wrong=False,
        )
        for curator in curators
    ]


def open_points(proof: Replay) -> tuple[str, ...]:
    """Return sentences on what the evidence leaves open, although nothing is wrong."""
    texts = [*proof.result.unproven, *(f"unwitnessed: {text}" for text in proof.result.unwitnessed)]
    plain = [text.replace(f"{proof.base}/", "") for text in texts if not text.startswith(f"{LOCAL}/")]
    if proof.left_out:
        plain.append(f"not in the package, as it is not needed: {', '.join(proof.left_out)}")
    return tuple(plain)


STORED = Path(__file__).resolve().parents[3] / "benchmarks" / "results" / "audit_game.json"
"""Stored measurements. They exist in a checkout only, not in an installed wheel."""
COMMAND = "python -m benchmarks audit_game"
ROW = "audits of eleven correct stand-ins flagged"
KEPT = ("name", "value", "unit", "target", "met", "note", "command", "versions")


def measured_false_alarms(stored: Path = STORED) -> dict[str, Any]:
    """The measured rate with its command; the command alone if no results of the benchmark are stored."""
    try:
        results = msgspec.json.decode(stored.read_bytes(), type=list[dict[str, Any]])
    except (OSError, msgspec.DecodeError):
        results = []
    rows = [
        {name: row[name] for name in KEPT if name in row} for row in results if str(row.get("name")).startswith(ROW)
    ]
    return {"measured": rows, "measure_again": COMMAND}


MOST_FIELDS = 8
_PROSE = frozenset(
    f"deployment.{name}"
    for name in (
        "basic.description",
        "dp_variant.data_domain",
        "dp_variant.unprotected_quantities",
        "privacy_loss.privacy_unit_details",
        "privacy_loss.privacy_parameters_details",
        "deployment_model.model_name_details",
        "deployment_model.actors",
        "deployment_model.release_type_details",
        "deployment_model.data_source_type_details",
        "deployment_model.access_type_details",
        "accounting.post_processing",
        "accounting.composition",
        "implementation.preprocessing_and_hyperparameter_tuning",
        "implementation.mechanisms",
        "implementation.justification",
    )
)
"""Fields of an entry in words of ours, which another version may write otherwise. Their numbers must agree."""


def numbers_told(text: str) -> Counter[str]:
    """Count the numbers in a text: whole ones, decimals, fractions, parts of versions; and signs that are numbers."""
    plain = re.findall(r"[0-9]+(?:[./][0-9]+)*(?:e-?[0-9]+)?(?: ?[%\u2030])?", text, re.IGNORECASE)
    return Counter([*plain, *(sign for sign in text if not sign.isascii() and sign.isnumeric())])


def pages(
    key: str, audit: tuple[AuditResult, str], curators: Sequence[CuratorSpent], proof: Replay, epsilon: str
) -> dict[str, bytes]:
    """File -> the bytes that this version writes there."""
    result, played = audit
    facts = PackageFacts.of(proof, curators, epsilon, result)
    return {
        CHECKLIST: as_json(as_objects(facts)),
        CHECKLIST_PAGE: as_page(checklist_document(facts)).encode(),
        AUDIT_PAGE: as_page(audit_document(result, created=played, spent=spent_rows(curators))).encode(),
        README: readme(key).encode(),
    }


def changed_pages(folder: Path, expected: Mapping[str, bytes]) -> list[str]:
    """Return the names of the pages that differ from what the installed version writes."""
    wrong = []
    for name, data in expected.items():
        try:
            if read_bytes(folder, name) != data:
                wrong.append(f"{name} is not what this version writes from what the package proves")
        except ConfigurationError as error:
            wrong.append(str(error))
    return wrong


def changed_alarms(folder: Path) -> str:
    """Say what is wrong with the measured false alarms; "" if nothing is, or no measurement is installed here."""
    try:
        data = read_bytes(folder, FALSE_ALARMS)
    except ConfigurationError as error:
        return str(error)
    measured = measured_false_alarms()
    none = as_json({"measured": [], "measure_again": COMMAND})
    is_measured = bool(measured["measured"])
    return f"{FALSE_ALARMS} is not what was measured" if is_measured and data not in (as_json(measured), none) else ""


def changed_entry(
    folder: Path, facts: Facts, curators: Sequence[CuratorSpent], result: AuditResult, *, same_version: bool
) -> list[str]:
    """Say what is wrong with `deployment.yaml`."""
    expected = build_entry(facts, curators, versions=dict(result.versions))
    try:
        text = read_bytes(folder, DEPLOYMENT).decode()
        if text == as_yaml(expected):
            return []
        entry = read_entry(text)
    except UnicodeDecodeError:
        return [f"{DEPLOYMENT} cannot be read"]
    except ConfigurationError as error:
        return [str(error)]
    written, due = _flat(entry), _flat(expected)
    worded = frozenset[str]() if same_version else _PROSE
    wrong = [
        f"{DEPLOYMENT}: its {name} is not what the evidence proves"
        for name, value in due.items()
        if written.get(name) != value
        and not (name in worded and numbers_told(written.get(name, "")) == numbers_told(value))
    ]
    if len(wrong) > MOST_FIELDS:
        return [f"{DEPLOYMENT} is another entry than the evidence proves: {len(wrong)} fields differ"]
    wrong += [
        f"{DEPLOYMENT}: its {name} is of no entry that this software writes" for name in written if name not in due
    ]
    if same_version and not wrong:
        wrong.append(f"{DEPLOYMENT} is not in the form that this software writes")
    return wrong


def _flat(value: Any, path: str = "") -> dict[str, str]:
    """Map each field's path to its value as JSON text, in which true differs from 1."""
    if isinstance(value, dict) and value:
        fields: dict[str, str] = {}
        for name, item in value.items():
            fields |= _flat(item, f"{path}.{name}" if path else str(name))
        return fields
    try:
        return {path: msgspec.json.encode(value).decode()}
    except (TypeError, ValueError, msgspec.MsgspecError, RecursionError, OverflowError):
        return {path: f"unreadable {type(value).__name__}"}


NEEDED = frozenset(
    {
        *("proven", "sums", "units", "runs", "ledgers"),
        *("curator", "learner", "unit", "claimed", "spent", "at_most", "apart", "shared", "entries", "head"),
    }
)
"""Names in `ledger.json` of what every version tells where it tells of such a thing."""


def alike(first: Any, second: Any, skip: frozenset[str] = frozenset(), apart: set[str] | None = None) -> bool:
    """Whether two plain values are equal, floats up to 1e-9. Values of the keys in `skip` are not compared.

    `apart`: None if both must have the same keys. Else keys that only one of the two has are not compared but added to
    it, as another version may tell more; keys of `second` that are `NEEDED` must still be there.
    """
    if isinstance(first, dict) and isinstance(second, dict):
        lonely = first.keys() ^ second.keys()
        if lonely and (apart is None or not NEEDED.isdisjoint(lonely)):
            return False
        if apart is not None:
            apart |= lonely
        return all(
            name in skip or alike(value, second[name], skip, apart)
            for name, value in first.items()
            if name not in lonely
        )
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(alike(*pair, skip, apart) for pair in zip(first, second, strict=True))
    if isinstance(first, float) and isinstance(second, float):
        return math.isclose(first, second, rel_tol=1e-9, abs_tol=1e-12)
    return type(first) is type(second) and bool(first == second)
