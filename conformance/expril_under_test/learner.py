"""ExPriL's learner under test: one JSON object per line in, one per line out; see conformance/README.md."""

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from expril_under_test.reading import RefusedError, read, rule_of
from learner_node.carriers.folder import read_small_file
from learner_node.kinds import READERS
from learner_node.study.session import Session
from protocol.carriage import REPLIES, REQUESTS, envelope_file
from protocol.codec import MOST_ENVELOPE_BYTES, decode
from protocol.envelopes import SigningKey, digest
from protocol.errors import LocalProtocolError, RemoteProtocolError
from protocol.messages import Refusal, Release
from protocol.plans import Plan
from protocol.query_kind import KindTerms, Question
from protocol.transitions import State

Json = Mapping[str, Any]
SEAT = "state.json"
"""What happened so far: a list of (request or "receive", time or reply). The study is played anew from it each time."""


class Study:
    """A study in a folder, one step at a time."""

    def __init__(self, folder: Path) -> None:
        settings = json.loads((folder / "study.json").read_text(encoding="utf-8"))
        self.folder = folder / settings["curator"]
        self._seat = folder / SEAT
        self._plan, self._purpose = decode(bytes.fromhex(settings["plan"]), Plan), settings["purpose"]
        self._queries = [(query["kind"], bytes.fromhex(query["body"])) for query in settings["queries"]]
        self.session = Session(
            curator=bytes.fromhex(settings["curator"]),
            key=SigningKey.from_seed(bytes.fromhex(settings["seed"])),
            study=bytes.fromhex(settings["study"]),
            lifetime=settings["lifetime"],
            newest_receipt=bytes.fromhex(settings["newest_receipt"]),
        )
        self.answers: list[list[int] | None] = []
        self.last = ""  # name of the last request
        self._hindered = False  # whether a query was refused for good
        self._events = json.loads(self._seat.read_text(encoding="utf-8")) if self._seat.is_file() else []
        for name, item in self._events:
            self._play(name, item)

    def step(self, now: int) -> dict[str, Any]:
        """Take the reply that waits, if there is one, and write the next request."""
        refused = why = ""
        if self.session.pending:
            name = envelope_file(digest(self.session.pending))
            reply = read_small_file(self.folder / REPLIES / name, MOST_ENVELOPE_BYTES)
            try:
                if reply is not None:
                    self._do("receive", reply.hex())
            except RemoteProtocolError as error:
                refused, why = rule_of(error), str(error)
        if not self.session.pending and (name := self._next()):
            self._do(name, now)
            path = self.folder / REQUESTS / envelope_file(digest(self.session.pending))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.session.pending)
        self._seat.write_text(json.dumps(self._events), encoding="utf-8")
        session = self.session
        return {
            "state": str(session.state),
            "waits": digest(session.pending).hex() if session.pending else "",
            "refused": refused,
            "why": why,
            "claimed": str(session.spending.claimed),
            "spent": str(session.spent),
            "at_most": str(session.spent_at_most),
            "answers": self.answers,
            "newest_receipt": session.newest_receipt.hex(),
        }

    def _next(self) -> str:
        """The next request; empty where nothing follows."""
        match self.session.state:
            case State.NEW:
                return "propose" if self.session.card else "" if self.last else "card"
            case State.OPEN:
                hindered = self._hindered or None in self.answers or not self.session.spending.as_planned
                return "close" if hindered or len(self.answers) == len(self._queries) else "query"
        return ""

    def _do(self, name: str, item: Any) -> None:
        """What happens, kept once it has."""
        self._play(name, item)
        self._events.append((name, item))

    def _play(self, name: str, item: Any) -> None:
        session = self.session
        match name:
            case "card":
                session.request_card(item)
            case "propose":
                session.propose(self._plan, self._purpose, item)
            case "query":
                session.query(*self._queries[len(self.answers)], item)
            case "close":
                session.close(item)
            case _:
                reply = session.receive(bytes.fromhex(item))
                if isinstance(reply, Release):
                    self.answers.append(self._numbers(reply))
                self._hindered |= isinstance(reply, Refusal) and reply.rules_out
                return
        self.last = name

    def _numbers(self, release: Release) -> list[int] | None:
        """The released numbers; None where the release is none."""
        turn = self.session.kinds.turns(self._plan)[release.sequence - 1]
        kind, card = self.session.kinds.kind(turn.planned.kind), self.session.card
        if card is None:
            return None
        terms = KindTerms(card.schema, self.session.kinds.limits(card.limits, kind.name))
        try:
            if release.kind != kind.name:
                return None
            body = kind.read_body(self._queries[release.sequence - 1][1], turn, terms)
            READERS[kind.name].read(release.body, question := Question(turn, body, card.schema))
        except RemoteProtocolError:
            return None
        numbers: list[int] = kind.read_release(release.body, question).tolist()
        return numbers


def answer(line: Json) -> Json:
    """The answer to one line."""
    if line["do"] == "step":
        return Study(Path(line["folder"])).step(line["now"])
    try:
        return {"taken": read(line["read"], line["given"])}
    except RefusedError as error:
        return {"refused": error.rule, "why": str(error)}
    except KeyError:
        return {"unsupported": f"nothing is known of {line['read']}"}


def serve(answers: Callable[[Json], Json]) -> None:
    """Answer standard input, line by line."""
    for line in sys.stdin:
        try:
            reply = answers(json.loads(line))
        except (LocalProtocolError, OSError) as error:
            reply = {"unsupported": f"{type(error).__name__}: {error}"}
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve(answer)
