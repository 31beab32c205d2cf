"""Layouts of events that carry GTIDs, of MySQL and MariaDB, and of group replication."""

from __future__ import annotations

from uuid import UUID

from replica_client.cli.annotation.annotator import Annotator, require, show_bytes
from replica_client.cli.annotation.control import extra_post_header
from replica_client.cli.output import clock
from replica_client.protocol.binlog.context import EventContext
from replica_client.protocol.binlog.events.mariadb_gtid import MariadbGtidExtraFlag, MariadbGtidFlag

_LOGICAL_CLOCK = 2
_SECOND_TIMESTAMP = 1 << 55
_SECOND_VERSION = 1 << 31


def uuid_text(data: bytes) -> str:
    """Sixteen bytes as a uuid."""
    return str(UUID(bytes=data)) if len(data) == 16 else show_bytes(data)


def microseconds(value: int) -> str:
    """Microseconds since 1970 with what they are on the calendar."""
    return f"{value} = {clock(value // 1_000_000)}.{value % 1_000_000:06}" if value else "0"


def gtid(a: Annotator, ctx: EventContext) -> None:
    """GTID and ANONYMOUS_GTID."""
    a.section = "post-header"
    a.uint("flags", 1, "bit 0: may hold non-transactional changes")
    a.take("sid", 16, "uuid", uuid_text)
    a.sint("gno", 8)
    if not a.remaining:
        return
    if a.uint("clock_type", 1, "2: logical clock follows") != _LOGICAL_CLOCK:
        return
    a.sint("last_committed", 8, "logical clock")
    a.sint("sequence_number", 8, "logical clock")
    a.section = "body"
    if a.remaining < 7:
        return
    _pair(a, "commit_timestamp", 7, _SECOND_TIMESTAMP, "µs since 1970 (UTC)", microseconds)
    if a.remaining:
        a.lenenc("transaction_length", "bytes, this event included")
    if a.remaining >= 4:
        _pair(a, "server_version", 4, _SECOND_VERSION, "e.g. 80014 is 8.0.14", str)
    if a.remaining >= 8:
        a.uint("commit_group_ticket", 8)


def _pair(a: Annotator, name: str, size: int, bit: int, unit: str, show: object) -> None:
    """An immediate value, and the original one when the top bit says that it differs."""
    write = show if callable(show) else str

    def immediate(value: int) -> str:
        mark = " (original follows)" if value & bit else ""
        return f"{write(value & ~bit)}{mark}"

    value = a.uint(f"immediate_{name}", size, unit, immediate)
    if value & bit:
        a.uint(f"original_{name}", size, unit, write)


def previous_gtids(a: Annotator, ctx: EventContext) -> None:
    """PREVIOUS_GTIDS: a GTID set, plain or with tags."""
    extra_post_header(a, ctx, 0)
    if not a.remaining:
        return
    head = a.view(8)
    if len(head) == 8 and head[7] == 1 and head[0] == 1:
        a.rest("gtid_set", "GTID set with tags")
        return
    gtid_set(a)


def gtid_set(a: Annotator) -> None:
    """An encoded GTID set without tags."""
    count = a.uint("sid count", 8, "uuids")
    for index in range(count):
        name = f"sid[{index}]"
        a.take(name, 16, "uuid", uuid_text)
        intervals = a.uint(f"{name} interval count", 8)
        require(a, 16 * intervals, "intervals")
        for at in range(intervals):
            a.sint(f"{name}[{at}].start", 8, "gno, inclusive")
            a.sint(f"{name}[{at}].end", 8, "gno, exclusive")


def mariadb_gtid(a: Annotator, ctx: EventContext) -> None:
    """MariaDB's GTID."""
    a.section = "post-header"
    a.uint("sequence", 8)
    a.uint("domain_id", 4)
    flags = a.flags("flags", 1, MariadbGtidFlag)
    if flags & MariadbGtidFlag.FL_GROUP_COMMIT_ID:
        a.uint("commit_id", 8, "group commit")
    a.section = "body"
    if flags & (MariadbGtidFlag.FL_PREPARED_XA | MariadbGtidFlag.FL_COMPLETED_XA):
        a.sint("xid.format_id", 4)
        gtrid_size = a.uint("xid.gtrid length", 1, "bytes")
        bqual_size = a.uint("xid.bqual length", 1, "bytes")
        a.take("xid.gtrid", gtrid_size)
        a.take("xid.bqual", bqual_size)
    if a.remaining and a.peek():
        more = a.flags("flags_extra", 1, MariadbGtidExtraFlag)
        if more & MariadbGtidExtraFlag.FL_EXTRA_MULTI_ENGINE_E1:
            a.uint("extra_engines", 1, "engines besides the first")
        ends = MariadbGtidExtraFlag.FL_COMMIT_ALTER_E1 | MariadbGtidExtraFlag.FL_ROLLBACK_ALTER_E1
        if more & ends:
            a.uint("alter_sequence", 8, "sequence of the START ALTER")
        if more & MariadbGtidExtraFlag.FL_EXTRA_THREAD_ID:
            a.uint("thread_id", 4)
    a.rest("extra", "padding")


def mariadb_gtid_list(a: Annotator, ctx: EventContext) -> None:
    """MariaDB's GTID_LIST."""
    a.section = "post-header"
    word = a.uint(
        "count and flags", 4, "28 bits, 4 bits", lambda value: f"{value & 0xFFFFFFF}, {value >> 28}"
    )
    extra_post_header(a, ctx, 4)
    count = word & 0xFFFFFFF
    require(a, 16 * count, "GTIDs")
    for index in range(count):
        a.uint(f"gtids[{index}].domain_id", 4)
        a.uint(f"gtids[{index}].server_id", 4)
        a.uint(f"gtids[{index}].sequence", 8)
    a.rest("extra", "padding")


# Members of a GTID_TAGGED event by field id, each a varint but the uuid and the tag.
_TAGGED = (
    "flags",
    "sid",
    "gno",
    "tag",
    "last_committed",
    "sequence_number",
    "immediate_commit_timestamp",
    "original_commit_timestamp",
    "transaction_length",
    "immediate_server_version",
    "original_server_version",
    "commit_group_ticket",
)


def varint_size(first: int) -> int:
    """Bytes of a variable-length integer by its first byte: one more than its low one bits."""
    size = 1
    while size < 9 and first & (1 << (size - 1)):
        size += 1
    return size


def varint(a: Annotator, field: str, unit: str = "", signed: bool = False) -> int:
    """A variable-length integer of MySQL's serialisation library."""
    size = varint_size(a.peek())
    require(a, size, field)
    value = int.from_bytes(a.view(size), "little") >> min(size, 8)
    if signed:
        value = (value >> 1) ^ -(value & 1)
    a.take(field, size, unit, lambda _: str(value))
    return value


def _tagged_uuid(data: bytes) -> str:
    numbers, at = [], 0
    while at < len(data):
        size = varint_size(data[at])
        numbers.append(int.from_bytes(data[at : at + size], "little") >> size)
        at += size
    return uuid_text(bytes(number & 0xFF for number in numbers))


def gtid_tagged(a: Annotator, ctx: EventContext) -> None:
    """GTID_TAGGED: a serialised message of numbered fields."""
    varint(a, "serialization version")
    varint(a, "message size", "bytes")
    varint(a, "last non-ignorable field id")
    while a.remaining:
        code = varint(a, "field id")
        name = _TAGGED[code] if code < len(_TAGGED) else None
        if name is None:
            a.rest("unknown fields", "of a newer server")
        elif name == "sid":
            size = 0
            for _ in range(16):
                require(a, size + 1, "sid")
                size += varint_size(a.view(size + 1)[size])
            a.take("sid", size, "uuid, each byte a number", _tagged_uuid)
        elif name == "tag":
            a.take("tag", varint(a, "tag length", "bytes"))
        elif name in ("gno", "last_committed", "sequence_number"):
            varint(a, name, signed=True)
        else:
            varint(a, name)


def transaction_context(a: Annotator, ctx: EventContext) -> None:
    """TRANSACTION_CONTEXT."""
    a.section = "post-header"
    uuid_size = a.uint("server_uuid length", 1, "bytes")
    a.uint("thread_id", 4)
    a.uint("gtid_specified", 1, "not 0: given, not generated")
    snapshot_size = a.uint("snapshot_version length", 4, "bytes")
    writes = a.uint("write_set count", 4)
    reads = a.uint("read_set count", 4)
    extra_post_header(a, ctx, 18)
    a.take("server_uuid", uuid_size)
    a.take("snapshot_version", snapshot_size, "GTID set")
    for name, count in (("write_set", writes), ("read_set", reads)):
        require(a, 2 * count, name)
        for index in range(count):
            size = a.uint(f"{name}[{index}] length", 2, "bytes")
            a.take(f"{name}[{index}]", size, "hash of a key")


def view_change(a: Annotator, ctx: EventContext) -> None:
    """VIEW_CHANGE."""
    a.section = "post-header"
    a.take("view_id", 40, "text, padded with NUL", lambda data: show_bytes(data.rstrip(b"\0")))
    a.uint("sequence_number", 8)
    count = a.uint("certification_info count", 4)
    extra_post_header(a, ctx, 52)
    require(a, 6 * count, "certification info")
    for index in range(count):
        name = f"certification_info[{index}]"
        a.take(f"{name} key", a.uint(f"{name} key length", 2, "bytes"), "hash")
        a.take(f"{name} value", a.uint(f"{name} value length", 4, "bytes"), "GTID set")
