"""How an envelope travels between learner and curator: in a Flower message, or as a file in a folder.

A Flower message holds the envelope as one bytes value of one ConfigRecord. That content is inside the message where
the other side takes it so; otherwise it follows in objects, one call each.

A folder, which people may carry by any means, holds a request as `FOLDER/<curator's public key>/requests/<SHA-256 of
the request>.envelope`. The reply has the same name in the folder `replies` beside it. Keys and digests are hexadecimal.
"""

ACTION = "expril"
MESSAGE_TYPE = f"query.{ACTION}"
RECORD = "envelope"
FIELD = "bytes"
MOST_INSIDE = 256 * 1024
"""Longest envelope, in bytes, that travels inside its Flower message. A receiver reads such a message whole."""

REQUESTS, REPLIES, SUFFIX = "requests", "replies", ".envelope"


def envelope_file(digest: bytes) -> str:
    """File name of a request and of its reply; `digest` is the request's SHA-256."""
    return f"{digest.hex()}{SUFFIX}"


class Pace:
    """Pauses between looks for something that nobody announces.

    The first look comes when three quarters of the last wait have passed. Each later one comes after another quarter of
    the time waited so far. So few looks are in vain, and whatever is waited for is found at most a quarter too late.

    Args:
        shortest, longest: bounds of a pause, in seconds.
    """

    def __init__(self, shortest: float, longest: float) -> None:
        self._shortest, self._longest = shortest, longest
        self._expected = self._began = 0.0
        self._looks = 0

    def begin(self, now: float) -> None:
        """Begin a wait; `now` is in seconds by a clock that only goes on."""
        self._began, self._looks = now, 0

    def pause(self, now: float) -> float:
        """Seconds until the next look."""
        waited = now - self._began
        pause = waited / 4 if self._looks else self._expected - waited
        self._looks += 1
        return min(max(pause, self._shortest), self._longest)

    def end(self, now: float) -> None:
        """End a wait. What the first look finds may have been there for long."""
        self._expected = (now - self._began) * (0.75 if self._looks > 1 else 0.5)
