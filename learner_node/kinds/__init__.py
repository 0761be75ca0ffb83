"""Readers of all query kinds; a new kind is one file and one line here."""

from collections.abc import Mapping
from types import MappingProxyType

from learner_node.kinds.counts import COUNTS
from learner_node.kinds.holdout import HOLDOUT
from learner_node.kinds.model import MODEL
from learner_node.kinds.sample import SAMPLE
from learner_node.kinds.secure_counts import SECURE_COUNTS
from learner_node.kinds.statistic import STATISTIC
from learner_node.study.reading import Reader

_SHIPPED = (
    COUNTS,
    SECURE_COUNTS,
    HOLDOUT,
    SAMPLE,
    MODEL,
    STATISTIC,
)
READERS: Mapping[str, Reader] = MappingProxyType({reader.kind.name: reader for reader in _SHIPPED})
"""A learner's default readers, by kind."""
