"""Values with a special meaning, and the display of rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, final


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


class RawJson(str):
    """Text that is already JSON and is written unchanged."""

    __slots__ = ()

    @property
    def text(self) -> str:
        """The document's text, as of a document from the binlog."""
        return str(self)


def pretty_call(printer: Any, name: str, fields: Mapping[str, Any]) -> None:
    """Print ``name(field=value, …)``.

    Args:
        printer: IPython's ``RepresentationPrinter``.
        name: of the class.
        fields: names and values to show.
    """
    with printer.group(len(name) + 1, f"{name}(", ")"):
        for number, (field, value) in enumerate(fields.items()):
            if number:
                printer.text(",")
                printer.breakable()
            printer.text(f"{field}=")
            printer.pretty(value)
