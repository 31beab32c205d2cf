"""The value of a column that a row image left out."""

from __future__ import annotations

from typing import Final, final


@final
class AbsentType:
    """The type of :data:`ABSENT`: one instance, false, not None."""

    __slots__ = ()

    _instance: AbsentType | None = None

    def __new__(cls) -> AbsentType:
        """Return the only instance."""
        if cls._instance is None:
            cls._instance = super().__new__(cls)
        return cls._instance

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "ABSENT"

    def __reduce__(self) -> str:
        return "ABSENT"


ABSENT: Final = AbsentType()
"""The value of a column that the row image left out.

Either ``binlog_row_image`` is not FULL, or MariaDB computes the column.

MariaDB 11.8.9 leaves generated columns, and the hidden hashes of long unique keys, out of all images but those of
plain INSERTs, with every ``binlog_row_image``. MySQL leaves out of an after image only what did not change.
"""

WHY_ABSENT: Final = "binlog_row_image is not FULL, or MariaDB 11.8.9 left out a generated column"
"""The reason why a row image may lack a column, for messages."""
