"""Densities as small pictures: PNG (ISO 15948) with a palette, as data URIs, from shares of a peak."""

import base64
import struct
import zlib

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_STOPS = np.array(
    [[255, 255, 255], [214, 229, 244], [141, 190, 224], [58, 133, 189], [15, 77, 143], [8, 32, 84]], dtype=np.float64
)
"""From nothing to the peak; as grey it gets darker all the way."""
_COLOUR_TYPE = 3
_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def picture_uri(share: Floats) -> str:
    """A data URI of (n, m) shares of the peak in [0, 1]; the first coordinate goes right, the second up.

    Shades follow the square root of the share, so that what is faint can be seen.
    """
    levels = np.rint(np.sqrt(np.clip(share, 0.0, 1.0)) * 255).astype(np.uint8).T[::-1]
    height, width = levels.shape
    places = np.linspace(0, len(_STOPS) - 1, 256)
    palette = np.stack([np.interp(places, np.arange(len(_STOPS)), stops) for stops in _STOPS.T], axis=1)
    rows = np.column_stack([np.zeros(height, np.uint8), levels]).tobytes()  # each row begins with its filter, none
    data = b"".join(
        (
            _SIGNATURE,
            _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, _COLOUR_TYPE, 0, 0, 0)),
            _chunk(b"PLTE", np.rint(palette).astype(np.uint8).tobytes()),
            _chunk(b"IDAT", zlib.compress(rows, 9)),
            _chunk(b"IEND", b""),
        )
    )
    return "data:image/png;base64," + base64.b64encode(data).decode()


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
