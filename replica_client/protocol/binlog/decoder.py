"""The decoder of whole events from bytes, for files and streams."""

# Over 500 lines: one class, whose methods share the state that the events of a file change.

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from struct import Struct
from typing import Final, NoReturn

from replica_client.errors import (
    BinlogDecodeError,
    BinlogFormatError,
    ChecksumMismatchError,
    LimitExceededError,
    MissingTableMapError,
    ShortBufferError,
    TruncatedEventError,
)
from replica_client.protocol.binlog.encoder import FragmentJoiner, ends_in_checksum, event_checksum
from replica_client.protocol.binlog.encryption import EventCipher
from replica_client.protocol.binlog.event import (
    MAGIC_SIZE,
    BinlogEvent,
    BinlogFormat,
    DecodeOptions,
    EventBody,
    EventContext,
    EventHeader,
    current_type_code,
    is_permuted,
    parse_server_version,
)
from replica_client.protocol.binlog.events import EVENT_CLASSES, UnknownEvent
from replica_client.protocol.binlog.events.control import (
    FormatDescriptionEvent,
    StartEncryptionEvent,
    StartEventV3,
    has_checksum_fields,
    start_format,
)
from replica_client.protocol.binlog.events.table_map import TableMapEvent
from replica_client.protocol.binlog.events.transaction_payload import TransactionPayloadEvent
from replica_client.protocol.binlog.layout import HEADER_SIZE
from replica_client.protocol.binlog.payload import split_payload
from replica_client.protocol.codec.byte_fields import ByteReader
from replica_client.protocol.codec.compression import SizedCache
from replica_client.protocol.constants.event_types import (
    ChecksumAlgorithm,
    EventFlag,
    EventType,
    event_type_name,
)

_HEADER = Struct("<IBIIIH")
_CHECKSUM_SIZE = 4
_MAX_CONTEXTS = 4096
# At least this many of the last announced ids are kept.
_MAX_TABLE_MAPS = 1 << 12
_MAX_KNOWN = 10_000
_MAX_KNOWN_BYTES = 16 << 20
_VERSION_END = HEADER_SIZE + 2 + 50
_FORMAT_DESCRIPTION: Final = int(EventType.FORMAT_DESCRIPTION_EVENT)
_ROTATE: Final = int(EventType.ROTATE_EVENT)
_TABLE_MAP: Final = int(EventType.TABLE_MAP_EVENT)
_START_V3: Final = int(EventType.START_EVENT_V3)
_START_ENCRYPTION: Final = int(EventType.START_ENCRYPTION_EVENT)
_FRAGMENT: Final = int(EventType.PARTIAL_ROW_DATA_EVENT)
CONTAINERS: Final = frozenset((int(EventType.TRANSACTION_PAYLOAD_EVENT), _FRAGMENT))
"""Types of events that others follow by :meth:`BinlogDecoder.inner_events`."""
_OWN_HEADER_SIZE = (_FORMAT_DESCRIPTION, _START_V3)
_BEGINS_FILE = (_FORMAT_DESCRIPTION, _ROTATE, _START_V3)
_TYPE_OFFSET = 4
_VERSION_4: Final = 4
# Earlier versions wrote end positions relative to the transaction.
_ENDS_SINCE: Final = (5, 5, 0)
_NO_FORMAT_NEEDED = frozenset(
    (*_BEGINS_FILE, EventType.HEARTBEAT_LOG_EVENT, EventType.HEARTBEAT_LOG_EVENT_V2)
)
_UNDETERMINED = BinlogFormat(checksum_algorithm=ChecksumAlgorithm.UNDEFINED)


class BinlogDecoder:
    """A decoder of the events of one binlog file or stream, in order.

    It keeps what later events need: the format description and the table maps. Equal table maps of
    a table are one object. A table map that differs only in its table id, as after the server
    opened the table again, is not decoded again.

    Args:
        options: limits, keys and policies.
        file: name of the file, for events and errors.
        format: the layout until a format description comes, if the caller knows it (a checksum
            negotiated with the source). Without it, only events that may precede a format
            description are accepted; whether they end in a CRC-32 is detected.
    """

    __slots__ = (
        "_announced",
        "_cipher",
        "_contexts",
        "_file",
        "_format",
        "_fragments",
        "_has_format",
        "_is_permuted",
        "_joined",
        "_known_table_maps",
        "_options",
        "_table_maps",
        "_tells_ends",
    )

    def __init__(
        self,
        options: DecodeOptions | None = None,
        file: str = "",
        format: BinlogFormat | None = None,
    ) -> None:
        self._options = DecodeOptions() if options is None else options
        self._file = file
        self._format = _UNDETERMINED if format is None else format
        self._has_format = format is not None
        self._contexts: dict[int, tuple[EventContext, type[EventBody]]] = {}
        self._table_maps: dict[int, TableMapEvent] = {}
        self._announced = 0
        self._known_table_maps: SizedCache[bytes, TableMapEvent] = SizedCache(
            _MAX_KNOWN, _MAX_KNOWN_BYTES, small=0
        )
        self._is_permuted = is_permuted(self._format.server_version)
        self._cipher: EventCipher | None = None
        self._tells_ends = False
        self._fragments: FragmentJoiner | None = None
        self._joined: bytes | None = None

    @property
    def format(self) -> BinlogFormat:
        """The layout of the events, from the last format description."""
        return self._format

    @property
    def options(self) -> DecodeOptions:
        """The options of this decoder."""
        return self._options

    def table_map(self, table_id: int) -> TableMapEvent:
        """Return the last table map with an id.

        Raises:
            MissingTableMapError: no table map in this file has the id.
        """
        try:
            found = self._table_maps[table_id]
        except KeyError:
            raise MissingTableMapError(
                f"no TABLE_MAP event announced table id {table_id}", file=self._file or None
            ) from None
        if found.table_id != table_id:
            found = self._table_maps[table_id] = found.with_id(table_id)
        return found

    @property
    def is_plain(self) -> bool:
        """Whether events are not encrypted and have today's type codes."""
        return self._cipher is None and not self._is_permuted

    @property
    def tells_ends(self) -> bool:
        """Whether headers contain their event's end position in this file, or 0.

        Relay logs keep the source's positions, and MySQL before 5.5 wrote other ones.
        """
        return self._tells_ends

    def check_end(self, event: BinlogEvent) -> None:
        """Check that an event of a file is where its header says.

        Raises:
            BinlogDecodeError: it is not: events before it were removed or added.
        """
        header = event.header
        stated = header.next_position
        if (
            not self._tells_ends
            or not stated
            or event.inner_index is not None
            or header.is_artificial
        ):
            return
        if stated != event.end_position & 0xFFFFFFFF:
            error = BinlogDecodeError(
                f"it ends at {event.end_position}, but its header says {stated}: events before it are missing, "
                "or are not of this file; get the file from the source again"
            )
            raise self._locate(error, event.position, header.type_code, event.file)

    def table_map_of(self, content: bytes) -> TableMapEvent | None:
        """Decode a body as a table map, without announcing it; return None if that fails."""
        try:
            return self._table_map_of(content, content, 0, len(content), 0)
        except (BinlogDecodeError, ShortBufferError, ValueError):
            return None

    def announce(self, table_map: TableMapEvent, table_id: int) -> None:
        """Record the table map of a table id, also if it was not decoded again.

        Args:
            table_map: the table map, or one that differs only in its id.
            table_id: the id.
        """
        maps = self._table_maps
        # Keep the order of announcement: the rows of a statement use the maps just before them.
        maps.pop(table_id, None)
        maps[table_id] = table_map
        self._announced += 1
        if len(maps) >= 2 * _MAX_TABLE_MAPS:
            self._table_maps = dict(islice(maps.items(), _MAX_TABLE_MAPS, None))

    @property
    def announced(self) -> int:
        """A counter that changes whenever an id may have got another table map."""
        return self._announced

    def peek_header(self, data: bytes) -> EventHeader:
        """Decode the common header of the event that ``data`` begins with.

        Raises:
            TruncatedEventError: there are fewer bytes than a header has.
        """
        size = self._format.header_size
        if len(data) > _TYPE_OFFSET and data[_TYPE_OFFSET] in _OWN_HEADER_SIZE:
            size = _own_header_size(data)
        if size == HEADER_SIZE and len(data) >= HEADER_SIZE:
            header = EventHeader(*_HEADER.unpack_from(data))
            if self._is_permuted:
                return replace(header, type_code=current_type_code(header.type_code))
            return header
        try:
            return EventHeader.decode(ByteReader(data), size)
        except ShortBufferError as error:
            raise TruncatedEventError(f"event header: {error}") from error

    def decode(self, data: bytes, position: int, file: str | None = None) -> BinlogEvent:
        """Decode one whole event, from its header to its checksum.

        Args:
            data: exactly the event's bytes.
            position: 64-bit offset of the event in its file.
            file: name of the file from here on, if it changed.

        Raises:
            BinlogDecodeError: the event cannot be decoded; has file, position and type. The decoder
                can still decode the next event.
        """
        if file is not None:
            self._file = file
        type_code: int | None = None
        try:
            if self._cipher is not None:
                data = self.decrypted(data, position)
            header = self.peek_header(data)
            type_code = header.type_code
            return self._decode(data, header, position, self._file)
        except (BinlogDecodeError, ShortBufferError, ValueError) as error:
            self._fail(error, position, type_code, self._file)

    def decrypted(self, data: bytes, position: int) -> bytes:
        """Return an event as it was before MariaDB encrypted it; ``data`` itself in a plain file.

        :meth:`decode` calls this itself. In encrypted events only the size is readable.

        Raises:
            EncryptedBinlogError: the key is missing in ``options.keys``, or is wrong.
        """
        if self._cipher is None:
            return data
        if position <= MAGIC_SIZE:
            self._cipher = None
            return data
        return self._cipher.decrypt(data, position)

    def inner_events(self, event: BinlogEvent) -> Iterator[BinlogEvent]:
        """Yield the events inside a TRANSACTION_PAYLOAD event, or the rows event that ended with a fragment.

        Inner events have the file and position of the event, their own ``inner_index``, and no
        checksum. A payload is decompressed on demand. Other events contain none.

        Raises:
            BinlogDecodeError: as :meth:`decode`; also for broken compression.
            LimitExceededError: more than ``max_uncompressed_size`` bytes.
        """
        if event.header.type_code not in CONTAINERS:
            return
        type_code: int | None = event.header.type_code
        try:
            pieces = self.inner_bytes(event)
            self._joined = None
            for index, data in enumerate(pieces):
                header = self.peek_header(data)
                type_code = header.type_code
                yield self._decode(data, header, event.position, event.file, index)
                type_code = event.header.type_code
        except (BinlogDecodeError, ShortBufferError, ValueError) as error:
            self._fail(error, event.position, type_code, event.file)

    def inner_bytes(self, event: BinlogEvent) -> Iterator[bytes]:
        """Return the bytes of the events that :meth:`inner_events` yields, if the event was decoded last.

        Raises:
            BinlogDecodeError: as :meth:`inner_events`, while iterating.
        """
        if isinstance(event.body, TransactionPayloadEvent):
            return split_payload(event.body, self._options)
        return iter(() if self._joined is None else (self._joined,))

    def decode_inner(self, data: bytes, position: int, file: str, index: int) -> BinlogEvent:
        """Decode one event of a TRANSACTION_PAYLOAD event that was decompressed elsewhere.

        Args:
            data: exactly the event's bytes.
            position: of the payload.
            file: name of the file.
            index: of the event in the payload.

        Raises:
            BinlogDecodeError: as :meth:`decode`.
        """
        type_code: int | None = None
        try:
            header = self.peek_header(data)
            type_code = header.type_code
            return self._decode(data, header, position, file, index)
        except (BinlogDecodeError, ShortBufferError, ValueError) as error:
            self._fail(error, position, type_code, file)

    def _decode(
        self,
        data: bytes,
        header: EventHeader,
        position: int,
        file: str,
        inner_index: int | None = None,
    ) -> BinlogEvent:
        type_code = header.type_code
        size = len(data)
        if header.event_size != size:
            if header.event_size > size:
                raise TruncatedEventError(
                    f"{size} bytes of an event of {header.event_size} are there"
                )
            raise BinlogDecodeError(f"event size {header.event_size}, but {size} bytes were given")
        if size > self._options.max_event_size:
            raise LimitExceededError(
                f"event of {size} bytes is larger than max_event_size "
                f"({self._options.max_event_size})"
            )
        header_size = self._format.header_size
        if type_code in _OWN_HEADER_SIZE:
            header_size = _own_header_size(data)
        is_format_description = type_code == _FORMAT_DESCRIPTION
        verify = self._options.verify_checksum
        if is_format_description:
            has_checksum = has_checksum_fields(data[HEADER_SIZE + 2 : _VERSION_END])
            # As upstream: its checksum is verified only if the other events of the file have one.
            verify = verify and data[-_CHECKSUM_SIZE - 1] != ChecksumAlgorithm.OFF
        elif type_code == _START_V3 or inner_index is not None:
            has_checksum = False
        elif not self._has_format and type_code not in _NO_FORMAT_NEEDED:
            raise BinlogFormatError("no FORMAT_DESCRIPTION event precedes this event")
        else:
            has_checksum = self._format.checksum_algorithm == ChecksumAlgorithm.CRC32
            if self._format.checksum_algorithm == ChecksumAlgorithm.UNDEFINED:
                has_checksum = not self._has_format and ends_in_checksum(data)
        end = size
        checksum: int | None = None
        if has_checksum:
            end -= _CHECKSUM_SIZE
            if end < header_size:
                raise TruncatedEventError(f"event of {size} bytes has no room for its checksum")
            checksum = int.from_bytes(data[end:], "little")
            if verify:
                computed = event_checksum(memoryview(data)[:end], is_format_description)
                if computed != checksum:
                    raise ChecksumMismatchError(
                        f"CRC-32 is {checksum:08x}, that of the bytes is {computed:08x}"
                    )
        if end < header_size:
            raise TruncatedEventError(f"event of {size} bytes has no room for its header")
        return self.decode_body(
            data, header, header_size, end, position, file, checksum, inner_index
        )

    def decode_body(
        self,
        data: bytes,
        header: EventHeader,
        start: int,
        end: int,
        position: int,
        file: str,
        checksum: int | None,
        inner_index: int | None = None,
    ) -> BinlogEvent:
        """Decode an event whose size and checksum were found right, and do what it tells the decoder.

        Args:
            data: exactly the event's bytes.
            header: decoded from them.
            start: where its body begins in them.
            end: where its checksum begins, or ``data`` ends.
            position: 64-bit offset of the event in its file.
            file: name of the file.
            checksum: of the event.
            inner_index: in its payload; None: it is in none.

        Raises:
            BinlogDecodeError: the body is wrong; does not say where.
            ShortBufferError: it ends too early.
            ValueError: a value is wrong.
        """
        type_code = header.type_code
        if inner_index is None:
            self._joined = None
        if type_code == _TABLE_MAP:
            table_map = self._decode_table_map(data, start, end, header.flags)
            if self._fragments is not None:
                self._fragments.check_other(type_code, table_map)
            return BinlogEvent(header, table_map, file, position, checksum, inner_index)
        context, event_class = self._context(type_code, header.flags)
        body = event_class.decode(ByteReader(data, start, end), context)
        if type_code in _BEGINS_FILE:
            self._begin_file(body, header.server_id)
            self._tells_ends = _tells_ends(header, body, position, stated=self._tells_ends)
        elif type_code == _START_ENCRYPTION:
            self._begin_encryption(body)
        elif type_code == _FRAGMENT:
            if self._fragments is None:
                self._fragments = FragmentJoiner(self._options.max_event_size)
            self._joined = self._fragments.add(body, file, self._format)
        elif self._fragments is not None and inner_index is None:
            self._fragments.check_other(type_code, body)
        return BinlogEvent(header, body, file, position, checksum, inner_index)

    def _context(self, type_code: int, flags: int) -> tuple[EventContext, type[EventBody]]:
        key = type_code << 16 | flags
        found = self._contexts.get(key)
        if found is None:
            if len(self._contexts) >= _MAX_CONTEXTS:
                self._contexts.clear()
            context = EventContext(self._format, type_code, flags, self._options)
            found = context, EVENT_CLASSES.get(type_code, UnknownEvent)
            self._contexts[key] = found
        return found

    def _begin_file(self, body: EventBody, server_id: int) -> None:
        """Forget the table maps of the last file; apply the format if the event has one."""
        self._table_maps.clear()
        self._announced += 1
        if isinstance(body, (FormatDescriptionEvent, StartEventV3)):
            self._format = replace(body.format, server_id=server_id)
            self._has_format = True
            self._is_permuted = is_permuted(self._format.server_version)
            self._contexts.clear()
            self._known_table_maps.clear()

    def _begin_encryption(self, body: EventBody) -> None:
        """Start decryption at a START_ENCRYPTION event, unless it has already started.

        In a relay log, a second such event comes from the source's file.
        """
        if isinstance(body, StartEncryptionEvent) and self._cipher is None:
            has_checksum = self._format.checksum_algorithm == ChecksumAlgorithm.CRC32
            self._cipher = EventCipher(body, self._options.keys, has_checksum)

    def _decode_table_map(self, data: bytes, start: int, end: int, flags: int) -> TableMapEvent:
        """Decode and announce a table map."""
        table_map = self._table_map_of(data[start:end], data, start, end, flags)
        self.announce(table_map, table_map.table_id)
        return table_map

    def _table_map_of(
        self, content: bytes, data: bytes, start: int, end: int, flags: int
    ) -> TableMapEvent:
        """Decode a table map, or reuse the object of an equal one; the id may differ."""
        context, _ = self._context(_TABLE_MAP, flags)
        id_size = 4 if context.post_header_size(8) == 6 else 6
        behind_id = content[id_size:]
        known = self._known_table_maps.get(behind_id)
        if known is not None:
            table_id = int.from_bytes(content[:id_size], "little")
            if known.table_id == table_id:
                return known
            known = known.with_id(table_id)
        else:
            known = TableMapEvent.decode(ByteReader(data, start, end), context)
        self._known_table_maps.put(behind_id, known, len(content))
        return known

    def _fail(self, error: Exception, position: int, type_code: int | None, file: str) -> NoReturn:
        """Raise the error of an event that cannot be decoded, with its position."""
        if isinstance(error, BinlogDecodeError):
            raise self._locate(error, position, type_code, file)
        failure = BinlogDecodeError(str(error))
        if isinstance(error, ShortBufferError):
            failure = TruncatedEventError(str(error), offset=error.offset)
        raise self._locate(failure, position, type_code, file) from error

    def _locate(
        self, error: BinlogDecodeError, position: int, type_code: int | None, file: str
    ) -> BinlogDecodeError:
        name = None if type_code is None else event_type_name(type_code)
        file_name = file or self._file or None
        return error.at(file=file_name, position=position, event_type=type_code, event_name=name)


def _tells_ends(header: EventHeader, body: EventBody, position: int, *, stated: bool) -> bool:
    """Return whether headers after this event contain their end positions in the file."""
    if not isinstance(body, FormatDescriptionEvent):
        # An artificial ROTATE in a relay log names the source's file.
        return stated and bool(header.timestamp) and not header.is_artificial
    if position != MAGIC_SIZE or header.flags & EventFlag.LOG_EVENT_RELAY_LOG_F:
        return False
    version = parse_server_version(body.format.server_version)
    return body.format.binlog_version == _VERSION_4 and version >= _ENDS_SINCE


def _own_header_size(data: bytes) -> int:
    """Return the header size of an event that does not depend on the file's format."""
    if data[_TYPE_OFFSET] == _START_V3:
        return start_format(int.from_bytes(data[9:13], "little")).header_size
    return HEADER_SIZE
