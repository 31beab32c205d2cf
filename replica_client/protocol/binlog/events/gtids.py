"""Events with GTIDs, of MySQL and MariaDB, and the ends of transactions."""

from __future__ import annotations

from enum import IntFlag

from replica_client.errors import BinlogDecodeError, GtidFormatError
from replica_client.protocol.binlog.events.fields import (
    BODY,
    EXTRA,
    Check,
    DeclaredEvent,
    count,
    derived,
    lenenc,
    length,
    pair,
    post_header,
    prefixed,
    raw,
    repeated,
    rest,
    sint,
    struct,
    uint,
    when,
)
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.gtid import GtidSet

LOGICAL_CLOCK = 2
"""``clock_type`` of 5.7.5 and later: two 8-byte logical timestamps follow."""


@dataclass(frozen=True, slots=True)
class GtidEvent(DeclaredEvent):
    """The start of a transaction ``sid:gno`` (ANONYMOUS_GTID has no identifier).

    Post-header and body are one sequence of fields, as upstream decodes them. Each optional part
    needs the ones before it.

    Attributes:
        flags: bit 0: may hold non-transactional changes.
        sid: uuid of the server that committed it first.
        gno: 0 in ANONYMOUS_GTID.
        clock_type: 2 since 5.7.5; with other values the rest is ``extra``.
        original_commit_timestamp: absent in the bytes when equal to the immediate one.
        transaction_length: of the whole transaction, this event too.
        immediate_server_version: e.g. 80014.
        commit_group_ticket: of group replication.

    Spec: MySQL ``Gtid_event`` (control_events.h, control_events.cpp).
    """

    FIELDS = (
        uint("flags", 1, "bit 0: may hold non-transactional changes"),
        raw("sid", 16, "uuid", show="uuid"),
        sint("gno", 8),
        when(
            "reader.remaining",
            uint("clock_type", 1, "2: logical clock follows", since="5.7.1"),
            when(
                f"clock_type == {LOGICAL_CLOCK}",
                sint("last_committed", 8, "logical clock", since="5.7.5"),
                sint("sequence_number", 8, "logical clock", since="5.7.5"),
                BODY,
                when(
                    "reader.remaining >= 7",
                    pair(
                        "immediate_commit_timestamp",
                        "original_commit_timestamp",
                        7,
                        1 << 55,
                        "µs since 1970 (UTC)",
                        since="8.0.1",
                        show="microseconds",
                    ),
                    when(
                        "reader.remaining",
                        lenenc("transaction_length", "bytes, this event included", since="8.0.2"),
                    ),
                    when(
                        "reader.remaining >= 4",
                        pair(
                            "immediate_server_version",
                            "original_server_version",
                            4,
                            1 << 31,
                            "e.g. 80014 is 8.0.14",
                            since="8.0.14",
                        ),
                        when(
                            "reader.remaining >= 8",
                            uint("commit_group_ticket", 8, since="8.0.28"),
                        ),
                    ),
                ),
            ),
        ),
        EXTRA,
    )

    flags: int
    sid: bytes
    gno: int
    clock_type: int | None = None
    last_committed: int | None = None
    sequence_number: int | None = None
    immediate_commit_timestamp: int | None = None
    original_commit_timestamp: int | None = None
    transaction_length: int | None = None
    immediate_server_version: int | None = None
    original_server_version: int | None = None
    commit_group_ticket: int | None = None
    extra: bytes = b""

    @property
    def tag(self) -> str:
        """Always ``""``: GTIDs with a tag have GTID_TAGGED events."""
        return ""


@dataclass(frozen=True, slots=True)
class PreviousGtidsEvent(DeclaredEvent):
    """The second event of a file: every GTID in earlier files of this server.

    Attributes:
        data: a GTID set: plain or (from 8.3, when a tag is in it) tagged; :attr:`gtid_set` parses it.

    Spec: MySQL ``Previous_gtids_event`` (control_events.h), ``Gtid_set::encode`` (rpl_gtid_set.cc).
    """

    INFO = "{0.gtid_set}"
    FIELDS = (*post_header(0), rest("data", "GTID set", show="gtid_set"))

    data: bytes
    extra_post_header: bytes = b""

    @property
    def gtid_set(self) -> GtidSet:
        """The GTID set, parsed again at each access.

        Raises:
            BinlogDecodeError: ``data`` is not a GTID set.
        """
        try:
            return GtidSet.decode(self.data)
        except GtidFormatError as error:
            raise BinlogDecodeError(str(error)) from error


class MariadbGtidFlag(IntFlag):
    """Flags of a MariaDB GTID event."""

    FL_STANDALONE = 0x01
    FL_GROUP_COMMIT_ID = 0x02
    FL_TRANSACTIONAL = 0x04
    FL_ALLOW_PARALLEL = 0x08
    FL_WAITED = 0x10
    FL_DDL = 0x20
    FL_PREPARED_XA = 0x40
    FL_COMPLETED_XA = 0x80


class MariadbGtidExtraFlag(IntFlag):
    """Flags of the second flags byte, since 10.8."""

    FL_EXTRA_MULTI_ENGINE_E1 = 0x01
    FL_START_ALTER_E1 = 0x02
    FL_COMMIT_ALTER_E1 = 0x04
    FL_ROLLBACK_ALTER_E1 = 0x08
    FL_EXTRA_THREAD_ID = 0x10


# Plain integers: `&` of an IntFlag runs Python code.
_STANDALONE = int(MariadbGtidFlag.FL_STANDALONE)
_GROUP_COMMIT = int(MariadbGtidFlag.FL_GROUP_COMMIT_ID)
_XA = int(MariadbGtidFlag.FL_PREPARED_XA | MariadbGtidFlag.FL_COMPLETED_XA)
_ENGINES = int(MariadbGtidExtraFlag.FL_EXTRA_MULTI_ENGINE_E1)
_ALTER_END = int(
    MariadbGtidExtraFlag.FL_COMMIT_ALTER_E1 | MariadbGtidExtraFlag.FL_ROLLBACK_ALTER_E1
)
_THREAD_ID = int(MariadbGtidExtraFlag.FL_EXTRA_THREAD_ID)


@dataclass(frozen=True, slots=True)
class MariadbXid(DeclaredEvent):
    """The xid of an XA transaction."""

    FIELDS = (
        sint("format_id", 4),
        length("gtrid", 1),
        length("bqual", 1),
        raw("gtrid", "gtrid_length"),
        raw("bqual", "bqual_length"),
    )

    format_id: int
    gtrid: bytes
    bqual: bytes


@dataclass(frozen=True, slots=True)
class MariadbGtidEvent(DeclaredEvent):
    """The start of a transaction or of a single statement.

    Its GTID is the domain, the header's server id, and the sequence.

    The post-header length (19) is a minimum that zero bytes in ``extra`` ensure; the fields ignore
    it, as upstream does.

    Attributes:
        flags: :class:`MariadbGtidFlag`.
        commit_id: transactions that committed together share it.
        flags_extra: :class:`MariadbGtidExtraFlag`.
        extra_engines: number of further engines.
        alter_sequence: sequence of the START ALTER.

    Spec: MariaDB ``Gtid_log_event`` (log_event.h, log_event.cc).
    """

    FIELDS = (
        uint("sequence", 8),
        uint("domain_id", 4),
        uint("flags", 1, "flags", names=MariadbGtidFlag),
        when(f"flags & {_GROUP_COMMIT}", uint("commit_id", 8, "group commit")),
        BODY,
        when(f"flags & {_XA}", struct("xid", MariadbXid)),
        when(
            "reader.remaining and reader.peek()",
            uint("flags_extra", 1, "flags", since="10.8", names=MariadbGtidExtraFlag),
            when(
                f"flags_extra & {_ENGINES}", uint("extra_engines", 1, "engines besides the first")
            ),
            when(
                f"flags_extra & {_ALTER_END}",
                uint("alter_sequence", 8, "sequence of the START ALTER"),
            ),
            when(f"flags_extra & {_THREAD_ID}", uint("thread_id", 4)),
        ),
        rest("extra", "padding"),
    )

    sequence: int
    domain_id: int
    flags: int
    commit_id: int | None = None
    xid: MariadbXid | None = None
    flags_extra: int | None = None
    extra_engines: int | None = None
    alter_sequence: int | None = None
    thread_id: int | None = None
    extra: bytes = b""

    @property
    def is_standalone(self) -> bool:
        """Whether this is one statement, without a COMMIT or XID after it."""
        return bool(self.flags & _STANDALONE)


FLAG_UNTIL_REACHED = 1
"""Artificial, for a replica: it has reached the position up to which it asked for events."""

FLAG_IGN_GTIDS = 2
"""Artificial, for a replica: these GTIDs were skipped."""


@dataclass(frozen=True, slots=True)
class MariadbGtidListEvent(DeclaredEvent):
    """The last GTID per (domain, server) in all files before this one.

    Attributes:
        gtids: (domain, server id, sequence), in the order written.
        extra: up to 10 zero bytes: the event has 35 or more.

    Spec: MariaDB ``Gtid_list_log_event`` (log_event.h).
    """

    FIELDS = (
        uint(
            "count_and_flags",
            4,
            "28 bits, 4 bits",
            is_hidden=True,
            label="count and flags",
            show=lambda word: f"{word & 0xFFFFFFF}, {word >> 28}",
            encoded="len(gtids) | flags << 28",
        ),
        *post_header(4),
        derived("flags", "count_and_flags >> 28"),
        repeated(
            "gtids",
            "count_and_flags & 0xFFFFFFF",
            uint("domain_id", 4),
            uint("server_id", 4),
            uint("sequence", 8),
        ),
        rest("extra", "padding"),
    )

    gtids: tuple[tuple[int, int, int], ...]
    flags: int = 0
    extra_post_header: bytes = b""
    extra: bytes = b""


@dataclass(frozen=True, slots=True)
class BinlogCheckpointEvent(DeclaredEvent):
    """A checkpoint: all transactions in files before ``file`` are durable in their engines.

    Spec: MariaDB ``Binlog_checkpoint_log_event`` (log_event.h).
    """

    INFO = "{0.file}"
    FIELDS = (
        length("file", 4),
        *post_header(4),
        raw("file", "file_length", "file name", is_str=True),
        EXTRA,
    )

    file: str
    extra_post_header: bytes = b""
    extra: bytes = b""


@dataclass(frozen=True, slots=True)
class TransactionContextEvent(DeclaredEvent):
    """Identity and read/write sets of a transaction; only in group replication's own channels.

    Attributes:
        gtid_specified: not 0: the GTID was given, not generated.
        snapshot_version: encoded GTID set, executed when the transaction began.
        write_set: hashes of changed keys.
        read_set: hashes of read keys.

    Spec: MySQL ``Transaction_context_event`` (control_events.h).
    """

    FIELDS = (
        length("server_uuid", 1),
        uint("thread_id", 4),
        uint("gtid_specified", 1, "not 0: given, not generated"),
        length("snapshot_version", 4),
        count("write_set", 4),
        count("read_set", 4),
        *post_header(18),
        raw("server_uuid", "server_uuid_length", is_text=True),
        raw("snapshot_version", "snapshot_version_length", "GTID set"),
        repeated("write_set", "write_set_count", prefixed("item", 2, "hash of a key")),
        repeated("read_set", "read_set_count", prefixed("item", 2, "hash of a key")),
        EXTRA,
    )

    server_uuid: bytes
    thread_id: int
    gtid_specified: int
    snapshot_version: bytes
    write_set: tuple[bytes, ...]
    read_set: tuple[bytes, ...]
    extra_post_header: bytes = b""
    extra: bytes = b""


@dataclass(frozen=True, slots=True)
class ViewChangeEvent(DeclaredEvent):
    """A mark in a group member's binlog: a server joined or left the group here.

    Attributes:
        view_id: all 40 bytes.
        sequence_number: position in the group's certification.
        certification_info: pairs of write set hash and encoded GTID set.

    Spec: MySQL ``View_change_event`` (control_events.h).
    """

    FIELDS = (
        raw("view_id", 40, "text, padded with NUL", is_padded=True, show="padded"),
        uint("sequence_number", 8),
        count("certification_info", 4),
        *post_header(52),
        repeated(
            "certification_info",
            "certification_info_count",
            prefixed("key", 2, "hash"),
            prefixed("value", 4, "GTID set"),
        ),
        EXTRA,
    )

    view_id: bytes
    sequence_number: int
    certification_info: tuple[tuple[bytes, bytes], ...] = ()
    extra_post_header: bytes = b""
    extra: bytes = b""

    @property
    def view_id_text(self) -> str:
        """The view id without padding."""
        return self.view_id.split(b"\0", 1)[0].decode("utf-8", "backslashreplace")


@dataclass(frozen=True, slots=True)
class XidEvent(DeclaredEvent):
    """The commit of a transaction; ``xid`` is its number in the server's two-phase commit.

    The number is comparable for equality only: it is written in host byte order.

    Spec: MySQL ``Xid_event`` (control_events.h).
    """

    INFO = "COMMIT /* xid={0.xid} */"
    FIELDS = (*post_header(0), uint("xid", 8, "number of the two-phase commit"), EXTRA)

    xid: int
    extra_post_header: bytes = b""
    extra: bytes = b""


@dataclass(frozen=True, slots=True)
class XaPrepareEvent(DeclaredEvent):
    """The end of a transaction's changes: prepared, or committed in one phase.

    Attributes:
        gtrid: bytes, not text; at most 64, as ``bqual``.

    Raises:
        BinlogDecodeError: a part of the xid is longer than XA allows.

    Spec: MySQL ``XA_prepare_event`` (control_events.h); MariaDB ``XA_prepare_log_event``.
    """

    FIELDS = (
        *post_header(0),
        uint("one_phase", 1, "0: XA PREPARE, else: XA COMMIT … ONE PHASE"),
        sint("format_id", 4),
        length("gtrid", 4),
        length("bqual", 4),
        Check(
            "gtrid_length <= 64 and bqual_length <= 64",
            "xid has parts of {gtrid_length} and {bqual_length} bytes, more than 64",
            back=8,
        ),
        raw("gtrid", "gtrid_length"),
        raw("bqual", "bqual_length"),
        EXTRA,
    )

    one_phase: int
    format_id: int
    gtrid: bytes
    bqual: bytes
    extra_post_header: bytes = b""
    extra: bytes = b""

    @property
    def xid_text(self) -> str:
        """The xid as the server writes it in XA statements: ``X'6774',X'6271',1``."""
        return f"X'{self.gtrid.hex()}',X'{self.bqual.hex()}',{self.format_id}"
