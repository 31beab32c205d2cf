"""Column bitmaps under asyncmy's names."""

from replica_client.compat.pymysqlreplication.bitmap import (
    BitCount as bit_count,
    BitGet as bit_get,
    bitCountInByte as BIT_COUNT_IN_BYTE,
)

__all__ = ["BIT_COUNT_IN_BYTE", "bit_count", "bit_get"]
