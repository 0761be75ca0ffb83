"""A plan: everything that a study will ask, fixed before the first answer.

This module reads only the kind and the number of turns of a planned query. The kind decodes the rest
(`protocol.query_kind`), so a plan can be carried, stored and read even if a kind is not installed.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Annotated, Any, Self

import msgspec

from protocol.codec import encode

MOST_QUERIES = 1000
MOST_TURNS = 100_000
"""Most turns of all queries of a plan together, far below 2^20, the largest sequence number of a message."""


class Planned(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="kind"):
    """One future query, as its kind reads it. A kind's own struct extends this with `tag` set to its name.

    A kind whose queries take more than one turn has a field `turns: int` with the default 1.
    """

    @property
    def kind(self) -> str:
        """Name of the query's kind."""
        return str(self.__struct_config__.tag)


class Head(msgspec.Struct, frozen=True):
    """The fields of every planned query."""

    kind: Annotated[str, msgspec.Meta(max_length=100)]  # name of its kind
    turns: Annotated[int, msgspec.Meta(ge=1, le=MOST_TURNS)] = 1  # number of requests, each with a release


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The queries of a study, in order, each as its kind encodes it; `of` makes one."""

    queries: Annotated[tuple[msgspec.Raw, ...], msgspec.Meta(min_length=1, max_length=MOST_QUERIES)]

    def __post_init__(self) -> None:
        if sum(head.turns for head in self.heads) > MOST_TURNS:
            raise ValueError(f"a plan has at most {MOST_TURNS} turns")

    @classmethod
    def of(cls, queries: Iterable[Any]) -> Self:
        """The plan of these queries: `Planned` structs, or mappings if their kinds are not installed."""
        return cls(tuple(msgspec.Raw(encode(planned)) for planned in queries))

    def head(self, index: int) -> Head:
        """Kind and number of turns of one query, counted from 0."""
        return _head(bytes(self.queries[index]))

    @property
    def heads(self) -> tuple[Head, ...]:
        """Kind and number of turns of each query."""
        return tuple(_head(bytes(query)) for query in self.queries)

    @property
    def places(self) -> tuple[tuple[int, int], ...]:
        """For each sequence number from 1, the index of its query and its turn within the query, both from 0."""
        return tuple((index, turn) for index, head in enumerate(self.heads) for turn in range(head.turns))


_HEAD = msgspec.msgpack.Decoder(Head)


@lru_cache(maxsize=4096)
def _head(query: bytes) -> Head:
    return _HEAD.decode(query)
