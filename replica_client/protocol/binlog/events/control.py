"""Events that steer reading: begin and end of a file, heartbeats, incidents, encryption."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Self

from replica_client.errors import BinlogDecodeError, BinlogFormatError
from replica_client.protocol.binlog.event import (
    DEFAULT_CONTEXT,
    HEADER_SIZE_V1,
    MYSQL_POST_HEADER_SIZES,
    BinlogFormat,
    EventContext,
    current_post_header_sizes,
)
from replica_client.protocol.binlog.events.fields import (
    BODY,
    EXTRA,
    Check,
    DeclaredEvent,
    nul_string,
    post_header,
    prefixed,
    raw,
    rest,
    uint,
    when,
)
from replica_client.protocol.binlog.layout import HEADER_SIZE
from replica_client.protocol.codec.byte_fields import ByteReader, ByteWriter
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.protocol.constants.event_types import ChecksumAlgorithm

SERVER_VERSION_SIZE = 50
_VERSION = re.compile(rb"(\d+)\.(\d+)\.(\d+)")
_REPLICATION_HACK = b"5.5.5-"
_START_FIELDS = (
    uint("binlog_version", 2),
    raw(
        "server_version",
        SERVER_VERSION_SIZE,
        "text, padded with NUL",
        is_padded=True,
        show="padded",
    ),
    uint("create_timestamp", 4, "s since 1970 (UTC)", show="time"),
)


@lru_cache(maxsize=32)
def split_version(server_version: bytes | str) -> tuple[int, int, int]:
    """Return the three numbers at the start of a version text; zeros if there are none.

    The prefix ``5.5.5-`` that MariaDB puts before its own version is skipped.
    """
    text = server_version.encode() if isinstance(server_version, str) else server_version
    match = _VERSION.match(text.removeprefix(_REPLICATION_HACK))
    if match is None or any(len(number) > 3 for number in match.groups()):
        return (0, 0, 0)
    return (int(match[1]), int(match[2]), int(match[3]))


@lru_cache(maxsize=32)
def has_checksum_fields(server_version: bytes) -> bool:
    """Return whether this version's format description ends in algorithm byte and CRC.

    Upstream's rule: MySQL from 5.6.1, MariaDB from 5.3.0.
    """
    numbers = split_version(server_version)
    is_mariadb = ServerFlavor.of_version(server_version.decode("latin1")) is ServerFlavor.MARIADB
    return numbers >= ((5, 3, 0) if is_mariadb else (5, 6, 1))


def _known_algorithm(code: int) -> ChecksumAlgorithm:
    if code not in (ChecksumAlgorithm.OFF, ChecksumAlgorithm.CRC32):
        raise BinlogFormatError(f"checksum algorithm {code} is not known")
    return ChecksumAlgorithm(code)


@dataclass(frozen=True, slots=True)
class FormatDescriptionEvent(DeclaredEvent):
    """The layout of all events of the file, and the server that wrote it.

    From MySQL 5.6.1 and MariaDB 5.3.0 on a CRC-32 follows, even when ``checksum_algorithm`` is OFF;
    it is computed with ``LOG_EVENT_BINLOG_IN_USE_F`` cleared. The decoder takes it off.

    Attributes:
        binlog_version: 4; 3 in some 5.0 alphas.
        server_version: all 50 bytes; :attr:`version` is its text.
        create_timestamp: 0 unless the server was just started.
        header_size: of every event but this one, which always has 19.
        post_header_sizes: byte i is that of event type i + 1.
        checksum_algorithm: UNDEFINED for servers that know no checksums.

    Raises:
        BinlogFormatError: binlog version, header size or checksum algorithm is not known.

    Spec: MySQL ``Format_description_event`` (control_events.h); MariaDB KB
    "FORMAT_DESCRIPTION_EVENT".
    """

    INFO = "Server ver: {0.version}, Binlog ver: 4"
    FIELDS = (
        *_START_FIELDS,
        uint("header_size", 1, "bytes of every header but this event's"),
        Check(
            "1 <= binlog_version <= 4",
            "binlog version {binlog_version} is not known",
            BinlogFormatError,
        ),
        Check(
            f"header_size >= {HEADER_SIZE}",
            "event headers of {header_size} bytes are not known",
            BinlogFormatError,
        ),
        BODY,
        raw(
            "post_header_sizes",
            "reader.remaining - has_checksum_fields(server_version)",
            show="numbers",
        ),
        when(
            "has_checksum_fields(server_version)",
            uint(
                "checksum_algorithm",
                1,
                names=ChecksumAlgorithm,
                convert=_known_algorithm,
                absent=ChecksumAlgorithm.UNDEFINED,
            ),
            encoded="has_checksum_fields(server_version)",
        ),
    )

    binlog_version: int = 4
    server_version: bytes = b"9.7.4".ljust(SERVER_VERSION_SIZE, b"\0")
    create_timestamp: int = 0
    header_size: int = HEADER_SIZE
    post_header_sizes: bytes = MYSQL_POST_HEADER_SIZES
    checksum_algorithm: ChecksumAlgorithm = ChecksumAlgorithm.CRC32

    @property
    def version(self) -> str:
        """The server version as text."""
        return self.server_version.split(b"\0", 1)[0].decode("utf-8", "surrogateescape")

    @property
    def format(self) -> BinlogFormat:
        """The format for decoding the other events of the file."""
        return BinlogFormat(
            self.binlog_version,
            self.version,
            self.header_size,
            current_post_header_sizes(self.version, self.post_header_sizes),
            self.checksum_algorithm,
        )


# Post-header lengths of types 1 to 14 in files without a format description.
_SIZES_V1 = bytes((56, 11, 0, 0, 0, 18, 0, 4, 4, 4, 4, 18, 0, 0))
_SIZES_V3 = bytes((56, 11, 0, 8, 0, 18, 0, 4, 4, 4, 4, 18, 0, 0))
_START_SIZE = 56

FORMAT_V1 = BinlogFormat(1, "3.23", HEADER_SIZE_V1, _SIZES_V1, ChecksumAlgorithm.OFF)
"""Layout of binlog v1, which begins with a START_EVENT_V3 of 69 bytes."""

FORMAT_V3 = BinlogFormat(3, "4.0", HEADER_SIZE, _SIZES_V3, ChecksumAlgorithm.OFF)
"""Layout of binlog v2 and v3, which begin with a START_EVENT_V3 of 75 bytes."""


def start_format(event_size: int) -> BinlogFormat:
    """Return the format of a file whose START_EVENT_V3 has ``event_size`` bytes.

    Only the event's size distinguishes headers of 13 and 19 bytes.
    """
    return FORMAT_V1 if event_size <= HEADER_SIZE_V1 + _START_SIZE else FORMAT_V3


@dataclass(frozen=True, slots=True)
class StartEventV3(DeclaredEvent):
    """The versions of server and format, in 3.23 to 4.1; later ones write a format description.

    Attributes:
        binlog_version: 1 (3.23), 2 (4.0.0) or 3 (4.0, 4.1).
        server_version: all 50 bytes.
        create_timestamp: when the server started; 0 when this file is not its first.

    Spec: MySQL ``Start_event_v3`` (control_events.h, up to 8.4).
    """

    FIELDS = (*_START_FIELDS, BODY, EXTRA)

    binlog_version: int
    server_version: bytes
    create_timestamp: int
    extra: bytes = b""

    @property
    def version_text(self) -> str:
        """The server's version without padding."""
        return self.server_version.split(b"\0", 1)[0].decode("latin-1")

    @property
    def format(self) -> BinlogFormat:
        """The layout of the events that follow."""
        base = FORMAT_V1 if self.binlog_version <= 1 else FORMAT_V3
        return BinlogFormat(
            self.binlog_version,
            self.version_text,
            base.header_size,
            base.post_header_sizes,
            base.checksum_algorithm,
        )


@dataclass(frozen=True, slots=True)
class StopEvent(DeclaredEvent):
    """The shutdown of the source (in a relay log, of the replica); the last event of a file.

    Spec: MySQL ``Stop_event`` (control_events.h).
    """

    FIELDS = (EXTRA,)

    extra: bytes = b""


@dataclass(frozen=True, slots=True)
class RotateEvent(DeclaredEvent):
    """The end of a binlog file, with the name of the next one.

    It is the last event of a file. In a stream, the source also sends an artificial one
    (``LOG_EVENT_ARTIFICIAL_F``, timestamp 0) before the first event of each file. That event is in
    no file and does not change the position.

    Spec: MySQL ``Rotate_event`` (control_events.h).
    """

    INFO = "{0.next_file};pos={0.next_position}"
    FIELDS = (
        # Binlog v1 has no position: the next file is read from its first event.
        when("post_header >= 8", uint("next_position", 8, "byte of the next file", absent=4)),
        *post_header(8),
        rest("next_file", "file name", is_str=True),
    )

    next_position: int
    next_file: str
    extra_post_header: bytes = b""


@dataclass(frozen=True, slots=True)
class SlaveEvent(DeclaredEvent):
    """The replica's position in its source's binlog; planned in 4.0, in no release.

    Spec: MySQL ``Slave_log_event`` (log_event.h, up to 5.5).
    """

    FIELDS = (
        *post_header(0),
        uint("master_position", 8, "byte of master_log"),
        uint("master_port", 2, "TCP port"),
        nul_string("master_host", is_text=True),
        rest("master_log", "file name", is_text=True),
    )

    master_position: int
    master_port: int
    master_host: bytes
    master_log: bytes
    extra_post_header: bytes = b""


@dataclass(frozen=True, slots=True)
class HeartbeatEvent(DeclaredEvent):
    """A heartbeat on an idle stream, never in a file; has the source's ``next_position``.

    MariaDB writes the position beyond 4 GiB, where the header's is 0. A NUL within the first eight
    bytes shows it: no file name contains a NUL, and every position below 2**56 does.

    Spec: MySQL ``Heartbeat_event`` (control_events.h); MariaDB ``Heartbeat_log_event``
    (log_event.h).
    """

    FIELDS = (
        when(
            "reader.remaining >= 8 and 0 in reader.left()[:8]",
            uint("position", 8, "byte of log_file"),
        ),
        rest("log_file", "file name", is_str=True),
    )

    log_file: str
    position: int | None = None


_END, _LOG_FILE, _LOG_POSITION = 0, 1, 2


@dataclass(frozen=True, slots=True)
class HeartbeatV2Event:
    """A heartbeat with a 64-bit position; sent when the dump command asks for it (8.0.26).

    Bytes: tagged fields, each ``type`` (length-encoded), ``length`` (length-encoded), value, in any
    order, up to a type of 0::

        type  field     value
        1     log_file  name, no NUL
        2     position  length-encoded integer
        0     -         end; has neither length nor value

    Attributes:
        unknown_fields: (type, value) of other fields, in order.
        field_order: the types in order; a missing type is not in the event.
        has_end_mark: whether the type 0 ends the fields.

    Raises:
        ShortBufferError: a field is cut (the decoder makes it ``TruncatedEventError``).
        BinlogDecodeError: a field occurs twice, or its value does not match its length.

    Spec: MySQL ``Heartbeat_event_v2`` (control_events.h), codec ``Heartbeat`` (binary.cpp).
    """

    log_file: str
    position: int
    unknown_fields: tuple[tuple[int, bytes], ...] = ()
    field_order: tuple[int, ...] = (_LOG_FILE, _LOG_POSITION)
    has_end_mark: bool = True
    extra: bytes = b""

    @classmethod
    def decode(cls, body: ByteReader, ctx: EventContext) -> Self:
        """Decode the body."""
        log_file: str | None = None
        position: int | None = None
        unknown: list[tuple[int, bytes]] = []
        order: list[int] = []
        has_end_mark = False
        while body.remaining:
            code = body.lenenc()
            if code == _END:
                has_end_mark = True
                break
            value = body.lenenc_bytes()
            order.append(code)
            if code == _LOG_FILE and log_file is None:
                log_file = value.decode("utf-8", "surrogateescape")
            elif code == _LOG_POSITION and position is None:
                field = ByteReader(value)
                position = field.lenenc()
                if field.remaining:
                    raise BinlogDecodeError(f"heartbeat position has {len(value)} bytes")
            elif code in (_LOG_FILE, _LOG_POSITION):
                raise BinlogDecodeError(f"heartbeat field {code} is repeated")
            else:
                unknown.append((code, value))
        return cls(
            log_file or "",
            position or 0,
            tuple(unknown),
            tuple(order),
            has_end_mark,
            body.rest(),
        )

    def encode(self, ctx: EventContext = DEFAULT_CONTEXT) -> bytes:
        """Return the encoded body."""
        values = {
            _LOG_FILE: self.log_file.encode("utf-8", "surrogateescape"),
            _LOG_POSITION: ByteWriter().lenenc(self.position).done(),
        }
        unknown = iter(self.unknown_fields)
        out = ByteWriter()
        for code in self.field_order:
            value = values[code] if code in values else next(unknown, (code, b""))[1]
            out.lenenc(code).lenenc_bytes(value)
        if self.has_end_mark:
            out.lenenc(_END)
        return out.raw(self.extra).done()


LOST_EVENTS = 1
"""The one incident that servers write: events are missing from the binlog."""


@dataclass(frozen=True, slots=True)
class IncidentEvent(DeclaredEvent):
    """An incident on the source, which lost changes; replicas must not simply continue.

    Spec: MySQL ``Incident_event`` (control_events.h).
    """

    FIELDS = (
        uint("incident", 2, "1: LOST_EVENTS"),
        *post_header(2),
        prefixed("message", 1, is_text=True),
        EXTRA,
    )

    incident: int
    message: bytes
    extra_post_header: bytes = b""
    extra: bytes = b""

    @property
    def name(self) -> str:
        """``LOST_EVENTS``, or ``INCIDENT_<number>``."""
        return "LOST_EVENTS" if self.incident == LOST_EVENTS else f"INCIDENT_{self.incident}"


@dataclass(frozen=True, slots=True)
class StartEncryptionEvent(DeclaredEvent):
    """The encryption of the events after this one (MariaDB).

    :mod:`replica_client.protocol.binlog.encryption` decrypts them.

    Spec: MariaDB ``Start_encryption_log_event`` (log_event.h).
    """

    FIELDS = (
        *post_header(0),
        uint("scheme", 1, "1: AES, key id 1"),
        uint("key_version", 4),
        raw("nonce", 12),
        EXTRA,
    )

    scheme: int
    key_version: int
    nonce: bytes
    extra_post_header: bytes = b""
    extra: bytes = b""


@dataclass(frozen=True, slots=True)
class IgnorableEvent(DeclaredEvent):
    """An event without defined content; only MariaDB's regression tests write it.

    Spec: MySQL ``Ignorable_event`` (control_events.h).
    """

    FIELDS = (rest("body", "not divided"),)

    body: bytes


@dataclass(frozen=True, slots=True)
class UnknownEvent(DeclaredEvent):
    """An event of a type without a class: forks (Aurora's padding, type 100), later versions.

    The consumer decides whether to ignore such an event
    (``LOG_EVENT_IGNORABLE_F`` in the header allows it).
    """

    FIELDS = (rest("body", "not divided"),)

    body: bytes
