# cython: boundscheck=False, wraparound=False, cdivision=True
"""Places of the values of some columns in a row image.

This module is compiled where that is possible and runs as it stands everywhere else.
"""

from __future__ import annotations

from typing import Any

import cython

if not cython.compiled:
    from replica_client.protocol.codec.memory import longs

NULL_OFFSET, ABSENT_OFFSET = -1, -2
"""Offsets that mean: the value is NULL, or the image left it out."""


@cython.final
@cython.cclass
class ImageValues:
    """The offsets and sizes of values, by slot.

    Args:
        count: of slots.
    """

    def __init__(self, count: int) -> None:
        if not cython.compiled:
            self.data: Any = b""
        self.count = count
        room = 8 * max(count, 1)
        self._memory = [bytearray(room), bytearray(room)]
        self.offsets: Any = longs(self._memory[0])
        self.sizes: Any = longs(self._memory[1])
