"""A parser of column definitions: name, type, attributes and default."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.schema.character_sets import (
    BINARY,
    UTF8MB3,
    WIDE_CHARSETS,
    charset_of_collation,
    kept_labels,
)
from replica_client.schema.ddl.lexer import (
    NAME,
    NUMBER,
    STRING,
    WORD,
    Cursor,
    NotUnderstoodError,
    Token,
)
from replica_client.schema.ddl.statement_context import StatementContext
from replica_client.schema.ddl.type_clause import (
    TypeText,
    known_charset,
    read_type,
    text_kind,
    with_charset,
)
from replica_client.schema.kinds import BYTES, NUMBERS, TEXT_KINDS
from replica_client.schema.model import ColumnModel

_LITERAL: Final = re.compile(r"(?:0x([0-9a-f]+)|x'((?:[0-9a-f]{2})*)')", re.IGNORECASE)
_WIDE: Final = frozenset(("ucs2", "utf16", "utf16le", "utf32"))


def hexadecimal_default(text: str, kind: str, charset: str | None) -> str | None:
    """Return a number literal as :attr:`~replica_client.schema.model.ColumnModel.default`.

    Args:
        text: the literal: ``0x4d`` or ``x'4d'``; another literal is returned unchanged.
        kind: of the column.
        charset: of the column; None if it has none.

    Returns:
        a number for a numeric column, text for a text column, ``0x…`` for a binary column; None
        where it is not known.
    """
    found = _LITERAL.fullmatch(text)
    if found is None:
        return text
    digits = found[1] or found[2] or ""
    digits = digits.rjust(len(digits) + len(digits) % 2, "0")
    if kind in BYTES:
        return f"0x{digits}"
    data = bytes.fromhex(digits)
    if kind in NUMBERS:
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
    """Return a string literal as :attr:`~replica_client.schema.model.ColumnModel.default`.

    Args:
        text: the text between the quotes.
        kind: of the column.

    Returns:
        the text; as ``0x…`` for a binary column whose text itself begins with ``0x``.
    """
    if kind in BYTES and text[:2].lower() == "0x":
        return f"0x{text.encode().hex()}"
    return text


PrimaryKey = tuple[tuple[str, int], ...]
"""Column names with prefix lengths; 0 for the whole column."""

_VALUED = frozenset(
    (
        *("COMMENT", "COLUMN_FORMAT", "STORAGE", "ENGINE_ATTRIBUTE", "SECONDARY_ENGINE_ATTRIBUTE"),
        *("SRID", "REF_SYSTEM_ID", "KEY_BLOCK_SIZE"),
    )
)
_PRESENT = frozenset(("CURRENT_TIMESTAMP", "NOW", "LOCALTIME", "LOCALTIMESTAMP", "SYSDATE"))


@dataclass(slots=True)
class ColumnText:
    """A column definition as written, before the table's character set is known.

    Attributes:
        name: the column's name.
        type: the column's type.
        charset: the column's own character set, also from its collation.
        nullable: None where nothing was said.
        primary: whether it is the primary key.
        visible: whether ``SELECT *`` shows it.
        column_position: ``""``, ``FIRST`` or ``AFTER``.
        after: the column after AFTER.
        row_bound: a period column, ``GENERATED ALWAYS AS ROW START`` or ``END``.
        default: the tokens after DEFAULT; empty without one.
        computed: the source computes the values: a generated or AUTO_INCREMENT column.
        generated: the source computes the values by an expression.
        auto_increment: AUTO_INCREMENT.
        on_update: ON UPDATE CURRENT_TIMESTAMP.
        comment: the text after COMMENT.
        listed: the server wrote the definition: a ``?`` in a label may replace another character.
        labels_are_stored: the server certainly wrote the definition: labels are those of the table.
        utf8_is_in_doubt: ``utf8`` was read as utf8mb3 but may be utf8mb4, which has more labels.
        versioned: WITH SYSTEM VERSIONING at the column, which makes the table versioned (MariaDB).
    """

    name: str
    type: TypeText
    charset: str | None = None
    nullable: bool | None = None
    primary: bool = False
    visible: bool = True
    column_position: str = ""
    after: str = ""
    row_bound: bool = False
    default: tuple[Token, ...] = ()
    computed: bool = False
    generated: bool = False
    auto_increment: bool = False
    on_update: bool = False
    comment: str = ""
    versioned: bool = False
    listed: bool = False
    labels_are_stored: bool = False
    utf8_is_in_doubt: bool = False

    def model(self, table_charset: str | None, *, converted: bool = False) -> ColumnModel:
        """Return the column in a table with this default character set.

        Args:
            table_charset: the table's default; None where it is not known.
            converted: whether the statement has CONVERT TO: text columns get the table's character
                set, whatever their definitions say.

        Raises:
            NotUnderstoodError: the column's size depends on an unknown character set.
        """
        found = replace(self.type)
        charset = self.charset
        if found.kind not in TEXT_KINDS:
            charset = None
        elif converted and BINARY not in (charset, found.charset):
            found.charset, charset = None, table_charset
        elif charset is None and found.charset is None:
            charset = table_charset
        with_charset(found, charset)
        nullable = self.nullable
        if self.primary or self.row_bound:
            nullable = False
        elif nullable is None and found.kind != "timestamp":
            nullable = True
        labels = found.labels
        unknown: tuple[int, ...] = ()
        if labels is not None:
            labels, unknown = kept_labels(labels, found.written, found.charset)
        column = ColumnModel(
            self.name,
            found.kind,
            found.length,
            found.scale,
            found.fraction_digits,
            found.unsigned and found.kind != "year",  # servers accept the word and ignore it
            found.charset,
            labels,
            nullable,
            self.visible,
            found.compressed,
            unknown_labels=unknown,
            labels_are_stored=self.labels_are_stored and found.charset is None,
            type_name="" if found.name == _usual_name(found) else found.name,
            display_width=found.display_width,
            display_scale=found.display_scale,
            auto_increment=self.auto_increment,
            on_update=self.on_update,
            default=literal_text(self.default, found.kind, found.charset),
            comment=self.comment,
            generated=self.generated,
        )
        doubtful = set(unknown)
        if self.listed:
            # Listings show ``?`` for invalid bytes after CONVERT TO, and change wide characters.
            is_wide = column.charset in WIDE_CHARSETS
            texts = enumerate(column.labels or (), 1)
            doubtful.update(at for at, label in texts if is_wide or "?" in label)
        if self.utf8_is_in_doubt and column.charset == UTF8MB3:
            texts = enumerate(found.labels or (), 1)
            doubtful.update(at for at, label in texts if max(label, default="") > "\uffff")
        if doubtful:
            column = replace(column, unknown_labels=tuple(sorted(doubtful)))
        return column


def _usual_name(found: TypeText) -> str:
    return found.kind.upper() + (" UNSIGNED" if found.unsigned else "")


def read_column(cursor: Cursor, context: StatementContext) -> ColumnText:
    """Read a column definition from the name to the end.

    Raises:
        NotUnderstoodError: the name or type is not understood.
    """
    name = column_name(cursor)
    column = ColumnText(name, read_type(cursor, context), utf8_is_in_doubt=context.utf8_is_in_doubt)
    if column.type.serial:
        # MySQL accepts NULL after SERIAL.
        column.nullable = False
        column.computed = column.auto_increment = True
    while not cursor.done:
        _attribute(cursor, column, context)
    if column.type.serial:
        column.type.name = _usual_name(column.type)
    return column


def column_name(cursor: Cursor) -> str:
    """Read a column's name, possibly qualified by table and database.

    Raises:
        NotUnderstoodError: something else is next.
    """
    cursor.take(".")
    name = cursor.name()
    for _ in range(2):
        if cursor.take("."):
            name = cursor.name()
    return name


# Attributes that are one word: the field that they set, and its value.
_WORDS: Final[Mapping[str, tuple[str, str | bool]]] = {
    "ASCII": ("charset", "latin1"),
    "UNICODE": ("charset", "ucs2"),
    "BYTE": ("charset", BINARY),
    "NULL": ("nullable", True),
    "KEY": ("primary", True),
    "VISIBLE": ("visible", True),
    "INVISIBLE": ("visible", False),
    "FIRST": ("column_position", "FIRST"),
}


def _attribute(cursor: Cursor, column: ColumnText, context: StatementContext) -> None:
    token = cursor.step()
    word = token.upper
    if word in _WORDS:
        setattr(column, *_WORDS[word])
    elif _type_attribute(cursor, column, context, word):
        return
    elif word == "NOT":
        if cursor.take("NULL"):
            column.nullable = False
        else:
            cursor.step()  # NOT ENFORCED, NOT SECONDARY
    elif word == "DEFAULT":
        column.default = read_default(cursor)
    elif word == "AUTO_INCREMENT" or (word == "SERIAL" and cursor.take("DEFAULT", "VALUE")):
        # NULL after AUTO_INCREMENT counts, NULL before it does not.
        column.computed = column.auto_increment = True
        column.nullable = False
    elif word == "ON":
        cursor.expect("UPDATE")
        _skip_value(cursor)
        column.on_update = True
    elif word in ("AS", "GENERATED"):
        _generated(cursor, column, word)
    elif word == "AFTER":
        column.column_position, column.after = "AFTER", cursor.name()
    elif word in ("WITH", "WITHOUT") and cursor.take("SYSTEM"):
        cursor.expect("VERSIONING")
        column.versioned = word == "WITH"
    else:
        _constraint_or_option(cursor, column, token)


def _type_attribute(
    cursor: Cursor, column: ColumnText, context: StatementContext, word: str
) -> bool:
    """Read an attribute of the column's type; return whether it was one."""
    if word in ("UNSIGNED", "ZEROFILL"):
        column.type.unsigned = True
        column.type.name += f" {word}"
    elif word in ("CHARSET", "CHARACTER", "CHAR"):
        if word != "CHARSET":
            cursor.expect("SET")
        cursor.take("=")
        column.charset = _charset_value(cursor)
    elif word == "COLLATE":
        cursor.take("=")
        _collation(cursor, column, context)
    elif word == "COMPRESSED":
        column.type.compressed = True
        if cursor.take("="):
            cursor.step()
    else:
        return False
    return True


def _constraint_or_option(cursor: Cursor, column: ColumnText, token: Token) -> None:
    word = token.upper
    if word == "PRIMARY":
        cursor.take("KEY")
        column.primary = True
    elif word == "UNIQUE":
        cursor.take("KEY")
    elif word == "REFERENCES":
        _skip_reference(cursor)
    elif word in ("CHECK", "("):
        if word == "(":
            cursor.at -= 1
        cursor.skip_brackets()
    elif word == "CONSTRAINT":
        if cursor.token.upper != "CHECK":
            cursor.name()
    elif word in _VALUED:
        cursor.take("=")
        value = cursor.step()
        if word == "COMMENT":
            column.comment = value.text
    elif token.kind in (WORD, NAME) and cursor.take("="):
        cursor.step()  # an attribute of a storage engine
    elif word in ("ADD", "DROP", "CHANGE", "MODIFY", "RENAME"):
        raise NotUnderstoodError(f"{word} inside of a column's definition")


def read_default(cursor: Cursor) -> tuple[Token, ...]:
    """Read the tokens of the default value after DEFAULT."""
    start = cursor.at
    _skip_value(cursor)
    # Offsets are no part of a column's definition; without them equal defaults compare equal.
    return tuple(token._replace(start=0, end=0) for token in cursor.tokens[start : cursor.at])


def literal_text(tokens: Sequence[Token], kind: str, charset: str | None) -> str | None:
    """Return the default in tokens as :attr:`~replica_client.schema.model.ColumnModel.default`.

    Args:
        tokens: after DEFAULT.
        kind: of the column.
        charset: of the column; None if it has none.
    """
    sign = ""
    while tokens and tokens[0].upper in ("+", "-"):
        sign = "-" if tokens[0].upper == "-" else sign
        tokens = tokens[1:]
    if not tokens:
        return None
    first, rest = tokens[0], tokens[1:]
    if first.kind == WORD and first.upper in _PRESENT:
        return "CURRENT_TIMESTAMP"
    if first.kind == WORD and first.text.startswith("_") and len(rest) == 1:
        first, rest = rest[0], ()
    if rest:
        return None
    if first.kind == WORD:
        return first.upper if first.upper in ("TRUE", "FALSE") else None
    if first.kind == STRING:
        return sign + text_default(first.text, kind)
    number = hexadecimal_default(first.text, kind, charset) if first.kind == NUMBER else None
    return None if number is None else sign + number


def _charset_value(cursor: Cursor) -> str | None:
    token = cursor.step()
    if token.upper == "DEFAULT":
        return None
    if token.kind not in (WORD, NAME, STRING):
        raise NotUnderstoodError("a character set's name expected")
    return known_charset(token.text)


def _collation(cursor: Cursor, column: ColumnText, context: StatementContext) -> None:
    token = cursor.step()
    if token.upper == "DEFAULT":
        return
    if token.kind not in (WORD, NAME, STRING):
        raise NotUnderstoodError("a collation's name expected")
    # A collation without a character set (uca1400_ai_ci) does not change the character set.
    charset = charset_of_collation(token.text)
    column.charset = charset or column.charset
    if context.is_mariadb:
        # COLLATE makes text of a binary type, and overrides the charset that JSON implies; with
        # the collation binary both are binary.
        column.type.kind = text_kind(column.type.kind)
        column.type.charset = None if charset else column.type.charset


def _generated(cursor: Cursor, column: ColumnText, word: str) -> None:
    if word == "GENERATED":
        if cursor.take("BY"):
            cursor.expect("DEFAULT")
        else:
            cursor.take("ALWAYS")
        cursor.expect("AS")
    column.computed = True
    if cursor.take("ROW"):
        column.row_bound = True
        if not cursor.take_one("START", "END"):
            cursor.refuse("START or END")
    elif not cursor.take("IDENTITY"):
        if not cursor.skip_brackets():
            cursor.refuse("an expression in brackets")
        column.generated = True


def _skip_value(cursor: Cursor) -> None:
    """Skip a default: one term, or an expression in brackets."""
    while cursor.token.upper in ("+", "-"):
        cursor.step()
    if cursor.skip_brackets():
        return
    token = cursor.step()
    if token.upper == "NEXT" and cursor.take("VALUE", "FOR"):
        cursor.table_name("")
        return
    if (
        token.kind == WORD
        and token.text.startswith("_")
        and cursor.token.kind in (STRING, "number")
    ):
        cursor.step()  # _utf8'text'
    if token.upper in ("DATE", "TIME", "TIMESTAMP", "INTERVAL") and cursor.token.kind == STRING:
        cursor.step()
    while cursor.token.upper == ".":
        cursor.step()
        cursor.step()
    cursor.skip_brackets()


def _skip_reference(cursor: Cursor) -> None:
    cursor.table_name("")
    cursor.skip_brackets()
    while True:
        if cursor.take("MATCH"):
            cursor.step()
        elif cursor.take("ON"):
            cursor.step()  # DELETE or UPDATE
            if not (cursor.take_one("RESTRICT", "CASCADE")):
                cursor.step()
                cursor.step()  # SET NULL, SET DEFAULT, NO ACTION
        else:
            return
