"""How an envelope travels in a Flower message: one bytes value of one ConfigRecord. Both sides must agree."""

ACTION = "expril"
MESSAGE_TYPE = f"query.{ACTION}"
RECORD = "envelope"
FIELD = "bytes"
