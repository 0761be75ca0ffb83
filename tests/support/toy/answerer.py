"""How a curator answers the toy kind."""

import numpy as np

from curator_node.answering import Answered, Answerer
from protocol.codec import decode, encode
from protocol.partitions import FeatureBins
from toy.kind import TOY, ToyRelease, is_drawn_anew


def answer(question, dataset, noise):
    if question.turn.number == 0:
        drawn = _draw(question, dataset, noise, question.body.above)
        return Answered(encode(ToyRelease(drawn // 10)), state=encode((drawn, question.body.above)))
    kept, above = decode(question.state, tuple[int, float])
    if is_drawn_anew(question.turn, question.past):
        kept = _draw(question, dataset, noise, above)
    return Answered(encode(ToyRelease(kept)))


def _draw(question, dataset, noise, above):
    errors, correct = dataset.count((FeatureBins(attribute="age", edges=(above,)),), None)
    exact = np.array([(errors + correct)[-2]], np.int64)  # the cell of missing ages is the last
    bound = dataset.steward.most_records_per_unit
    return int(noise.discrete_laplace(exact, bound, question.turn.planned.law, question.stamp)[0])


TOY_ANSWERER = Answerer(TOY, answer)
