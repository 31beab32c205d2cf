"""What a hexadecimal literal, and a text that looks like one, mean as the default of a column."""

from __future__ import annotations

import re
from typing import Final

from replica_client.schema.model import TEXT_KINDS

_LITERAL: Final = re.compile(r"(?:0x([0-9a-f]+)|x'((?:[0-9a-f]{2})*)')", re.IGNORECASE)
_BYTES: Final = frozenset(("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"))
_NUMBERS: Final = frozenset(
    (
        *("tinyint", "smallint", "mediumint", "int", "bigint", "bit"),
        *("decimal", "float", "double", "year"),
    )
)
_WIDE: Final = frozenset(("ucs2", "utf16", "utf16le", "utf32"))


def hexadecimal_default(text: str, kind: str, charset: str | None) -> str | None:
    """A number's literal as :attr:`~replica_client.schema.model.ColumnModel.default` has it.

    Args:
        text: the literal: ``0x4d``, ``x'4d'``, or another one, which stays as it is.
        kind: of the column.
        charset: of the column; None for none.

    Returns:
        The number of a number's column, the text of a text's, ``0x…`` of one of bytes; None where it is not known.
    """
    found = _LITERAL.fullmatch(text)
    if found is None:
        return text
    digits = found[1] or found[2] or ""
    digits = digits.rjust(len(digits) + len(digits) % 2, "0")
    if kind in _BYTES:
        return f"0x{digits}"
    data = bytes.fromhex(digits)
    if kind in _NUMBERS:
        return str(int.from_bytes(data))
    if kind not in TEXT_KINDS:
        return None
    if data.isascii() and charset not in _WIDE:
        return data.decode("ascii")
    try:
        return data.decode("utf-8") if (charset or "").startswith("utf8") else None
    except UnicodeDecodeError:
        return None


def text_default(text: str, kind: str) -> str:
    """A string's literal as :attr:`~replica_client.schema.model.ColumnModel.default` has it.

    Args:
        text: between the quotes.
        kind: of the column.

    Returns:
        The text; ``0x…`` where it is one of bytes that would be taken for such digits.
    """
    if kind in _BYTES and text[:2].lower() == "0x":
        return f"0x{text.encode().hex()}"
    return text
