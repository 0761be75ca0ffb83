"""How an envelope travels, where both sides must agree: in a Flower message, and as a file in a folder.

In a Flower message: one bytes value of one ConfigRecord.

In a folder that any means may carry: `FOLDER/<curator's public key>/requests/<SHA-256 of the request>.envelope`, and
the reply under the same name in `replies` beside it; keys and digests in hexadecimal.
"""

ACTION = "expril"
MESSAGE_TYPE = f"query.{ACTION}"
RECORD = "envelope"
FIELD = "bytes"

REQUESTS, REPLIES, SUFFIX = "requests", "replies", ".envelope"


def envelope_file(digest: bytes) -> str:
    """Name of the file of a request, and of its reply, by the request's SHA-256."""
    return f"{digest.hex()}{SUFFIX}"
