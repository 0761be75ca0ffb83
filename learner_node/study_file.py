"""`STUDY.toml`: what a learner asks, of whom, over which carrier. A person writes it; it is read strictly."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from expril.files import read_text_file
from learner_node.analyses.parts import OF_MODELS, check_no_model, read_parts
from learner_node.strategies import DEFAULT_STRATEGY, check_options
from learner_node.study.budget import Budget
from learner_node.study.doubts import require_confirmed
from learner_node.study.federation import LIFETIME
from learner_node.study.pooling import SUM, Pooling, PoolingName
from protocol.codec import encode
from protocol.envelopes import check_public_key, digest
from protocol.errors import ConfigurationError
from protocol.identity import BEGIN, read_identity
from protocol.messages import MOST_PURPOSE
from protocol.rationals import parse_rational
from protocol.strict_toml import decode_text, parse_toml, read_toml

if TYPE_CHECKING:
    from learner_node.analyses.part import Part

MOST_LIFETIME = 30 * 86_400
"""Longest validity of a request, seconds: 30 days, for requests sent by post. A curator's policy may allow less."""
MOST_SEED = 2**31 - 1
CARD_BYTES = 65_536
TEMPLATE = """\
# What is asked, of whom, and how. All keys: docs/learner/learner.md
title = "Readmission within 30 days"
purpose = "What we want to know, why, and who we are: the stewards read this."
source = "source.csv"        # unlabelled records of the same kind; CSV or Parquet
epsilon = 1                  # to spend at each curator, once
# strategy = "cells"
# pooling = "secure"         # only the sum over all curators is opened, with about the noise of one
# all_or_none = true         # where one curator refuses, none is asked and nothing is spent
# validate = "1/4"           # ask once more, at this epsilon: how good is the model?
# recalibrate = true         # and let those answers mend its risks, at no further cost

[curators]                   # your name of it = its public key, or the file of its identity card
# north = "3b6a27bcceb6a42d62a3a8d02a6f0d73653215771de243a63ac048a18b59da29"
# south = "south.card"

[superlink]
address = "superlink.example.org:8000"
ca = "ca.crt"                # of the authority that certifies the SuperLink; leave it out for a public one
secret = "superexec.secret"

# Instead of [superlink], for curators that accept no connection:
# folder = "post"
# lifetime_seconds = 2_592_000
"""

Written = int | float | str
Text = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Lifetime = Annotated[int, msgspec.Meta(ge=60, le=MOST_LIFETIME)]
Wait = Annotated[float, msgspec.Meta(ge=0, le=MOST_LIFETIME)]


class Link(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the SuperLink is."""

    address: Annotated[str, msgspec.Meta(pattern=r"^[^\s/]+:[0-9]{1,5}\Z")]  # "host:port"
    secret: str  # file of the secret under which runs are fetched
    ca: str = ""  # file of the authority that certifies it; empty takes the public ones


class Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A question of one query kind, field by field, as `learner_node.questions.plain_question` asks it."""

    kind: str  # of the query; of an installed package, it is found by this name
    planned: dict[str, Any] = {}  # the fields of its planned query; an exact number is [numerator, denominator]
    # the fields of its body; of a query that asks one turn after the other, a list with those of each turn
    body: dict[str, Any] | tuple[dict[str, Any], ...] = {}

    @property
    def bodies(self) -> tuple[dict[str, Any], ...]:
        """The bodies, one for each turn that is asked."""
        return self.body if isinstance(self.body, tuple) else (self.body,)

    @property
    def partitions(self) -> set[str]:
        """The types of partitions that the bodies name; those of installed packages are found by these names."""
        lists = [body.get("partitions") for body in self.bodies]
        parts = [part for parts in lists if isinstance(parts, list | tuple) for part in parts]
        return {part["type"] for part in parts if isinstance(part, dict) and isinstance(part.get("type"), str)}


class StudyFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The study file, described in docs/learner/learner.md. Paths are relative to its folder."""

    title: Text
    epsilon: Written
    curators: dict[str, str]
    source: str = ""  # of a model; analyses need none
    purpose: Annotated[str, msgspec.Meta(max_length=MOST_PURPOSE)] = ""
    learner: Annotated[str, msgspec.Meta(min_length=1, max_length=100)] = "learner"
    key: str = "learner.pem"
    receipts: str = "receipts.json"
    strategy: str = DEFAULT_STRATEGY
    options: dict[str, Any] = {}
    pooling: PoolingName = SUM
    colluders: Annotated[int, msgspec.Meta(ge=1)] | None = None
    dropouts: Annotated[int, msgspec.Meta(ge=0)] | None = None
    all_or_none: bool = False
    seed: Annotated[int, msgspec.Meta(ge=0, le=MOST_SEED)] = 0
    large_epsilon: bool = False
    validate: Written | None = None
    recalibrate: bool = False
    attempts: Annotated[int, msgspec.Meta(ge=1, le=20)] = 2
    lifetime_seconds: Lifetime = LIFETIME
    timeout_seconds: Annotated[float, msgspec.Meta(gt=0, le=86_400)] = 60.0
    patience_seconds: Wait = 300.0
    wait_seconds: Wait = 0.0
    superlink: Link | None = None
    folder: str = ""
    analyses: tuple[dict[str, Any], ...] = ()  # tables of `learner_node.analyses.parts`, asked instead of a model
    question: Question | None = None  # of one query kind, asked instead of a model

    @property
    def asks_model(self) -> bool:
        """Whether it asks for a model, which needs unlabelled records."""
        return not self.analyses and self.question is None

    @property
    def parts(self) -> "tuple[Part, ...]":
        """The analyses; empty where a model is asked. Raises ConfigurationError: one of them has an error."""
        return read_parts(self.analyses, where="the study's file")

    @property
    def budget(self) -> Budget:
        """The exact epsilons of the study and of the validation, and the purpose."""
        return Budget(self.epsilon, self.purpose, validation=self.validate)

    @property
    def pool(self) -> Pooling:
        """How answers become models. Raises ConfigurationError if the three pooling keys contradict each other."""
        return Pooling(self.pooling, self.colluders, self.dropouts)


def read_study(content: bytes, *, where: str) -> StudyFile:
    """Read the file.

    Raises ConfigurationError: the file is not TOML, or a key is misspelt or missing or has a wrong value.
    """
    study = read_toml(decode_text(content, where=where), StudyFile, where=where)
    if not study.curators:
        raise ConfigurationError(f"{where}: [curators] names nobody to ask; write name = its public key, or card file")
    if study.recalibrate and study.validate is None:
        raise ConfigurationError(
            f'{where}: recalibrate needs the answers of a validation; add validate = "1/4", or leave recalibrate out'
        )
    _check_analyses(study, where)
    try:
        check_options(study.strategy, study.options)
        study.pool  # noqa: B018 - the error
    except ConfigurationError as error:
        raise ConfigurationError(f"{where}: {error}") from None
    for key, written in (("epsilon", study.epsilon), ("validate", study.validate)):
        try:
            epsilon = None if written is None else parse_rational(written)
        except ConfigurationError as error:
            raise ConfigurationError(f"{where}: {key}: {error}") from None
        if epsilon is not None and not study.large_epsilon:
            require_confirmed([epsilon], how=f"large_epsilon = true, in {where} ({key})")
    return study


def study_of_analyses(path: Path) -> StudyFile | None:
    """The study's file, if there is one and it asks analyses. Raises ConfigurationError as `read_study`."""
    if path.suffix != ".toml" or not path.is_file():
        return None
    text = read_text_file(path, "study file")
    try:
        keys = parse_toml(text, where=str(path))
    except ConfigurationError:
        return None  # whoever reads it as another file says what is wrong
    return read_study(text.encode(), where=str(path)) if "analyses" in keys else None


def _check_analyses(study: StudyFile, where: str) -> None:
    """Raise ConfigurationError: an analysis has an error, or the file asks a model and others at once, or neither."""
    if study.asks_model:
        if not study.source:
            raise ConfigurationError(
                f"{where}: source is missing: a model needs unlabelled records; or write [[analyses]] or [question], "
                "which need none"
            )
        return
    if study.question is not None and (study.analyses or study.pool.secure):
        raise ConfigurationError(
            f"{where}: [question] is asked alone, of each curator; leave out [[analyses]] and pooling, or write a file "
            "for each"
        )
    try:
        check_no_model({key: getattr(study, key) for key in OF_MODELS})
    except ConfigurationError as error:
        raise ConfigurationError(f"{where}: {error}") from None
    if study.analyses:
        read_parts(study.analyses, where=where)


def curator_keys(study: StudyFile, folder: Path, *, now: int, where: str) -> dict[str, bytes]:
    """Read each curator's public key from the study file or from the curator's card.

    Args:
        study: the file.
        folder: folder that paths are relative to.
        now: seconds since 1970. A card may have expired.
        where: the file's name in error texts.

    Raises:
        ConfigurationError: a curator has neither key nor card, or two names stand for one curator.
    """
    keys = {
        name: _curator_key(written, folder, now, f"{where}: curator {name!r}")
        for name, written in study.curators.items()
    }
    twice = [name for name in keys if list(keys.values()).count(keys[name]) > 1]
    if twice:
        raise ConfigurationError(f"{where}: {' and '.join(twice)} are one curator: they have one key; name it once")
    return keys


def about(study: StudyFile, curators: Mapping[str, bytes], source: bytes, learner: bytes) -> bytes:
    """Digest of everything that decides the course of a study: file, curators' keys, source and learner's key.

    The SuperLink's address and the waiting times are left out: they may change while a study goes on. `curators` maps
    names to public keys; `source` is the SHA-256 of the source's file, empty without one; `learner` is a public key.
    """
    settings = [
        study.purpose,
        study.strategy,
        msgspec.json.encode(study.options, order="sorted"),
        str(study.budget.epsilon),
        study.pooling,
        *([study.colluders, study.dropouts] if study.pool.secure else []),
        *(["all or none"] if study.all_or_none else []),
        study.seed,
        str(study.budget.validation),
        list(curators.items()),
        source,
        learner,
        *([msgspec.json.encode(study.analyses, order="sorted")] if study.analyses else []),
        *([msgspec.json.encode(study.question, order="sorted")] if study.question else []),
    ]
    return digest(b"expril/2 study" + encode(settings))


def _curator_key(written: str, folder: Path, now: int, where: str) -> bytes:
    try:
        key = bytes.fromhex(written)
    except ValueError:
        key = b""
    if not key:
        path = folder / written
        if not path.is_file():
            raise ConfigurationError(
                f"{where}: {written!r} is neither a public key (64 hexadecimal digits) nor a card file"
            )
        card = read_identity(_card_text(path, where), where=f"{where}, card file {path}")
        if card.role != "curator":
            raise ConfigurationError(f"{where}: the card in {path} is a {card.role}'s, not a curator's")
        if card.expired(now):
            raise ConfigurationError(f"{where}: the card in {path} is no longer valid; ask its steward for a new one")
        key = card.key
    try:
        check_public_key(key)
    except ConfigurationError as error:
        raise ConfigurationError(f"{where}: {error}") from None
    return key


def _card_text(path: Path, where: str) -> str:
    with path.open("rb") as file:
        text = decode_text(file.read(CARD_BYTES), where=f"{where}, card file {path}")
    if BEGIN not in text:
        raise ConfigurationError(f"{where}: {path} holds no identity card; its steward makes one: expril curator card")
    return text
