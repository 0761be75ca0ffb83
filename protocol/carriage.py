"""How an envelope travels, as both sides must agree: in a Flower message, or as a file in a folder.

A Flower message holds it as one bytes value of one ConfigRecord.

A folder that any means may carry has `FOLDER/<curator's public key>/requests/<SHA-256 of the request>.envelope`, and
the reply under the same name in `replies` beside it. Keys and digests are hexadecimal.
"""

ACTION = "expril"
MESSAGE_TYPE = f"query.{ACTION}"
RECORD = "envelope"
FIELD = "bytes"

REQUESTS, REPLIES, SUFFIX = "requests", "replies", ".envelope"


def envelope_file(digest: bytes) -> str:
    """Name of the file of a request, and of its reply; `digest` is the request's SHA-256."""
    return f"{digest.hex()}{SUFFIX}"
