"""The operations that write a value into a column, and the kinds of column storage.

Compiled modules take these numbers from ``sink_ops.pxd``, which must equal this file.
"""

from __future__ import annotations

from replica_client.rows.column_ops import ColumnOp

OP_UNKNOWN = int(ColumnOp.UNKNOWN)
OP_SIGNED = int(ColumnOp.SIGNED)
OP_UNSIGNED = int(ColumnOp.UNSIGNED)
OP_FLOAT = int(ColumnOp.FLOAT)
OP_DOUBLE = int(ColumnOp.DOUBLE)
OP_DECIMAL = int(ColumnOp.DECIMAL)
OP_DATE = int(ColumnOp.DATE)
OP_TIME = int(ColumnOp.TIME)
OP_DATETIME = int(ColumnOp.DATETIME)
OP_TIMESTAMP = int(ColumnOp.TIMESTAMP)
OP_YEAR = int(ColumnOp.YEAR)
OP_BIT = int(ColumnOp.BIT)
OP_ENUM = int(ColumnOp.ENUM)
OP_SET = int(ColumnOp.SET)
OP_UTF8 = int(ColumnOp.UTF8)
OP_UTF8_CHAR = int(ColumnOp.UTF8_CHAR)
OP_BYTES = int(ColumnOp.BYTES)

# Little-endian numbers with the same bytes in image and column.
OP_COPY_1 = 100
OP_COPY_2 = 101
OP_COPY_4 = 102
OP_COPY_8 = 103
OP_JSON = 104
# Through a Python object.
OP_OBJECT = 105
# Discarded.
OP_PASS = 106

# Column storage: numbers of a width; offsets and data; indexes of entries; decimals of a width;
# Python values.
FIXED = 0
BYTES = 1
DICTIONARY = 2
DECIMAL = 3
OBJECTS = 4

# ENUM and SET numbers below this are looked up in an array of this size.
LOOKUP_SIZE = 256

# The step of columns whose values cannot be skipped.
NO_STEP = -127
