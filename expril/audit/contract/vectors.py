"""Vectors of a query kind: bytes that are pinned, since the meaning of a name on the wire never changes.

A file of vectors is JSON. Wherever in it a planned query of the kind stands in hexadecimal, it must be read, and be
written as the same bytes. A file as `vectors_of` writes it holds whole questions with their releases, too.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from curator_node.answering import Answered, Answerer
from expril.audit.attack.neighbours import values_of
from expril.audit.contract.duties import BrokenDutyError
from expril.audit.kinds.answer_path import AnswerPath, NoNoise
from expril.audit.kinds.kind_audit import Example
from protocol.codec import encode
from protocol.errors import RemoteProtocolError
from protocol.plans import Plan
from protocol.query_kind import Kinds, KindTerms, QueryKind, Question, Turn
from protocol.schema import Schema


class KindVector(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The bytes of one question, and of its releases on one record without noise; all in hexadecimal."""

    about: str
    schema: dict[str, Any]
    most_records_per_unit: int
    planned: str
    bodies: tuple[str, ...]
    releases: tuple[str, ...]
    cost: str  # a/b


def vectors_of(answerer: Answerer, examples: tuple[Example, ...]) -> str:
    """Return the text of a file of vectors: each example that one curator answers alone, on one record."""
    vectors = []
    for example in examples:
        if example.company is not None:
            continue
        planned, bodies = example.ask(1).planned, example.ask(1).bodies
        releases: list[bytes] = []
        path = AnswerPath(_keeping(answerer, releases), example)
        record = {name: values[0] for name, values in values_of(example).items()}
        path.observe(path.hold(((record,),), example), NoNoise())
        vectors.append(
            KindVector(
                example.about,
                msgspec.to_builtins(example.schema),
                example.most_records_per_unit,
                encode(planned).hex(),
                tuple(data.hex() for data in bodies),
                tuple(data.hex() for data in releases),
                str(path.kinds.cost(planned, example.most_records_per_unit)),
            )
        )
    return json.dumps(msgspec.to_builtins(vectors), indent=1, ensure_ascii=False) + "\n"


def _keeping(answerer: Answerer, releases: list[bytes]) -> Answerer:
    """The same answerer, of which each release is kept."""

    def answer(*parts: Any) -> Answered:
        answered = answerer.answer(*parts)
        releases.append(answered.release)
        return answered

    return replace(answerer, answer=answer)


def count_vectors(kind: QueryKind, text: str) -> int:
    """Check a file's vectors of a kind, and return how many values were checked; 0 if it holds none of this kind.

    Raises:
        BrokenDutyError: a value is refused, or is written as other bytes, or costs something else.
    """
    content, count = json.loads(text), 0
    for data in _hexadecimal(content):
        if _is_plan(data, kind.name):
            _read_plan(kind, data)
            count += 1
    if isinstance(content, list) and content and isinstance(content[0], dict) and "releases" in content[0]:
        count += sum(_check_question(kind, vector) for vector in msgspec.convert(content, list[KindVector]))
    return count


def _hexadecimal(content: Any) -> Iterator[bytes]:
    """All bytes in a JSON value that are written in hexadecimal, but those of vectors that must be refused."""
    if isinstance(content, Mapping):
        lawful = {} if "code" in content else {name: part for name, part in content.items() if name != "bad"}
        yield from _hexadecimal(list(lawful.values()))
    elif isinstance(content, list):
        for part in content:
            yield from _hexadecimal(part)
    elif isinstance(content, str):
        try:
            yield bytes.fromhex(content)
        except ValueError:
            return


def _is_plan(data: bytes, name: str) -> bool:
    try:
        content = msgspec.msgpack.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return (
        isinstance(content, dict) and content.get("kind") == name and "study" not in content
    )  # a message names its kind, too


def _read_plan(kind: QueryKind, data: bytes) -> Any:
    try:
        (planned,) = Kinds(kind).queries(Plan.of([msgspec.msgpack.decode(data)]))
    except RemoteProtocolError as error:
        raise BrokenDutyError(f"a pinned plan is refused ({error}); give the changed kind another name") from error
    if encode(planned) != data:
        raise BrokenDutyError("a pinned plan is written as other bytes; give the changed kind another name")
    return planned


def _check_question(kind: QueryKind, vector: KindVector) -> int:
    schema = msgspec.convert(vector.schema, Schema)
    planned = _read_plan(kind, bytes.fromhex(vector.planned))
    if str(kind.cost(planned, vector.most_records_per_unit)) != vector.cost:
        raise BrokenDutyError(f"a pinned plan costs something else than {vector.cost}: {vector.about}")
    for number, (body, release) in enumerate(zip(vector.bodies, vector.releases, strict=True)):
        turn = Turn(planned, 0, number)
        try:
            content = kind.read_body(bytes.fromhex(body), turn, KindTerms(schema, kind.limits()))
            kind.read_release(bytes.fromhex(release), Question(turn, content, schema))
        except RemoteProtocolError as error:
            raise BrokenDutyError(f"a pinned body or release is refused ({error}): {vector.about}") from error
    return 2 * len(vector.bodies)
