"""What a ledger notes beside its charges and answers, held against plans, requests, releases and other ledgers."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from expril.audit.recompute.known import Study
from expril.audit.recompute.reading import ReadEntry
from protocol.errors import RemoteProtocolError
from protocol.messages import Query
from protocol.query_kind import Kinds, QueryKind, Turn
from protocol.transcript import Replay


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


class _Asked(NamedTuple):
    """A query, read."""

    kind: QueryKind
    turn: Turn
    body: Any


class Remarks:
    """The notes of one ledger's charges and answers.

    Args:
        kinds: installed; of others' queries nothing is said.

    Attributes:
        by_request: digest of a request -> the note of its charge; those without one are not kept.
        by_answer: digest of a request -> the note of its answer, likewise.
    """

    def __init__(self, kinds: Kinds) -> None:
        self._kinds = kinds
        self.by_request: dict[bytes, str] = {}
        self.by_answer: dict[bytes, str] = {}
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

    def hear(self, entry: ReadEntry) -> None:
        """Note what the entry of an answer says."""
        if entry.note:
            self.by_answer[entry.request] = entry.note

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
        said = self._asked(asked, proof, lambda kind: kind.check_remark is not None)
        if said is None:
            return ""
        should = said.kind.remark(said.body, said.turn)
        return "" if should == self.by_request.get(request, "") else should or "nothing"

    def unlike_release(self, request: bytes, asked: Query, release: bytes, proof: Replay) -> str:
        """What the note of an answer should have said by the very bytes that were released; "" where it says that."""
        said = self._asked(asked, proof, lambda kind: kind.noted is not None)
        should = "" if said is None or said.kind.noted is None else said.kind.noted(release, said.body, said.turn)
        return "" if should == self.by_answer.get(request, "") else should or "nothing"

    def _asked(self, asked: Query, proof: Replay, notes: Callable[[QueryKind], bool]) -> _Asked | None:
        """What a query asks; None where its kind notes nothing, or it was refused, or its transcript is."""
        if proof.card is None or proof.plan is None or not 1 <= asked.sequence <= len(proof.plan.places):
            return None
        place = proof.plan.places[asked.sequence - 1]
        kind = self._kinds.get(proof.plan.head(place[0]).kind)
        if kind is None or not notes(kind):
            return None
        try:
            turn = self._kinds.turn(proof.plan, place)
            limits = self._kinds.limits(proof.card.limits, kind.name)
            return _Asked(kind, turn, kind.read_body(asked.body, turn, proof.card.schema, limits))
        except RemoteProtocolError:
            return None
