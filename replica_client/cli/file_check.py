"""The check of binlog files."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field, replace
from operator import attrgetter

from replica_client._compiled import compiled
from replica_client.cli.check_fast_path import CheckFastPath
from replica_client.cli.output import Column, Lines, progress_console
from replica_client.cli.program import FaultFoundError
from replica_client.cli.sources import binlog_paths
from replica_client.errors import (
    BinlogDecodeError,
    EncodeError,
    EncryptedBinlogError,
    ReplicaClientError,
    SchemaError,
)
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.encoder import encode_event
from replica_client.protocol.binlog.event import FIRST_EVENT, BinlogEvent, DecodeOptions
from replica_client.protocol.binlog.events.control import UnknownEvent
from replica_client.protocol.binlog.events.queries import QueryEvent
from replica_client.protocol.binlog.events.rows import NO_TABLE_ID, RowsEvent
from replica_client.protocol.binlog.events.table_map import TableMapEvent
from replica_client.protocol.binlog.events.transaction_payload import TransactionPayloadEvent
from replica_client.protocol.codec.compression import SizedCache
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.event_types import (
    ChecksumAlgorithm,
    EventFlag,
    event_type_name,
)
from replica_client.protocol.gtid import Gtid, MariadbGtid
from replica_client.rows.image import RowImageDecoder
from replica_client.rows.selection import Selection
from replica_client.schema.history import SchemaHistory
from replica_client.schema.shape import TableShape
from replica_client.storage.files import file_status, open_file
from replica_client.storage.kept_file import plain_name
from replica_client.storage.location import Location
from replica_client.stream.fast.row_fast_path import RowTable
from replica_client.stream.files.file_batches import FileSteps
from replica_client.stream.files.file_bytes import binlog_files, open_events
from replica_client.stream.files.file_names import in_order
from replica_client.stream.position.tracker import PositionTracker
from replica_client.stream.transactions.event_feed import EventFeed, LocatedEvent
from replica_client.stream.transactions.schema_tracking import SchemaTracker


def files_of(sources: Sequence[str]) -> list[Location]:
    """Return the binlog files that paths and directories name, in order.

    Raises:
        typer.BadParameter: a source is a live one.
        OSError: a path is not there, or may not be read.
        ConfigError: a directory without binlog files.
    """
    found = [file for path in binlog_paths(sources) for file in binlog_files(path)]
    return [file.path for file in in_order(found, attrgetter("name")) if file.path is not None]


def raw_events(path: Location, decoder: BinlogDecoder) -> Iterator[tuple[int, bytes]]:
    """Position and bytes of each whole event; MariaDB's encrypted ones as they are in the file.

    Args:
        path: the file.
        decoder: decodes each event before the next one is asked for, so that it knows the layout.

    Raises:
        OSError: the file cannot be read.
        BinlogDecodeError: not a binlog, encrypted with a key that is not there, or the file ends
            inside an event (after all events before that were given).
    """
    with open_file(path) as stream:
        source = open_events(stream, plain_name(path.name), decoder.options)
        while True:
            position = source.position
            data = source.next_event(decoder.format.header_size, decoder.options.max_event_size)
            if data is None:
                return
            yield position, data


_IGNORABLE = int(EventFlag.LOG_EVENT_IGNORABLE_F)
_MAX_DECODERS = 10_000
_COUNTS = (
    Column("type", 34),
    Column("code", 4, right=True),
    Column("events", 10, right=True),
    Column("rows", 12, right=True),
    Column("bytes", 14, right=True),
)


@dataclass(frozen=True, slots=True)
class Fault:
    """The first fault of a kind."""

    kind: str
    file: str
    position: int
    event_type: int | None
    reason: str
    is_encrypted: bool = False

    @property
    def remedy(self) -> str:
        """The remedy."""
        if self.is_encrypted:
            return "give the server's key file with --key-file FILE"
        return "copy the file again from the source, or report it if mysqlbinlog reads it"


@dataclass(slots=True)
class Findings:
    """The result of a check: counts per type code, and the first fault of each kind with its count."""

    events: Counter[int] = field(default_factory=Counter)
    rows: Counter[int] = field(default_factory=Counter)
    sizes: Counter[int] = field(default_factory=Counter)
    faults: dict[str, Fault] = field(default_factory=dict)
    fault_counts: Counter[str] = field(default_factory=Counter)
    files: int = 0

    def add_fault(self, fault: Fault) -> None:
        """Count a fault; the first of its kind is kept."""
        self.fault_counts[fault.kind] += 1
        self.faults.setdefault(fault.kind, fault)


def check_files(paths: list[str], options: DecodeOptions, *, json: bool) -> None:
    """Check files and print what was found.

    Raises:
        FaultFoundError: something is wrong.
        OSError: a file cannot be read.
    """
    files = files_of(paths)
    findings = Findings()
    _run(files, options, findings)
    lines = Lines(_COUNTS)
    if json:
        _print_json(lines, findings)
    else:
        _print_table(lines, findings)
    lines.flush()
    if findings.faults:
        total = findings.fault_counts.total()
        first = next(iter(findings.faults.values()))
        raise FaultFoundError(
            f"{counted(total, 'fault')} of {counted(len(findings.faults), 'kind')}, the first in "
            f"file {first.file} at position {first.position}: {first.reason}; {first.remedy}"
        )


def _run(files: list[Location], options: DecodeOptions, findings: Findings) -> None:
    tables = SchemaTracker(SchemaHistory(), Selection(), "positional", "positional")
    sizes = (size for path in files for size in FileCheck(path, options, findings, tables).run())
    if not sys.stderr.isatty():
        for _ in sizes:
            pass
        return
    from rich.progress import Progress  # takes long to import

    with Progress(console=progress_console(), transient=True) as progress:
        task = progress.add_task("checking", total=sum(file_status(path).size for path in files))
        for size in sizes:
            progress.advance(task, size)


def counted(count: int, noun: str) -> str:
    """Return a count with its noun."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


class FileCheck:
    """The check of one file.

    Args:
        path: the file.
        options: how to decode.
        findings: where counts and faults go.
        tables: what the statements in this file and those before it tell of tables.
    """

    def __init__(
        self, path: Location, options: DecodeOptions, findings: Findings, tables: SchemaTracker
    ) -> None:
        self._path, self._name = path, plain_name(path.name)
        self._tables = tables
        self._findings = findings
        self._options = options
        self._decoder = BinlogDecoder(options, plain_name(path.name))
        self._decoders: SizedCache[tuple[object, ...], tuple[object, RowImageDecoder]] = SizedCache(
            _MAX_DECODERS
        )

    def run(self) -> Iterator[int]:
        """Check the file; yields now and then the bytes that are done since."""
        self._findings.files += 1
        done = 0
        try:
            if not compiled():
                for position, raw in raw_events(self._path, self._decoder):
                    self.check(raw, position)
                    yield len(raw)
                return
            for position in self._by_transaction():
                yield position - done
                done = position
        except BinlogDecodeError as error:
            self._fault(error, error.position or 0, error.event_type)

    def _by_transaction(self) -> Iterator[int]:
        """Ordinary transactions by compiled code, all else by event; yields how far it is."""
        feed = _CheckFeed(self)
        fast_path = CheckFastPath(feed, _CheckTables(self), self)
        steps = FileSteps(feed, fast_path, fast_path, None)
        try:
            with open_file(self._path) as stream:
                source = open_events(stream, self._name, self._options)
                for _ in steps.read(source, self._name, FIRST_EVENT):
                    yield source.position
        finally:
            fast_path.take_counts(self._add)

    def _add(self, code: int, events: int, size: int, rows: int) -> None:
        self._findings.events[code] += events
        self._findings.sizes[code] += size
        if rows:
            self._findings.rows[code] += rows

    def check(self, raw: bytes, position: int) -> bool:
        """Check one event, with those inside it; whether nothing is wrong."""
        try:
            plain = self._decoder.decrypted(raw, position)
            event = self._decoder.decode(raw, position)
            self._count(event, len(raw))
            self._rows(event)
            self._inside(event)
            if not isinstance(event.body, TransactionPayloadEvent):
                # The same content may compress to other bytes; its events are compared instead.
                self._compare(event, plain)
            self._decoder.check_end(event)
        except (BinlogDecodeError, EncodeError, SchemaError) as error:
            code = error.event_type if isinstance(error, BinlogDecodeError) else None
            self._fault(error, position, code)
            return False
        return True

    def _count(self, event: BinlogEvent, size: int) -> None:
        self._findings.events[event.header.type_code] += 1
        self._findings.sizes[event.header.type_code] += size

    def _rows(self, event: BinlogEvent) -> None:
        body = event.body
        if isinstance(body, QueryEvent) and body.query not in (b"BEGIN", b"COMMIT"):
            self._tables.run(event, self._decoder.format, 0)
        if not isinstance(body, RowsEvent) or (body.table_id in NO_TABLE_ID and not body.rows):
            return
        for _ in self.row_decoder(self._decoder.table_map(body.table_id)).iter_event(event):
            self._findings.rows[event.header.type_code] += 1

    def row_decoder(self, table_map: TableMapEvent) -> RowImageDecoder:
        """Return the decoder of the rows of a table.

        Raises:
            SchemaError: what is known of the table does not fit its table map.
        """
        state = self._tables.state_of(table_map)
        known = self._decoders.get(table_map.definition)
        if known is None or known[0] is not state:
            shape = self._tables.shape(table_map, self._decoder.format)
            # What contradicts the table map is not the state any more.
            state = self._tables.state_of(table_map)
            known = (state, RowImageDecoder(shape, self._decoder.options))
            size = len(table_map.optional_metadata)
            self._decoders.put(table_map.definition, known, size)
        return known[1]

    @property
    def decoder(self) -> BinlogDecoder:
        """Decodes the file's events."""
        return self._decoder

    @property
    def history(self) -> SchemaHistory:
        """The schema history by the statements so far."""
        return self._tables.history

    def _inside(self, event: BinlogEvent) -> None:
        pieces = self._decoder.inner_bytes(event)
        for inner, raw in zip(self._decoder.inner_events(event), pieces, strict=True):
            self._count(inner, len(raw))
            self._rows(inner)
            self._compare(inner, raw)

    def _compare(self, event: BinlogEvent, raw: bytes) -> None:
        if isinstance(event.body, UnknownEvent) and not event.header.flags & _IGNORABLE:
            raise BinlogDecodeError(
                f"events of type {event.header.type_code} are not known",
                position=event.position,
                event_type=event.header.type_code,
                event_name=event_type_name(event.header.type_code),
            )
        layout = self._decoder.format
        if event.inner_index is not None:
            layout = replace(layout, checksum_algorithm=ChecksumAlgorithm.OFF)
        again = encode_event(event, layout)
        if again != raw:
            at = next(
                (i for i, (a, b) in enumerate(zip(again, raw, strict=False)) if a != b),
                min(len(again), len(raw)),
            )
            raise BinlogDecodeError(
                f"encoded again, {len(raw)} bytes became {len(again)}, and byte {at} differs",
                position=event.position,
                event_type=event.header.type_code,
                event_name=event_type_name(event.header.type_code),
            )

    def _fault(self, error: Exception, position: int, code: int | None) -> None:
        reason = error.reason if isinstance(error, BinlogDecodeError) else str(error)
        name = event_type_name(code) if code is not None else ""
        kind = f"{type(error).__name__} {name}".strip()
        encrypted = isinstance(error, EncryptedBinlogError)
        self._findings.add_fault(
            Fault(kind, self._name, position, code, reason, is_encrypted=encrypted)
        )


class _Tracker(PositionTracker):
    """A tracker that does nothing."""

    def pass_transactions(
        self,
        file: str,
        end: int,
        event_index: int,
        gtids: Iterable[tuple[Gtid | MariadbGtid, int]],
    ) -> None:
        """Do nothing."""


class _CheckFeed(EventFeed):
    """A feed that checks its events."""

    def __init__(self, check: FileCheck) -> None:
        super().__init__(check.decoder.options, mode="file")
        self._check = check
        self.decoder = check.decoder
        self.tracker = _Tracker(mode="file")

    def feed(self, data: bytes, position: int, file: str) -> Iterator[LocatedEvent]:
        """Check an event; yield nothing."""
        self._check.check(data, position)
        return iter(())


class _CheckTables:
    """A lookup of the tables whose rows compiled code decodes."""

    full_rows = False
    is_between = True
    generation = 0

    def __init__(self, check: FileCheck) -> None:
        self._check = check

    @property
    def revision(self) -> int:
        """The revision of what the file says of tables."""
        return self._check.history.revision

    def decoder_if_certain(
        self, table_map: TableMapEvent, decoder: BinlogDecoder
    ) -> tuple[tuple[TableShape, RowImageDecoder]] | None:
        """Return the decoder of a table's rows; None if it is not certain."""
        try:
            found = self._check.row_decoder(table_map)
        except ReplicaClientError:
            return None
        return ((found.shape, found),)

    def made_builder(self, shape: TableShape, decoder: RowImageDecoder) -> RowTable:
        """Return what takes the rows of a table."""
        return RowTable(shape, decoder)


def _print_table(lines: Lines, findings: Findings) -> None:
    for code, count in sorted(findings.events.items()):
        rows = findings.rows.get(code, "")
        lines.row((event_type_name(code), code, count, rows, findings.sizes[code]))
    lines.line(
        f"{counted(findings.files, 'file')}, {counted(findings.events.total(), 'event')}, "
        f"{counted(findings.rows.total(), 'row')}, "
        f"{counted(findings.fault_counts.total(), 'fault')}"
    )
    for kind, fault in findings.faults.items():
        count = findings.fault_counts[kind]
        times = f" ({count} times, this is the first)" if count > 1 else ""
        lines.line(
            f"FAULT {kind}{times}: file {fault.file}, position {fault.position}: {fault.reason}"
        )


def _print_json(lines: Lines, findings: Findings) -> None:
    for code, count in sorted(findings.events.items()):
        lines.json(
            {
                "type": event_type_name(code),
                "type_code": code,
                "events": count,
                "rows": findings.rows[code],
                "bytes": findings.sizes[code],
            }
        )
    for kind, fault in findings.faults.items():
        lines.json(
            {
                "fault": kind,
                "count": findings.fault_counts[kind],
                "file": fault.file,
                "position": fault.position,
                "type_code": fault.event_type,
                "reason": fault.reason,
            }
        )
