"""The query kinds of a simulation: those that are shipped, and the paper's printed release in `counts`."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from curator_node.answering import Answered, Answerer, CuratorQuestion
from curator_node.kinds import ANSWERERS
from curator_node.kinds.counts import answer as answer_counts
from curator_node.mechanisms import NoiseSource
from curator_node.records.dataset import PrivateDataset
from learner_node.kinds import READERS
from learner_node.kinds.counts import CountsAnswer, add, complaint_about
from learner_node.study.reading import Reader
from protocol.codec import encode
from protocol.errors import RemoteProtocolError
from protocol.kinds.counts import CountsRelease
from protocol.query_kind import Question
from protocol.refusals import RefusalCode
from simulations.paper_ratio import PAPER_RATIO, PRINTED_COUNTS


def answer(question: CuratorQuestion, dataset: PrivateDataset, noise: NoiseSource) -> Answered:
    """Answer with Eq. 7 as printed: clip((errors + Laplace) / records, 0, 1) in each bin.

    Without a hypothesis, a bin's mass is clip((its records + Laplace) / all records, 0, 1). The exact denominator makes
    this less private than claimed. An empty bin gives 0 or 1 by the sign of its noise. Any other release is answered as
    any curator answers it.
    """
    body, planned = question.body, question.turn.planned
    if planned.release != PAPER_RATIO:
        return answer_counts(question, dataset, noise)
    errors, correct = dataset.count(body.partitions, body.hypothesis)
    drawn = noise.laplace(len(errors), planned.scale.fraction, question.stamp)
    sizes = errors + correct
    if body.hypothesis is None:
        ratios = (sizes + drawn) / max(sizes.sum() / planned.partitions, 1)
    else:
        ratios = np.where(sizes > 0, (errors + drawn) / np.maximum(sizes, 1), drawn > 0)
    return Answered(encode(CountsRelease(counts=b"", ratios=np.clip(ratios, 0, 1).astype("<f8").tobytes())))


def read(data: bytes, question: Question) -> CountsAnswer:
    """Read an answer to `counts`. Raises RemoteProtocolError also for a ratio that is not a number."""
    planned, body, schema = question.turn.planned, question.body, question.schema
    if planned.release != PAPER_RATIO:
        return READERS[PRINTED_COUNTS.name].read(data, question)  # type: ignore[no-any-return]
    values = PRINTED_COUNTS.read_release(data, question).reshape(-1, 1)
    if not np.isfinite(values).all():
        raise RemoteProtocolError(RefusalCode.MALFORMED, "release.ratios", "numbers")
    sizes = tuple(partition.cell_count(schema) for partition in body.partitions)
    return CountsAnswer(body, values.astype(np.float64), sizes, planned.release, planned.scale.fraction)


def pool(answers: Sequence[CountsAnswer]) -> CountsAnswer:
    """The sum of several curators' counts, or the mean of their ratios."""
    total = add(answers)
    return total if total.release != PAPER_RATIO else replace(total, values=total.values / len(answers))


def complaint(answer: CountsAnswer, round_size: int | None) -> str:
    """Why an answer cannot be a curator's; ratios lie between 0 and 1."""
    if answer.release != PAPER_RATIO:
        return complaint_about(answer, round_size)
    inside = bool(((answer.values >= 0) & (answer.values <= 1)).all())
    return "" if inside else "its answer has ratios that are not between 0 and 1"


SIMULATED_ANSWERERS: Mapping[str, Answerer] = MappingProxyType(
    {**ANSWERERS, PRINTED_COUNTS.name: Answerer(PRINTED_COUNTS, answer)}
)
SIMULATED_READERS: Mapping[str, Reader] = MappingProxyType(
    {
        **READERS,
        PRINTED_COUNTS.name: replace(
            READERS[PRINTED_COUNTS.name], kind=PRINTED_COUNTS, read=read, pool=pool, complaint=complaint
        ),
    }
)
