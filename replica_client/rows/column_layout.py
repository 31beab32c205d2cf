# cython: boundscheck=False, wraparound=False, cdivision=True
"""The columns in the images of an event, and the sizes to skip their values.

This module is compiled where that is possible and runs as it stands everywhere else.
"""

from __future__ import annotations

from typing import Any

import cython

if not cython.compiled:
    from replica_client.protocol.codec.memory import longs
    from replica_client.rows.column_sink import ColumnSink
    from replica_client.rows.image import Plan
    from replica_client.rows.sink_ops import NO_STEP, OP_UNKNOWN

# Values that are located before they are written.
_MAX_OFFSETS = cython.declare(cython.Py_ssize_t, 16384)


@cython.final
@cython.cclass
class Layout:
    """The columns in the images of an event, and the sinks of their values.

    Attributes:
        null_size: bytes of the null bits.
        null_mask: the bits that belong to columns, of the last eight bytes at most: some servers
            set the bits after them.
        steps: by column the size of a value; negative: the size of its length prefix.
    """

    def __init__(
        self, plan: Plan, sinks: list[ColumnSink], missing: list[ColumnSink], absent: cython.int
    ) -> None:
        self.null_size = plan.null_size
        self.plan = plan
        self.sinks = sinks
        self.missing = missing
        self.absent = absent
        self.count = len(sinks)
        bits: int = self.count if self.null_size <= 8 else 64 - (-self.count & 7)
        self.null_mask = (1 << bits) - 1
        # Number of images that are located together, at least those of one change.
        self.images = max(_MAX_OFFSETS // max(self.count, 1), 2)
        self._steps = bytearray(8 * max(self.count, 1))
        self.steps: Any = longs(self._steps)
        i: cython.Py_ssize_t
        if not cython.compiled:
            self.slots: Any = sinks
        else:
            self._slots = bytearray(8 * self.count)
            raw: cython.p_uchar = self._slots
            self.slots = cython.cast(cython.pp_void, raw)
            for i in range(self.count):
                self.slots[i] = cython.cast(cython.p_void, sinks[i])
        sink: ColumnSink
        for i in range(self.count):
            sink = sinks[i]
            if sink.op == OP_UNKNOWN:
                self.steps[i] = NO_STEP
            else:
                self.steps[i] = -sink.prefix if sink.prefix else sink.size
