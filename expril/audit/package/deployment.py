"""A study as an entry of OpenDP's deployments registry, tier 3, filled from evidence and from what people know.

The registry's schema is a third party's file. It is read from the user's copy; no part of it is here.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from expril.audit.package.evidence import SIMULATED, CuratorSpent
from expril.audit.package.facts import Facts
from expril.files import read_text_file
from expril.report.numbers import count
from protocol.errors import ConfigurationError, printable

MOST_SIGNS = 200_000
_ACTORS = (
    "Curators (such as hospitals) hold records, and are trusted to hold true ones and to run the software unchanged. "
    "Learners ask signed questions, are not trusted, and may collude: one cap binds all of them. Relays that carry "
    "messages are not trusted with anything but delivery. The public sees what learners publish; that is "
    "post-processing."
)
_UNPROTECTED = (
    "What the curator's steward wrote down by hand, and nothing computed: the schema (attributes, bounds, levels, "
    "classes), the declared round size, caps and limits. Beside it: who asked what, when, at which scale, that it "
    "was answered or refused, and the number and sizes of messages, which follow from the requests. Times of replies "
    "are not covered by epsilon. No count, size or other statistic of the records is released without noise."
)
_MECHANISMS = (
    "Discrete Laplace noise on integer counts, drawn exactly. Interactive: questions are signed, charged to a durable "
    "ledger before they are counted, and a repeat gets the stored answer. Floating point: noise is sampled on "
    "integers, scales are rationals, there is never less noise than stated, and records are placed on a fixed "
    "grid, so that sums are exact. Timing: replies are not constant-time; what can be seen is measured in "
    "docs/explanation/privacy-guarantee.md. Access: only enrolled keys are answered; no code is accepted; no refusal, "
    "error or log line depends on a record."
)
_JUSTIFICATION = (
    "Mechanism and accounting are proven in docs/explanation/privacy-guarantee.md. They were checked from three sides: "
    "recomputed from signed evidence, attacked on neighbouring data sets, and enumerated exactly; results and their "
    "false-alarm rate are in the same package."
)


def build_entry(facts: Facts, curators: Sequence[CuratorSpent], *, versions: dict[str, str]) -> dict[str, Any]:
    """The entry as plain data, in the registry's order.

    `curators`: the recomputed spending of each curator, of which there is at least one.
    """
    total = total_epsilon(curators, one_curator_each=facts.one_curator_each)
    software = ", ".join(f"{name} {version}" for name, version in versions.items())
    basic = {
        "name": facts.name,
        "data_curators": [curator.name for curator in curators],
        "intended_use": facts.intended_use,
        "data_product_type": facts.product,
        "data_product_region": facts.region,
        "description": (
            f"{f'{SIMULATED} ' if any(SIMULATED in curator.note for curator in curators) else ''}"
            f"Learnt from differentially private counts of {count(len(curators), 'curator')}, by ExPriL. No record, "
            "gradient or exact number left a curator."
        ),
        "publication_date": facts.publication_date,
        **({"data_product_sector": facts.sector} if facts.sector else {}),
    }
    return {
        "url_slug": facts.slug,
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": basic,
            "dp_variant": {
                "variant_name": "Pure DP",
                "data_domain": f"{facts.records} Any multiset of such records; their number is not public.",
                "unprotected_quantities": _UNPROTECTED,
            },
            "privacy_loss": {
                "privacy_unit": _joined(curator.unit for curator in curators),
                "privacy_unit_details": "Adjacent: two sets of records, one of which has one unit more (add or "
                "remove). " + _joined(curator.unit_details for curator in curators),
                "privacy_parameters": {"epsilon": round_up(total), "delta": 0},
                "privacy_parameters_details": _parameters(facts, curators, total),
            },
            "deployment_model": {
                "model_name": "Federated",
                "model_name_details": "Each curator is a central model of its own, and adds noise to what it answers.",
                "actors": facts.actors or _ACTORS,
                "release_type": "Many releases",
                "release_type_details": facts.more_releases
                or "The ledgers go on: later studies are charged to the same caps, and a budget is never refilled.",
                "data_source_type": "Static",
                "data_source_type_details": "Each study saw one version of the records. A new version refills no "
                "budget.",
                "access_type": "Interactive",
                "access_type_details": "Learners share a cap over all, and each has one of its own. Collusion is "
                "assumed.",
            },
            "accounting": {
                "post_processing": "All that a learner makes of the answers: shares, fits, models, synthetic records.",
                "composition": "Sequential, for pure epsilon, in exact rationals, as a filter: nothing is answered "
                "that would pass the cap, and later questions may depend on earlier answers. "
                + (
                    "Parallel over curators, as every person's records are at one of them."
                    if facts.one_curator_each
                    else "Sequential over curators, as a person may be at several."
                ),
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": f"Before bounds, bins and epsilon were fixed, the "
                f"following of the records was looked at: {facts.looked_before}",
                "mechanisms": f"{_MECHANISMS} Versions: {software}.",
                "justification": facts.justification or _JUSTIFICATION,
            },
            "administrative": {
                "registry_authors": list(facts.authors),
                **({"sources": facts.sources} if facts.sources else {}),
                **({"notes": facts.notes} if facts.notes else {}),
            },
        },
    }


def total_epsilon(curators: Sequence[CuratorSpent], *, one_curator_each: bool) -> Fraction:
    """Return a unit's exact epsilon over all curators: the largest if no unit is at several curators, else the sum."""
    if one_curator_each:
        return max(curator.spent + curator.elsewhere for curator in curators)
    return sum((curator.spent for curator in curators), start=Fraction(0))


def round_up(value: Fraction) -> float:
    """Return the smallest float64 that is not below an exact epsilon."""
    near = float(value)
    return near if Fraction(near) >= value else math.nextafter(near, math.inf)


def _parameters(facts: Facts, curators: Sequence[CuratorSpent], total: Fraction) -> str:
    by_curator = "; ".join(f"{curator.name}: {curator.spent}" for curator in curators)
    how = "the largest, as every person's records are at one curator" if facts.one_curator_each else "their sum"
    more = " ".join(dict.fromkeys(curator.note for curator in curators if curator.note))
    attribute_note = "Of anything else about a person who is known to be there: twice that, or less."
    spent = f"Exact epsilon spent, over all learners together: {by_curator}. For one person: {total}, {how}."
    return f"{spent} {attribute_note} {more}".strip()


def _joined(texts: Any) -> str:
    return "; ".join(dict.fromkeys(texts))


def as_yaml(entry: dict[str, Any]) -> str:
    """Return the entry as YAML text."""
    return str(yaml.safe_dump(entry, sort_keys=False, allow_unicode=True, width=110))


class _Strict(yaml.SafeLoader):
    """A YAML loader that refuses repeated keys and aliases."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Compose as `SafeLoader` does, but refuse aliases."""
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        """Construct as `SafeLoader` does, but refuse repeated keys."""
        mapping: dict[Any, Any] = super().construct_mapping(node, deep=deep)
        if len(mapping) != len(node.value):
            raise yaml.YAMLError
        return mapping


def read_entry(text: str) -> dict[str, Any]:
    """Inverse of `as_yaml`.

    Raises:
        ConfigurationError: the text is not an entry in YAML.
    """
    if len(text) > MOST_SIGNS:
        raise ConfigurationError("deployment.yaml is longer than any entry")
    try:
        entry = yaml.load(text, Loader=_Strict)  # noqa: S506 - a SafeLoader
    except (yaml.YAMLError, ValueError, TypeError, OverflowError, RecursionError, AttributeError, LookupError):
        raise ConfigurationError("deployment.yaml is no YAML of an entry, or has a key twice") from None
    if not isinstance(entry, dict):
        raise ConfigurationError("deployment.yaml holds no entry")
    return entry


def check_entry(entry: dict[str, Any], schema: Path) -> None:
    """Check an entry against the registry's schema.

    Raises:
        ConfigurationError: the schema cannot be read, or a field of the entry does not fit it.
    """
    try:
        rules = yaml.safe_load(
            read_text_file(schema, "registry's schema", remedy="it is deployments-schema.yaml there")
        )
        kind = jsonschema.validators.validator_for(rules, default=jsonschema.Draft202012Validator)
        kind.check_schema(rules)
    except (yaml.YAMLError, jsonschema.SchemaError, AttributeError, TypeError):
        raise ConfigurationError(f"{schema} is no JSON Schema in YAML") from None
    errors = sorted(
        kind(rules, format_checker=kind.FORMAT_CHECKER).iter_errors(entry), key=lambda error: list(map(str, error.path))
    )
    if errors:
        first = errors[0]
        field = ".".join(map(str, first.absolute_path)) or "the entry"
        raise ConfigurationError(
            f"the entry does not fit {schema.name}: {printable(field)}: {printable(first.message, 300)}"
        )
