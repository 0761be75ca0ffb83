"""How an envelope travels between learner and curator: in a Flower message, or as a file in a folder.

A Flower message holds the envelope as one bytes value of one ConfigRecord.

A folder, which people may carry by any means, holds a request as `FOLDER/<curator's public key>/requests/<SHA-256 of
the request>.envelope`. The reply has the same name in the folder `replies` beside it. Keys and digests are hexadecimal.
"""

ACTION = "expril"
MESSAGE_TYPE = f"query.{ACTION}"
RECORD = "envelope"
FIELD = "bytes"

REQUESTS, REPLIES, SUFFIX = "requests", "replies", ".envelope"


def envelope_file(digest: bytes) -> str:
    """File name of a request and of its reply; `digest` is the request's SHA-256."""
    return f"{digest.hex()}{SUFFIX}"
