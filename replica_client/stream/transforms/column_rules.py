"""Rules for columns: values, added columns, and several tables merged into one.

A rule turns a value that is neither None nor absent into a text, or into nothing. It also says
which type its column then has, so that row images, Arrow columns, definitions and copies of tables
agree.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from replica_client.errors import DataLossError
from replica_client.protocol.binlog.values.strings import encode_string
from replica_client.protocol.constants.column_types import BLOB_TYPES, CHARACTER_TYPES, ColumnType
from replica_client.rows.json_values import value_to_json
from replica_client.schema.character_sets import (
    BINARY,
    charset_of_id,
    max_length,
    representative_id,
)
from replica_client.schema.kinds import STRINGS
from replica_client.schema.model import ColumnModel, column_length
from replica_client.schema.shape import ColumnShape

Hiding = Literal["drop", "mask", "truncate", "hash", "replace", "tokenise"]
TEXT: Final = "utf8mb4"
_HASH_CHARSET: Final = "ascii"
_HASH_LENGTH: Final = 64
_LONG: Final = 4
"""Bytes of a LONGTEXT's length."""


@dataclass(frozen=True)
class ColumnRule:
    """A rule for a column's values.

    Attributes:
        kind: see :mod:`~replica_client.stream.transforms.declaration`.
        make: computes the new value; None: the value becomes NULL, or for ``drop`` the column is
            left out.
        constant: the new value of every row, NULL or not, if it depends on none; see ``make``.
        of_text: whether the rule is only for columns of text.
        unique: whether different values stay different.
        grows: whether a text can become longer than its column.
    """

    kind: Hiding
    make: Callable[[Any], str] | None = None
    constant: str | None = None
    of_text: bool = False
    unique: bool = False
    grows: bool = False

    @property
    def reads_values(self) -> bool:
        """Whether the rule needs the old value."""
        return self.make is not None


def mask_rule(text: str) -> ColumnRule:
    """Return the rule that replaces texts by ``text``, and values of all other types by NULL."""
    return ColumnRule("mask", constant=text)


def truncate_rule(count: int) -> ColumnRule:
    """Return the rule that keeps the first characters of a text."""
    return ColumnRule("truncate", lambda value: _text_of(value)[:count], of_text=True)


def replace_rule(pattern: re.Pattern[str], replacement: str) -> ColumnRule:
    """Return the rule that replaces all matches of a pattern."""

    def make(value: Any) -> str:
        return pattern.sub(replacement, _text_of(value))

    return ColumnRule("replace", make, of_text=True, grows=True)


def hash_rule(key: bytes) -> ColumnRule:
    """Return the rule that replaces a value by the HMAC-SHA-256 of its text, in hexadecimal digits.

    Equal values stay equal, different values stay different.
    """
    keyed = hmac.new(key, digestmod=hashlib.sha256)

    def make(value: Any) -> str:
        one = keyed.copy()  # creating a new object would take nearly half of the time
        one.update(_bytes_of(value))
        return one.hexdigest()

    return ColumnRule("hash", make, unique=True)


def tokenise_rule(key: bytes) -> ColumnRule:
    """Return the rule that replaces letters by letters and digits by digits, keeping the form.

    The replacements depend on the whole text and the key.
    """

    def make(value: Any) -> str:
        return _token(key, _text_of(value))

    return ColumnRule("tokenise", make, of_text=True)


def _text_of(value: Any) -> str:
    if not isinstance(value, str):
        # The message must not show the value.
        raise DataLossError("a transform of text met bytes that are none in its character set")
    return value


def _bytes_of(value: Any) -> bytes:
    text = str(value) if isinstance(value, str) else value_to_json(value)
    return text.encode("utf-8", "surrogateescape")


def _token(key: bytes, text: str) -> str:
    data, stream, made = _bytes_of(text), b"", []
    for at, char in enumerate(text):
        if at >= len(stream):
            stream += hmac.new(key, at.to_bytes(8, "big") + data, hashlib.sha256).digest()
        made.append(_other(char, stream[at]))
    return "".join(made)


def _other(char: str, number: int) -> str:
    if "0" <= char <= "9":
        return chr(48 + (ord(char) - 48 + number) % 10)
    if "a" <= char <= "z":
        return chr(97 + (ord(char) - 97 + number) % 26)
    if "A" <= char <= "Z":
        return chr(65 + (ord(char) - 65 + number) % 26)
    # Marks stay, as part of the form; a letter of another script would reveal what it was.
    return "x" if char.isalnum() or ord(char) > 127 else char


def is_text(column: ColumnShape | ColumnModel) -> bool:
    """Return whether a column holds text, as far as known."""
    if isinstance(column, ColumnModel):
        return column.kind in STRINGS
    texts = column.type_code in CHARACTER_TYPES
    charset = None if column.collation_id is None else charset_of_id(column.collation_id)
    return texts and column.logical_type is None and charset not in (None, BINARY)


def length_size(column: ColumnShape) -> int:
    """Return the bytes of the length before a text in a column that :func:`ruled_shape` made."""
    if column.type_code == ColumnType.MYSQL_TYPE_BLOB:
        return _LONG
    return 2 if column.length > 255 else 1


def ruled_shape(column: ColumnShape, rule: ColumnRule | None, name: str) -> ColumnShape:
    """Return the shape of a column after a rule."""
    if rule is None:
        return replace(column, name=name)
    if rule.kind == "mask" and not is_text(column):
        # A default or comment could reveal what is hidden.
        return replace(column, name=name, nullable=True, definition=None)
    plain = ColumnShape(
        name,
        ColumnType.MYSQL_TYPE_VARCHAR,
        nullable=column.nullable,
        collation_id=representative_id(TEXT),
        primary_key_index=column.primary_key_index,
        visible=column.visible,
    )
    if rule.kind == "hash":
        length, collation = _HASH_LENGTH, representative_id(_HASH_CHARSET)
        return replace(plain, metadata=length, length=length, collation_id=collation)
    if column.type_code in BLOB_TYPES or rule.grows:
        code = ColumnType.MYSQL_TYPE_BLOB
        return replace(plain, type_code=code, metadata=_LONG, length=column_length(code, _LONG))
    charset = charset_of_id(column.collation_id)
    length = _characters(column.length // max_length(charset or BINARY), rule)
    length *= max_length(TEXT)
    return replace(plain, metadata=length, length=length)


def ruled_model(column: ColumnModel, rule: ColumnRule | None, name: str) -> ColumnModel:
    """Return a column's definition after a rule."""
    if rule is None:
        return replace(column, name=name)
    if rule.kind == "mask" and not is_text(column):
        return replace(column, name=name, nullable=True, default=None, comment="")
    plain = ColumnModel(
        name, "longtext", charset=TEXT, nullable=column.nullable, visible=column.visible
    )
    if rule.kind == "hash":
        return replace(plain, kind="varchar", length=_HASH_LENGTH, charset=_HASH_CHARSET)
    if column.kind not in ("char", "varchar") or rule.grows:
        return plain
    return replace(plain, kind="varchar", length=_characters(column.length or 0, rule))


def _characters(count: int, rule: ColumnRule) -> int:
    return max(count, len(rule.constant or ""))


PRESENT: Final = b"\0"
DELETED: Final = b"\1"
"""Row image bytes of a marker's two values."""


@dataclass(frozen=True)
class ShardColumn:
    """The column with the table that a row came from; the first of the primary key.

    Attributes:
        name: of the column.
        value: of this table's rows.
        length: characters that any shard's value can have.
    """

    name: str
    value: str
    length: int

    @property
    def model(self) -> ColumnModel:
        """The column's definition."""
        return ColumnModel(self.name, "varchar", self.length, charset=TEXT, nullable=False)

    def shape(self, *, keyed: bool) -> ColumnShape:
        """Return the shape of the column in row images.

        Args:
            keyed: whether the table has a primary key.
        """
        size = self.length * max_length(TEXT)
        return ColumnShape(
            self.name,
            ColumnType.MYSQL_TYPE_VARCHAR,
            metadata=size,
            nullable=False,
            collation_id=representative_id(TEXT),
            primary_key_index=0 if keyed else None,
            length=size,
            definition=self.model,
        )

    @property
    def image(self) -> bytes:
        """The value in a row image."""
        size = self.length * max_length(TEXT)
        return encode_string(self.value, 2 if size > 255 else 1, representative_id(TEXT))


@dataclass(frozen=True)
class MarkerColumn:
    """The last column, which is 1 in rows that the source has deleted, and 0 in all others.

    Attributes:
        name: of the column.
    """

    name: str

    @property
    def model(self) -> ColumnModel:
        """The column's definition."""
        return ColumnModel(self.name, "tinyint", nullable=False, type_name="BOOLEAN", default="0")

    @property
    def shape(self) -> ColumnShape:
        """The shape of the column in row images."""
        return ColumnShape(
            self.name,
            ColumnType.MYSQL_TYPE_TINY,
            nullable=False,
            unsigned=False,
            length=1,
            definition=self.model,
        )
