"""A curator as a Flower ClientApp: one bytes value in, one bytes value out. No decision is taken here.

This file is the curator's only code for Flower. The learner writes a Flower run's configuration, so none of it is read:
the policy comes from the steward's file.
"""

import logging
from collections.abc import Callable

from flwr.app import ConfigRecord, Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp

from protocol.carriage import ACTION, FIELD, RECORD

log = logging.getLogger(__name__)

NOT_SERVED = 1000
"""Error code of a message that could not be handled; the reason is always empty."""


def make_client_app(handle: Callable[[bytes], bytes]) -> ClientApp:
    """A ClientApp around `Curator.handle`.

    Flower would send a handler's exception text to the learner verbatim, so nothing may be raised here: a message
    without an envelope, or a failing handler, is answered by an error without text.
    """
    app = ClientApp()

    @app.query(ACTION)
    def answer(message: Message, context: Context) -> Message:  # noqa: ARG001
        try:
            request = message.content[RECORD][FIELD]
            reply = RecordDict({RECORD: ConfigRecord({FIELD: handle(request)})})
        except Exception as error:  # noqa: BLE001 - no exception text may cross the wire
            log.error("a Flower message could not be served: %s", type(error).__name__)  # noqa: TRY400
            return Message(Error(NOT_SERVED, ""), reply_to=message)
        return Message(reply, reply_to=message)

    return app
