"""The duties of a query kind: of its four halves, its generator, its oracle, its vectors and its page.

Questions are drawn by the kind's generator, records and neighbouring sets of them by the auditor's search. The hard
questions are the examples of its auditor's half, which `expril audit mechanism` attacks with real noise as well.
"""

import pkgutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import chain
from typing import Any, ClassVar

import msgspec
import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from curator_node.answering import Answerer
from curator_node.records.dataset import PrivateDataset
from expril.audit.attack.conformity import strayed_calls, strayed_draws
from expril.audit.attack.kinds import miscounted, unanswered
from expril.audit.attack.neighbours import random_pair, values_of
from expril.audit.contract.curator_run import CuratorRun, ScriptedNoise
from expril.audit.contract.duties import BrokenDutyError, Duty, MissingDutyError, Verdict, explore, judge
from expril.audit.contract.mutations import UNLAWFUL, mutations
from expril.audit.contract.pages import faults_of_page
from expril.audit.contract.vectors import count_vectors
from expril.audit.generators.values import schemas
from expril.audit.kinds.answer_path import LEARNER, AnswerPath, lead_of
from expril.audit.kinds.exact import enumerate_loss
from expril.audit.kinds.invented import Neighbours, Unit, dataset_of
from expril.audit.kinds.kind_audit import Asking, AuditQuery, Example, KindAudit, Trace
from learner_node.study.reading import Reader
from protocol.codec import encode
from protocol.envelopes import open_envelope
from protocol.errors import ConfigurationError, RemoteProtocolError
from protocol.messages import Refusal, Release
from protocol.noise import NoisyMax
from protocol.plans import Plan
from protocol.query_kind import Kinds, KindTerms, QueryKind, Question, Turn

FEW, MORE = 8, 20
"""Drawn questions, where each is answered several times, and where it is only read."""
COPIES = 20
"""Copies of an example that are asked in one query here; an audit asks as many as the example says."""
MOST_SHOWN = 300


@dataclass(frozen=True)
class KindSubject:
    """A query kind as it is installed."""

    audit: KindAudit
    answerer: Answerer
    reader: Reader | None = None
    page: str = ""  # the text of its page; "" if there is none
    vectors: tuple[str, ...] = ()  # texts of JSON files
    home: ClassVar[str] = "docs/extending/kind.md"

    @property
    def kind(self) -> QueryKind:
        """What both sides agree on."""
        return self.answerer.kind

    @cached_property
    def examples(self) -> tuple[Example, ...]:
        """The hard questions of all that the kind releases."""
        return tuple(chain.from_iterable(self.audit.examples().values()))

    @cached_property
    def questions(self) -> SearchStrategy[Example]:
        """Lawful questions under drawn schemas; the examples, asked once each, where the kind has no generator."""
        if not self.audit.generator:
            return st.sampled_from(self.examples)
        generator: Callable[..., Any] = pkgutil.resolve_name(self.audit.generator)

        @st.composite
        def drawn(draw: DrawFn) -> Example:
            schema = draw(schemas())
            planned, bodies = draw(generator(schema))
            query = AuditQuery(planned, (bodies,) if isinstance(bodies, bytes) else tuple(bodies))
            bound = draw(st.sampled_from([1, 1, 2, 3]))
            return Example("a drawn question", schema, lambda _: query, most_records_per_unit=bound)

        return drawn()

    def verdicts(self) -> Iterator[Verdict]:
        """What became of each duty, in order."""
        for duty in DUTIES:
            yield judge(duty, self, self.audit.excuses)


def _words(example: Example) -> str:
    text = repr(example.ask(1).planned)
    return f"{example.about}, {text if len(text) <= MOST_SHOWN else text[:MOST_SHOWN] + '...'}"


def _neighbours(example: Example, index: int) -> Neighbours:
    return random_pair(example, values_of(example), np.random.default_rng(index), index)


def _path(subject: KindSubject, example: Example, **changes: Any) -> AnswerPath:
    """The question's way to its answer; keys for one query are the same each time."""
    return AnswerPath(subject.answerer, example, entropy=np.random.default_rng(1).bytes, **changes)


def _scripted(subject: KindSubject, example: Example, units: tuple[Unit, ...]) -> tuple[list[list[Any]], ScriptedNoise]:
    """All numbers that an answer to a question reveals, and how it asked for noise."""
    path, noise = _path(subject, example), ScriptedNoise()
    try:
        observation, _ = path.observe(path.hold(units, example), noise)
    except NotImplementedError:
        raise
    except Exception as error:
        raise BrokenDutyError(
            f"its answerer fails on some records with {type(error).__name__}: {error}; no record may make it fail; "
            f"asked: {_words(example)}"
        ) from error
    return [part.tolist() for part in observation], noise


# --- what is asked


def _bodies(subject: KindSubject, example: Example) -> tuple[Any, tuple[bytes, ...]]:
    """The plan of a question, and the bodies of its turns that are known before any answer: all, or the first one."""
    query = example.ask(1)
    if example.company is None:
        return query.planned, query.bodies
    lead = lead_of(subject.kind, example, Asking(1, 0, LEARNER, np.random.default_rng(1).bytes))
    return query.planned, (next(lead)[0],)


def generator(subject: KindSubject) -> str:
    """Check that drawn questions are lawful: planned, allowed by default, priced, and read back byte for byte."""
    if not subject.audit.generator:
        raise MissingDutyError(
            "write a function that takes a schema and returns a Hypothesis strategy of (planned query, encoded body), "
            f"and name it in `generator` of the auditor's half ({subject.home})"
        )
    kind, allowed = subject.kind, 0
    kinds = Kinds(kind)

    def check(example: Example) -> None:
        nonlocal allowed
        planned, bodies = _bodies(subject, example)
        try:
            (read,) = kinds.queries(Plan.of([planned]))
        except RemoteProtocolError as error:
            raise BrokenDutyError(f"a drawn plan is refused: {error}; draw lawful ones alone: {planned!r}") from error
        if read != planned:
            raise BrokenDutyError(f"a plan is read back as another: {planned!r} as {read!r}")
        cost = kinds.cost(planned, example.most_records_per_unit)
        if not isinstance(cost, Fraction) or cost <= 0:
            raise BrokenDutyError(f"a cost is an exact Fraction above 0, not {cost!r}: {planned!r}")
        terms = KindTerms(example.schema, kind.limits())
        try:
            kind.check_allowed(planned, terms, "plan.queries[0]")
        except RemoteProtocolError:
            return  # a kind may draw what a steward has to allow
        allowed += 1
        for number, data in enumerate(bodies):
            turn = Turn(planned, 0, number)
            body = kind.read_body(data, turn, terms)
            if isinstance(body, msgspec.Struct) and encode(body) != data:
                raise BrokenDutyError(f"a body is read back as another: {body!r:.300}")
            question = Question(turn, body, example.schema)
            if kind.work(question, 100) < 1 or kind.release_bytes(question) < 1:
                raise BrokenDutyError(f"work and bytes of a release are at least 1: {_words(example)}")

    count = explore(subject.questions, check, MORE)
    if not allowed:
        raise BrokenDutyError(f"none of {count} drawn questions is allowed by the kind's own limits")
    return f"{count} questions were drawn, and {allowed} are allowed by default"


def hostile_bodies(subject: KindSubject) -> str:
    """Check that hostile bodies are refused before any charge, without a trace, and that nothing else fails."""
    refused, examples = 0, 0

    def check(example: Example) -> None:
        nonlocal refused, examples
        planned, bodies = _bodies(subject, example)
        _read_or_refused(subject, example, planned, bodies)
        hostile = {name: data for name, data in mutations(bodies[0]).items() if name in UNLAWFUL}
        special = subject.audit.hostile(planned, bodies, example.schema)
        examples += bool(special)
        run = CuratorRun(subject.answerer, example, _neighbours(example, 0).shared)
        if isinstance(run.propose(planned), Refusal):
            return
        for name, data in (hostile | dict(special)).items():
            before = run.traces
            reply = run.ask(planned.kind, data)
            if not isinstance(reply, Refusal):
                raise BrokenDutyError(
                    f"a body with {name} was answered; refuse it in `read_body` or in `Answerer.check`: "
                    f"{_words(example)}"
                )
            if run.traces != before:
                raise BrokenDutyError(f"a body with {name} was charged before it was refused: {_words(example)}")
            refused += 1
        if isinstance(reply := run.ask(planned.kind, bodies[0]), Refusal):
            raise BrokenDutyError(f"after refusals a lawful body is refused as {reply.code}: {_words(example)}")

    count = explore(subject.questions, check, FEW)
    if not refused:
        raise BrokenDutyError(f"no curator accepted any of {count} drawn plans, so nothing was tried")
    if not examples:
        raise MissingDutyError(
            "return bodies that only this kind can know to be wrong, such as one of another size than planned, from "
            f"`hostile` of the auditor's half ({subject.home})"
        )
    return f"{refused} bodies were refused, without an entry and before noise was drawn"


def _read_or_refused(subject: KindSubject, example: Example, planned: Any, bodies: Sequence[bytes]) -> None:
    """Nearly lawful bodies are read or refused; what is read is answered as well."""
    kind, terms = subject.kind, KindTerms(example.schema, subject.kind.limits())
    for number, data in enumerate(bodies):
        for name, changed in mutations(data).items():
            try:
                kind.read_body(changed, Turn(planned, 0, number), terms)
            except RemoteProtocolError:
                continue
            except Exception as error:
                raise BrokenDutyError(
                    f"`read_body` fails with {type(error).__name__} where a body has {name}; it raises "
                    f"RemoteProtocolError alone: {_words(example)}"
                ) from error
            if name in UNLAWFUL:
                raise BrokenDutyError(f"`read_body` takes a body that is {name}; read it with `decode`")


# --- what is drawn and charged


def cost(subject: KindSubject) -> str:
    """Check that what the answerer states to its source of noise adds up to the charge, by the noise library's map."""
    kind, sums = subject.kind, 0

    def check(drawn: tuple[Example, int]) -> None:
        nonlocal sums
        example, index = drawn
        path, noise = _path(subject, example), ScriptedNoise()
        _, charged = path.observe(path.hold(_neighbours(example, index).shared, example), noise)
        most = path.kinds.cost(path.planned, example.most_records_per_unit)
        if charged > most:
            raise BrokenDutyError(f"turns are charged {charged} together, and the plan says {most}: {_words(example)}")
        losses = _losses(noise)
        if losses is None or kind.looks_back:
            return
        sums += 1
        if losses != charged:
            raise BrokenDutyError(
                f"its noise loses {losses} by the sensitivities that the answerer states, and {charged} is charged: "
                f"{_words(example)}"
            )

    explore(st.tuples(subject.questions, st.integers(0, 31)), check, FEW)
    for example in subject.examples:
        check((example, 0))
    if not sums:
        return "no turn is charged more than was planned; its law is enumerated below"
    return f"{sums} questions: stated sensitivities over scales are what is charged"


def _losses(noise: ScriptedNoise) -> Fraction | None:
    """The loss of all calls by their stated sensitivities; None where a law is a sampler's own, or of shares."""
    from curator_node.opendp_noise import checked_choice, checked_mechanism  # noqa: PLC0415 - it takes seconds to load

    total = Fraction(0)
    for name, _, _, moved, law, *_ in (call for call in noise.calls if len(call) == 6):
        (checked_mechanism if name == "discrete_laplace" else checked_choice)(moved, law)
        total += law.loss(moved)
    return total if all(len(call) == 6 for call in noise.calls) and noise.calls else None


def sensitivity(subject: KindSubject) -> str:
    """Check, on drawn neighbours, that no unit moves a number further than the answerer states to its noise."""
    numbers = 0

    def check(drawn: tuple[Example, int]) -> None:
        nonlocal numbers
        example, index = drawn
        pair = _neighbours(example, index)
        fewer, more = (_scripted(subject, example, units)[1] for units in pair.sets)
        if fewer.calls != more.calls:
            raise BrokenDutyError(
                f"how noise is asked for depends on the records: {_words(example)}; records: {pair.words:.600}"
            )
        for call, first, second in zip(fewer.calls, fewer.handed, more.handed, strict=True):
            if first.size:
                _check_moved(call, second - first, example, pair)
                numbers += first.size

    most = MORE if subject.audit.generator else FEW
    count = explore(st.tuples(subject.questions, st.integers(0, 63)), check, most)
    for example in subject.examples if subject.audit.generator else ():
        check((example, 17))
    return f"{count} pairs of neighbours, {numbers} numbers with noise" if numbers else "it samples its own law"


def _check_moved(call: tuple[Any, ...], moved: NDArray[np.int64], example: Example, pair: Neighbours) -> None:
    name, _, _, stated, law, *_ = call
    far = int(np.abs(moved).sum()) if name == "discrete_laplace" else int(np.abs(moved).max())
    both_ways = isinstance(law, NoisyMax) and law.one_way and bool((moved > 0).any() and (moved < 0).any())
    if far > stated or both_ways:
        way = "scores move both ways, and the law is for one" if both_ways else f"numbers move by {far}"
        raise BrokenDutyError(
            f"a unit moves more than the answerer states to its noise: {way}, stated {stated}; "
            f"{_words(example)}; records: {pair.words:.600}"
        )


def non_interference(subject: KindSubject) -> str:
    """Check that with scripted noise any two sets of records bring the same bytes, refusals and ledger."""
    answers, sampled = 0, False

    def check(drawn: tuple[Example, int, int]) -> None:
        nonlocal answers, sampled
        example, first_index, second_index = drawn
        sets = _neighbours(example, first_index).sets[first_index % 2], _neighbours(example, second_index).sets[1]
        if example.company is not None:
            (first, noise), (second, other) = (_scripted(subject, example, units) for units in sets)
            sampled |= noise.own_sampler
            if noise.calls != other.calls or (first != second and not noise.own_sampler):
                raise BrokenDutyError(f"with scripted noise an answer depends on the records: {_words(example)}")
            answers += 1
            return
        planned, bodies = _bodies(subject, example)
        runs = [CuratorRun(subject.answerer, example, units) for units in sets]
        messages, _ = (run.run_study(planned, bodies) for run in runs)
        noise = runs[0].noise
        sampled |= noise.own_sampler
        shapes = [_shapes(run) for run in runs]
        if noise.calls != runs[1].noise.calls or shapes[0] != shapes[1]:
            raise BrokenDutyError(
                f"what a curator answers, or how it asks for noise, depends on the records: {_words(example)}"
            )
        if not noise.own_sampler and (runs[0].replies != runs[1].replies or runs[0].entries != runs[1].entries):
            raise BrokenDutyError(
                f"with scripted noise an answer or a ledger depends on the records: {_words(example)}"
            )
        answers += sum(isinstance(message, Release) for message in messages)

    count = explore(st.tuples(subject.questions, st.integers(0, 63), st.integers(0, 63)), check, FEW)
    if not answers:
        raise BrokenDutyError(f"no curator answered any of {count} drawn questions, so nothing was compared")
    rest = "; a law of its own is enumerated below" if sampled else ""
    return f"{answers} answers are the same on two sets of records, byte for byte{rest}"


def _shapes(run: CuratorRun) -> list[tuple[str, int]]:
    """Type and length of each reply."""
    return [(type(open_envelope(reply)[1]).__name__, len(reply)) for reply in run.replies]


# --- what is exact


def crafted_numbers(subject: KindSubject) -> str:
    """Check that records at crafted values count the same in any order and with any number of threads."""
    crafted = [example for example in subject.examples if any(map(_is_number, chain(*example.values.values())))]
    if not crafted:
        raise MissingDutyError(
            "give at least one example `values`: numbers on an edge, a float beside it, at a tie, where ordinary sums "
            f"round ({subject.home})"
        )
    for example in crafted:
        for index in (3, 19):
            units = _neighbours(example, index).sets[1]
            usual = _handed(subject, example, units, dataset_of)
            for rows in ("reversed", "shuffled"):
                if _handed(subject, example, units, _reordered(rows)) != usual:
                    raise BrokenDutyError(f"its numbers depend on the order of records: {example.about}")
            with threadpool_limits(1):
                if _handed(subject, example, units, dataset_of) != usual:
                    raise BrokenDutyError(f"its numbers depend on the number of threads: {example.about}")
    return f"{len(crafted)} examples with crafted values"


def _is_number(value: Any) -> bool:
    return isinstance(value, float)


def _handed(subject: KindSubject, example: Example, units: tuple[Unit, ...], hold: Any) -> list[list[int]]:
    path, noise = _path(subject, example, hold=hold), ScriptedNoise()
    path.observe(path.hold(units, example), noise)
    return [numbers.tolist() for numbers in noise.handed]


class _Reordered(PrivateDataset):
    """The same records in another order."""

    def __init__(self, frame: Any, *rest: Any, order: str, **options: Any) -> None:
        shuffled = frame.reverse() if order == "reversed" else frame.sample(fraction=1.0, shuffle=True, seed=5)
        super().__init__(shuffled, *rest, **options)


def _reordered(order: str) -> Callable[[tuple[Unit, ...], Example], PrivateDataset]:
    def kind(*parts: Any, **options: Any) -> PrivateDataset:
        return _Reordered(*parts, order=order, **options)

    return lambda units, example: dataset_of(units, example, kind=kind)  # type: ignore[arg-type]


def oracle(subject: KindSubject) -> str:
    """Check that a second, slow way gives the same numbers as the curator's code, on drawn questions and records."""
    compared = 0

    def check(drawn: tuple[Example, int]) -> None:
        nonlocal compared
        example, index = drawn
        path = _path(subject, example)
        case = path.case(_neighbours(example, index).sets[1])
        independent = replace(case, trace=_no_trace)
        expected = subject.audit.oracle(independent)
        noise = path.exact(_neighbours(example, index).sets[1])[1]
        if expected is not None:
            if list(expected) != [int(number) for exact, _ in noise.handed for number in exact.ravel()]:
                raise BrokenDutyError(
                    f"its oracle and its curator count differently: {_words(example)}; records: "
                    f"{_neighbours(example, index).words:.600}"
                )
        else:
            law = subject.audit.claimed_law(independent)
            if law is None or law.calls is None:
                return
            if words := strayed_calls(law, noise.handed):
                raise BrokenDutyError(f"{words}: {_words(example)}")
        compared += 1

    explore(st.tuples(subject.questions, st.integers(0, 31)), check, FEW)
    for example in subject.examples:
        check((example, 5))
    if not compared:
        raise MissingDutyError(
            f"write `oracle`: the numbers that get noise, one record at a time, from `case.frame` ({subject.home})"
        )
    return f"{compared} questions are counted alike in two ways"


def _no_trace(_released: Sequence[NDArray[np.int64]]) -> Trace:
    raise MissingDutyError(
        "`claimed_law` takes its numbers from the curator's code; write `oracle`: the same numbers, one record at a "
        "time, from `case.frame` (docs/extending/kind.md)"
    )


def exact_law(subject: KindSubject) -> str:
    """Check that each example is answered, has as many copies as it says, and the law that the kind claims."""
    if not subject.examples:
        raise MissingDutyError(f"give questions that are hard to answer privately, in `examples` ({subject.home})")
    enumerated = 0
    for place, examples in enumerate(subject.audit.examples().values()):
        for example in examples:
            path = _path(subject, replace(example, copies=min(example.copies, COPIES)))
            if words := unanswered(path) or miscounted(path):
                raise BrokenDutyError(words)
            for units in _neighbours(example, 16 + place).sets:
                _check_law(subject, path, example, units)
        if examples:
            enumerated += _check_loss(subject, _path(subject, examples[0]), _neighbours(examples[0], 16 + place))
    return f"{len(subject.examples)} examples, of which {enumerated} were enumerated on a pair of neighbours"


def _check_law(subject: KindSubject, path: AnswerPath, example: Example, units: tuple[Unit, ...]) -> None:
    law = subject.audit.claimed_law(path.case(units))
    if law is None:
        raise MissingDutyError(f"return the law of a release on one set of records from `claimed_law` ({subject.home})")
    if words := strayed_calls(law, path.exact(units)[1].handed):
        raise BrokenDutyError(f"{words}; asked: {example.about}")
    if law.calls is None:
        rows = replace(path, copies=example.copies).draws(
            units, example.copies, path.width(Neighbours(units, units[0]))
        )
        if words := strayed_draws(law, rows):
            raise BrokenDutyError(f"{words}; asked: {example.about}")


def _check_loss(subject: KindSubject, path: AnswerPath, pair: Neighbours) -> int:
    try:
        loss = enumerate_loss(path, subject.audit, pair)
    except ConfigurationError:
        return 0
    if loss.passes(path.claimed):
        raise BrokenDutyError(
            f"enumeration gives a loss of {loss.loss} or {loss.by_table}, and {path.claimed} is charged: "
            f"{path.example.about}; records: {pair.words:.600}"
        )
    return loss.loss is not None


# --- what a learner reads, and what people read


def reader(subject: KindSubject) -> str:
    """Check that a learner reads what a curator releases, pools two answers, and refuses what is no release."""
    half = subject.reader
    if half is None:
        raise MissingDutyError(f"write a `Reader`, so that a learner can ask the kind ({subject.home})")
    if half.kind.name != subject.kind.name:
        raise BrokenDutyError(f"the reader is of {half.kind.name!r}")
    if half.lead is not None:
        return "its turns are led, and only what curators say together is opened"
    read = 0

    def check(example: Example) -> None:
        nonlocal read
        planned, bodies = _bodies(subject, example)
        run = CuratorRun(subject.answerer, example, _neighbours(example, 1).shared)
        releases = [message for message in run.run_study(planned, bodies) if isinstance(message, Release)]
        terms = KindTerms(example.schema, subject.kind.limits())
        for number, release in enumerate(releases):
            turn = Turn(planned, 0, number)
            question = Question(turn, subject.kind.read_body(bodies[number], turn, terms), example.schema)
            if len(release.body) > subject.kind.release_bytes(question):
                raise BrokenDutyError(f"a release is longer than `release_bytes` says: {_words(example)}")
            answer = half.read(release.body, question)
            half.pool([answer, answer])
            if not isinstance(half.complaint(answer, 100), str):
                raise BrokenDutyError("`complaint` returns words, or an empty text where nothing is wrong")
            for name, data in mutations(release.body).items():
                if name in UNLAWFUL:
                    _refuse_release(half, data, question, name)
            read += 1

    explore(subject.questions, check, FEW)
    if not read:
        raise BrokenDutyError("nothing was released, so nothing was read")
    return f"{read} releases were read, and what is no release was refused"


def _refuse_release(half: Reader, data: bytes, question: Question, name: str) -> None:
    try:
        half.read(data, question)
    except RemoteProtocolError:
        return
    except Exception as error:
        raise BrokenDutyError(f"`read` fails with {type(error).__name__} where a release is {name}") from error
    raise BrokenDutyError(f"`read` takes a release that is {name}; read it with `decode`")


def vector(subject: KindSubject) -> str:
    """Check that the kind's bytes are pinned: planned queries in a file of vectors are read, and written the same."""
    count = sum(count_vectors(subject.kind, text) for text in subject.vectors)
    if not count:
        raise MissingDutyError(
            "pin its bytes: `expril conformance NAME --write-vectors vectors.json` writes those of its examples; keep "
            f"the file beside the auditor's half ({subject.home})"
        )
    return f"{count} pinned values are read and written the same"


def page(subject: KindSubject) -> str:
    """Check that the kind has a page in the fixed form."""
    if not subject.page:
        raise MissingDutyError(
            f"write its page in the fixed form, beside the auditor's half as page.md ({subject.home})"
        )
    if faults := faults_of_page(subject.page):
        raise BrokenDutyError("; ".join(faults))
    return "its page has the fixed form"


DUTIES = (
    Duty("generator", "lawful questions are drawn, read back byte for byte, and priced exactly", generator),
    Duty("hostile bodies", "they are refused without a trace and before any charge", hostile_bodies),
    Duty("cost", "what its noise loses by the stated sensitivities is what is charged", cost),
    Duty("sensitivity", "no unit moves a number further than is stated, on drawn neighbours", sensitivity),
    Duty("non-interference", "records show in the noise alone", non_interference),
    Duty("crafted numbers", "records at ties and edges count the same in any order", crafted_numbers),
    Duty("oracle", "a second, slow way gives the same numbers", oracle),
    Duty("exact law", "the claimed law is what is drawn, and loses no more than is charged", exact_law),
    Duty("reader", "a learner reads what a curator releases", reader),
    Duty("vector", "its bytes are pinned", vector),
    Duty("page", "people can read what it does, in the fixed form", page),
)
"""What a query kind owes, in the order in which it is asked for."""
