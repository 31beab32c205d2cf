"""Events with statements, and the values that statements need to be run again."""

from __future__ import annotations

import struct
from decimal import Decimal
from enum import IntEnum
from typing import ClassVar, Literal, Self

from replica_client.errors import BinlogDecodeError, ColumnDecodeError
from replica_client.protocol.binlog.events.fields import (
    EXTRA,
    DeclaredEvent,
    Item,
    derived,
    length,
    nul,
    post_header,
    prefixed,
    raw,
    rest,
    uint,
    when,
)
from replica_client.protocol.binlog.events.query_status import (
    QueryStatus,
    parse_query_status,
    parse_session_status,
)
from replica_client.protocol.codec.charsets import (
    UndecodableTextError,
    UnknownCollationError,
    decode_text,
)
from replica_client.protocol.codec.compression import deflate_record, inflate_record
from replica_client.protocol.codec.quick_dataclass import dataclass

_UTF8MB4 = 45
_UNSIGNED = 1
_DIGIT_GROUP = 9
_GROUP_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
_MAX_PRECISION = 81
_HEAD = (
    uint("thread_id", 4, "connection"),
    uint("exec_time", 4, "s"),
    length("schema", 1),
    uint("error_code", 2),
    # Absent before binlog v4.
    when("post_header >= 13", length("status_vars", 2)),
)
_SESSION = (
    raw("status_vars", "status_vars_length", show="status"),
    raw("schema", "schema_length", "default database", is_text=True),
    nul("schema"),
)


@dataclass(frozen=True, slots=True)
class QueryEvent(DeclaredEvent):
    """A statement that the source executed: DDL, BEGIN, COMMIT, statement-format DML.

    Attributes:
        thread_id: connection id on the source.
        exec_time: seconds from start to logging.
        error_code: the statement's on the source.
        status_vars: see :mod:`replica_client.protocol.binlog.events.query_status`.
        query: in the client's character set.

    Raises:
        BinlogDecodeError: no NUL follows the schema.

    Spec: MySQL ``Query_event`` (statement_events.h); MariaDB KB "QUERY_EVENT".
    """

    FIELDS: ClassVar[tuple[Item, ...]] = (
        *_HEAD,
        *post_header(13),
        *_SESSION,
        rest("query", "SQL text", is_text=True),
    )

    thread_id: int
    exec_time: int
    error_code: int
    status_vars: bytes
    schema: bytes
    query: bytes
    extra_post_header: bytes = b""

    @property
    def status(self) -> QueryStatus:
        """The parsed status variables."""
        return parse_query_status(self.status_vars)

    @property
    def session(self) -> QueryStatus:
        """The parsed status variables, cached; ``ddl_xid`` may be that of another statement."""
        return parse_session_status(self.status_vars)

    def query_text(self, errors: Literal["strict", "replace"] = "strict") -> str:
        """Decode the statement by the client character set in the status variables.

        Without that variable (statements made by the server, and all before 5.0), UTF-8 is used.

        Raises:
            BinlogDecodeError: the bytes are not text of that character set (``errors="strict"``),
                it is not known, or the status variables are cut.
        """
        client = self.status.character_set_client
        try:
            return decode_text(self.query, _UTF8MB4 if client is None else client, errors)
        except (UndecodableTextError, UnknownCollationError) as error:
            raise BinlogDecodeError(f"query text: {error}") from error


@dataclass(frozen=True, slots=True)
class QueryCompressedEvent(QueryEvent):
    """A statement with compressed text (MariaDB ``log_bin_compress``); otherwise as QUERY.

    Attributes:
        query: the decompressed text.
        compressed_query: the bytes in the event; empty in an event made by the caller.

    Raises:
        BinlogDecodeError: broken compression.
        LimitExceededError: the text is larger than the option max_uncompressed_size.

    Spec: MariaDB ``Query_compressed_log_event`` (log_event.h, log_event.cc).
    """

    FIELDS = (
        *_HEAD,
        *post_header(13),
        *_SESSION,
        rest(
            "compressed_query",
            "MariaDB compression header and zlib data",
            encoded=f"compressed_query or {deflate_record.__name__}(query)",
        ),
        derived(
            "query",
            f"{inflate_record.__name__}(compressed_query, ctx.options.max_uncompressed_size)",
        ),
    )

    compressed_query: bytes = b""


class LoadDuplicates(IntEnum):
    """The handling of rows with an existing key by LOAD DATA."""

    LOAD_DUP_ERROR = 0
    LOAD_DUP_IGNORE = 1
    LOAD_DUP_REPLACE = 2


@dataclass(frozen=True, slots=True)
class ExecuteLoadQueryEvent(QueryEvent):
    """A LOAD DATA statement, after the events with its file (statement format, since 5.0.3).

    Attributes:
        file_name_start: of the file's name in the statement, a byte offset.
        file_name_end: the byte after it.
        duplicates: :class:`LoadDuplicates`.
        extra_load_header: bytes of the post-header after the known ones.

    Spec: MySQL ``Execute_load_query_event`` (load_data_events.h).
    """

    FIELDS = (
        *_HEAD,
        uint("file_id", 4),
        uint("file_name_start", 4, "byte of the query"),
        uint("file_name_end", 4, "byte of the query"),
        uint("duplicates", 1, "0 error, 1 ignore, 2 replace"),
        *post_header(26, "extra_load_header"),
        *_SESSION,
        rest("query", "SQL text", is_text=True),
    )

    file_id: int = 0
    file_name_start: int = 0
    file_name_end: int = 0
    duplicates: int = LoadDuplicates.LOAD_DUP_ERROR
    extra_load_header: bytes = b""


@dataclass(frozen=True, slots=True)
class RowsQueryEvent(DeclaredEvent):
    """The text of the statement that made the following row changes (informational).

    Attributes:
        length_byte: the query's length, modulo 256 or cut at 255; readers ignore it.
        query: in the client's character set.

    Spec: MySQL ``Rows_query_event`` (rows_event.h).
    """

    FIELDS = (
        *post_header(0),
        uint("length_byte", 1, "bytes modulo 256, not to be used"),
        rest("query", "SQL text", is_text=True),
    )

    query: bytes
    length_byte: int
    extra_post_header: bytes = b""

    @classmethod
    def of(cls, query: bytes) -> Self:
        """Return the event that a server writes for ``query``."""
        return cls(query, len(query) & 0xFF)


@dataclass(frozen=True, slots=True)
class AnnotateRowsEvent(DeclaredEvent):
    """The text of the statement that made the following row changes (MariaDB, informational).

    Spec: MariaDB ``Annotate_rows_log_event`` (log_event.h).
    """

    FIELDS = (*post_header(0), rest("query", "SQL text", is_text=True))

    query: bytes
    extra_post_header: bytes = b""


class IntvarKind(IntEnum):
    """The variable that an INTVAR event sets."""

    INVALID_INT_EVENT = 0
    LAST_INSERT_ID_EVENT = 1
    INSERT_ID_EVENT = 2


@dataclass(frozen=True, slots=True)
class IntvarEvent(DeclaredEvent):
    """A value for a statement that uses LAST_INSERT_ID() or fills an AUTO_INCREMENT column.

    Attributes:
        kind: :class:`IntvarKind`.

    Spec: MySQL ``Intvar_event`` (statement_events.h).
    """

    INFO = "{0.name}={0.value}"
    FIELDS = (
        *post_header(0),
        uint("kind", 1, "1: LAST_INSERT_ID, 2: INSERT_ID"),
        uint("value", 8),
        EXTRA,
    )

    kind: int
    value: int
    extra_post_header: bytes = b""
    extra: bytes = b""

    @property
    def name(self) -> str:
        """``LAST_INSERT_ID``, ``INSERT_ID``, or ``INVALID_INT`` for any other kind."""
        try:
            return IntvarKind(self.kind).name.removesuffix("_EVENT")
        except ValueError:
            return "INVALID_INT"


@dataclass(frozen=True, slots=True)
class RandEvent(DeclaredEvent):
    """The seeds for a statement that calls RAND().

    Spec: MySQL ``Rand_event`` (statement_events.h).
    """

    INFO = "rand_seed1={0.seed1},rand_seed2={0.seed2}"
    FIELDS = (*post_header(0), uint("seed1", 8), uint("seed2", 8), EXTRA)

    seed1: int
    seed2: int
    extra_post_header: bytes = b""
    extra: bytes = b""


class UserVarType(IntEnum):
    """Types of a user variable's value (``Item_result``)."""

    STRING_RESULT = 0
    REAL_RESULT = 1
    INT_RESULT = 2
    ROW_RESULT = 3
    DECIMAL_RESULT = 4


@dataclass(frozen=True, slots=True)
class UserVarEvent(DeclaredEvent):
    """A value of the user variable ``@name``, for the next statement.

    Attributes:
        name: in UTF-8.
        type_code: :class:`UserVarType`.
        value_bytes: a string's bytes, an 8-byte double or integer, or a decimal after its precision
            and scale; None when the variable is NULL.
        flags: bit 0: unsigned; absent before 5.5.
        extra: MariaDB: chunks that refine the type.

    Spec: MySQL ``User_var_event`` (statement_events.h); MariaDB ``User_var_log_event``.
    """

    FIELDS = (
        *post_header(0),
        prefixed("name", 4, is_text=True),
        uint("is_null", 1, "not 0: NULL"),
        when(
            "not is_null",
            uint("type_code", 1, "0 string, 1 real, 2 int, 4 decimal"),
            uint("collation_id", 4, "collation id"),
            prefixed("value_bytes", 4, "by type_code"),
            when("reader.remaining", uint("flags", 1, "bit 0: unsigned", since="5.5")),
        ),
        EXTRA,
    )

    name: bytes
    is_null: int
    type_code: int = UserVarType.STRING_RESULT
    collation_id: int = 0
    value_bytes: bytes | None = None
    flags: int | None = None
    extra_post_header: bytes = b""
    extra: bytes = b""

    @property
    def unsigned(self) -> bool:
        """Whether an integer value is unsigned."""
        return bool((self.flags or 0) & _UNSIGNED)

    @property
    def value(self) -> bytes | int | float | Decimal | None:
        """The value as a Python object; a string stays bytes of the collation's character set.

        Raises:
            ColumnDecodeError: the bytes are not a value of the type.
        """
        raw = self.value_bytes
        if raw is None:
            return None
        if self.type_code == UserVarType.STRING_RESULT:
            return raw
        if self.type_code == UserVarType.REAL_RESULT and len(raw) == 8:
            real: float = struct.unpack("<d", raw)[0]
            return real
        if self.type_code == UserVarType.INT_RESULT and len(raw) == 8:
            return int.from_bytes(raw, "little", signed=not self.unsigned)
        if self.type_code == UserVarType.DECIMAL_RESULT:
            return _decimal(raw)
        raise ColumnDecodeError(
            f"user variable of type {self.type_code} has a value of {len(raw)} bytes"
        )


def _decimal(raw: bytes) -> Decimal:
    """Decode a binary decimal that follows its precision and scale.

    Groups of nine digits take four bytes big-endian, the odd digits at both ends fewer; the first
    bit is inverted, and all bits are when the number is negative.
    """
    if len(raw) < 3:
        raise ColumnDecodeError("decimal of a user variable ends early")
    precision, scale = raw[0], raw[1]
    if not 0 < precision <= _MAX_PRECISION or scale > precision:
        raise ColumnDecodeError(f"user variable has the type DECIMAL({precision},{scale})")
    head, tail = (precision - scale) % _DIGIT_GROUP, scale % _DIGIT_GROUP
    groups = [head] if head else []
    groups += [_DIGIT_GROUP] * ((precision - scale) // _DIGIT_GROUP + scale // _DIGIT_GROUP)
    groups += [tail] if tail else []
    size = sum(_GROUP_BYTES[digits] for digits in groups)
    if len(raw) != 2 + size:
        raise ColumnDecodeError(f"DECIMAL({precision},{scale}) has {len(raw) - 2} bytes")
    negative = not raw[2] & 0x80
    data = bytes((raw[2] ^ 0x80, *raw[3:]))
    if negative:
        data = bytes(byte ^ 0xFF for byte in data)
    text, at = "", 0
    for digits in groups:
        width = _GROUP_BYTES[digits]
        number = int.from_bytes(data[at : at + width], "big")
        if number >= 10**digits:
            raise ColumnDecodeError(f"decimal of a user variable has {number} in {digits} digits")
        text += f"{number:0{digits}d}"
        at += width
    return Decimal((int(negative), tuple(map(int, text)), -scale))
