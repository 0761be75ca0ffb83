"""How a learner reads the toy kind."""

from dataclasses import replace

from learner_node.study.reading import Pooled, QueryFailedError, Reader
from protocol.codec import decode
from toy.kind import TOY, ToyBody, ToyRelease


def not_quoted(*_):
    raise NotImplementedError("the toy is not quoted")


def led(told):
    """Both turns as one question: the thresholds go out, and the numbers that come back are added up."""
    asked = yield told.bodies
    if len(asked) < 2:
        raise QueryFailedError("too few toys to sum")
    numbers = yield dict.fromkeys(asked, ToyBody(None))
    # Whoever answered the first turn is in the sum, with its tens where the number itself did not come.
    whole = [numbers.get(name, 10 * tens) for name, tens in asked.items()]
    broken = {name: "its toys are broken" for name, number in numbers.items() if number < 0}
    return Pooled(sum(whole), tuple(asked), broken)


TOY_READER = Reader(
    kind=TOY,
    read=lambda data, question: decode(data, ToyRelease).number,
    pool=sum,
    complaint=lambda answer, round_size: "" if answer < 10**6 else "nobody holds so many toys",
    rehearse=not_quoted,
    precision=not_quoted,
)

LED_READER = replace(TOY_READER, lead=led)
"""As it would be led: one question of two turns."""
