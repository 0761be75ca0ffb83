"""What a ledger notes beside its charges, held against the plans, against requests, and against other ledgers."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from protocol.errors import RemoteProtocolError
from protocol.kinds import Kinds, QueryKind, Turn
from protocol.messages import Query
from protocol.transcript import Replay
from simulations.audit.recompute.known import Study
from simulations.audit.recompute.reading import ReadEntry


class InCommon(NamedTuple):
    """What a ledger notes of something that several curators did together.

    Attributes:
        entry: index of the last entry that tells of it.
        what: it is.
        how: all of them must have noted it so.
    """

    entry: int
    what: str
    how: str


class Remarks:
    """The notes of one ledger's charges.

    Args:
        kinds: installed; of others' queries nothing is said.

    Attributes:
        by_request: digest of a request -> its note; those without one are not kept.
    """

    def __init__(self, kinds: Kinds) -> None:
        self._kinds = kinds
        self.by_request: dict[bytes, str] = {}
        self._by_query: dict[tuple[Study, int], list[tuple[int, str]]] = {}

    def take(self, entry: ReadEntry, study: Study, keys: Sequence[bytes]) -> str:
        """Note what a charge's entry says; what is wrong with it, "" where nothing is."""
        query, number = study.shape.places[entry.sequence - 1]
        kind = self._kinds.get(study.shape.kinds[query])
        if entry.note:
            self.by_request[entry.request] = entry.note
        if kind is None:
            return ""
        if kind.check_remark is None:
            return "notes what its query kind does not tell" if entry.note else ""
        self._by_query.setdefault((study, query), []).append((entry.index, entry.note))
        try:
            turn = Turn(self._kinds.query(study.shape.plan, query), query, number)
        except RemoteProtocolError:
            return ""  # the plan breaks a rule of its kind, and that is told
        return kind.check_remark(entry.note, turn, keys)

    def in_common(self) -> Iterator[InCommon]:
        """What this ledger tells of things that several curators did together."""
        for (study, query), notes in self._by_query.items():
            kind = self._kinds[study.shape.kinds[query]]
            try:
                planned = self._kinds.query(study.shape.plan, query)
            except RemoteProtocolError:
                continue
            told = kind.in_common(planned, [note for _, note in notes])
            if told is not None:
                yield InCommon(notes[-1][0], *told)

    def differing(self, request: bytes, asked: Query, proof: Replay) -> str:
        """What a note should have said by the very request that was charged; "" where it says that."""
        kind, turn = _asked_of(asked, proof, self._kinds)
        if kind is None or turn is None or proof.card is None:
            return ""
        try:
            body = kind.read_body(asked.body, turn, proof.card.schema, self._kinds.limits(proof.card.limits, kind.name))
        except RemoteProtocolError:
            return ""  # it was refused, or its transcript is refused
        should = kind.remark(body, turn)
        return "" if should == self.by_request.get(request, "") else should or "nothing"


def _asked_of(asked: Query, proof: Replay, kinds: Kinds) -> tuple[QueryKind | None, Turn | None]:
    """The kind and the turn of a query whose kind has something to note."""
    if proof.plan is None or not 1 <= asked.sequence <= len(proof.plan.places):
        return None, None
    place = proof.plan.places[asked.sequence - 1]
    kind = kinds.get(proof.plan.head(place[0]).kind)
    if kind is None or kind.check_remark is None:
        return None, None
    try:
        return kind, kinds.turn(proof.plan, place)
    except RemoteProtocolError:
        return None, None
