"""The value of a column that a row image left out."""

from __future__ import annotations

from typing import Final, final


@final
class AbsentType:
    """The type of :data:`ABSENT`: one instance, false, not None."""

    __slots__ = ()

    _instance: AbsentType | None = None

    def __new__(cls) -> AbsentType:
        """The one instance."""
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
"""Stands for a column that the row image left out (``binlog_row_image`` MINIMAL or NOBLOB)."""
