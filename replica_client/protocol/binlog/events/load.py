"""Events of LOAD DATA: the statements of MySQL 3.23 to 4.1, and the pieces of files."""

from __future__ import annotations

from replica_client.errors import EncodeError
from replica_client.protocol.binlog.events.fields import (
    BODY,
    EXTRA,
    Check,
    DeclaredEvent,
    Item,
    count,
    length,
    nul,
    nul_string,
    post_header,
    raw,
    repeated,
    rest,
    struct,
    uint,
    when,
)
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.event_types import EventType

_LOAD = int(EventType.LOAD_EVENT)


def _clause(name: str) -> tuple[Item, ...]:
    """Declare a text of a clause: one byte in LOAD, a length and bytes in the later types."""
    return (
        when(
            f"ctx.type_code != {_LOAD}",
            length(name, 1, absent=1),
            encoded="empty_flags is None",
        ),
        Check(
            f"empty_flags is None or len({name}) == 1",
            "LOAD holds each text of its clauses as one byte",
            EncodeError,
        ),
        raw(name, f"{name}_length"),
    )


@dataclass(frozen=True, slots=True)
class LoadSyntax(DeclaredEvent):
    """The FIELDS and LINES clauses of a LOAD DATA statement.

    LOAD stores each text as one byte; a bit of ``empty_flags`` says that it is empty. NEW_LOAD and
    CREATE_FILE store each text after a one-byte length, without ``empty_flags``.

    Attributes:
        flags: bit 0: DUMPFILE, 1: OPTIONALLY ENCLOSED, 2: REPLACE, 3: IGNORE.
        empty_flags: None in the newer form; bit 0: field_terminator, 1: enclosed_by,
            2: line_terminator, 3: line_start, 4: escaped_by is empty.

    Spec: MySQL ``sql_ex_data_info`` and ``old_sql_ex`` (load_data_events.h, up to 5.7).
    """

    FIELDS = (
        *_clause("field_terminator"),
        *_clause("enclosed_by"),
        *_clause("line_terminator"),
        *_clause("line_start"),
        *_clause("escaped_by"),
        uint("flags", 1, "1 DUMPFILE, 2 OPTIONALLY ENCLOSED, 4 REPLACE, 8 IGNORE"),
        when(
            f"ctx.type_code == {_LOAD}",
            uint("empty_flags", 1, "bit per clause that is empty"),
        ),
    )

    field_terminator: bytes = b"\t"
    enclosed_by: bytes = b""
    line_terminator: bytes = b"\n"
    line_start: bytes = b""
    escaped_by: bytes = b"\\"
    flags: int = 0
    empty_flags: int | None = None


_HEAD = (
    uint("thread_id", 4, "connection"),
    uint("exec_time", 4, "s"),
    uint("skip_lines", 4, "lines"),
    length("table", 1),
    length("schema", 1),
    count("columns", 4),
)
_NAMES = (
    struct("syntax", LoadSyntax),
    raw(
        "column_lengths",
        "columns_count",
        "bytes of each column's name",
        is_hidden=True,
        label="columns lengths",
        encoded="bytes(map(len, columns))",
        show="numbers",
    ),
    repeated(
        "columns",
        "columns_count",
        raw("column", "column_lengths[index]", is_text=True),
        nul("column"),
    ),
    raw("table", "table_length", is_text=True),
    nul("table"),
    raw("schema", "schema_length", is_text=True),
    nul("schema"),
)


@dataclass(frozen=True, slots=True)
class LoadEvent(DeclaredEvent):
    """A LOAD DATA statement; the type LOAD has the old syntax form, NEW_LOAD the newer.

    Attributes:
        exec_time: seconds.
        skip_lines: IGNORE n LINES.
        file_name: may end with NUL.

    Spec: MySQL ``Load_event`` (load_data_events.h, up to 5.7).
    """

    FIELDS = (*_HEAD, *post_header(18), *_NAMES, rest("file_name", is_text=True))

    thread_id: int
    exec_time: int
    skip_lines: int
    schema: bytes
    table: bytes
    columns: tuple[bytes, ...]
    file_name: bytes
    syntax: LoadSyntax = LoadSyntax()
    extra_post_header: bytes = b""


@dataclass(frozen=True, slots=True)
class CreateFileEvent(DeclaredEvent):
    """A LOAD DATA statement and the first piece of its file.

    It begins with the post-header of LOAD, in the length that LOAD has; its own comes after.

    Attributes:
        block: first bytes of the file.

    Spec: MySQL ``Create_file_event`` (load_data_events.h, up to 5.7).
    """

    FIELDS = (
        *_HEAD,
        raw(
            "extra_post_header",
            f"(ctx.format.post_header_size({_LOAD}, 18) or 18) - 18",
        ),
        uint("file_id", 4),
        raw("extra_file_header", "ctx.post_header_size(4) - 4"),
        BODY,
        *_NAMES,
        nul_string("file_name", is_text=True),
        rest("block", "bytes of the file"),
    )

    thread_id: int
    exec_time: int
    skip_lines: int
    schema: bytes
    table: bytes
    columns: tuple[bytes, ...]
    file_name: bytes
    file_id: int
    block: bytes
    syntax: LoadSyntax = LoadSyntax()
    extra_post_header: bytes = b""
    extra_file_header: bytes = b""


@dataclass(frozen=True, slots=True)
class AppendBlockEvent(DeclaredEvent):
    """A further piece of the file ``file_id``, a number that is unique while the file is sent.

    Spec: MySQL ``Append_block_event`` (load_data_events.h).
    """

    FIELDS = (uint("file_id", 4), *post_header(4), rest("block", "bytes of the file"))

    file_id: int
    block: bytes
    extra_post_header: bytes = b""


@dataclass(frozen=True, slots=True)
class BeginLoadQueryEvent(AppendBlockEvent):
    """The first piece of the file ``file_id``; its bytes are those of APPEND_BLOCK.

    Spec: MySQL ``Begin_load_query_event`` (load_data_events.h).
    """


@dataclass(frozen=True, slots=True)
class ExecLoadEvent(DeclaredEvent):
    """A command to load the complete file ``file_id`` as CREATE_FILE said (3.23 to 4.1).

    Spec: MySQL ``Execute_load_event`` (load_data_events.h, up to 5.7).
    """

    FIELDS = (uint("file_id", 4), *post_header(4), EXTRA)

    file_id: int
    extra_post_header: bytes = b""
    extra: bytes = b""


@dataclass(frozen=True, slots=True)
class DeleteFileEvent(ExecLoadEvent):
    """A command to forget the file ``file_id`` of a failed LOAD DATA; bytes as EXEC_LOAD.

    Spec: MySQL ``Delete_file_event`` (load_data_events.h).
    """
