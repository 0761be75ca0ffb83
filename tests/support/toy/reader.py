"""How a learner reads the toy kind."""

from learner_node.reading import Reader
from protocol.codec import decode
from toy.kind import TOY, ToyRelease


def not_quoted(*_):
    raise NotImplementedError("the toy is not quoted")


TOY_READER = Reader(
    kind=TOY,
    read=lambda data, body, turn, schema: decode(data, ToyRelease).number,
    pool=sum,
    complaint=lambda answer, round_size: "" if answer < 10**6 else "nobody holds so many toys",
    rehearse=not_quoted,
    precision=not_quoted,
)
