"""Layouts of LOAD DATA events, old and new."""

from __future__ import annotations

from replica_client.cli.annotation.annotator import Annotator, require
from replica_client.cli.annotation.control import extra_post_header
from replica_client.protocol.binlog.context import EventContext
from replica_client.protocol.constants.event_types import EventType

_CLAUSES = ("field_terminator", "enclosed_by", "line_terminator", "line_start", "escaped_by")


def load(a: Annotator, ctx: EventContext) -> None:
    """LOAD and NEW_LOAD."""
    sizes = _head(a, ctx.post_header_size(18))
    _names(a, sizes, old=ctx.type_code == EventType.LOAD_EVENT)
    a.rest("file_name")


def create_file(a: Annotator, ctx: EventContext) -> None:
    """CREATE_FILE: a LOAD event and the first piece of the file."""
    sizes = _head(a, ctx.format.post_header_size(EventType.LOAD_EVENT, 18) or 18)
    a.section = "post-header"
    a.uint("file_id", 4)
    extra_post_header(a, ctx, 4)
    _names(a, sizes, old=False)
    a.nul_string("file_name")
    a.rest("block", "bytes of the file")


def _head(a: Annotator, size: int) -> tuple[int, int, int]:
    a.section = "post-header"
    a.uint("thread_id", 4, "connection")
    a.uint("exec_time", 4, "s")
    a.uint("skip_lines", 4, "lines")
    table = a.uint("table length", 1, "bytes")
    schema = a.uint("schema length", 1, "bytes")
    columns = a.uint("column count", 4)
    a.take("extra_post_header", max(0, size - 18))
    a.section = "body"
    return table, schema, columns


def _names(a: Annotator, sizes: tuple[int, int, int], old: bool) -> None:
    for clause in _CLAUSES:
        if old:
            a.take(clause, 1)
        else:
            a.short_string(clause)
    a.uint("flags", 1, "1 DUMPFILE, 2 OPTIONALLY ENCLOSED, 4 REPLACE, 8 IGNORE")
    if old:
        a.uint("empty_flags", 1, "bit per clause that is empty")
    table, schema, columns = sizes
    require(a, 2 * columns, "columns")
    lengths = [a.uint(f"columns[{index}] length", 1, "bytes") for index in range(columns)]
    for index, length in enumerate(lengths):
        _name(a, f"columns[{index}]", length)
    _name(a, "table", table)
    _name(a, "schema", schema)


def _name(a: Annotator, field: str, size: int) -> None:
    a.take(field, size)
    a.nul(f"{field} end")


def append_block(a: Annotator, ctx: EventContext) -> None:
    """APPEND_BLOCK and BEGIN_LOAD_QUERY."""
    a.section = "post-header"
    a.uint("file_id", 4)
    extra_post_header(a, ctx, 4)
    a.rest("block", "bytes of the file")


def exec_load(a: Annotator, ctx: EventContext) -> None:
    """EXEC_LOAD and DELETE_FILE."""
    a.section = "post-header"
    a.uint("file_id", 4)
    extra_post_header(a, ctx, 4)
