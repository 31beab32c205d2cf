"""The rows that a server logged, decoded with all of the metadata, with some, and with none."""

import struct
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from pymysql.constants import COMMAND

from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.event import BinlogEvent
from replica_client.protocol.binlog.events.rows import RowsEvent
from replica_client.protocol.binlog.events.table_map import TableMapEvent
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.rows.image import RowImageDecoder
from replica_client.schema.shape import ColumnDefinition, TableShape
from tests.integration.values_charsets import collation_of, modern
from tests.integration.values_kinds import Kind
from tests.integration.values_tables import ID, Table
from tests.integration.values_tally import Tally
from tests.servers.server import Server

# What binlog_row_metadata=MINIMAL keeps.
_MINIMAL_FIELDS = {1, 2, 3, 7}
_NAMES_FIELD = 4


class LoggedRows:
    """Rows of the tables of one database."""

    def __init__(self, server: Server, database: str, tally: Tally) -> None:
        self._server = server
        self._database = database
        self._tally = tally
        self._decoders: dict[tuple[str, TableMapEvent], list[RowImageDecoder]] = {}

    def forget(self) -> None:
        """Tables were dropped or changed."""
        self._decoders.clear()

    def rows(
        self, start: tuple[str, int], tables: Mapping[str, Table]
    ) -> Iterator[tuple[Table, Any, Any]]:
        """The changes of tables since a position: table, before image, after image."""
        for event, decoder in logged_events(self._server, start):
            body = event.body
            name = event.header.type_name
            self._tally.by_event[
                name + (" inside a payload" if event.inner_index is not None else "")
            ] += 1
            if not isinstance(body, RowsEvent):
                continue
            table_map = decoder.table_map(body.table_id)
            table = tables.get(table_map.table)
            if table_map.schema != self._database or table is None:
                self._tally.differ(f"rows of {table_map.schema}.{table_map.table}, never made")
                continue
            results = [list(one.iter_event(event)) for one in self._decoders_of(table, table_map)]
            if any(result != results[0] for result in results[1:]):
                self._tally.differ(f"{table.name}: metadata changes the values")
            for before, after in results[0]:
                yield table, before, after

    def _decoders_of(self, table: Table, table_map: TableMapEvent) -> list[RowImageDecoder]:
        """A decoder as things are, and those for less metadata where there is all."""
        key = (table.name, table_map)
        if key in self._decoders:
            return self._decoders[key]
        flavor = ServerFlavor(self._server.flavor)
        definitions = _definitions(table)
        metadata = table_map.optional_metadata
        variants = [metadata]
        if _NAMES_FIELD in table_map.metadata.field_types:
            variants += [_minimal(metadata), b""]
        made = []
        for variant in variants:
            stated = replace(table_map, optional_metadata=variant)
            shape = TableShape.from_table_map(stated, flavor)
            if variant and len(variants) > 1 and not made:
                self._check_shape(table, shape, table_map.metadata.visibility is not None)
            made.append(RowImageDecoder(shape.resolved_with(definitions)))
        self._decoders[key] = made
        return made

    def _check_shape(self, table: Table, shape: TableShape, visibility: bool) -> None:
        """What FULL metadata tells is what the table was made with."""
        if len(shape.columns) != len(table.columns):
            self._tally.differ(f"{table.name}: {len(shape.columns)} columns in the table map")
            return
        key = 0 if table.hidden_key else table.id_at
        if shape.primary_key != ((key,) if table.keyed or table.hidden_key else ()):
            self._tally.differ(f"{table.name}: primary key {shape.primary_key}, not {key}")
        for column, stated in zip(table.columns, shape.columns, strict=True):
            kind = column.kind
            # MariaDB does not tell which columns are invisible.
            wanted = (column.name, kind.labels, not (visibility and column.invisible))
            found = (stated.name, stated.labels, stated.visible)
            if kind.unsigned is not None:
                wanted, found = (*wanted, kind.unsigned), (*found, stated.unsigned)  # type: ignore[assignment]
            if found != wanted:
                self._tally.differ(f"{table.name}: the table map tells {found!r:.300}", kind.type)


def _definitions(table: Table) -> list[ColumnDefinition]:
    return [
        ColumnDefinition(
            column.name,
            unsigned=column.kind.unsigned,
            collation_id=_collation(column.kind),
            labels=column.kind.labels,
            fraction_digits=column.kind.digits,
            visible=not column.invisible,
            primary_key_index=0 if column.kind is ID and table.keyed else None,
            logical_type=column.kind.logical_type,  # type: ignore[arg-type]
        )
        for column in table.columns
    ]


def _collation(kind: Kind) -> int | None:
    return None if kind.charset is None else collation_of(modern(kind.charset))


def logged_events(
    server: Server, start: tuple[str, int]
) -> Iterator[tuple[BinlogEvent, BinlogDecoder]]:
    """Every event from a position to the end, and the decoder that knows their table maps.

    A compressed transaction is followed by what is in it.
    """
    file, offset = start
    decoder = BinlogDecoder()
    connection: Any = server.connect(ssl_disabled=True)
    try:
        with connection.cursor() as cursor:
            # A server before 5.6.1 has no checksums.
            cursor.execute("SET @master_binlog_checksum = @@global.binlog_checksum")
            cursor.execute("SET @source_binlog_checksum = @master_binlog_checksum")
            cursor.execute("SET @mariadb_slave_capability = 4")
        request = struct.pack("<IHI", offset, 1, 0x5EED) + file.encode()
        connection._execute_command(COMMAND.COM_BINLOG_DUMP, request)
        while True:
            packet = connection._read_packet()
            if packet.is_eof_packet():
                return
            event = decoder.decode(packet.get_all_data()[1:], 0)
            yield event, decoder
            for inner in decoder.inner_events(event):
                yield inner, decoder
    finally:
        connection._force_close()


def _minimal(metadata: bytes) -> bytes:
    """The fields that binlog_row_metadata=MINIMAL would have written."""
    kept, at = b"", 0
    while at < len(metadata):
        size, head = metadata[at + 1], 2
        if size == 0xFC:
            size, head = int.from_bytes(metadata[at + 2 : at + 4], "little"), 4
        elif size == 0xFD:
            size, head = int.from_bytes(metadata[at + 2 : at + 5], "little"), 5
        field_bytes = metadata[at : at + head + size]
        if metadata[at] in _MINIMAL_FIELDS:
            kept += field_bytes
        at += len(field_bytes)
    return kept
