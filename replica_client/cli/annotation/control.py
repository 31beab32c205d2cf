"""Layouts of events that steer reading: files, formats, heartbeats, XA, encryption."""

from __future__ import annotations

from replica_client.cli.annotation.annotator import Annotator, show_bytes
from replica_client.cli.output import clock
from replica_client.protocol.binlog.context import EventContext
from replica_client.protocol.binlog.events.format_description import has_checksum_fields
from replica_client.protocol.constants.event_types import ChecksumAlgorithm, event_type_name

VERSION_SIZE = 50


def moment(seconds: int) -> str:
    """Seconds since 1970 with what they are on the calendar."""
    text = clock(seconds)
    return f"{seconds} = {text}" if text else str(seconds)


def extra_post_header(a: Annotator, ctx: EventContext, known: int) -> None:
    """Bytes of a post-header beyond the ``known`` ones that this version can name."""
    a.section = "post-header"
    a.take("extra_post_header", max(0, ctx.post_header_size(known) - known))
    a.section = "body"


def _version(data: bytes) -> str:
    return show_bytes(data.rstrip(b"\0"))


def format_description(a: Annotator, ctx: EventContext) -> None:
    """FORMAT_DESCRIPTION."""
    a.section = "post-header"
    a.uint("binlog_version", 2)
    version = a.take("server_version", VERSION_SIZE, "text, padded with NUL", _version)
    a.uint("create_timestamp", 4, "s since 1970 (UTC)", moment)
    a.uint("header_size", 1, "bytes of every header but this event's")
    a.section = "body"
    count = a.remaining - (1 if has_checksum_fields(version) else 0)
    for code in range(1, count + 1):
        a.uint(f"post_header_sizes[{code - 1}]", 1, f"bytes in {event_type_name(code)}")
    if a.remaining:
        a.uint("checksum_algorithm", 1, "", _algorithm)


def _algorithm(value: int) -> str:
    try:
        return f"{value} {ChecksumAlgorithm(value).name}"
    except ValueError:
        return str(value)


def start_v3(a: Annotator, ctx: EventContext) -> None:
    """START_V3."""
    a.section = "post-header"
    a.uint("binlog_version", 2)
    a.take("server_version", VERSION_SIZE, "text, padded with NUL", _version)
    a.uint("create_timestamp", 4, "s since 1970 (UTC)", moment)


def rotate(a: Annotator, ctx: EventContext) -> None:
    """ROTATE."""
    a.section = "post-header"
    if ctx.post_header_size(8) >= 8:
        a.uint("next_position", 8, "byte of the next file")
        extra_post_header(a, ctx, 8)
    a.section = "body"
    a.rest("next_file", "file name")


def stop(a: Annotator, ctx: EventContext) -> None:
    """STOP, and every other event whose body has no fields."""


def slave(a: Annotator, ctx: EventContext) -> None:
    """SLAVE."""
    extra_post_header(a, ctx, 0)
    a.uint("master_position", 8, "byte of master_log")
    a.uint("master_port", 2, "TCP port")
    a.nul_string("master_host")
    a.rest("master_log", "file name")


def heartbeat(a: Annotator, ctx: EventContext) -> None:
    """HEARTBEAT."""
    a.rest("log_file", "file name")


def heartbeat_v2(a: Annotator, ctx: EventContext) -> None:
    """HEARTBEAT_V2: tagged fields."""
    names = {1: "log_file", 2: "position"}
    while a.remaining:
        code = a.lenenc("field type", "1: file, 2: position, 0: end")
        if not code:
            return
        name = names.get(code, f"field {code}")
        size = a.lenenc(f"{name} length", "bytes")
        if code == 2:
            a.lenenc(name, "byte of log_file")
        else:
            a.take(name, size)


def xid(a: Annotator, ctx: EventContext) -> None:
    """XID."""
    extra_post_header(a, ctx, 0)
    a.uint("xid", 8, "number of the two-phase commit")


def xa_prepare(a: Annotator, ctx: EventContext) -> None:
    """XA_PREPARE."""
    extra_post_header(a, ctx, 0)
    a.uint("one_phase", 1, "0: XA PREPARE, else: XA COMMIT … ONE PHASE")
    a.sint("format_id", 4)
    gtrid_size = a.uint("gtrid length", 4, "bytes")
    bqual_size = a.uint("bqual length", 4, "bytes")
    a.take("gtrid", gtrid_size)
    a.take("bqual", bqual_size)


def incident(a: Annotator, ctx: EventContext) -> None:
    """INCIDENT."""
    a.section = "post-header"
    a.uint("incident", 2, "1: LOST_EVENTS")
    extra_post_header(a, ctx, 2)
    a.short_string("message")


def binlog_checkpoint(a: Annotator, ctx: EventContext) -> None:
    """BINLOG_CHECKPOINT."""
    a.section = "post-header"
    size = a.uint("file length", 4, "bytes")
    extra_post_header(a, ctx, 4)
    a.take("file", size, "file name")


def start_encryption(a: Annotator, ctx: EventContext) -> None:
    """START_ENCRYPTION."""
    extra_post_header(a, ctx, 0)
    a.uint("scheme", 1, "1: AES, key id 1")
    a.uint("key_version", 4)
    a.take("nonce", 12)


def opaque(a: Annotator, ctx: EventContext) -> None:
    """An event whose body this version does not divide."""
    a.rest("body", "not divided")
