"""A parser of a column's type."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import takewhile
from typing import Final

from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.schema.character_sets import (
    BINARY,
    UNCONVERTED,
    ByteLabel,
    Written,
    charset_name,
    max_length,
    needed,
    reread,
)
from replica_client.schema.ddl.lexer import (
    NUMBER,
    STRING,
    Cursor,
    NotUnderstoodError,
    literal_bytes,
)
from replica_client.schema.ddl.statement_context import (
    MODE_MAXDB,
    MODE_ORACLE,
    MODE_REAL_AS_FLOAT,
    StatementContext,
)
from replica_client.schema.kinds import (
    BLOBS,
    BYTE_KINDS,
    BYTES,
    KINDS,
    LIMITS,
    STRINGS,
    TEXT_KINDS,
    TEXTS,
    WORDS,
    ColumnKind,
    kinds_of,
)
from replica_client.schema.model import ColumnModel

_VENDORS: Final = {"MARIADB_SCHEMA": 0, "ORACLE_SCHEMA": MODE_ORACLE, "MAXDB_SCHEMA": MODE_MAXDB}
_POINTED: Final = re.compile(r"[0-9]*\.[0-9]*")
_KINDS_OF_TEXT: Final = {binary: text for text, binary in BYTE_KINDS.items()}

_SHORT: Final = frozenset(
    kinds_of("integer", "real", "year", "date", "time", "datetime", "timestamp")
)


@dataclass(slots=True)
class TypeText:
    """A column's type as written, before its character set is known.

    Attributes:
        kind: see :attr:`~replica_client.schema.model.ColumnModel.kind`.
        length: see there; for a TEXT the number of characters in its definition.
        scale: see there.
        fraction_digits: see there.
        unsigned: see there.
        charset: the one that the type itself implies (NCHAR, MariaDB's JSON, ``CHAR BYTE``).
        labels: of ENUM and SET, as written.
        written: the character sets that the labels are converted through.
        serial: SERIAL, which implies several attributes.
        compressed: COMPRESSED.
        name: the words of the type in upper case: ``DOUBLE PRECISION``.
        display_width: see there.
        display_scale: see there.
    """

    kind: str
    length: int | None = None
    scale: int = 0
    fraction_digits: int = 0
    unsigned: bool = False
    charset: str | None = None
    labels: tuple[str, ...] | None = None
    serial: bool = False
    compressed: bool = False
    written: Written = UNCONVERTED
    name: str = ""
    display_width: int | None = None
    display_scale: int | None = None


def read_type(cursor: Cursor, context: StatementContext) -> TypeText:
    """Read a type with its lengths.

    Raises:
        NotUnderstoodError: no known type is next.
    """
    if cursor.token.upper in _VENDORS and cursor.peek().upper == ".":
        context = _with_types_of(context, _VENDORS[cursor.token.upper])
        cursor.at += 2
    start = cursor.at
    found = _type(cursor, context)
    words = takewhile(lambda token: token.upper != "(", cursor.tokens[start : cursor.at])
    found.name = " ".join(token.upper for token in words)
    return found


def _type(cursor: Cursor, context: StatementContext) -> TypeText:
    word = cursor.token.upper
    if word in ("BOOL", "BOOLEAN"):
        cursor.step()
        return TypeText("tinyint")
    if word == "SERIAL":
        cursor.step()
        return TypeText("bigint", unsigned=True, serial=True)
    if word in ("FLOAT", "FLOAT4", "DOUBLE", "FLOAT8", "REAL"):
        return _floating(cursor, context)
    if word == "NUMBER" and context.is_mariadb:
        if cursor.peek().upper != "(":
            cursor.step()
            return TypeText("double")
        return _known(cursor, KINDS["decimal"], context)
    if word in WORDS:
        return _known(cursor, WORDS[word], context)
    return _characters(cursor, oracle=context.oracle)


def _known(cursor: Cursor, kind: ColumnKind, context: StatementContext) -> TypeText:
    """Read a type whose first word names its kind."""
    name, form = kind.name, kind.form
    cursor.step()
    if form == "spatial":
        cursor.skip_brackets()
        return TypeText("geometry")
    if form in ("enum", "set"):
        labels = _labels(cursor, context)
        return TypeText(name, labels=labels, written=needed(labels, context.written))
    if form == "json" and context.is_mariadb:
        return TypeText("longtext", charset="utf8mb4")
    if form == "date" and context.oracle:
        return TypeText("datetime")
    if form == "timestamp" and context.stamps_are_datetimes:
        name = "datetime"
    numbers = _numbers(cursor)
    if form in ("integer", "year"):
        return TypeText(name, display_width=_width(numbers))
    if kind.unit:
        scale = numbers[1] if len(numbers) > 1 else 0
        return TypeText(name, numbers[0] if numbers and numbers[0] else kind.default, scale)
    return TypeText(name, fraction_digits=numbers[0] if numbers else 0)


def _with_types_of(context: StatementContext, mode: int) -> StatementContext:
    """Return the context in which type names have a vendor's meaning."""
    others = context.sql_mode & ~(MODE_ORACLE | MODE_MAXDB)
    return replace(context, sql_mode=others | mode)


def _floating(cursor: Cursor, context: StatementContext) -> TypeText:
    word = cursor.step().upper
    if word == "DOUBLE":
        cursor.take("PRECISION")
    single = word in ("FLOAT", "FLOAT4") or (
        word == "REAL" and bool(context.sql_mode & MODE_REAL_AS_FLOAT)
    )
    numbers = _numbers(cursor)
    if word == "FLOAT" and len(numbers) == 1 and numbers[0] > 24:
        single = False
    found = TypeText("float" if single else "double", display_width=_width(numbers))
    found.display_scale = numbers[1] if len(numbers) > 1 else None
    return found


def _characters(cursor: Cursor, *, oracle: bool) -> TypeText:
    word = cursor.step().upper
    charset = None
    if word in ("NATIONAL", "NCHAR", "NVARCHAR"):
        charset = "utf8mb3"
        if word == "NATIONAL":
            word = cursor.step().upper
        word = {"NCHAR": "CHAR", "NVARCHAR": "VARCHAR"}.get(word, word)
    if word in ("CHAR", "CHARACTER"):
        varying = bool(cursor.take_one("VARYING", "VARCHAR", "VARCHARACTER"))
        kind = "varchar" if varying else "char"
    elif word in ("VARCHAR", "VARCHARACTER", "VARCHAR2"):
        kind = "varchar"
    elif word == "BINARY":
        kind = "binary"
    elif word in ("VARBINARY", "RAW"):
        kind = "varbinary"
    elif word in ("TEXT", "BLOB", "CLOB"):
        kind = "longtext" if word == "CLOB" else word.lower()
        if oracle and word == "BLOB" and cursor.token.upper != "(":
            kind = "longblob"  # with a length it is sized as everywhere
    elif word == "LONG":
        if cursor.take("VARBINARY"):
            return TypeText("mediumblob")
        if cursor.peek().upper != "SET" and cursor.take_one("CHAR", "CHARACTER"):
            cursor.expect("VARYING")
        else:
            cursor.take_one("VARCHAR", "VARCHARACTER")
        return TypeText("mediumtext")
    else:
        cursor.at -= 1
        cursor.refuse("a type")
    numbers = _numbers(cursor)
    default = KINDS[kind].default
    if default is not None:
        return TypeText(kind, numbers[0] if numbers else default, charset=charset)
    if kind in ("varchar", "varbinary") and not numbers:
        raise NotUnderstoodError(f"{word} without a length")
    return TypeText(kind, numbers[0] if numbers else None, charset=charset)


def _width(numbers: list[int]) -> int | None:
    return numbers[0] if numbers else None


def _numbers(cursor: Cursor) -> list[int]:
    """Read the numbers in brackets, if any."""
    if cursor.token.upper != "(":
        return []
    inside = Cursor(cursor.brackets())
    found: list[int] = []
    while not inside.done:
        found.append(_length(inside))
        inside.take_one("CHAR", "BYTE")
        if not inside.done:
            inside.expect(",")
    return found


def _length(cursor: Cursor) -> int:
    """Read a length; as the servers do, ignore a fraction."""
    text = cursor.token.text
    if cursor.token.kind != NUMBER or not _POINTED.fullmatch(text):
        return cursor.integer()
    cursor.step()
    return int(text.partition(".")[0] or 0)


def _labels(cursor: Cursor, context: StatementContext) -> tuple[str, ...]:
    """Read the labels in brackets as written, with trailing spaces."""
    inside = Cursor(cursor.brackets())
    labels: list[str] = []
    while not inside.done:
        if inside.token.kind != STRING and inside.token.text.startswith("_"):
            raise NotUnderstoodError("a label with a character set of its own")
        data = literal_bytes(inside.token.text) if inside.token.kind == NUMBER else None
        if data is not None:
            inside.step()
            label: str = ByteLabel(data)
        else:
            label = inside.string()
        if not context.is_mariadb and (0, 0, 0) < context.version < (8, 0, 0):
            # MySQL before 8.0 ends labels at a zero byte.
            label = type(label)(label.partition("\0")[0])
        labels.append(label)
        if not inside.done:
            inside.expect(",")
    if not labels:
        raise NotUnderstoodError("no labels")
    return tuple(labels)


def with_charset(found: TypeText, charset: str | None) -> None:
    """Apply the character set to a type: bytes instead of text, the size of a TEXT."""
    found.charset = found.charset or charset
    kind = found.kind
    if found.charset == BINARY and kind in BYTE_KINDS:
        kind, found.charset = BYTE_KINDS[kind], None
    if kind in ("text", "blob") and found.length is not None:
        size = found.length * (max_length(found.charset) if kind == "text" and found.charset else 1)
        if kind == "text" and found.charset is None and size:
            raise NotUnderstoodError("TEXT with a length, and its character set is not known")
        kind, found.length = sized(kind, size) if size else kind, None
    if kind in ("varchar", "varbinary") and found.length is not None:
        width = max_length(found.charset) if kind == "varchar" and found.charset else 1
        if found.length * width > 0xFFFF:
            # A string that is too long becomes a TEXT or BLOB where the SQL mode allows it.
            kind = sized("text" if kind == "varchar" else "blob", found.length * width)
            found.length = None
    found.kind = kind


def text_kind(kind: str) -> str:
    """Return the text kind for a binary kind; other kinds unchanged."""
    return _KINDS_OF_TEXT.get(kind, kind)


def sized(kind: str, size: int) -> str:
    """Return the TEXT or BLOB type for a number of bytes."""
    sizes = TEXTS if kind == "text" else BLOBS
    return next((name for name in sizes if size <= LIMITS[name]), sizes[-1])


def text_limit(kind: str) -> int:
    """Return the most bytes that a TEXT or BLOB type holds."""
    return LIMITS[kind]


def converted_text(kind: str, old: str, new: str) -> str:
    """Return the TEXT type after CONVERT TO another character set: as many characters must fit."""
    characters = text_limit(kind) // max_length(old)
    return sized("text", characters * max_length(new))


def converted_column(column: ColumnModel, charset: str | None) -> ColumnModel:
    """Return a column after CONVERT TO a character set.

    Raises:
        NotUnderstoodError: a character set is not known.
    """
    if column.kind not in TEXT_KINDS or column.charset == BINARY:
        return column
    if charset is None or (column.charset is None and column.kind in TEXTS):
        raise NotUnderstoodError("CONVERT TO, and a character set is not known")
    kind, length = column.kind, column.length
    if charset == BINARY:
        kind = BYTE_KINDS.get(kind, kind)
    elif kind in TEXTS and column.charset is not None:
        kind = converted_text(kind, column.charset, charset)
    elif kind == "varchar" and (length or 0) * max_length(charset) > 0xFFFF:
        kind, length = sized("text", (length or 0) * max_length(charset)), None
    labels: tuple[str, ...] | None = None
    if column.labels is not None and column.charset is not None:
        read = [reread(label, column.charset, charset) for label in column.labels]
        labels = tuple(label for label in read if label is not None)
        if len(labels) != len(read):
            labels = None
    if column.unknown_labels:
        labels = None
    return replace(
        column,
        kind=kind,
        length=length,
        charset=charset if kind in TEXT_KINDS else None,
        labels=labels,
        unknown_labels=(),
    )


def resized_text(old: ColumnModel, new: ColumnModel, length: int | None) -> ColumnModel:
    """Return a TEXT column as MySQL 8.0 and newer resize it with CONVERT TO.

    The new column holds as many characters as the old one. An explicit length is kept, and so is
    LONGTEXT. (Seen on MySQL 9.7.)
    """
    if new.kind not in TEXTS[:-1] or length is not None:
        return new
    if new.charset is None or old.needs_charset:
        raise NotUnderstoodError("CONVERT TO, and a character set is not known")
    characters = _character_length(old)
    if characters is None:
        raise NotUnderstoodError(f"CONVERT TO together with a TEXT that was {old.kind}")
    return replace(new, kind=sized("text", characters * max_length(new.charset)))


def _character_length(column: ColumnModel) -> int | None:
    """Return the characters MySQL counts for a column before CONVERT TO; None if not known."""
    if column.kind in LIMITS:
        size = text_limit(column.kind)
    elif column.kind in BYTES or column.kind in STRINGS:
        size = column.length or 0
    else:
        # Numbers and times have less than 64 characters.
        return 1 if column.kind in _SHORT else None
    return size // (max_length(column.charset) if column.charset else 1)


def known_charset(name: str) -> str:
    """Return the character set with a name.

    Raises:
        NotUnderstoodError: no such character set is known.
    """
    found = charset_name(name)
    if found is None:
        raise NotUnderstoodError(f"character set {name[:40]!r}")
    return found
