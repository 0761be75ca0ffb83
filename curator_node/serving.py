"""What a policy means for the curator that serves under it: limits, label, card, and whose its learners' keys are."""

from collections.abc import Mapping
from typing import Any

from curator_node.ledger import Ledger
from curator_node.mechanisms import NoiseSource
from curator_node.policy import Policy, settled_limits
from curator_node.steward import StewardFile
from protocol.envelopes import LABEL, NOT_PRIVATE_LABEL
from protocol.errors import ConfigurationError
from protocol.limits import Limits
from protocol.messages import Card
from protocol.query_kind import Kinds
from protocol.rationals import amount


def settled_terms(policy: Policy, kinds: Kinds, noise: NoiseSource) -> tuple[Limits, str]:
    """A policy's limits with every default written out, and the label under which answers are signed.

    Raises:
        ConfigurationError: noise from a seed without `simulation = true`, or as `settled_limits`.
    """
    if noise.seeded and not policy.simulation:
        raise ConfigurationError("noise from a seed is for simulations; the policy does not say simulation = true")
    limits = settled_limits(policy, kinds)
    return limits, NOT_PRIVATE_LABEL if noise.seeded or not kinds.private(limits) else LABEL


def card(header: Mapping[str, Any], policy: Policy, steward: StewardFile, limits: Limits, relation: str) -> Card:
    """What a learner reads of a curator before it asks.

    Args:
        header: of the reply; its recipient is the learner.
        policy: the steward's.
        steward: the schema file.
        limits: see `settled_terms`.
        relation: between two sets of records that the answers protect, in words.
    """
    return Card(
        **header,
        name=policy.name,
        schema=steward.schema,
        unit=steward.unit,
        most_records_per_unit=steward.most_records_per_unit,
        relation=relation,
        round_size=steward.round_size,
        limits=limits,
        cap=amount(policy.cap_of(header["recipient"])),
        least_cost=amount(policy.least),
    )


def bind_known(ledger: Ledger, policy: Policy, now: int) -> None:
    """Bind every key that the ledger has seen to the name under which the policy has it, with what it has spent.

    So a key that is taken out of the policy later leaves its spending with its learner.

    Raises:
        BoundElsewhereError: one is bound to another name.
    """
    for key, learner in policy.keys.items():
        known = ledger.account.name_of(key)
        if known != learner.name and (known or key in ledger.account.ordinals):
            ledger.enrol(key, learner.name, now)


def is_bound_elsewhere(ledger: Ledger, policy: Policy, key: bytes) -> bool:
    """Whether the ledger knows a key under another name than the policy: its steward must say which is right."""
    learner, known = policy.learner(key), ledger.account.name_of(key)
    return bool(known) and (learner is None or learner.name != known)
